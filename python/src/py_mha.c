// SPDX-License-Identifier: MIT
// Mha: multi-head attention with its projections.
#include "py_modules.h"

#include "py_parameters.h"

// ---- creation -----------------------------------------------------------------------------------

typedef struct mha {
    py_module base;
    mh_mha *mha;
    mh_mha_config config;
} mha;

// A dictionary of the fields of mh_rope_scaling.
static bool read_scaling(PyObject *dictionary, mh_rope_scaling *s)
{
    static const char *const rules[] = {"linear", "llama3", "yarn", NULL};
    int rule = MH_ROPE_LINEAR;
    const py_field fields[] = {{"rule", PY_IS_CHOICE, &rule, rules},
                               PY_DOUBLE(s, factor),
                               PY_DOUBLE(s, low_frequency),
                               PY_DOUBLE(s, high_frequency),
                               PY_DOUBLE(s, original_length),
                               PY_DOUBLE(s, beta_fast),
                               PY_DOUBLE(s, beta_slow),
                               PY_DOUBLE(s, attention_factor),
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    *s = mh_rope_scaling_default();
    if (!PyDict_Check(dictionary)) {
        PyErr_Format(PyExc_TypeError, "rope_scaling: found %R, expected a dictionary", dictionary);
        return false;
    }
    PyObject *copy = PyDict_Copy(dictionary); // reading a number may run code that changes it
    const bool ok = copy && py_fields("rope_scaling", copy, fields);
    Py_XDECREF(copy);
    if (!ok)
        return false;
    s->rule = (mh_rope_rule)rule;
    return true;
}

// Options are passed by name, as the fields of mh_mha_config are called.
static bool read_config(PyObject *keywords, mh_mha_config *c, mh_rope_scaling *scaling)
{
    int order = MH_QKV_STACKED, precision = MH_PRECISION_F32 - 1;
    size_t missing_bias = 0;
    PyObject *rope_scaling = NULL;
    static const char *const orders[] = {"stacked", "interleaved", NULL};
    static const char *const precisions[] = {"f32", "bf16", NULL};
    const py_field fields[] = {PY_SIZE(c, embed_dim),
                               PY_SIZE(c, num_heads),
                               PY_SIZE(c, kv_heads),
                               PY_SIZE(c, input_dim),
                               PY_SIZE(c, kdim),
                               PY_SIZE(c, vdim),
                               PY_FLOAT(c, dropout),
                               PY_BOOL(c, bias),
                               PY_BOOL(c, add_bias_kv),
                               PY_BOOL(c, add_zero_attn),
                               PY_BOOL(c, batch_first),
                               PY_BOOL(c, rope),
                               PY_BOOL(c, rope_interleaved),
                               PY_DOUBLE(c, rope_base),
                               PY_BOOL(c, alibi),
                               PY_BOOL(c, sinks),
                               PY_SIZE(c, head_dim),
                               PY_SIZE(c, value_dim),
                               PY_BOOL(c, no_out_bias),
                               PY_BOOL(c, qk_norm),
                               PY_FLOAT(c, qk_norm_eps),
                               PY_FLOAT(c, scale),
                               PY_FLOAT(c, softcap),
                               PY_INTEGER(c, window),
                               PY_SIZE(c, rope_width),
                               {"rope_scaling", PY_IS_OBJECT, &rope_scaling, NULL},
                               {"missing_bias", PY_IS_SIZE, &missing_bias, NULL},
                               {"qkv", PY_IS_CHOICE, &order, orders},
                               {"precision", PY_IS_CHOICE, &precision, precisions},
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    if (!py_fields("Mha", keywords, fields))
        return false;
    c->qkv = (mh_qkv_order)order;
    c->precision = (mh_precision)(precision + MH_PRECISION_F32);
    c->missing_bias = (unsigned)(missing_bias & (MH_BIAS_Q | MH_BIAS_K | MH_BIAS_V));
    c->rope_scaling = rope_scaling ? scaling : NULL;
    return !rope_scaling || read_scaling(rope_scaling, scaling);
}

static PyObject *mha_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    mh_context *context = py_no_arguments("Mha", arguments) ? py_context() : NULL;
    mha *self = context ? (mha *)py_new_object((PyObject *)type) : NULL;
    if (!self)
        return NULL;
    mh_rope_scaling scaling;
    mh_status status = MH_OK;
    self->config = mh_mha_config_default();
    const bool ok = read_config(keywords, &self->config, &scaling);
    if (ok)
        status = mh_mha_create(context, &self->config, &self->mha);
    self->config.rope_scaling = NULL; // the module has a copy
    if (status)
        py_raise(context, status);
    if (!ok || status)
        Py_CLEAR(self);
    else
        self->base.parameters = mh_mha_parameters(self->mha);
    return (PyObject *)self;
}

static void mha_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mh_mha_free(((mha *)self)->mha);
    PyObject_Free(self);
    Py_DECREF(type);
}

// ---- forward and backward -----------------------------------------------------------------------

enum {
    QUERY,
    KEY,
    VALUE,
    PADDING,
    MASK,
    TRAINING,
    SEED,
    STEP,
    STREAM,
    FIRST,
    TAPE,
    CACHE,
    ATTENTION,
    SHARED = ATTENTION + 6
};
#define MHA_ATTENTION                                                                              \
    "causal", "window", "key_lengths", "prefix_lengths", "query_documents", "key_documents"
#define MHA_NAMES                                                                                  \
    "query", "key", "value", "key_padding_mask", "attn_mask", "training", "seed", "step",          \
        "stream", "first", "tape", "cache", MHA_ATTENTION

typedef struct mha_call {
    py_tensor arrays[5]; // query, key, value, key_padding_mask, attn_mask
    mh_mha_options options;
    py_attention_options attention;
    py_tape *tape;
    py_kv_cache *cache;
} mha_call;

static void release_call(mha_call *c)
{
    for (int i = 0; i < 5; i++)
        py_tensor_release(&c->arrays[i]);
    py_attention_options_release(&c->attention);
    py_tape_release(c->tape);
    py_kv_cache_release(c->cache);
}

static bool check_ranks(const mha_call *c)
{
    const int q = c->arrays[QUERY].tensor.rank, k = c->arrays[KEY].tensor.rank;
    if ((q == 2 || q == 3) && k == q)
        return true;
    PyErr_Format(PyExc_ValueError,
                 "query, key: found %d and %d dimensions, expected 3 or, unbatched, 2", q, k);
    return false;
}

static size_t batch_of(const mha *self, const mh_tensor *x)
{
    return x->rank == 3 ? x->shape[self->config.batch_first ? 0 : 1] : 1;
}

// The options of the attention kernel; those of a module are as if its queries were (B, H, T, E).
static bool read_attention(const mha *self, PyObject *const *values, mha_call *c)
{
    static const char *const names[] = {MHA_ATTENTION};
    const mh_tensor *q = &c->arrays[QUERY].tensor;
    bool given = false;
    for (int i = ATTENTION; i < SHARED; i++)
        given = given || values[i];
    if (!given)
        return true;
    const mh_tensor heads = mh_tensor_4d(NULL, MH_F32, batch_of(self, q), self->config.num_heads,
                                         q->shape[q->rank - 2], 1);
    c->options.attention = &c->attention.options;
    return py_attention_some_options(names, values + ATTENTION, SHARED - ATTENTION, &heads,
                                     &c->attention);
}

static bool read_call(const mha *self, PyObject *const *values, mha_call *c)
{
    static const char *const names[] = {MHA_NAMES};
    *c = (mha_call){.options = mh_mha_options_default()};
    mh_mha_options *o = &c->options;
    int64_t seed = 0, step = 0, stream = 0;
    for (int i = 0; i < 5; i++)
        if (values[i] && !py_tensor_from(values[i], names[i], &c->arrays[i]))
            return false;
    if (!check_ranks(c) || !read_attention(self, values, c) ||
        !py_bool(values[TRAINING], "training", &o->training) ||
        !py_integer(values[SEED], "seed", &seed) || !py_integer(values[STEP], "step", &step) ||
        !py_integer(values[STREAM], "stream", &stream) ||
        !py_integer(values[FIRST], "first", &o->first) || !py_tape_take(values[TAPE], &c->tape) ||
        !py_kv_cache_take(values[CACHE], &c->cache))
        return false;
    o->key_padding_mask = values[PADDING] ? &c->arrays[PADDING].tensor : NULL;
    o->attn_mask = values[MASK] ? &c->arrays[MASK].tensor : NULL;
    o->seed = (uint64_t)seed;
    o->step = (uint32_t)step;
    o->stream = (uint32_t)stream;
    o->tape = c->tape ? c->tape->tape : NULL;
    o->cache = c->cache ? c->cache->cache : NULL;
    return true;
}

// The shape of the weights: keys of add_bias_kv and add_zero_attn are further columns.
static int weights_shape(const mha *self, const mha_call *c, bool per_head, size_t shape[4])
{
    const mh_tensor *q = &c->arrays[QUERY].tensor, *k = &c->arrays[KEY].tensor;
    const int length = q->rank == 3 && self->config.batch_first ? 1 : 0;
    const size_t cached = c->cache ? py_kv_cache_longest(c->cache) : 0;
    int rank = 0;
    if (q->rank == 3)
        shape[rank++] = batch_of(self, q);
    if (per_head)
        shape[rank++] = self->config.num_heads;
    shape[rank++] = q->shape[length];
    shape[rank++] =
        cached + k->shape[length] + self->config.add_bias_kv + self->config.add_zero_attn;
    return rank;
}

static PyObject *run_mha(const mha *self, mha_call *c, bool want_weights, bool per_head)
{
    mh_context *context = py_context();
    const mh_tensor *q = &c->arrays[QUERY].tensor;
    size_t shape[MH_MAX_RANK], wide[4];
    mh_tensor out, weights;
    mh_status status;
    if (!context)
        return NULL;
    memcpy(shape, q->shape, sizeof shape);
    shape[q->rank - 1] = self->config.embed_dim;
    const int rank = weights_shape(self, c, per_head, wide);
    const py_origin origin = c->arrays[QUERY].origin;
    PyObject *output = py_output(origin, q->dtype, q->rank, shape, &out);
    PyObject *table =
        output && want_weights ? py_output(origin, q->dtype, rank, wide, &weights) : NULL;
    PyObject *found = NULL;
    if (output && (table || !want_weights)) {
        c->options.per_head_weights = per_head;
        PY_RUN(context, status,
               mh_mha_forward(context, self->mha, &c->options, q, &c->arrays[KEY].tensor,
                              &c->arrays[VALUE].tensor, &out, table ? &weights : NULL));
        found =
            status ? py_raise(context, status) : PyTuple_Pack(2, output, table ? table : Py_None);
    }
    Py_XDECREF(output);
    Py_XDECREF(table);
    return found;
}

static PyObject *mha_forward(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *keywords)
{
    static const char *const names[] = {MHA_NAMES, "need_weights", "average_attn_weights", NULL};
    PyObject *values[SHARED + 2], *found = NULL;
    bool need = true, average = true;
    mha_call call;
    if (!py_arguments("forward", names, 3, 3, arguments, count, keywords, values) ||
        !py_bool(values[SHARED], "need_weights", &need) ||
        !py_bool(values[SHARED + 1], "average_attn_weights", &average))
        return NULL;
    if (read_call((mha *)self, values, &call))
        found = run_mha((mha *)self, &call, need, !average);
    release_call(&call);
    return found;
}

static bool same_view(const mh_tensor *a, const mh_tensor *b)
{
    return a->data == b->data && a->dtype == b->dtype && mh_tensor_same_shape(a, b) &&
           memcmp(a->stride, b->stride, (size_t)a->rank * sizeof *a->stride) == 0;
}

// (dquery, dkey, dvalue); where inputs are the same view, the first one's gradient is the sum and
// the other's None.
static PyObject *run_mha_backward(const mha *self, mha_call *c, const mh_tensor *doutput,
                                  float *gradients)
{
    mh_context *context = py_context();
    PyObject *arrays[3] = {NULL, NULL, NULL}, *found = NULL;
    mh_tensor views[3], *wanted[3] = {NULL, NULL, NULL};
    mh_status status = MH_OK;
    bool ok = context != NULL;
    for (int i = 0; i < 3 && ok; i++) {
        const mh_tensor *x = &c->arrays[i].tensor;
        if ((i > 0 && same_view(x, &c->arrays[0].tensor)) ||
            (i > 1 && same_view(x, &c->arrays[1].tensor)))
            continue;
        arrays[i] = py_output(c->arrays[0].origin, x->dtype, x->rank, x->shape, &views[i]);
        wanted[i] = &views[i];
        ok = arrays[i] != NULL;
    }
    if (ok) {
        PY_RUN(context, status,
               mh_mha_backward(context, self->mha, &c->options, &c->arrays[QUERY].tensor,
                               &c->arrays[KEY].tensor, &c->arrays[VALUE].tensor, doutput, gradients,
                               wanted[0], wanted[1], wanted[2]));
        found = status ? py_raise(context, status)
                       : PyTuple_Pack(3, arrays[0], arrays[1] ? arrays[1] : Py_None,
                                      arrays[2] ? arrays[2] : Py_None);
    }
    for (int i = 0; i < 3; i++)
        Py_XDECREF(arrays[i]);
    return found;
}

static PyObject *mha_backward(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                              PyObject *keywords)
{
    static const char *const names[] = {MHA_NAMES, "doutput", "gradients", NULL};
    PyObject *values[SHARED + 2], *found = NULL;
    py_tensor doutput = {0}, held = {0};
    float *gradients = NULL;
    mha_call call = {0};
    const mh_parameters *parameters = mh_mha_parameters(((mha *)self)->mha);
    if (!py_arguments("backward", names, 3, 3, arguments, count, keywords, values))
        return NULL;
    if (!values[SHARED])
        return PyErr_Format(PyExc_TypeError, "backward() needs the argument 'doutput'");
    if (read_call((mha *)self, values, &call) &&
        py_tensor_from(values[SHARED], "doutput", &doutput) &&
        py_gradients(values[SHARED + 1], parameters, &held, &gradients))
        found = run_mha_backward((mha *)self, &call, &doutput.tensor, gradients);
    py_tensor_release(&held);
    py_tensor_release(&doutput);
    release_call(&call);
    return found;
}

static PyMethodDef mha_methods[] = {
    PY_MODULE_METHODS,
    {"forward", PY_WITH_OPTIONS(mha_forward), NULL},
    {"backward", PY_WITH_OPTIONS(mha_backward), NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot mha_slots[] = {
    {Py_tp_new, mha_new}, {Py_tp_dealloc, mha_dealloc}, {Py_tp_methods, mha_methods}, {0, NULL}};
static PyType_Spec mha_spec = {"multihead._multihead.Mha", sizeof(mha), 0, Py_TPFLAGS_DEFAULT,
                               mha_slots};

bool py_mha_ready(PyObject *module) { return py_type(module, &mha_spec) != NULL; }
