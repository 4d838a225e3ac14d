// SPDX-License-Identifier: MIT
// The types of modules, and of what belongs to one thread at a time: tapes and KV caches.
#ifndef MH_PYTHON_PY_MODULES_H
#define MH_PYTHON_PY_MODULES_H

#include "py_attention.h"
#include "py_view.h"

#include <stdatomic.h>

// ---- objects that one call at a time may use ----------------------------------------------------

// Calls run without the GIL: a second one on the same tape or cache raises RuntimeError.
typedef atomic_flag py_lock;

bool py_lock_take(py_lock *lock, const char *what); // false with an exception
void py_lock_release(py_lock *lock);

typedef struct py_tape {
    PyObject_HEAD mh_tape *tape;
    py_lock lock;
} py_tape;

typedef struct py_kv_cache {
    PyObject_HEAD mh_kv_cache *cache;
    mh_kv_cache_options options;
    size_t sequences; // now
    py_lock lock;
} py_kv_cache;

// The object as a Tape or KVCache, locked; NULL stays NULL. False with an exception.
bool py_tape_take(PyObject *object, py_tape **tape);
bool py_kv_cache_take(PyObject *object, py_kv_cache **cache);
void py_tape_release(py_tape *tape); // NULL is allowed
void py_kv_cache_release(py_kv_cache *cache);

// The tokens of its longest sequence.
size_t py_kv_cache_longest(const py_kv_cache *cache);

// ---- arguments ----------------------------------------------------------------------------------

// Some of attention's options, by name: names (count) and values (count), NULL where not given.
bool py_attention_some_options(const char *const *names, PyObject *const *values, size_t count,
                               const mh_tensor *q, py_attention_options *to);

// A contiguous vector of i64, of `count` elements or (SIZE_MAX) any number. NULL with an exception.
const int64_t *py_int64_vector(PyObject *array, const char *name, size_t count, py_tensor *held);

bool py_tape_ready(PyObject *module);
bool py_kv_cache_ready(PyObject *module);
bool py_mha_ready(PyObject *module);
bool py_transformer_ready(PyObject *module);

#endif
