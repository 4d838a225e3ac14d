// SPDX-License-Identifier: MIT
// Traces: attention weights of a run and their tokens, and the pages that show them.
#ifndef MH_PYTHON_PY_TRACE_H
#define MH_PYTHON_PY_TRACE_H

#include "py_model.h"

bool py_trace_ready(PyObject *module);

// parse_trace(bytes): the trace of a file's contents (docs/reference/trace-format.md).
PyObject *py_parse_trace(PyObject *self, PyObject *bytes);

// open_trace(path)
PyObject *py_open_trace(PyObject *self, PyObject *path);

// The trace of a Trace, borrowed. NULL with TypeError for anything else.
const mh_trace *py_trace_view(PyObject *trace);

// head_statistics(texts, traces, far): what heads do over all traces, an iterable; the words of the
// texts are counted first. {kind: (layers, heads, names, {pattern: (weights, uniform, queries)},
// entropies, distances, uniform distance)}, with lists of a number for every head.
PyObject *py_head_statistics(PyObject *self, PyObject *arguments);

// Model.trace(text, pair or None, disabled heads or None), Model.trace_ids(ids, disabled heads) and
// Model.trace_translation(text, target ids, disabled heads).
// The Trace of what a model was traced with, which is taken, also on failure.
PyObject *py_trace_of_model(mh_model_trace *trace);

PyObject *py_model_trace(PyObject *self, PyObject *arguments);
PyObject *py_model_trace_ids(PyObject *self, PyObject *arguments);
PyObject *py_model_trace_translation(PyObject *self, PyObject *arguments);

#endif
