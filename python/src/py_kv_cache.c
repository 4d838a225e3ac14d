// SPDX-License-Identifier: MIT
// KVCache: keys and values that grow by a few tokens at a time, and attention over them.
#include "py_modules.h"

static PyObject *cache_type;

// ---- creation -----------------------------------------------------------------------------------

static bool read_config(PyObject *keywords, mh_kv_cache_options *o)
{
    static const char *const dtypes[] = {"f32", "bf16", "f16", NULL};
    static const mh_dtype values[] = {MH_F32, MH_BF16, MH_F16};
    int dtype = 0;
    const py_field fields[] = {
        PY_SIZE(o, sequences),          PY_SIZE(o, heads),
        PY_SIZE(o, key_width),          PY_SIZE(o, value_width),
        PY_INTEGER(o, window),          {"dtype", PY_IS_CHOICE, &dtype, dtypes},
        {NULL, PY_IS_BOOL, NULL, NULL},
    };
    if (!py_fields("KVCache", keywords, fields))
        return false;
    o->dtype = values[dtype];
    if (!o->value_width)
        o->value_width = o->key_width;
    return true;
}

static PyObject *cache_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    mh_context *context = py_no_arguments("KVCache", arguments) ? py_context() : NULL;
    py_kv_cache *self = context ? (py_kv_cache *)py_new_object((PyObject *)type) : NULL;
    if (!self)
        return NULL;
    atomic_flag_clear(&self->lock);
    self->options = mh_kv_cache_options_default();
    mh_status status = MH_OK;
    const bool ok = read_config(keywords, &self->options);
    if (ok)
        status = mh_kv_cache_create(context, &self->options, &self->cache);
    self->sequences = self->options.sequences;
    if (status)
        py_raise(context, status);
    if (!ok || status)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void cache_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mh_kv_cache_free(((py_kv_cache *)self)->cache);
    PyObject_Free(self);
    Py_DECREF(type);
}

bool py_kv_cache_take(PyObject *object, py_kv_cache **cache)
{
    if (!object)
        return true;
    if (!PyObject_TypeCheck(object, (PyTypeObject *)cache_type)) {
        PyErr_Format(PyExc_TypeError, "cache: found %R, expected a KVCache", object);
        return false;
    }
    if (!py_lock_take(&((py_kv_cache *)object)->lock, "cache"))
        return false;
    *cache = (py_kv_cache *)object;
    return true;
}

void py_kv_cache_release(py_kv_cache *cache)
{
    if (cache)
        py_lock_release(&cache->lock);
}

size_t py_kv_cache_longest(const py_kv_cache *cache)
{
    size_t longest = 0;
    for (size_t b = 0; b < cache->sequences; b++) {
        const size_t length = mh_kv_cache_length(cache->cache, b);
        longest = length > longest ? length : longest;
    }
    return longest;
}

// ---- appending ----------------------------------------------------------------------------------

// append(k, v, counts=None) or append_packed(k, v, starts).
static PyObject *append(py_kv_cache *self, PyObject *const *values, bool packed)
{
    py_tensor k = {0}, v = {0}, held = {0};
    const int64_t *rows = NULL;
    mh_context *context = py_context();
    mh_status status = MH_OK;
    bool ok = context && py_tensor_from(values[0], "k", &k) && py_tensor_from(values[1], "v", &v);
    if (ok && values[2]) {
        rows = py_int64_vector(values[2], packed ? "starts" : "counts", self->sequences + packed,
                               &held);
        ok = rows;
    }
    if (ok && packed)
        PY_RUN(context, status,
               mh_kv_cache_append_packed(context, self->cache, rows, &k.tensor, &v.tensor));
    else if (ok)
        PY_RUN(context, status,
               mh_kv_cache_append(context, self->cache, rows, &k.tensor, &v.tensor));
    if (status)
        py_raise(context, status);
    py_tensor_release(&k);
    py_tensor_release(&v);
    py_tensor_release(&held);
    return ok && !status ? Py_NewRef(Py_None) : NULL;
}

static PyObject *cache_append(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                              PyObject *keywords)
{
    static const char *const names[] = {"k", "v", "counts", NULL};
    PyObject *values[3], *found;
    py_kv_cache *self = NULL;
    if (!py_arguments("append", names, 3, 2, arguments, count, keywords, values) ||
        !py_kv_cache_take(object, &self))
        return NULL;
    found = append(self, values, false);
    py_kv_cache_release(self);
    return found;
}

static PyObject *cache_append_packed(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                     PyObject *keywords)
{
    static const char *const names[] = {"k", "v", "starts", NULL};
    PyObject *values[3], *found;
    py_kv_cache *self = NULL;
    if (!py_arguments("append_packed", names, 3, 3, arguments, count, keywords, values) ||
        !py_kv_cache_take(object, &self))
        return NULL;
    found = append(self, values, true);
    py_kv_cache_release(self);
    return found;
}

// ---- sequences ----------------------------------------------------------------------------------

static PyObject *cache_extend(PyObject *object, PyObject *value)
{
    py_kv_cache *self = NULL;
    mh_context *context = py_context();
    int64_t count = 0;
    if (!context || !py_integer(value, "count", &count))
        return NULL;
    if (count < 0)
        return PyErr_Format(PyExc_ValueError, "count: found %lld, expected 0 or more",
                            (long long)count);
    if (!py_kv_cache_take(object, &self))
        return NULL;
    const mh_status status = mh_kv_cache_extend(context, self->cache, (size_t)count);
    if (!status)
        self->sequences += (size_t)count;
    py_kv_cache_release(self);
    return status ? py_raise(context, status) : Py_NewRef(Py_None);
}

// Sequence i continues from sequence parents[i]; their number becomes that of the parents.
static PyObject *cache_select(PyObject *object, PyObject *array)
{
    py_kv_cache *self = NULL;
    py_tensor held = {0};
    mh_context *context = py_context();
    if (!context || !py_int64_vector(array, "parents", SIZE_MAX, &held))
        return NULL;
    const size_t count = held.tensor.shape[0];
    PyObject *found = NULL;
    if (py_kv_cache_take(object, &self)) {
        // A negative index is more than any number of sequences, and rejected.
        const size_t *parents = held.tensor.data;
        const mh_status status = mh_kv_cache_select(context, self->cache, parents, count);
        if (!status)
            self->sequences = count;
        found = status ? py_raise(context, status) : Py_NewRef(Py_None);
        py_kv_cache_release(self);
    }
    py_tensor_release(&held);
    return found;
}

static PyObject *cache_truncate(PyObject *object, PyObject *arguments)
{
    py_kv_cache *self = NULL;
    mh_context *context = py_context();
    Py_ssize_t b, length;
    if (!context || !PyArg_ParseTuple(arguments, "nn:truncate", &b, &length))
        return NULL;
    if (b < 0 || length < 0)
        return PyErr_Format(PyExc_ValueError, "truncate: found %zd and %zd, expected 0 or more", b,
                            length);
    if (!py_kv_cache_take(object, &self))
        return NULL;
    const mh_status status = mh_kv_cache_truncate(context, self->cache, (size_t)b, (size_t)length);
    py_kv_cache_release(self);
    return status ? py_raise(context, status) : Py_NewRef(Py_None);
}

static PyObject *cache_lengths(PyObject *object, PyObject *nothing)
{
    (void)nothing;
    py_kv_cache *self = NULL;
    if (!py_kv_cache_take(object, &self))
        return NULL;
    PyObject *list = PyList_New(0);
    for (size_t b = 0; b < self->sequences && list; b++) {
        PyObject *length = PyLong_FromSize_t(mh_kv_cache_length(self->cache, b));
        if (!length || PyList_Append(list, length) != 0)
            Py_CLEAR(list);
        Py_XDECREF(length);
    }
    py_kv_cache_release(self);
    return list;
}

static PyObject *cache_bytes(PyObject *object, PyObject *nothing)
{
    (void)nothing;
    py_kv_cache *self = NULL;
    if (!py_kv_cache_take(object, &self))
        return NULL;
    const size_t bytes = mh_kv_cache_bytes(self->cache);
    py_kv_cache_release(self);
    return PyLong_FromSize_t(bytes);
}

// ---- attention ----------------------------------------------------------------------------------

#define CACHE_OPTIONS                                                                              \
    "mask", "causal", "window", "scale", "softcap", "prefix_lengths", "query_documents",           \
        "key_documents", "alibi", "sinks", "dropout", "seed", "precision", "empty_row"
enum { Q, OPTIONS, STARTS = OPTIONS + 14, WEIGHTS, LSE, ARGUMENTS };
static const char *const attention_names[] = {"q",       CACHE_OPTIONS, "query_starts",
                                              "weights", "lse",         NULL};

typedef struct cached_call {
    py_tensor q, starts;
    py_attention_options attention;
    PyObject *out, *weights, *lse;
    mh_tensor views[3];
} cached_call;

static void release_call(cached_call *c)
{
    py_tensor_release(&c->q);
    py_tensor_release(&c->starts);
    py_attention_options_release(&c->attention);
    Py_XDECREF(c->out);
    Py_XDECREF(c->weights);
    Py_XDECREF(c->lse);
}

// Queries (B, H, T, E), or packed (1, H, rows, E) with starts.
static bool read_call(const py_kv_cache *self, PyObject *const *values, cached_call *c)
{
    *c = (cached_call){0};
    if (!py_tensor_from(values[Q], "q", &c->q))
        return false;
    mh_tensor q = c->q.tensor;
    if (q.rank != 4) {
        PyErr_Format(PyExc_ValueError, "q: found %d dimensions, expected (B, H, T, E)", q.rank);
        return false;
    }
    if (values[STARTS])
        q.shape[0] = self->sequences; // what options per sequence are checked against
    if (!py_attention_some_options(attention_names + OPTIONS, values + OPTIONS, STARTS - OPTIONS,
                                   &q, &c->attention))
        return false;
    if (!values[STARTS])
        return true;
    mh_attention_options *o = &c->attention.options;
    o->sequences = self->sequences;
    o->query_starts =
        py_int64_vector(values[STARTS], "query_starts", self->sequences + 1, &c->starts);
    return o->query_starts;
}

static bool make_outputs(const py_kv_cache *self, PyObject *const *values, cached_call *c)
{
    const mh_tensor *q = &c->q.tensor;
    mh_attention_options *o = &c->attention.options;
    bool weights = false, lse = false;
    if (!py_bool(values[WEIGHTS], "weights", &weights) || !py_bool(values[LSE], "lse", &lse))
        return false;
    if (weights && o->sequences) {
        PyErr_SetString(PyExc_ValueError, "weights of packed queries are not returned here");
        return false;
    }
    const size_t out[4] = {q->shape[0], q->shape[1], q->shape[2], self->options.value_width};
    const size_t table[4] = {q->shape[0], q->shape[1], q->shape[2], py_kv_cache_longest(self)};
    c->out = py_output(c->q.origin, q->dtype, 4, out, &c->views[0]);
    if (weights && c->out)
        c->weights = py_output(c->q.origin, MH_F32, 4, table, &c->views[1]);
    if (lse && c->out)
        c->lse = py_output(c->q.origin, MH_F32, 3, out, &c->views[2]);
    o->weights = c->weights ? &c->views[1] : NULL;
    o->lse = c->lse ? &c->views[2] : NULL;
    return c->out && (!weights || c->weights) && (!lse || c->lse);
}

static PyObject *run_attention(const py_kv_cache *self, cached_call *c)
{
    mh_context *context = py_context();
    mh_status status;
    if (!context)
        return NULL;
    PY_RUN(context, status,
           mh_attention_cached(context, &c->attention.options, &c->q.tensor, self->cache,
                               &c->views[0]));
    if (status)
        return py_raise(context, status);
    if (c->weights && c->lse)
        return PyTuple_Pack(3, c->out, c->weights, c->lse);
    if (c->weights || c->lse)
        return PyTuple_Pack(2, c->out, c->weights ? c->weights : c->lse);
    return Py_NewRef(c->out);
}

static PyObject *cache_attention(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                 PyObject *keywords)
{
    PyObject *values[ARGUMENTS], *found = NULL;
    py_kv_cache *self = NULL;
    cached_call call;
    if (!py_arguments("attention", attention_names, 1, 1, arguments, count, keywords, values) ||
        !py_kv_cache_take(object, &self))
        return NULL;
    if (read_call(self, values, &call) && make_outputs(self, values, &call))
        found = run_attention(self, &call);
    release_call(&call);
    py_kv_cache_release(self);
    return found;
}

static PyMethodDef methods[] = {
    {"append", PY_WITH_OPTIONS(cache_append), NULL},
    {"append_packed", PY_WITH_OPTIONS(cache_append_packed), NULL},
    {"extend", cache_extend, METH_O, NULL},
    {"select", cache_select, METH_O, NULL},
    {"truncate", cache_truncate, METH_VARARGS, NULL},
    {"lengths", cache_lengths, METH_NOARGS, NULL},
    {"nbytes", cache_bytes, METH_NOARGS, NULL},
    {"attention", PY_WITH_OPTIONS(cache_attention), NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, cache_new}, {Py_tp_dealloc, cache_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"multihead._multihead.KVCache", sizeof(py_kv_cache), 0,
                           Py_TPFLAGS_DEFAULT, slots};

bool py_kv_cache_ready(PyObject *module)
{
    cache_type = py_type(module, &spec);
    return cache_type;
}
