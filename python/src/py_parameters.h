// SPDX-License-Identifier: MIT
// What Mha and Transformer have in common: an object that owns a module of the library, and the
// methods for its parameters.
#ifndef MH_PYTHON_PY_PARAMETERS_H
#define MH_PYTHON_PY_PARAMETERS_H

#include "py_view.h"

// The first member of every module's object.
typedef struct py_module {
    PyObject_HEAD const mh_parameters *parameters; // of the module, which owns them
} py_module;

// parameters()         a dictionary of names and arrays, which are views of the values
// values()             all values as one vector
// views(vector)        a dictionary as parameters(), of a vector with the values' layout: gradients
// assign(name, array)  copies an array of the parameter's shape and of any float dtype
// init(seed)           sets all values as PyTorch initialises them
PyObject *py_module_parameters(PyObject *self, PyObject *nothing);
PyObject *py_module_values(PyObject *self, PyObject *nothing);
PyObject *py_module_views(PyObject *self, PyObject *vector);
PyObject *py_module_assign(PyObject *self, PyObject *arguments);
PyObject *py_module_init(PyObject *self, PyObject *seed);

#define PY_MODULE_METHODS                                                                          \
    {"parameters", py_module_parameters, METH_NOARGS, NULL},                                       \
        {"values", py_module_values, METH_NOARGS, NULL}, {"views", py_module_views, METH_O, NULL}, \
        {"assign", py_module_assign, METH_VARARGS, NULL},                                          \
    {                                                                                              \
        "init", py_module_init, METH_O, NULL                                                       \
    }

// A contiguous, writable f32 vector of all gradients. False with an exception.
bool py_gradients(PyObject *array, const mh_parameters *parameters, py_tensor *held,
                  float **gradients);

#endif
