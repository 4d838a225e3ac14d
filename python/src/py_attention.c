// SPDX-License-Identifier: MIT
// Scaled dot-product attention: forward, backward, and what would run.
//
// Arrays are (T, E), (H, T, E), (B, H, T, E) or have further batch dimensions in front; inside all
// of them have rank 4.
#include "py_attention.h"

// ---- shapes -------------------------------------------------------------------------------------

// Dimensions of 1 in front, up to rank 4.
static mh_tensor four_dimensions(mh_tensor t, int rank)
{
    mh_tensor four = t;
    four.rank = 4 - rank + t.rank;
    for (int i = 0; i < four.rank; i++) {
        const bool added = i < 4 - rank;
        four.shape[i] = added ? 1 : t.shape[i - (4 - rank)];
        four.stride[i] = added ? 0 : t.stride[i - (4 - rank)];
    }
    return four;
}

// Several batch dimensions as one.
static PyObject *flatten_batch(PyObject *array, const mh_tensor *t, int kept)
{
    PyObject *shape = PyTuple_New(kept + 1);
    PyObject *rest = PyLong_FromLong(-1);
    if (!shape || !rest || PyTuple_SetItem(shape, 0, rest) != 0)
        return NULL;
    for (int i = 0; i < kept; i++)
        PyTuple_SetItem(shape, i + 1, PyLong_FromSize_t(t->shape[t->rank - kept + i]));
    PyObject *flat = PyObject_CallMethod(array, "reshape", "(O)", shape);
    Py_DECREF(shape);
    return flat;
}

// An input of rank 2 or more as one of rank 4.
static bool take_input(PyObject *array, const char *name, py_tensor *to, int *given, size_t *shape)
{
    if (!py_tensor_from(array, name, to))
        return false;
    const int rank = to->tensor.rank;
    if (given) {
        *given = rank;
        memcpy(shape, to->tensor.shape, sizeof to->tensor.shape);
    }
    if (rank < 2) {
        PyErr_Format(PyExc_ValueError, "%s: found %d dimensions, expected (..., T, E)", name, rank);
        py_tensor_release(to);
        return false;
    }
    if (rank > 4) {
        PyObject *flat = flatten_batch(array, &to->tensor, 3);
        py_tensor_release(to);
        const bool ok = flat && py_tensor_from(flat, name, to);
        Py_XDECREF(flat);
        return ok;
    }
    to->tensor = four_dimensions(to->tensor, rank);
    return true;
}

typedef struct inputs {
    py_tensor q, k, v;
    int rank; // of q as it was given
    size_t shape[MH_MAX_RANK];
} inputs;

static void release_inputs(inputs *in)
{
    py_tensor_release(&in->q);
    py_tensor_release(&in->k);
    py_tensor_release(&in->v);
}

static bool take_inputs(PyObject *const *values, inputs *in)
{
    *in = (inputs){0};
    if (take_input(values[0], "q", &in->q, &in->rank, in->shape) &&
        take_input(values[1], "k", &in->k, NULL, NULL) &&
        take_input(values[2], "v", &in->v, NULL, NULL))
        return true;
    release_inputs(in);
    return false;
}

// An output of q's shape with another last dimension (SIZE_MAX: without it, 0: two of them), and
// a view of rank 4 (or 3) of it.
static PyObject *make_output(const inputs *in, mh_dtype dtype, int rank, const size_t *tail,
                             mh_tensor *four)
{
    size_t shape[MH_MAX_RANK];
    memcpy(shape, in->shape, sizeof shape);
    memcpy(shape + in->rank - 2, tail, (size_t)rank * sizeof *tail);
    mh_tensor t;
    PyObject *array = py_output(in->q.origin, dtype, in->rank - 2 + rank, shape, &t);
    if (!array)
        return NULL;
    const size_t B = in->q.tensor.shape[0], H = in->q.tensor.shape[1];
    size_t whole[4] = {B, H, tail[0], rank > 1 ? tail[1] : 0};
    *four = mh_tensor_view(t.data, dtype, 2 + rank, whole);
    return array;
}

// ---- forward ------------------------------------------------------------------------------------

static const char *const attention_names[] = {
    "q", "k", "v", PY_ATTENTION_OPTIONS, "weights", "lse", "stage", "average_weights", NULL};
enum { OPTIONS = 3, WEIGHTS = OPTIONS + 17, LSE, STAGE, AVERAGE, ARGUMENTS };

typedef struct outputs {
    PyObject *out, *weights, *lse;
    mh_tensor out_view, weights_view, lse_view;
} outputs;

static void release_outputs(outputs *x)
{
    Py_CLEAR(x->out);
    Py_CLEAR(x->weights);
    Py_CLEAR(x->lse);
}

static bool make_outputs(PyObject *const *values, const inputs *in, mh_attention_options *o,
                         outputs *x)
{
    static const char *const stages[] = {"softmax", "scaled", "capped", "biased", NULL};
    const mh_tensor *q = &in->q.tensor, *k = &in->k.tensor, *v = &in->v.tensor;
    bool weights = false, lse = false;
    int stage = 0;
    if (!py_bool(values[WEIGHTS], "weights", &weights) || !py_bool(values[LSE], "lse", &lse) ||
        !py_choice(values[STAGE], "stage", stages, &stage) ||
        !py_bool(values[AVERAGE], "average_weights", &o->weights_average))
        return false;
    o->weights_stage = (mh_weights_stage)stage;
    if (weights && (o->sequences || o->weights_average)) {
        PyErr_SetString(PyExc_ValueError, "weights of packed batches, or averaged over heads, are "
                                          "not returned here");
        return false;
    }
    const size_t tail[2] = {q->shape[2], v->shape[3]}, square[2] = {q->shape[2], k->shape[2]};
    x->out = make_output(in, q->dtype, 2, tail, &x->out_view);
    if (weights && x->out)
        x->weights = make_output(in, MH_F32, 2, square, &x->weights_view);
    if (lse && x->out)
        x->lse = make_output(in, MH_F32, 1, tail, &x->lse_view);
    o->weights = x->weights ? &x->weights_view : NULL;
    o->lse = x->lse ? &x->lse_view : NULL;
    return x->out && (!weights || x->weights) && (!lse || x->lse);
}

// out, or a tuple of it and those of weights and lse that were asked for.
static PyObject *result(outputs *x)
{
    if (!x->weights && !x->lse)
        return x->out;
    PyObject *tuple = x->weights && x->lse
                          ? PyTuple_Pack(3, x->out, x->weights, x->lse)
                          : PyTuple_Pack(2, x->out, x->weights ? x->weights : x->lse);
    release_outputs(x);
    return tuple;
}

static PyObject *run_forward(const inputs *in, const mh_attention_options *o, outputs *x)
{
    mh_context *context = py_context();
    mh_status status;
    if (!context)
        return NULL;
    PY_RUN(context, status,
           mh_attention_forward(context, o, &in->q.tensor, &in->k.tensor, &in->v.tensor,
                                &x->out_view));
    return status ? py_raise(context, status) : result(x);
}

PyObject *py_attention(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                       PyObject *keywords)
{
    PyObject *values[ARGUMENTS], *found = NULL;
    inputs in;
    py_attention_options options;
    outputs x = {0};
    (void)self;
    if (!py_arguments("attention", attention_names, 4, 3, arguments, count, keywords, values) ||
        !take_inputs(values, &in))
        return NULL;
    if (py_attention_options_from(values + OPTIONS, &in.q.tensor, &options)) {
        if (make_outputs(values, &in, &options.options, &x))
            found = run_forward(&in, &options.options, &x);
        if (!found)
            release_outputs(&x);
        py_attention_options_release(&options);
    }
    release_inputs(&in);
    return found;
}

// ---- backward -----------------------------------------------------------------------------------

static const char *const backward_names[] = {
    "q", "k", "v", "out", "lse", "dout", PY_ATTENTION_OPTIONS, "mask_gradient", "sinks_gradient",
    NULL};
enum {
    BACK_OUT = 3,
    BACK_LSE,
    BACK_DOUT,
    BACK_OPTIONS,
    MASK_GRADIENT = BACK_OPTIONS + 17,
    SINKS_GRADIENT,
    BACK_ARGUMENTS
};

// What forward returned, and the gradient of out.
typedef struct forward_results {
    py_tensor out, lse, dout;
} forward_results;

static void release_results(forward_results *r)
{
    py_tensor_release(&r->out);
    py_tensor_release(&r->lse);
    py_tensor_release(&r->dout);
}

static bool take_results(PyObject *const *values, int rank, forward_results *r)
{
    *r = (forward_results){0};
    if (take_input(values[BACK_OUT], "out", &r->out, NULL, NULL) &&
        take_input(values[BACK_DOUT], "dout", &r->dout, NULL, NULL) &&
        py_tensor_from(values[BACK_LSE], "lse", &r->lse)) {
        mh_tensor *lse = &r->lse.tensor;
        if (rank <= 4 && lse->rank == rank - 1) {
            *lse = four_dimensions(*lse, rank);
            return true;
        }
        PyErr_Format(PyExc_ValueError, "lse: found %d dimensions, expected %d", lse->rank,
                     rank - 1);
    }
    release_results(r);
    return false;
}

// The gradients that are wanted, as arrays and as tensors.
enum { DQ, DK, DV, DMASK, DSINKS, GRADIENTS };
typedef struct gradients {
    PyObject *arrays[GRADIENTS];
    mh_tensor views[GRADIENTS];
    mh_tensor *dmask;
    mh_attention_gradients set;
} gradients;

static bool like(const py_tensor *x, py_origin origin, mh_dtype dtype, PyObject **array,
                 mh_tensor *view)
{
    *array = py_output(origin, dtype, x->tensor.rank, x->tensor.shape, view);
    return *array;
}

static bool make_gradients(PyObject *const *values, const inputs *in,
                           const py_attention_options *options, gradients *g)
{
    bool mask = false, sinks = false;
    const py_origin origin = in->q.origin;
    if (!py_bool(values[MASK_GRADIENT], "mask_gradient", &mask) ||
        !py_bool(values[SINKS_GRADIENT], "sinks_gradient", &sinks))
        return false;
    if ((mask && !options->options.mask_count) || (sinks && !options->options.sinks)) {
        PyErr_SetString(PyExc_ValueError, "a gradient was asked for of what is not given");
        return false;
    }
    const py_tensor *given[3] = {&in->q, &in->k, &in->v};
    for (int i = 0; i < 3; i++)
        if (!like(given[i], origin, given[i]->tensor.dtype, &g->arrays[i], &g->views[i]))
            return false;
    if (mask && !like(&options->held[0], origin, MH_F32, &g->arrays[DMASK], &g->views[DMASK]))
        return false;
    const size_t H = in->q.tensor.shape[1];
    if (sinks && !(g->arrays[DSINKS] = py_output(origin, MH_F32, 1, &H, &g->views[DSINKS])))
        return false;
    g->set = mh_attention_gradients_default();
    g->set.dq = &g->views[DQ];
    g->set.dk = &g->views[DK];
    g->set.dv = &g->views[DV];
    g->dmask = &g->views[DMASK];
    g->set.dmasks = mask ? &g->dmask : NULL;
    g->set.dsinks = sinks ? &g->views[DSINKS] : NULL;
    return true;
}

// (dq, dk, dv) in the shapes of q, k and v as they were given, and further gradients.
static PyObject *gradient_tuple(PyObject *const *values, gradients *g)
{
    PyObject *tuple = PyTuple_New(3 + (g->arrays[DMASK] != NULL) + (g->arrays[DSINKS] != NULL));
    Py_ssize_t at = 0;
    for (int i = 0; i < GRADIENTS && tuple; i++) {
        if (!g->arrays[i])
            continue;
        PyObject *shape = i < 3 ? PyObject_GetAttrString(values[i], "shape") : NULL;
        PyObject *array =
            i < 3 ? (shape ? PyObject_CallMethod(g->arrays[i], "reshape", "(O)", shape) : NULL)
                  : Py_NewRef(g->arrays[i]);
        Py_XDECREF(shape);
        if (!array || PyTuple_SetItem(tuple, at++, array) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *run_backward(PyObject *const *values, const inputs *in,
                              py_attention_options *options, const forward_results *r)
{
    mh_context *context = py_context();
    mh_status status;
    gradients g = {0};
    PyObject *found = NULL;
    mh_tensor lse = r->lse.tensor;
    options->options.lse = &lse;
    if (context && make_gradients(values, in, options, &g)) {
        PY_RUN(context, status,
               mh_attention_backward(context, &options->options, &in->q.tensor, &in->k.tensor,
                                     &in->v.tensor, &r->out.tensor, &r->dout.tensor, &g.set));
        found = status ? py_raise(context, status) : gradient_tuple(values, &g);
    }
    for (int i = 0; i < GRADIENTS; i++)
        Py_XDECREF(g.arrays[i]);
    return found;
}

PyObject *py_attention_backward(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                PyObject *keywords)
{
    PyObject *values[BACK_ARGUMENTS], *found = NULL;
    inputs in;
    forward_results results;
    py_attention_options options;
    (void)self;
    if (!py_arguments("attention_backward", backward_names, BACK_OPTIONS + 1, BACK_OPTIONS,
                      arguments, count, keywords, values) ||
        !take_inputs(values, &in))
        return NULL;
    if (take_results(values, in.rank, &results)) {
        if (py_attention_options_from(values + BACK_OPTIONS, &in.q.tensor, &options)) {
            found = run_backward(values, &in, &options, &results);
            py_attention_options_release(&options);
        }
        release_results(&results);
    }
    release_inputs(&in);
    return found;
}

// ---- explain ------------------------------------------------------------------------------------

static PyObject *plan_dictionary(const mh_attention_plan *p)
{
    return Py_BuildValue(
        "{s:s,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:K,s:K,s:K,s:K,s:d,s:s}", "isa", p->isa, "threads",
        p->threads, "tasks", p->tasks, "query_rows", p->query_rows, "key_tile", p->key_tile,
        "kv_split", p->kv_split, "block_rows", p->block_rows, "workspace", p->workspace, "tiles",
        (unsigned long long)p->tiles, "dead_tiles", (unsigned long long)p->dead_tiles, "edge_tiles",
        (unsigned long long)p->edge_tiles, "live_pairs", (unsigned long long)p->live_pairs, "flops",
        p->flops, "why", p->why);
}

PyObject *py_attention_explain(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                               PyObject *keywords)
{
    PyObject *values[ARGUMENTS], *found = NULL;
    inputs in;
    py_attention_options options;
    outputs x = {0};
    (void)self;
    if (!py_arguments("explain", attention_names, 4, 3, arguments, count, keywords, values) ||
        !take_inputs(values, &in))
        return NULL;
    mh_context *context = py_context();
    if (context && py_attention_options_from(values + OPTIONS, &in.q.tensor, &options)) {
        mh_attention_plan plan = mh_attention_plan_default();
        if (make_outputs(values, &in, &options.options, &x)) {
            mh_status status = mh_attention_explain(context, &options.options, &in.q.tensor,
                                                    &in.k.tensor, &in.v.tensor, &x.out_view, &plan);
            found = status ? py_raise(context, status) : plan_dictionary(&plan);
        }
        release_outputs(&x);
        py_attention_options_release(&options);
    }
    release_inputs(&in);
    return found;
}
