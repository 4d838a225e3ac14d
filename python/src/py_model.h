// SPDX-License-Identifier: MIT
// A pretrained model, and what its methods share.
#ifndef MH_PYTHON_PY_MODEL_H
#define MH_PYTHON_PY_MODEL_H

#include "py_arguments.h"
#include "py_texts.h"
#include "py_view.h"

#include <multihead/generate.h>
#include <multihead/pretrained.h>
#include <multihead/translator.h>

// Immutable once it is loaded.
typedef struct py_model {
    PyObject_HEAD mh_model *model;
    mh_translator *translator; // NULL if the model does not translate
} py_model;

bool py_model_ready(PyObject *module);

// The model that reads texts: of CLIP's two, the one for these.
static inline const mh_model *py_model_of_texts(const py_model *m)
{
    const mh_model *text = mh_model_text_tower(m->model);
    return text ? text : m->model;
}

// py_describe.c: what the model is, as a dictionary.
PyObject *py_model_describe(PyObject *self, PyObject *nothing);

// py_model_run.c: tokens in, vectors out.
PyObject *py_model_encode(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *keywords);
PyObject *py_model_hidden(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *keywords);
PyObject *py_model_logits(PyObject *self, PyObject *hidden);
PyObject *py_model_classify(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *keywords);
PyObject *py_model_embed(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                         PyObject *keywords);
PyObject *py_top(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);

// py_generate.c
PyObject *py_model_generate(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *py_model_chat(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *keywords);
bool py_generate_ready(PyObject *module);

// py_translate.c
PyObject *py_model_translate(PyObject *self, PyObject *arguments, PyObject *keywords);

// py_speech.c
PyObject *py_model_transcribe(PyObject *self, PyObject *arguments, PyObject *keywords);

// Heads that are off, as bytes of 0 and 1; NULL: none. `expected`: how many there are.
bool py_heads_from(PyObject *value, size_t expected, const bool **heads);

#endif
