// SPDX-License-Identifier: MIT
// Texts and token ids of Python as the library takes them, and back.
#ifndef MH_PYTHON_PY_TEXTS_H
#define MH_PYTHON_PY_TEXTS_H

#include "py.h"

#include <multihead/text.h>

// Texts that borrow the strings of a tuple, which is kept. All zeros is empty.
typedef struct py_texts {
    mh_text *texts; // (count)
    size_t count;
    PyObject *held;
} py_texts;

// Any iterable of strings. False with TypeError, which names the argument and the item.
bool py_texts_from(PyObject *iterable, const char *name, py_texts *to);
void py_texts_release(py_texts *texts);

// One string, borrowed; NULL leaves *to as it is.
bool py_text_from(PyObject *value, const char *name, mh_text *to);

// Bytes that are UTF-8 or nearly so, with U+FFFD for what is not.
PyObject *py_string(mh_text text);

// The contents of a buffer of the library, which is freed.
PyObject *py_string_of_buffer(mh_context *context, mh_buffer *buffer);

// Token ids. All zeros is empty.
typedef struct py_ids {
    int32_t *ids; // (count)
    size_t count;
} py_ids;

// Any iterable of integers; NULL leaves *to empty. False with TypeError or ValueError.
bool py_ids_from(PyObject *iterable, const char *name, py_ids *to);
void py_ids_release(py_ids *ids);

PyObject *py_list_of_ids(const int32_t *ids, size_t count);
PyObject *py_list_of_doubles(const double *values, size_t count);

// Sets item i of a list, taking the item: false if that is NULL.
bool py_put(PyObject *list, size_t i, PyObject *item);

#endif
