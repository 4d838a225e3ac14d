// SPDX-License-Identifier: MIT
// Scaled dot-product attention, backward: into new arrays, or into the caller's.
#include "py_attention.h"

static const char *const backward_names[] = {"q",
                                             "k",
                                             "v",
                                             "out",
                                             "lse",
                                             "dout",
                                             PY_ATTENTION_OPTIONS,
                                             "mask_gradient",
                                             "sinks_gradient",
                                             "gradients",
                                             NULL};
enum {
    BACK_OUT = 3,
    BACK_LSE,
    BACK_DOUT,
    BACK_OPTIONS,
    MASK_GRADIENT = BACK_OPTIONS + 17,
    SINKS_GRADIENT,
    INTO,
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
    if (py_take_input(values[BACK_OUT], "out", &r->out, NULL, NULL) &&
        py_take_input(values[BACK_DOUT], "dout", &r->dout, NULL, NULL) &&
        py_tensor_from(values[BACK_LSE], "lse", &r->lse)) {
        mh_tensor *lse = &r->lse.tensor;
        if (rank <= 4 && lse->rank == rank - 1) {
            *lse = py_four_dimensions(*lse, rank);
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

static bool make_gradients(PyObject *const *values, const py_inputs *in,
                           const py_attention_options *options, gradients *g)
{
    bool mask = false, sinks = false;
    const py_origin origin = in->q.origin;
    if (!py_bool(values[MASK_GRADIENT], "mask_gradient", &mask) ||
        !py_bool(values[SINKS_GRADIENT], "sinks_gradient", &sinks))
        return false;
    if ((mask && options->options.mask_count != 1) || (sinks && !options->options.sinks)) {
        PyErr_SetString(PyExc_ValueError, "a gradient was asked for of what is not given, or of "
                                          "one of several masks: pass `gradients`");
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

// (dq, dk, dv, dsinks, dmask of each mask), arrays to be written or None.
enum { INTO_MASKS = 4, INTO_MOST = INTO_MASKS + PY_MASKS };
typedef struct given_gradients {
    mh_tensor views[INTO_MOST];
    mh_tensor *wanted[INTO_MOST]; // or NULL
    py_tensor held[INTO_MOST];
    mh_attention_gradients set;
} given_gradients;

// A gradient as a tensor; those of q, k and v as one of rank 4.
static bool take_gradient(PyObject *array, const char *name, bool four, py_tensor *held,
                          mh_tensor *to)
{
    if (!py_tensor_from_writable(array, name, held))
        return false;
    *to = held->tensor;
    if (!four)
        return true;
    if (to->rank < 2 || to->rank > 4) {
        PyErr_Format(PyExc_ValueError, "%s: found %d dimensions, expected 2 to 4", name, to->rank);
        return false;
    }
    *to = py_four_dimensions(*to, to->rank);
    return true;
}

static bool take_gradients(PyObject *tuple, size_t masks, given_gradients *g)
{
    static const char *const names[] = {"dq", "dk", "dv", "dsinks"};
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != (Py_ssize_t)(INTO_MASKS + masks)) {
        PyErr_Format(PyExc_TypeError,
                     "gradients: found %R, expected (dq, dk, dv, dsinks) and one per mask", tuple);
        return false;
    }
    for (size_t i = 0; i < INTO_MASKS + masks; i++) {
        PyObject *array = PyTuple_GetItem(tuple, (Py_ssize_t)i);
        const char *name = i < INTO_MASKS ? names[i] : "dmask";
        if (array == Py_None)
            continue;
        if (!take_gradient(array, name, i < 3, &g->held[i], &g->views[i]))
            return false;
        g->wanted[i] = &g->views[i];
    }
    g->set = mh_attention_gradients_default();
    g->set.dq = g->wanted[0];
    g->set.dk = g->wanted[1];
    g->set.dv = g->wanted[2];
    g->set.dsinks = g->wanted[3];
    for (size_t i = 0; i < masks; i++)
        if (g->wanted[INTO_MASKS + i])
            g->set.dmasks = &g->wanted[INTO_MASKS];
    return true;
}

// Writes the gradients into the caller's arrays, and returns them.
static PyObject *run_backward_into(PyObject *tuple, const py_inputs *in,
                                   py_attention_options *options, forward_results *r)
{
    mh_context *context = py_context();
    mh_status status;
    given_gradients g = {0};
    PyObject *found = NULL;
    options->options.lse = &r->lse.tensor;
    if (context && take_gradients(tuple, options->options.mask_count, &g)) {
        PY_RUN(context, status,
               mh_attention_backward(context, &options->options, &in->q.tensor, &in->k.tensor,
                                     &in->v.tensor, &r->out.tensor, &r->dout.tensor, &g.set));
        found = status ? py_raise(context, status) : Py_NewRef(tuple);
    }
    for (int i = 0; i < INTO_MOST; i++)
        py_tensor_release(&g.held[i]);
    return found;
}

static PyObject *run_backward(PyObject *const *values, const py_inputs *in,
                              py_attention_options *options, forward_results *r)
{
    mh_context *context = py_context();
    mh_status status;
    gradients g = {0};
    PyObject *found = NULL;
    options->options.lse = &r->lse.tensor;
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
    py_inputs in;
    forward_results results;
    py_attention_options options;
    (void)self;
    if (!py_arguments("attention_backward", backward_names, BACK_OPTIONS + 1, BACK_OPTIONS,
                      arguments, count, keywords, values) ||
        !py_take_inputs(values, &in))
        return NULL;
    if (take_results(values, in.rank, &results)) {
        if (py_attention_options_from(values + BACK_OPTIONS, &in.q.tensor, &options)) {
            found = values[INTO] ? run_backward_into(values[INTO], &in, &options, &results)
                                 : run_backward(values, &in, &options, &results);
            py_attention_options_release(&options);
        }
        release_results(&results);
    }
    py_release_inputs(&in);
    return found;
}
