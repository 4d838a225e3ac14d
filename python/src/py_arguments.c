// SPDX-License-Identifier: MIT
// Keyword arguments of functions with many options: a name and a place for each.
#include "py.h"

#include "py_arguments.h"

#include <stdio.h>

static bool put(const char *function, const char *const *names, PyObject **values, PyObject *name,
                PyObject *value)
{
    for (size_t i = 0; names[i]; i++)
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            if (values[i])
                PyErr_Format(PyExc_TypeError, "%s() got two values for '%s'", function, names[i]);
            const bool once = !values[i];
            values[i] = value;
            return once;
        }
    PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", function, name);
    return false;
}

bool py_arguments(const char *function, const char *const *names, size_t positional,
                  size_t required, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                  PyObject **values)
{
    size_t total = 0;
    while (names[total])
        values[total++] = NULL;
    if ((size_t)count > positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zu positional arguments, found %zd", function,
                     positional, count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = arguments[i];
    for (Py_ssize_t i = 0; keywords && i < PyTuple_Size(keywords); i++)
        if (!put(function, names, values, PyTuple_GetItem(keywords, i), arguments[count + i]))
            return false;
    for (size_t i = 0; i < required; i++)
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", function, names[i]);
            return false;
        }
    for (size_t i = required; i < total; i++)
        if (values[i] == Py_None)
            values[i] = NULL;
    return true;
}

static bool bad(const char *name, PyObject *value, const char *expected)
{
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: found %R, expected %s", name, value, expected);
    }
    return false;
}

bool py_bool(PyObject *value, const char *name, bool *to)
{
    if (!value)
        return true;
    if (value != Py_True && value != Py_False)
        return bad(name, value, "True or False");
    *to = value == Py_True;
    return true;
}

bool py_float(PyObject *value, const char *name, float *to)
{
    if (!value)
        return true;
    const double number = PyFloat_AsDouble(value);
    if (number == -1 && PyErr_Occurred())
        return bad(name, value, "a number");
    *to = (float)number;
    return true;
}

bool py_integer(PyObject *value, const char *name, int64_t *to)
{
    if (!value)
        return true;
    const long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return bad(name, value, "an integer");
    *to = number;
    return true;
}

bool py_choice(PyObject *value, const char *name, const char *const *choices, int *to)
{
    char list[256] = "";
    if (!value)
        return true;
    for (int i = 0; choices[i]; i++) {
        if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, choices[i]) == 0) {
            *to = i;
            return true;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s'%s'", i ? ", " : "",
                 choices[i]);
    }
    PyErr_Format(PyExc_ValueError, "%s: found %R, expected one of %s", name, value, list);
    return false;
}

static bool set_size(PyObject *value, const char *name, size_t *to)
{
    int64_t number = 0;
    if (!py_integer(value, name, &number))
        return false;
    if (number < 0) {
        PyErr_Format(PyExc_ValueError, "%s: found %lld, expected 0 or more", name,
                     (long long)number);
        return false;
    }
    *to = (size_t)number;
    return true;
}

static bool set_field(const py_field *field, PyObject *value)
{
    float single = 0;
    switch (field->kind) {
    case PY_IS_BOOL:
        return py_bool(value, field->name, field->to);
    case PY_IS_SIZE:
        return set_size(value, field->name, field->to);
    case PY_IS_INTEGER:
        return py_integer(value, field->name, field->to);
    case PY_IS_FLOAT:
        return py_float(value, field->name, field->to);
    case PY_IS_DOUBLE:
        if (!py_float(value, field->name, &single))
            return false;
        *(double *)field->to = PyFloat_AsDouble(value);
        return true;
    case PY_IS_CHOICE:
        return py_choice(value, field->name, field->choices, field->to);
    case PY_IS_OBJECT:
        *(PyObject **)field->to = value;
        return true;
    }
    return false;
}

bool py_no_arguments(const char *type, PyObject *arguments)
{
    if (PyTuple_Size(arguments) == 0)
        return true;
    PyErr_Format(PyExc_TypeError, "%s() takes 0 positional arguments, found %zd", type,
                 PyTuple_Size(arguments));
    return false;
}

bool py_fields(const char *type, PyObject *keywords, const py_field *fields)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (keywords && PyDict_Next(keywords, &at, &name, &value)) {
        const py_field *field = fields;
        while (field->name && PyUnicode_CompareWithASCIIString(name, field->name) != 0)
            field++;
        if (!field->name) {
            PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", type, name);
            return false;
        }
        if (value != Py_None && !set_field(field, value))
            return false;
    }
    return true;
}
