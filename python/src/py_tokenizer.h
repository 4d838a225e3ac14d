// SPDX-License-Identifier: MIT
// Tokenizers, and the scores of translations.
#ifndef MH_PYTHON_PY_TOKENIZER_H
#define MH_PYTHON_PY_TOKENIZER_H

#include "py_texts.h"

bool py_tokenizer_ready(PyObject *module);

// load_tokenizer(path): of a tokenizer.json, or of a model's directory.
PyObject *py_load_tokenizer(PyObject *self, PyObject *path);

// train_tokenizer(texts, merges=, min_frequency=)
PyObject *py_train_tokenizer(PyObject *self, PyObject *arguments, PyObject *keywords);

// One that `owner` keeps alive.
PyObject *py_tokenizer_of(PyObject *owner, const mh_tokenizer *tokenizer);

// py_scores.c: bleu(hypotheses, references, lowercase) and chrf(..., word_order, lowercase), with
// references of count * r texts.
PyObject *py_bleu(PyObject *self, PyObject *arguments);
PyObject *py_chrf(PyObject *self, PyObject *arguments);

#endif
