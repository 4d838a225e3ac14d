// SPDX-License-Identifier: MIT
// Methods of Model that read pictures: lists of paths (bytes) and of arrays.
#ifndef MH_PYTHON_PY_PICTURES_H
#define MH_PYTHON_PY_PICTURES_H

#include "py_model.h"

// Model.embed_pictures(pictures, pooling, normalize): (N, embedding width).
PyObject *py_model_embed_pictures(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                  PyObject *keywords);

// Model.classify_pictures(pictures): logits (N, labels).
PyObject *py_model_classify_pictures(PyObject *self, PyObject *list);

// Model.trace_picture([picture], title or None, disabled heads or None).
PyObject *py_model_trace_picture(PyObject *self, PyObject *arguments);

#endif
