// SPDX-License-Identifier: MIT
// Mha: multi-head attention with its projections, and tapes.
#include "py_modules.h"

#include "py_parameters.h"

PyObject *py_tape_type;
static PyObject *mha_type;

// ---- tapes --------------------------------------------------------------------------------------

static PyObject *tape_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)arguments, (void)keywords;
    mh_context *context = py_context();
    py_tape *self = context ? (py_tape *)py_new_object((PyObject *)type) : NULL;
    if (!self)
        return NULL;
    mh_status status = mh_tape_create(context, &self->tape);
    if (status) {
        Py_DECREF(self);
        return py_raise(context, status);
    }
    return (PyObject *)self;
}

static void tape_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mh_tape_free(((py_tape *)self)->tape);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *tape_bytes(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return PyLong_FromSize_t(mh_tape_bytes(((py_tape *)self)->tape));
}

static PyMethodDef tape_methods[] = {{"nbytes", tape_bytes, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
static PyType_Slot tape_slots[] = {
    {Py_tp_new, tape_new}, {Py_tp_dealloc, tape_dealloc}, {Py_tp_methods, tape_methods}, {0, NULL}};
static PyType_Spec tape_spec = {"multihead._multihead.Tape", sizeof(py_tape), 0, Py_TPFLAGS_DEFAULT,
                                tape_slots};

bool py_tape_from(PyObject *object, mh_tape **tape)
{
    if (!object)
        return true;
    if (PyObject_IsInstance(object, py_tape_type) != 1) {
        PyErr_Format(PyExc_TypeError, "tape: found %R, expected a Tape", object);
        return false;
    }
    *tape = ((py_tape *)object)->tape;
    return true;
}

// ---- creation -----------------------------------------------------------------------------------

typedef struct mha {
    PyObject_HEAD mh_mha *mha;
    mh_mha_config config;
} mha;

// Options are passed by name, as the fields of mh_mha_config are called.
static bool read_config(PyObject *keywords, mh_mha_config *c)
{
    int order = MH_QKV_STACKED, precision = MH_PRECISION_F32 - 1;
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
                               {"qkv", PY_IS_CHOICE, &order, orders},
                               {"precision", PY_IS_CHOICE, &precision, precisions},
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    if (!py_fields("Mha", keywords, fields))
        return false;
    c->qkv = (mh_qkv_order)order;
    c->precision = (mh_precision)(precision + MH_PRECISION_F32);
    return true;
}

static PyObject *mha_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)arguments;
    mh_context *context = py_context();
    mha *self = context ? (mha *)py_new_object((PyObject *)type) : NULL;
    if (!self)
        return NULL;
    self->config = mh_mha_config_default();
    mh_status status = MH_OK;
    const bool ok = read_config(keywords, &self->config);
    if (ok)
        status = mh_mha_create(context, &self->config, &self->mha);
    if (status)
        py_raise(context, status);
    if (!ok || status)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void mha_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mh_mha_free(((mha *)self)->mha);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *mha_parameters(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_parameters *p = mh_mha_parameters(((mha *)self)->mha);
    return py_parameters(self, p, p->values);
}

static PyObject *mha_values(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_parameters *p = mh_mha_parameters(((mha *)self)->mha);
    const mh_tensor all = mh_tensor_1d(p->values, MH_F32, p->floats);
    return py_view_array(self, &all, true);
}

static PyObject *mha_init(PyObject *self, PyObject *seed)
{
    int64_t number = 0;
    if (!py_integer(seed, "seed", &number))
        return NULL;
    mh_parameters_init(mh_mha_parameters(((mha *)self)->mha), (uint64_t)number);
    Py_RETURN_NONE;
}

// ---- forward and backward -----------------------------------------------------------------------

enum { QUERY, KEY, VALUE, PADDING, MASK, CAUSAL, TRAINING, SEED, STEP, TAPE, SHARED };
#define MHA_NAMES                                                                                  \
    "query", "key", "value", "key_padding_mask", "attn_mask", "causal", "training", "seed",        \
        "step", "tape"

typedef struct mha_call {
    py_tensor arrays[5]; // query, key, value, key_padding_mask, attn_mask
    mh_mha_options options;
    mh_attention_options attention;
} mha_call;

static void release_call(mha_call *c)
{
    for (int i = 0; i < 5; i++)
        py_tensor_release(&c->arrays[i]);
}

static bool read_call(PyObject *const *values, mha_call *c)
{
    static const char *const names[] = {MHA_NAMES};
    *c = (mha_call){.options = mh_mha_options_default(),
                    .attention = mh_attention_options_default()};
    bool causal = false;
    int64_t seed = 0, step = 0;
    for (int i = 0; i < 5; i++)
        if (values[i] && !py_tensor_from(values[i], names[i], &c->arrays[i]))
            return false;
    if (!py_bool(values[CAUSAL], "causal", &causal) ||
        !py_bool(values[TRAINING], "training", &c->options.training) ||
        !py_integer(values[SEED], "seed", &seed) || !py_integer(values[STEP], "step", &step) ||
        !py_tape_from(values[TAPE], &c->options.tape))
        return false;
    c->options.key_padding_mask = values[PADDING] ? &c->arrays[3].tensor : NULL;
    c->options.attn_mask = values[MASK] ? &c->arrays[4].tensor : NULL;
    c->options.seed = (uint64_t)seed;
    c->options.step = (uint32_t)step;
    if (causal) {
        c->attention.causal = MH_CAUSAL_TOP_LEFT;
        c->options.attention = &c->attention;
    }
    return true;
}

// The shape of the weights: keys of add_bias_kv and add_zero_attn are further columns.
static int weights_shape(const mha *self, const mha_call *c, bool per_head, size_t shape[4])
{
    const mh_tensor *q = &c->arrays[QUERY].tensor, *k = &c->arrays[KEY].tensor;
    const bool first = self->config.batch_first, batched = q->rank == 3;
    const size_t T = q->shape[batched && first ? 1 : 0], S = k->shape[batched && first ? 1 : 0];
    int rank = 0;
    if (batched)
        shape[rank++] = q->shape[first ? 0 : 1];
    if (per_head)
        shape[rank++] = self->config.num_heads;
    shape[rank++] = T;
    shape[rank++] = S + self->config.add_bias_kv + self->config.add_zero_attn;
    return rank;
}

static PyObject *run_mha(const mha *self, mha_call *c, bool want_weights, bool per_head)
{
    mh_context *context = py_context();
    const mh_tensor *q = &c->arrays[QUERY].tensor;
    size_t shape[MH_MAX_RANK], wide[4];
    mh_tensor out, weights;
    mh_status status;
    if (!context || q->rank < 2 || q->rank > 3 || c->arrays[KEY].tensor.rank != q->rank)
        return PyErr_Format(PyExc_ValueError,
                            "query: found %d dimensions, key %d, expected 3 or, unbatched, 2",
                            q->rank, c->arrays[KEY].tensor.rank);
    memcpy(shape, q->shape, sizeof shape);
    shape[q->rank - 1] = self->config.embed_dim;
    const int rank = weights_shape(self, c, per_head, wide);
    const py_origin origin = c->arrays[QUERY].origin;
    PyObject *output = py_output(origin, q->dtype, q->rank, shape, &out);
    PyObject *table = want_weights ? py_output(origin, MH_F32, rank, wide, &weights) : NULL;
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
    if (read_call(values, &call))
        found = run_mha((mha *)self, &call, need, !average);
    release_call(&call);
    return found;
}

// (dquery, dkey, dvalue); where inputs are the same object, the first one's gradient is the sum.
static PyObject *run_mha_backward(const mha *self, PyObject *const *values, mha_call *c,
                                  const mh_tensor *doutput, float *gradients)
{
    mh_context *context = py_context();
    PyObject *arrays[3] = {NULL, NULL, NULL}, *found = NULL;
    mh_tensor views[3], *wanted[3] = {NULL, NULL, NULL};
    mh_status status = MH_OK;
    bool ok = context != NULL;
    for (int i = 0; i < 3 && ok; i++) {
        const mh_tensor *x = &c->arrays[i].tensor;
        const bool repeated =
            (i > 0 && values[i] == values[0]) || (i > 1 && values[i] == values[1]);
        if (repeated)
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
    if (read_call(values, &call) && py_tensor_from(values[SHARED], "doutput", &doutput) &&
        py_gradients(values[SHARED + 1], parameters, &held, &gradients))
        found = run_mha_backward((mha *)self, values, &call, &doutput.tensor, gradients);
    py_tensor_release(&held);
    py_tensor_release(&doutput);
    release_call(&call);
    return found;
}

static PyMethodDef mha_methods[] = {
    {"parameters", mha_parameters, METH_NOARGS, NULL},
    {"values", mha_values, METH_NOARGS, NULL},
    {"init", mha_init, METH_O, NULL},
    {"forward", PY_WITH_OPTIONS(mha_forward), NULL},
    {"backward", PY_WITH_OPTIONS(mha_backward), NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot mha_slots[] = {
    {Py_tp_new, mha_new}, {Py_tp_dealloc, mha_dealloc}, {Py_tp_methods, mha_methods}, {0, NULL}};
static PyType_Spec mha_spec = {"multihead._multihead.Mha", sizeof(mha), 0, Py_TPFLAGS_DEFAULT,
                               mha_slots};

bool py_mha_ready(PyObject *module)
{
    py_tape_type = py_type(module, &tape_spec);
    mha_type = py_type(module, &mha_spec);
    return py_tape_type && mha_type;
}
