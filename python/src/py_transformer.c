// SPDX-License-Identifier: MIT
// Transformer: encoder and decoder layers, stacks of them, and the whole, by `kind`.
#include "py_modules.h"

#include "py_parameters.h"

typedef struct transformer {
    py_module base;
    mh_transformer *transformer;
    mh_transformer_config config;
} transformer;

// ---- creation -----------------------------------------------------------------------------------

static bool read_config(PyObject *keywords, mh_transformer_config *c)
{
    static const char *const kinds[] = {"transformer",   "encoder",       "decoder",
                                        "encoder_layer", "decoder_layer", NULL};
    static const char *const activations[] = {"relu", "gelu", "gelu_tanh", "silu", NULL};
    static const char *const precisions[] = {"f32", "bf16", NULL};
    int kind = 0, activation = 0, precision = 0;
    const py_field fields[] = {
        {"kind", PY_IS_CHOICE, &kind, kinds},
        PY_SIZE(c, d_model),
        PY_SIZE(c, nhead),
        PY_SIZE(c, num_encoder_layers),
        PY_SIZE(c, num_decoder_layers),
        PY_SIZE(c, dim_feedforward),
        PY_FLOAT(c, dropout),
        {"activation", PY_IS_CHOICE, &activation, activations},
        PY_FLOAT(c, layer_norm_eps),
        PY_BOOL(c, batch_first),
        PY_BOOL(c, norm_first),
        PY_BOOL(c, bias),
        PY_BOOL(c, final_norm),
        {"precision", PY_IS_CHOICE, &precision, precisions},
        {NULL, PY_IS_BOOL, NULL, NULL},
    };
    if (!py_fields("Transformer", keywords, fields))
        return false;
    c->kind = (mh_transformer_kind)kind;
    c->activation = (mh_activation)activation;
    c->precision = precision ? MH_PRECISION_BF16 : MH_PRECISION_F32;
    return true;
}

static PyObject *transformer_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    mh_context *context = py_no_arguments("Transformer", arguments) ? py_context() : NULL;
    transformer *self = context ? (transformer *)py_new_object((PyObject *)type) : NULL;
    if (!self)
        return NULL;
    self->config = mh_transformer_config_default();
    mh_status status = MH_OK;
    const bool ok = read_config(keywords, &self->config);
    if (ok)
        status = mh_transformer_create(context, &self->config, &self->transformer);
    if (status)
        py_raise(context, status);
    if (!ok || status)
        Py_CLEAR(self);
    else
        self->base.parameters = mh_transformer_parameters(self->transformer);
    return (PyObject *)self;
}

static void transformer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mh_transformer_free(((transformer *)self)->transformer);
    PyObject_Free(self);
    Py_DECREF(type);
}

// ---- forward and backward -----------------------------------------------------------------------

enum {
    SRC,
    TGT,
    MASKS,
    SRC_CAUSAL = MASKS + 6,
    TGT_CAUSAL,
    TRAINING,
    SEED,
    STEP,
    RECOMPUTE,
    DISABLED,
    SRC_STARTS,
    TGT_STARTS,
    TAPE,
    SHARED
};
#define TRANSFORMER_NAMES                                                                          \
    "src", "tgt", "src_mask", "tgt_mask", "memory_mask", "src_key_padding_mask",                   \
        "tgt_key_padding_mask", "memory_key_padding_mask", "src_causal", "tgt_causal", "training", \
        "seed", "step", "recompute", "disabled_heads", "src_starts", "tgt_starts", "tape"

typedef struct transformer_call {
    py_tensor arrays[MASKS + 6]; // src, tgt and six masks
    py_tensor disabled, starts[2];
    py_tape *tape;
    mh_transformer_options options;
} transformer_call;

static void release_call(transformer_call *c)
{
    for (int i = 0; i < MASKS + 6; i++)
        py_tensor_release(&c->arrays[i]);
    py_tensor_release(&c->disabled);
    py_tensor_release(&c->starts[0]);
    py_tensor_release(&c->starts[1]);
    py_tape_release(c->tape);
}

static bool read_arrays(PyObject *const *values, transformer_call *c)
{
    static const char *const names[] = {TRANSFORMER_NAMES};
    mh_transformer_options *o = &c->options;
    const mh_tensor **masks[] = {&o->src_mask,
                                 &o->tgt_mask,
                                 &o->memory_mask,
                                 &o->src_key_padding_mask,
                                 &o->tgt_key_padding_mask,
                                 &o->memory_key_padding_mask};
    for (int i = 0; i < MASKS + 6; i++) {
        if (!values[i])
            continue;
        if (!py_tensor_from(values[i], names[i], &c->arrays[i]))
            return false;
        if (i >= MASKS)
            *masks[i - MASKS] = &c->arrays[i].tensor;
    }
    return true;
}

// The attentions of a module: its encoder's, its decoder's, and the decoder's again for
// cross-attention.
static size_t attentions(const mh_transformer_config *c)
{
    switch (c->kind) {
    case MH_ENCODER:
        return c->num_encoder_layers;
    case MH_DECODER:
        return 2 * c->num_decoder_layers;
    case MH_ENCODER_LAYER:
        return 1;
    case MH_DECODER_LAYER:
        return 2;
    case MH_TRANSFORMER:
        break;
    }
    return c->num_encoder_layers + 2 * c->num_decoder_layers;
}

static bool read_disabled(const transformer *self, PyObject *value, transformer_call *c)
{
    if (!value)
        return true;
    if (!py_tensor_from(value, "disabled_heads", &c->disabled))
        return false;
    const mh_tensor *t = &c->disabled.tensor;
    const size_t rows = attentions(&self->config), heads = self->config.nhead;
    if (t->dtype == MH_BOOL && t->rank == 2 && t->shape[0] == rows && t->shape[1] == heads &&
        mh_tensor_is_contiguous(t)) {
        c->options.disabled_heads = t->data;
        return true;
    }
    char found[96];
    PyErr_Format(PyExc_ValueError, "disabled_heads: found %s, expected bool (%zu, %zu), contiguous",
                 mh_tensor_describe(t, found, sizeof found), rows, heads);
    return false;
}

// A packed batch: sequence b is rows starts[b] to starts[b + 1] - 1.
static bool read_starts(PyObject *const *values, transformer_call *c)
{
    mh_transformer_options *o = &c->options;
    const int64_t **to[2] = {&o->src_starts, &o->tgt_starts};
    size_t count = SIZE_MAX;
    for (int i = 0; i < 2; i++) {
        if (!values[SRC_STARTS + i])
            continue;
        *to[i] = py_int64_vector(values[SRC_STARTS + i], i ? "tgt_starts" : "src_starts", count,
                                 &c->starts[i]);
        if (!*to[i])
            return false;
        count = c->starts[i].tensor.shape[0];
        if (count < 2) {
            PyErr_SetString(PyExc_ValueError, "starts: expected at least 2 of them");
            return false;
        }
        o->sequences = count - 1;
    }
    return true;
}

static bool read_call(const transformer *self, PyObject *const *values, transformer_call *c)
{
    *c = (transformer_call){.options = mh_transformer_options_default()};
    mh_transformer_options *o = &c->options;
    int64_t seed = 0, step = 0;
    if (!read_arrays(values, c) || !read_disabled(self, values[DISABLED], c) ||
        !read_starts(values, c) || !py_bool(values[SRC_CAUSAL], "src_causal", &o->src_causal) ||
        !py_bool(values[TGT_CAUSAL], "tgt_causal", &o->tgt_causal) ||
        !py_bool(values[TRAINING], "training", &o->training) ||
        !py_bool(values[RECOMPUTE], "recompute", &o->recompute) ||
        !py_integer(values[SEED], "seed", &seed) || !py_integer(values[STEP], "step", &step) ||
        !py_tape_take(values[TAPE], &c->tape))
        return false;
    o->seed = (uint64_t)seed;
    o->step = (uint32_t)step;
    o->tape = c->tape ? c->tape->tape : NULL;
    return true;
}

// The tensor whose shape the output has: the decoder's input, or an encoder's.
static const py_tensor *output_like(PyObject *const *values, const transformer_call *c)
{
    return values[TGT] ? &c->arrays[TGT] : &c->arrays[SRC];
}

static const mh_tensor *target_of(PyObject *const *values, const transformer_call *c)
{
    return values[TGT] ? &c->arrays[TGT].tensor : NULL;
}

static PyObject *run_forward(const transformer *self, PyObject *const *values,
                             const transformer_call *c, bool encode)
{
    mh_context *context = py_context();
    const py_tensor *like = encode ? &c->arrays[SRC] : output_like(values, c);
    mh_tensor out;
    mh_status status;
    if (!context)
        return NULL;
    PyObject *output =
        py_output(like->origin, like->tensor.dtype, like->tensor.rank, like->tensor.shape, &out);
    if (!output)
        return NULL;
    if (encode)
        PY_RUN(context, status,
               mh_transformer_encode(context, self->transformer, &c->options,
                                     &c->arrays[SRC].tensor, &out));
    else
        PY_RUN(context, status,
               mh_transformer_forward(context, self->transformer, &c->options,
                                      &c->arrays[SRC].tensor, target_of(values, c), &out));
    if (!status)
        return output;
    Py_DECREF(output);
    return py_raise(context, status);
}

static PyObject *call_forward(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                              PyObject *keywords, bool encode)
{
    static const char *const names[] = {TRANSFORMER_NAMES, NULL};
    PyObject *values[SHARED], *found = NULL;
    transformer_call call;
    if (!py_arguments(encode ? "encode" : "forward", names, encode ? 1 : 2, 1, arguments, count,
                      keywords, values))
        return NULL;
    if (read_call((transformer *)self, values, &call))
        found = run_forward((transformer *)self, values, &call, encode);
    release_call(&call);
    return found;
}

static PyObject *transformer_forward(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                     PyObject *keywords)
{
    return call_forward(self, arguments, count, keywords, false);
}

static PyObject *transformer_encode(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                    PyObject *keywords)
{
    return call_forward(self, arguments, count, keywords, true);
}

// (dsrc, dtgt), dtgt None without a target.
static PyObject *run_backward(const transformer *self, PyObject *const *values,
                              const transformer_call *c, const mh_tensor *doutput, float *gradients)
{
    mh_context *context = py_context();
    PyObject *arrays[2] = {NULL, NULL}, *found = NULL;
    mh_tensor views[2];
    mh_status status;
    bool ok = context != NULL;
    for (int i = 0; i < 2 && ok; i++) {
        const mh_tensor *x = &c->arrays[i].tensor;
        if (!values[i])
            continue;
        arrays[i] = py_output(c->arrays[i].origin, x->dtype, x->rank, x->shape, &views[i]);
        ok = arrays[i] != NULL;
    }
    if (ok) {
        PY_RUN(context, status,
               mh_transformer_backward(context, self->transformer, &c->options,
                                       &c->arrays[SRC].tensor, target_of(values, c), doutput,
                                       gradients, &views[0], arrays[1] ? &views[1] : NULL));
        found = status ? py_raise(context, status)
                       : PyTuple_Pack(2, arrays[0], arrays[1] ? arrays[1] : Py_None);
    }
    Py_XDECREF(arrays[0]);
    Py_XDECREF(arrays[1]);
    return found;
}

static PyObject *transformer_backward(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                      PyObject *keywords)
{
    static const char *const names[] = {TRANSFORMER_NAMES, "doutput", "gradients", NULL};
    PyObject *values[SHARED + 2], *found = NULL;
    py_tensor doutput = {0}, held = {0};
    float *gradients = NULL;
    transformer_call call = {0};
    if (!py_arguments("backward", names, 2, 1, arguments, count, keywords, values))
        return NULL;
    if (!values[SHARED])
        return PyErr_Format(PyExc_TypeError, "backward() needs the argument 'doutput'");
    if (read_call((transformer *)self, values, &call) &&
        py_tensor_from(values[SHARED], "doutput", &doutput) &&
        py_gradients(values[SHARED + 1], ((transformer *)self)->base.parameters, &held, &gradients))
        found = run_backward((transformer *)self, values, &call, &doutput.tensor, gradients);
    py_tensor_release(&held);
    py_tensor_release(&doutput);
    release_call(&call);
    return found;
}

static PyMethodDef methods[] = {
    PY_MODULE_METHODS,
    {"forward", PY_WITH_OPTIONS(transformer_forward), NULL},
    {"encode", PY_WITH_OPTIONS(transformer_encode), NULL},
    {"backward", PY_WITH_OPTIONS(transformer_backward), NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, transformer_new},
                              {Py_tp_dealloc, transformer_dealloc},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"multihead._multihead.Transformer", sizeof(transformer), 0,
                           Py_TPFLAGS_DEFAULT, slots};

bool py_transformer_ready(PyObject *module) { return py_type(module, &spec) != NULL; }
