// SPDX-License-Identifier: MIT
// Parameters as dictionaries of arrays, and gradients.
#include "py_parameters.h"

#include "py_arguments.h"

static PyObject *dictionary_of(PyObject *owner, const mh_parameters *parameters, float *values)
{
    PyObject *all = PyDict_New();
    for (size_t i = 0; i < parameters->count && all; i++) {
        const mh_parameter *p = &parameters->list[i];
        const mh_tensor view = mh_parameter_view(p, values);
        PyObject *array = py_view_array(owner, &view, true);
        if (!array || PyDict_SetItemString(all, p->name, array) != 0)
            Py_CLEAR(all);
        Py_XDECREF(array);
    }
    return all;
}

PyObject *py_module_parameters(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_parameters *p = ((py_module *)self)->parameters;
    return dictionary_of(self, p, p->values);
}

PyObject *py_module_values(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_parameters *p = ((py_module *)self)->parameters;
    const mh_tensor all = mh_tensor_1d(p->values, MH_F32, p->floats);
    return py_view_array(self, &all, true);
}

PyObject *py_module_views(PyObject *self, PyObject *vector)
{
    const mh_parameters *p = ((py_module *)self)->parameters;
    py_tensor held = {0};
    float *values = NULL;
    if (!py_gradients(vector, p, &held, &values))
        return NULL;
    py_tensor_release(&held); // the views keep the vector itself
    return dictionary_of(vector, p, values);
}

static PyObject *copy_to(const mh_parameter *p, float *values, const mh_tensor *from)
{
    mh_context *context = py_context();
    mh_tensor to = mh_parameter_view(p, values);
    if (!context)
        return NULL;
    if (!mh_tensor_same_shape(from, &to)) {
        char found[96], expected[96];
        return PyErr_Format(PyExc_ValueError, "%s: found %s, expected %s", p->name,
                            mh_tensor_describe(from, found, sizeof found),
                            mh_tensor_describe(&to, expected, sizeof expected));
    }
    const mh_status status = mh_tensor_copy(context, from, &to);
    return status ? py_raise(context, status) : Py_NewRef(Py_None);
}

PyObject *py_module_assign(PyObject *self, PyObject *arguments)
{
    const mh_parameters *p = ((py_module *)self)->parameters;
    const char *name;
    PyObject *array;
    py_tensor from;
    if (!PyArg_ParseTuple(arguments, "sO:assign", &name, &array))
        return NULL;
    const mh_parameter *parameter = mh_parameters_find(p, name);
    if (!parameter)
        return PyErr_Format(PyExc_ValueError, "%s: there is no parameter of this name", name);
    if (!py_tensor_from(array, name, &from))
        return NULL;
    PyObject *found = copy_to(parameter, p->values, &from.tensor);
    py_tensor_release(&from);
    return found;
}

PyObject *py_module_init(PyObject *self, PyObject *seed)
{
    int64_t number = 0;
    if (!py_integer(seed, "seed", &number))
        return NULL;
    mh_parameters_init(((py_module *)self)->parameters, (uint64_t)number);
    Py_RETURN_NONE;
}

bool py_gradients(PyObject *array, const mh_parameters *parameters, py_tensor *held,
                  float **gradients)
{
    if (!array)
        return true;
    if (!py_tensor_from_writable(array, "gradients", held))
        return false;
    const mh_tensor *t = &held->tensor;
    if (t->dtype == MH_F32 && t->rank == 1 && t->shape[0] == parameters->floats &&
        mh_tensor_is_contiguous(t)) {
        *gradients = t->data;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "gradients: expected a writable float32 vector of %zu elements",
                 parameters->floats);
    py_tensor_release(held);
    return false;
}
