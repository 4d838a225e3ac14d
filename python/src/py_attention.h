// SPDX-License-Identifier: MIT
// The options of attention as Python passes them.
#ifndef MH_PYTHON_PY_ATTENTION_H
#define MH_PYTHON_PY_ATTENTION_H

#include "py_arguments.h"

enum { PY_MASKS = 4, PY_HELD = 10 + PY_MASKS };

typedef struct py_attention_options {
    mh_attention_options options;
    mh_mask masks[PY_MASKS];
    py_tensor held[PY_HELD]; // arrays that the options point into
    size_t held_count;
} py_attention_options;

// The names of the options, in the order in which py_attention_options_from takes their values.
#define PY_ATTENTION_OPTIONS                                                                       \
    "mask", "causal", "window", "scale", "softcap", "key_lengths", "prefix_lengths",               \
        "query_documents", "key_documents", "query_starts", "key_starts", "alibi", "sinks",        \
        "dropout", "seed", "precision", "empty_row"

// For queries (B, H, T, E).
bool py_attention_options_from(PyObject *const *values, const mh_tensor *q,
                               py_attention_options *to);
void py_attention_options_release(py_attention_options *options);

// q, k and v (..., T, E) as tensors of rank 4.
typedef struct py_inputs {
    py_tensor q, k, v;
    int rank; // of q as it was given
    size_t shape[MH_MAX_RANK];
} py_inputs;

bool py_take_inputs(PyObject *const *values, py_inputs *in);
void py_release_inputs(py_inputs *in);

// An array of rank 2 or more as a tensor of rank 4; its own rank and shape to *given and shape,
// unless they are NULL.
bool py_take_input(PyObject *array, const char *name, py_tensor *to, int *given, size_t *shape);

PyObject *py_attention(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                       PyObject *keywords);
PyObject *py_attention_backward(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                PyObject *keywords);
PyObject *py_attention_explain(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                               PyObject *keywords);

#endif
