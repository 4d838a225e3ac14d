// SPDX-License-Identifier: MIT
// Functions of the module for files of tensors, and for training.
#ifndef MH_PYTHON_PY_FILES_H
#define MH_PYTHON_PY_FILES_H

#include "py_arguments.h"

PyObject *py_read_tensors(PyObject *self, PyObject *path);       // {name: array}
PyObject *py_write_tensors(PyObject *self, PyObject *arguments); // path, {name: array}, metadata

PyObject *py_gradient_norm(PyObject *self, PyObject *arrays);  // of a list of f32 vectors
PyObject *py_clip_factor(PyObject *self, PyObject *arguments); // norm, max_norm
PyObject *py_adamw_step(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *keywords);
PyObject *py_cross_entropy(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                           PyObject *keywords); // (loss, dlogits)

#endif
