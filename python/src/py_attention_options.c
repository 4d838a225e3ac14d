// SPDX-License-Identifier: MIT
// The options of attention, from Python's objects.
#include "py_attention.h"

enum {
    MASK,
    CAUSAL,
    WINDOW,
    SCALE,
    SOFTCAP,
    KEY_LENGTHS,
    PREFIX_LENGTHS,
    QUERY_DOCUMENTS,
    KEY_DOCUMENTS,
    QUERY_STARTS,
    KEY_STARTS,
    ALIBI,
    SINKS,
    DROPOUT,
    SEED,
    PRECISION,
    EMPTY_ROW,
};

static py_tensor *hold(py_attention_options *to, PyObject *array, const char *name)
{
    py_tensor *held = &to->held[to->held_count];
    if (!py_tensor_from(array, name, held))
        return NULL;
    to->held_count++;
    return held;
}

// A contiguous vector of `count` elements of one dtype.
static const void *vector(py_attention_options *to, PyObject *array, const char *name,
                          mh_dtype dtype, size_t count)
{
    const py_tensor *held = hold(to, array, name);
    if (!held)
        return NULL;
    const mh_tensor *t = &held->tensor;
    if (t->dtype != dtype || t->rank != 1 || !mh_tensor_is_contiguous(t) ||
        (count != SIZE_MAX && t->shape[0] != count)) {
        char found[96];
        mh_tensor_describe(t, found, sizeof found);
        if (count == SIZE_MAX)
            PyErr_Format(PyExc_ValueError, "%s: found %s, expected a contiguous vector of %s", name,
                         found, mh_dtype_name(dtype));
        else
            PyErr_Format(PyExc_ValueError, "%s: found %s, expected %s (%zu), contiguous", name,
                         found, mh_dtype_name(dtype), count);
        return NULL;
    }
    return t->data;
}

static bool add_mask(PyObject *value, py_attention_options *to)
{
    const py_tensor *held = hold(to, value, "mask");
    if (!held)
        return false;
    const bool keep = held->tensor.dtype == MH_BOOL;
    to->masks[to->options.mask_count++] =
        mh_mask_make(keep ? MH_MASK_KEEP : MH_MASK_ADD, held->tensor);
    to->options.masks = to->masks;
    return true;
}

// A mask, or a tuple of several that all hold.
static bool set_mask(PyObject *value, py_attention_options *to)
{
    if (!PyTuple_Check(value))
        return add_mask(value, to);
    const Py_ssize_t count = PyTuple_Size(value);
    if (count > PY_MASKS) {
        PyErr_Format(PyExc_ValueError, "mask: found %zd masks, expected at most %d", count,
                     PY_MASKS);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!add_mask(PyTuple_GetItem(value, i), to))
            return false;
    return true;
}

// False, True, "top-left", "bottom-right" or an offset.
static bool set_causal(PyObject *value, mh_attention_options *o)
{
    static const char *const names[] = {"none", "square", "top-left", "bottom-right", NULL};
    int rule = 0;
    if (value == Py_True || value == Py_False) {
        o->causal = value == Py_True ? MH_CAUSAL : MH_CAUSAL_NONE;
        return true;
    }
    if (PyLong_Check(value)) {
        o->causal = MH_CAUSAL_OFFSET;
        return py_integer(value, "causal", &o->offset);
    }
    if (!py_choice(value, "causal", names, &rule))
        return false;
    o->causal = (mh_causal)rule;
    return true;
}

// A pair (left, right); -1 or None: without limit on that side.
static bool set_window(PyObject *value, mh_attention_options *o)
{
    if (!PyTuple_Check(value) || PyTuple_Size(value) != 2) {
        PyErr_Format(PyExc_TypeError, "window: found %R, expected a pair (left, right)", value);
        return false;
    }
    PyObject *left = PyTuple_GetItem(value, 0), *right = PyTuple_GetItem(value, 1);
    return py_integer(left == Py_None ? NULL : left, "window", &o->window_left) &&
           py_integer(right == Py_None ? NULL : right, "window", &o->window_right);
}

static bool set_alibi(PyObject *value, size_t heads, py_attention_options *to)
{
    if (value == Py_True || value == Py_False)
        return py_bool(value, "alibi", &to->options.alibi);
    to->options.alibi = true;
    to->options.alibi_slopes = vector(to, value, "alibi", MH_F32, heads);
    return to->options.alibi_slopes;
}

// Lengths, documents, starts and sinks.
static bool set_arrays(PyObject *const *v, const mh_tensor *q, py_attention_options *to)
{
    mh_attention_options *o = &to->options;
    if (v[QUERY_STARTS] || v[KEY_STARTS]) {
        if (!v[QUERY_STARTS] || !v[KEY_STARTS]) {
            PyErr_SetString(PyExc_ValueError, "query_starts and key_starts go together");
            return false;
        }
        if (!(o->query_starts = vector(to, v[QUERY_STARTS], "query_starts", MH_I64, SIZE_MAX)))
            return false;
        const size_t starts = to->held[to->held_count - 1].tensor.shape[0];
        if (starts < 2) {
            PyErr_SetString(PyExc_ValueError, "query_starts: expected at least 2 of them");
            return false;
        }
        o->sequences = starts - 1;
        if (!(o->key_starts = vector(to, v[KEY_STARTS], "key_starts", MH_I64, starts)))
            return false;
    }
    const size_t batch = o->sequences ? o->sequences : q->shape[0];
    if (v[KEY_LENGTHS] &&
        !(o->key_lengths = vector(to, v[KEY_LENGTHS], "key_lengths", MH_I64, batch)))
        return false;
    if (v[PREFIX_LENGTHS] &&
        !(o->prefix_lengths = vector(to, v[PREFIX_LENGTHS], "prefix_lengths", MH_I64, batch)))
        return false;
    py_tensor *documents[2] = {0};
    for (int i = 0; i < 2; i++)
        if (v[QUERY_DOCUMENTS + i] &&
            !(documents[i] =
                  hold(to, v[QUERY_DOCUMENTS + i], i ? "key_documents" : "query_documents")))
            return false;
    o->query_documents = documents[0] ? &documents[0]->tensor : NULL;
    o->key_documents = documents[1] ? &documents[1]->tensor : NULL;
    return !v[SINKS] || (o->sinks = vector(to, v[SINKS], "sinks", MH_F32, q->shape[1]));
}

bool py_attention_options_from(PyObject *const *v, const mh_tensor *q, py_attention_options *to)
{
    static const char *const precisions[] = {"auto", "f32", "bf16", NULL};
    static const char *const rows[] = {"zero", "nan", NULL};
    int precision = MH_PRECISION_AUTO, empty_row = MH_EMPTY_ROW_ZERO;
    int64_t seed = 0;
    *to = (py_attention_options){.options = mh_attention_options_default()};
    mh_attention_options *o = &to->options;
    const bool ok =
        (!v[MASK] || set_mask(v[MASK], to)) && (!v[CAUSAL] || set_causal(v[CAUSAL], o)) &&
        (!v[WINDOW] || set_window(v[WINDOW], o)) &&
        (!v[ALIBI] || set_alibi(v[ALIBI], q->shape[1], to)) && set_arrays(v, q, to) &&
        py_float(v[SCALE], "scale", &o->scale) && py_float(v[SOFTCAP], "softcap", &o->softcap) &&
        py_float(v[DROPOUT], "dropout", &o->dropout) && py_integer(v[SEED], "seed", &seed) &&
        py_choice(v[PRECISION], "precision", precisions, &precision) &&
        py_choice(v[EMPTY_ROW], "empty_row", rows, &empty_row);
    o->dropout_seed = (uint64_t)seed;
    o->precision = (mh_precision)precision;
    o->empty_row = (mh_empty_row)empty_row;
    if (!ok)
        py_attention_options_release(to);
    return ok;
}

void py_attention_options_release(py_attention_options *options)
{
    for (size_t i = 0; i < options->held_count; i++)
        py_tensor_release(&options->held[i]);
    options->held_count = 0;
}
