// SPDX-License-Identifier: MIT
// Scaled dot-product attention: forward, and what would run.
//
// Arrays are (T, E), (H, T, E), (B, H, T, E) or have further batch dimensions in front; inside all
// of them have rank 4.
#include "py_attention.h"

// ---- shapes -------------------------------------------------------------------------------------

// Several batch dimensions as one.
static PyObject *flatten_batch(PyObject *array, const mh_tensor *t, int kept)
{
    size_t batch = 1, shape[MH_MAX_RANK];
    for (int i = 0; i < t->rank - kept; i++)
        batch *= t->shape[i];
    shape[0] = batch;
    memcpy(shape + 1, t->shape + (t->rank - kept), (size_t)kept * sizeof *shape);
    PyObject *tuple = py_shape(kept + 1, shape);
    PyObject *flat = tuple ? PyObject_CallMethod(array, "reshape", "(O)", tuple) : NULL;
    Py_XDECREF(tuple);
    return flat;
}

// An input of rank 2 or more as one of rank 4.
bool py_take_input(PyObject *array, const char *name, py_tensor *to, int *given, size_t *shape)
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
    to->tensor = py_four_dimensions(to->tensor, rank);
    return true;
}

void py_release_inputs(py_inputs *in)
{
    py_tensor_release(&in->q);
    py_tensor_release(&in->k);
    py_tensor_release(&in->v);
}

bool py_take_inputs(PyObject *const *values, py_inputs *in)
{
    *in = (py_inputs){0};
    if (py_take_input(values[0], "q", &in->q, &in->rank, in->shape) &&
        py_take_input(values[1], "k", &in->k, NULL, NULL) &&
        py_take_input(values[2], "v", &in->v, NULL, NULL))
        return true;
    py_release_inputs(in);
    return false;
}

// An output of q's shape with another last dimension (SIZE_MAX: without it, 0: two of them), and
// a view of rank 4 (or 3) of it.
static PyObject *make_output(const py_inputs *in, mh_dtype dtype, int rank, const size_t *tail,
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

// out (..., T, Ev). PyTorch's has the memory order of q where their shapes are equal, as its own
// attention returns it.
static PyObject *make_out(const py_inputs *in, size_t width, mh_tensor *four)
{
    const mh_tensor *q = &in->q.tensor;
    if (in->q.origin == PY_TORCH && width == q->shape[3] && in->rank <= 4)
        return py_output_like(&in->q, four);
    const size_t tail[2] = {q->shape[2], width};
    return make_output(in, q->dtype, 2, tail, four);
}

// An array that the caller gives to be written, as a tensor of rank `full` with dimensions of 1 in
// front; its shape is checked by the library.
static PyObject *given_output(PyObject *array, const char *name, int rank, int full,
                              py_tensor *held, mh_tensor *to)
{
    if (!py_tensor_from_writable(array, name, held))
        return NULL;
    *to = held->tensor;
    if (rank > 4 || to->rank != rank - 4 + full) {
        PyErr_Format(PyExc_ValueError, "%s: found %d dimensions, expected %d", name, to->rank,
                     rank - 4 + full);
        return NULL;
    }
    *to = py_four_dimensions(*to, rank);
    return Py_NewRef(array);
}

// ---- forward ------------------------------------------------------------------------------------

static const char *const attention_names[] = {"q",
                                              "k",
                                              "v",
                                              PY_ATTENTION_OPTIONS,
                                              "weights",
                                              "lse",
                                              "stage",
                                              "average_weights",
                                              "dropped_weights",
                                              "out",
                                              NULL};
enum { OPTIONS = 3, WEIGHTS = OPTIONS + 17, LSE, STAGE, AVERAGE, DROPPED, OUT, ARGUMENTS };

typedef struct outputs {
    PyObject *out, *weights, *lse;
    mh_tensor out_view, weights_view, lse_view;
    py_tensor given[3]; // those that are the caller's
} outputs;

static void release_outputs(outputs *x)
{
    for (int i = 0; i < 3; i++)
        py_tensor_release(&x->given[i]);
    Py_CLEAR(x->out);
    Py_CLEAR(x->weights);
    Py_CLEAR(x->lse);
}

// weights and lse: whether they are wanted, or the array that they are written to.
static bool is_wanted(PyObject *value, const char *name, bool *wanted, PyObject **array)
{
    *array = value && value != Py_True && value != Py_False ? value : NULL;
    *wanted = *array;
    return *array || py_bool(value, name, wanted);
}

// (..., T, S), without the heads if they are averaged.
static PyObject *make_weights(PyObject *given, const py_inputs *in, bool average, py_tensor *held,
                              mh_tensor *four)
{
    const mh_tensor *q = &in->q.tensor;
    const size_t square[2] = {q->shape[2], in->k.tensor.shape[2]};
    if (average && (in->rank < 3 || in->rank > 4)) {
        PyErr_Format(PyExc_ValueError,
                     "average_weights: found q with %d dimensions, expected "
                     "(H, T, E) or (B, H, T, E)",
                     in->rank);
        return NULL;
    }
    const int rank = in->rank - average;
    PyObject *array;
    if (given) {
        array = given_output(given, "weights", rank, 4, held, four);
    } else if (average) {
        const size_t shape[3] = {q->shape[0], square[0], square[1]};
        array = py_output(in->q.origin, MH_F32, rank, shape + (3 - rank), four);
        if (array)
            *four = py_four_dimensions(*four, rank);
    } else {
        array = make_output(in, MH_F32, 2, square, four);
    }
    if (array && average) { // (1, B, T, S) as (B, 1, T, S)
        const size_t batch = four->shape[1];
        const ptrdiff_t stride = four->stride[1];
        four->shape[1] = 1, four->stride[1] = 0;
        four->shape[0] = batch, four->stride[0] = stride;
    }
    return array;
}

static bool make_outputs(PyObject *const *values, const py_inputs *in, mh_attention_options *o,
                         outputs *x)
{
    static const char *const stages[] = {"softmax", "scaled", "capped", "biased", NULL};
    const mh_tensor *q = &in->q.tensor;
    bool weights = false, lse = false;
    PyObject *weights_to, *lse_to;
    int stage = 0;
    if (!is_wanted(values[WEIGHTS], "weights", &weights, &weights_to) ||
        !is_wanted(values[LSE], "lse", &lse, &lse_to) ||
        !py_choice(values[STAGE], "stage", stages, &stage) ||
        !py_bool(values[AVERAGE], "average_weights", &o->weights_average) ||
        !py_bool(values[DROPPED], "dropped_weights", &o->weights_dropped))
        return false;
    o->weights_stage = (mh_weights_stage)stage;
    if (weights && o->sequences) {
        PyErr_SetString(PyExc_ValueError, "weights of packed batches are not returned here");
        return false;
    }
    const size_t rows = q->shape[2];
    x->out = values[OUT] ? given_output(values[OUT], "out", in->rank, 4, &x->given[0], &x->out_view)
                         : make_out(in, in->v.tensor.shape[3], &x->out_view);
    if (weights && x->out)
        x->weights =
            make_weights(weights_to, in, o->weights_average, &x->given[1], &x->weights_view);
    if (lse && x->out)
        x->lse = lse_to ? given_output(lse_to, "lse", in->rank, 3, &x->given[2], &x->lse_view)
                        : make_output(in, MH_F32, 1, &rows, &x->lse_view);
    o->weights = x->weights ? &x->weights_view : NULL;
    o->lse = x->lse ? &x->lse_view : NULL;
    return x->out && (!weights || x->weights) && (!lse || x->lse);
}

// out, or a tuple of it and those of weights and lse that were asked for.
static PyObject *result(const outputs *x)
{
    if (!x->weights && !x->lse)
        return Py_NewRef(x->out);
    if (x->weights && x->lse)
        return PyTuple_Pack(3, x->out, x->weights, x->lse);
    return PyTuple_Pack(2, x->out, x->weights ? x->weights : x->lse);
}

static PyObject *run_forward(const py_inputs *in, const mh_attention_options *o, outputs *x)
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
    py_inputs in;
    py_attention_options options;
    outputs x = {0};
    (void)self;
    if (!py_arguments("attention", attention_names, 4, 3, arguments, count, keywords, values) ||
        !py_take_inputs(values, &in))
        return NULL;
    if (py_attention_options_from(values + OPTIONS, &in.q.tensor, &options)) {
        if (make_outputs(values, &in, &options.options, &x))
            found = run_forward(&in, &options.options, &x);
        release_outputs(&x);
        py_attention_options_release(&options);
    }
    py_release_inputs(&in);
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
    py_inputs in;
    py_attention_options options;
    outputs x = {0};
    (void)self;
    if (!py_arguments("explain", attention_names, 4, 3, arguments, count, keywords, values) ||
        !py_take_inputs(values, &in))
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
    py_release_inputs(&in);
    return found;
}
