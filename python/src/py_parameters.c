// SPDX-License-Identifier: MIT
// Parameters as a dictionary of arrays, and gradients.
#include "py_parameters.h"

PyObject *py_parameters(PyObject *owner, const mh_parameters *parameters, float *values)
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

bool py_gradients(PyObject *array, const mh_parameters *parameters, py_tensor *held,
                  float **gradients)
{
    if (!array)
        return true;
    if (!py_tensor_from(array, "gradients", held))
        return false;
    const mh_tensor *t = &held->tensor;
    if (t->dtype == MH_F32 && t->rank == 1 && t->shape[0] == parameters->floats &&
        mh_tensor_is_contiguous(t) && !(held->has_buffer && held->buffer.readonly)) {
        *gradients = t->data;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "gradients: expected a writable float32 vector of %zu elements",
                 parameters->floats);
    py_tensor_release(held);
    return false;
}
