// SPDX-License-Identifier: MIT
// The loss, the gradients' norm, and a step of AdamW.
#include "py_files.h"

// ---- vectors ------------------------------------------------------------------------------------

// A contiguous f32 array of any shape, as a vector; a writable one if it will be written.
static float *take_vector(PyObject *array, const char *name, bool written, size_t *count,
                          py_tensor *held)
{
    if (written ? !py_tensor_from_writable(array, name, held) : !py_tensor_from(array, name, held))
        return NULL;
    const mh_tensor *t = &held->tensor;
    const size_t n = mh_tensor_count(t);
    char found[96];
    if (t->dtype != MH_F32 || !mh_tensor_is_contiguous(t))
        PyErr_Format(PyExc_ValueError, "%s: found %s, expected f32, contiguous", name,
                     mh_tensor_describe(t, found, sizeof found));
    else if (*count != SIZE_MAX && n != *count)
        PyErr_Format(PyExc_ValueError, "%s: found %zu elements, expected %zu", name, n, *count);
    else {
        *count = n;
        return t->data;
    }
    return NULL;
}

// ---- the gradients' norm ------------------------------------------------------------------------

static PyObject *norm_of(PyObject *tuple, size_t arrays, size_t *counts, const float **gradients,
                         py_tensor *held)
{
    mh_context *context = py_context();
    mh_status status;
    double norm = 0;
    if (!context)
        return NULL;
    for (size_t i = 0; i < arrays; i++) {
        counts[i] = SIZE_MAX;
        gradients[i] = take_vector(PyTuple_GetItem(tuple, (Py_ssize_t)i), "gradients", false,
                                   &counts[i], &held[i]);
        if (!gradients[i] && PyErr_Occurred())
            return NULL;
    }
    PY_RUN(context, status, mh_gradient_norm(context, arrays, counts, gradients, &norm));
    return status ? py_raise(context, status) : PyFloat_FromDouble(norm);
}

PyObject *py_gradient_norm(PyObject *self, PyObject *list)
{
    (void)self;
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "gradients: found %R, expected a list", list);
    PyObject *tuple = PyList_AsTuple(list); // taking an array may run code that changes the list
    if (!tuple)
        return NULL;
    const size_t arrays = (size_t)PyTuple_Size(tuple);
    size_t *counts = PyMem_Calloc(arrays + 1, sizeof *counts);
    const float **gradients = PyMem_Calloc(arrays + 1, sizeof *gradients);
    py_tensor *held = PyMem_Calloc(arrays + 1, sizeof *held);
    PyObject *found = NULL;
    if (counts && gradients && held)
        found = norm_of(tuple, arrays, counts, gradients, held);
    else
        PyErr_NoMemory();
    for (size_t i = 0; i < arrays && held; i++)
        py_tensor_release(&held[i]);
    PyMem_Free(held);
    PyMem_Free(gradients);
    PyMem_Free(counts);
    Py_DECREF(tuple);
    return found;
}

PyObject *py_clip_factor(PyObject *self, PyObject *arguments)
{
    (void)self;
    double norm, max_norm;
    if (!PyArg_ParseTuple(arguments, "dd:clip_factor", &norm, &max_norm))
        return NULL;
    return PyFloat_FromDouble(mh_clip_factor(norm, max_norm));
}

// ---- AdamW --------------------------------------------------------------------------------------

enum { STEP, GRADIENT, PARAMETER, MEAN, VARIANCE, OPTIONS, ADAMW = OPTIONS + 6 };

static bool read_adamw(PyObject *const *values, mh_adamw_options *o)
{
    static const char *const names[] = {"learning_rate", "beta1",        "beta2",
                                        "epsilon",       "weight_decay", "gradient_scale"};
    double *const to[] = {&o->learning_rate, &o->beta1,        &o->beta2,
                          &o->epsilon,       &o->weight_decay, &o->gradient_scale};
    for (int i = 0; i < 6; i++) {
        if (!values[i])
            continue;
        *to[i] = PyFloat_AsDouble(values[i]);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            PyErr_Format(PyExc_TypeError, "%s: found %R, expected a number", names[i], values[i]);
            return false;
        }
    }
    return true;
}

PyObject *py_adamw_step(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *keywords)
{
    static const char *const names[] = {"step",    "gradient",      "parameter",      "m",
                                        "v",       "learning_rate", "beta1",          "beta2",
                                        "epsilon", "weight_decay",  "gradient_scale", NULL};
    PyObject *values[ADAMW];
    py_tensor held[VARIANCE + 1] = {0};
    float *vectors[VARIANCE + 1] = {NULL};
    mh_adamw_options options = mh_adamw_options_default();
    mh_context *context = py_context();
    mh_status status = MH_OK;
    int64_t step = 0;
    size_t n = SIZE_MAX;
    (void)self;
    if (!context ||
        !py_arguments("adamw_step", names, OPTIONS, OPTIONS, arguments, count, keywords, values) ||
        !py_integer(values[STEP], "step", &step) || !read_adamw(values + OPTIONS, &options))
        return NULL;
    for (int i = GRADIENT; i <= VARIANCE && !PyErr_Occurred(); i++)
        vectors[i] = take_vector(values[i], names[i], i > GRADIENT, &n, &held[i]);
    if (!PyErr_Occurred())
        PY_RUN(context, status,
               mh_adamw_step(context, &options, (uint64_t)step, n, vectors[GRADIENT],
                             vectors[PARAMETER], vectors[MEAN], vectors[VARIANCE]));
    if (status)
        py_raise(context, status);
    for (int i = GRADIENT; i <= VARIANCE; i++)
        py_tensor_release(&held[i]);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

// ---- cross-entropy ------------------------------------------------------------------------------

static PyObject *run_cross_entropy(mh_cross_entropy_options *options, const py_tensor *logits,
                                   const mh_tensor *targets)
{
    mh_context *context = py_context();
    const mh_tensor *x = &logits->tensor;
    mh_tensor gradient;
    mh_status status;
    double loss = 0;
    PyObject *array =
        context ? py_output(logits->origin, x->dtype, x->rank, x->shape, &gradient) : NULL;
    if (!array)
        return NULL;
    PY_RUN(context, status, mh_cross_entropy(context, options, x, targets, &loss, NULL, &gradient));
    if (!status)
        return Py_BuildValue("(dN)", loss, array);
    Py_DECREF(array);
    return py_raise(context, status);
}

PyObject *py_cross_entropy(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                           PyObject *keywords)
{
    static const char *const names[] = {"logits",          "targets",   "weight", "ignore_index",
                                        "label_smoothing", "reduction", NULL};
    static const char *const reductions[] = {"mean", "sum", NULL};
    PyObject *values[6], *found = NULL;
    py_tensor logits = {0}, targets = {0}, weight = {0};
    mh_cross_entropy_options options = mh_cross_entropy_options_default();
    int reduction = 0;
    (void)self;
    if (!py_arguments("cross_entropy", names, 2, 2, arguments, count, keywords, values) ||
        !py_integer(values[3], "ignore_index", &options.ignore_index) ||
        !py_float(values[4], "label_smoothing", &options.label_smoothing) ||
        !py_choice(values[5], "reduction", reductions, &reduction))
        return NULL;
    options.reduction = (mh_reduction)reduction;
    options.weight = values[2] ? &weight.tensor : NULL;
    if (py_tensor_from(values[0], "logits", &logits) &&
        py_tensor_from(values[1], "targets", &targets) &&
        (!values[2] || py_tensor_from(values[2], "weight", &weight)))
        found = run_cross_entropy(&options, &logits, &targets.tensor);
    py_tensor_release(&logits);
    py_tensor_release(&targets);
    py_tensor_release(&weight);
    return found;
}
