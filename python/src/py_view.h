// SPDX-License-Identifier: MIT
// Memory of the library as an object with the buffer protocol: numpy.asarray(view) is an array of
// it, without a copy, that keeps its owner alive.
#ifndef MH_PYTHON_PY_VIEW_H
#define MH_PYTHON_PY_VIEW_H

#include "py.h"

bool py_view_ready(PyObject *module); // makes the type

// A view of contiguous memory that `owner` keeps alive. bf16 is exported as uint16.
PyObject *py_view(PyObject *owner, const mh_tensor *tensor, bool writable);

// numpy.asarray(py_view(...)).
PyObject *py_view_array(PyObject *owner, const mh_tensor *tensor, bool writable);

// The type of objects that hold a pointer to something of the library: made from a specification,
// and added to the module under the last part of its name.
PyObject *py_type(PyObject *module, PyType_Spec *spec);

// For types that are made by functions of the module only.
PyObject *py_new_object(PyObject *type);

#endif
