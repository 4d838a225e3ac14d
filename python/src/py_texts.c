// SPDX-License-Identifier: MIT
// Texts and token ids; see py_texts.h.
#include "py_texts.h"

// ---- texts --------------------------------------------------------------------------------------

bool py_text_from(PyObject *value, const char *name, mh_text *to)
{
    Py_ssize_t size;
    if (!value)
        return true;
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: found %R, expected a string", name, value);
        return false;
    }
    to->bytes = PyUnicode_AsUTF8AndSize(value, &size);
    to->size = to->bytes ? (size_t)size : 0;
    return to->bytes;
}

static PyObject *tuple_of(PyObject *iterable, const char *name, const char *expected)
{
    PyObject *tuple =
        PyUnicode_Check(iterable) || PyBytes_Check(iterable) ? NULL : PySequence_Tuple(iterable);
    if (!tuple && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: found %R, expected %s", name, iterable, expected);
    }
    return tuple;
}

bool py_texts_from(PyObject *iterable, const char *name, py_texts *to)
{
    *to = (py_texts){.held = tuple_of(iterable, name, "strings")};
    if (!to->held)
        return false;
    to->count = (size_t)PyTuple_Size(to->held);
    to->texts = PyMem_Calloc(to->count + 1, sizeof *to->texts);
    bool ok = to->texts;
    if (!ok)
        PyErr_NoMemory();
    for (size_t i = 0; i < to->count && ok; i++) {
        char item[64];
        PyOS_snprintf(item, sizeof item, "%s[%zu]", name, i);
        ok = py_text_from(PyTuple_GetItem(to->held, (Py_ssize_t)i), item, &to->texts[i]);
    }
    if (!ok)
        py_texts_release(to);
    return ok;
}

void py_texts_release(py_texts *texts)
{
    PyMem_Free(texts->texts);
    Py_XDECREF(texts->held);
    *texts = (py_texts){0};
}

PyObject *py_string(mh_text text)
{
    return PyUnicode_DecodeUTF8(text.size ? text.bytes : "", (Py_ssize_t)text.size, "replace");
}

PyObject *py_string_of_buffer(mh_context *context, mh_buffer *buffer)
{
    PyObject *string = py_string((mh_text){buffer->data, buffer->size});
    mh_buffer_free(context, buffer);
    return string;
}

// ---- ids ----------------------------------------------------------------------------------------

static bool read_id(PyObject *item, const char *name, int32_t *to)
{
    const long long id = PyLong_AsLongLong(item);
    if (id == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: found %R, expected integers", name, item);
        return false;
    }
    if (id < INT32_MIN || id > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: found %R, expected token ids", name, item);
        return false;
    }
    *to = (int32_t)id;
    return true;
}

bool py_ids_from(PyObject *iterable, const char *name, py_ids *to)
{
    *to = (py_ids){0};
    PyObject *tuple = iterable ? tuple_of(iterable, name, "integers") : NULL;
    if (!tuple)
        return !iterable;
    to->count = (size_t)PyTuple_Size(tuple);
    to->ids = PyMem_Calloc(to->count + 1, sizeof *to->ids);
    bool ok = to->ids;
    if (!ok)
        PyErr_NoMemory();
    for (size_t i = 0; i < to->count && ok; i++)
        ok = read_id(PyTuple_GetItem(tuple, (Py_ssize_t)i), name, &to->ids[i]);
    Py_DECREF(tuple);
    if (!ok)
        py_ids_release(to);
    return ok;
}

void py_ids_release(py_ids *ids)
{
    PyMem_Free(ids->ids);
    *ids = (py_ids){0};
}

// ---- lists --------------------------------------------------------------------------------------

bool py_put(PyObject *list, size_t i, PyObject *item)
{
    return item && PyList_SetItem(list, (Py_ssize_t)i, item) == 0;
}

PyObject *py_list_of_ids(const int32_t *ids, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++)
        if (!py_put(list, i, PyLong_FromLong(ids[i])))
            Py_CLEAR(list);
    return list;
}

PyObject *py_list_of_doubles(const double *values, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++)
        if (!py_put(list, i, PyFloat_FromDouble(values[i])))
            Py_CLEAR(list);
    return list;
}
