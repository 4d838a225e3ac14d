// SPDX-License-Identifier: MIT
// A module's parameters, for Mha and Transformer.
#ifndef MH_PYTHON_PY_PARAMETERS_H
#define MH_PYTHON_PY_PARAMETERS_H

#include "py_view.h"

// A dictionary of names and arrays, which are views of `values` (laid out as the parameters).
PyObject *py_parameters(PyObject *owner, const mh_parameters *parameters, float *values);

// A contiguous, writable f32 vector of all gradients. False with an exception.
bool py_gradients(PyObject *array, const mh_parameters *parameters, py_tensor *held,
                  float **gradients);

#endif
