// SPDX-License-Identifier: MIT
// Tokens in, vectors out: the methods of Model that embed, fill and classify are made of.
#include "py_model.h"

#include <math.h>
#include <multihead/layers.h>

// ---- texts to tokens ----------------------------------------------------------------------------

// [(ids, truncated), ...]
static PyObject *list_encodings(const mh_model_texts *encoded, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++) {
        const mh_encoding *e = mh_model_texts_encoding(encoded, i);
        if (!py_put(list, i,
                    Py_BuildValue("(NN)", py_list_of_ids(e->ids, e->count),
                                  PyBool_FromLong(e->truncated))))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *py_model_encode(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *keywords)
{
    static const char *const names[] = {"texts", "truncate", NULL};
    PyObject *values[2], *found = NULL;
    mh_context *context = py_context();
    py_texts texts;
    bool truncate = true;
    mh_model_texts *encoded = NULL;
    mh_status status;
    if (!context || !py_arguments("encode", names, 2, 1, arguments, count, keywords, values) ||
        !py_bool(values[1], "truncate", &truncate) || !py_texts_from(values[0], "texts", &texts))
        return NULL;
    PY_RUN(context, status,
           mh_model_encode(context, ((py_model *)self)->model, truncate, texts.texts, texts.count,
                           &encoded));
    found = status ? py_raise(context, status) : list_encodings(encoded, texts.count);
    mh_model_texts_free(context, encoded);
    py_texts_release(&texts);
    return found;
}

// ---- one sequence -------------------------------------------------------------------------------

typedef struct one_sequence {
    mh_model_input input;
    int64_t starts[2], target_starts[2];
    py_ids ids, types, targets;
} one_sequence;

static void release_sequence(one_sequence *s)
{
    py_ids_release(&s->ids);
    py_ids_release(&s->types);
    py_ids_release(&s->targets);
}

static bool read_sequence(PyObject *const *values, one_sequence *s)
{
    *s = (one_sequence){.input = mh_model_input_default()};
    if (!py_ids_from(values[0], "ids", &s->ids) || !py_ids_from(values[1], "types", &s->types) ||
        !py_ids_from(values[2], "target", &s->targets))
        return false;
    if (values[1] && s->types.count != s->ids.count) {
        PyErr_Format(PyExc_ValueError, "types: found %zu, expected %zu, one for each token",
                     s->types.count, s->ids.count);
        return false;
    }
    s->starts[1] = (int64_t)s->ids.count;
    s->target_starts[1] = (int64_t)s->targets.count;
    s->input.sequences = 1;
    s->input.starts = s->starts;
    s->input.ids = s->ids.ids;
    s->input.types = s->types.ids;
    if (values[2]) {
        s->input.target_starts = s->target_starts;
        s->input.target_ids = s->targets.ids;
    }
    return true;
}

static PyObject *run_hidden(const mh_model *model, const one_sequence *s, mh_tensor *hidden)
{
    mh_context *context = py_context();
    const size_t rows = s->input.target_ids ? s->targets.count : s->ids.count;
    const size_t shape[2] = {rows, mh_model_describe(model)->d_model};
    PyObject *array = context ? py_output(PY_NUMPY, MH_F32, 2, shape, hidden) : NULL;
    mh_status status;
    if (!array)
        return NULL;
    PY_RUN(context, status, mh_model_hidden(context, model, &s->input, hidden));
    if (status) {
        Py_DECREF(array);
        return py_raise(context, status);
    }
    return array;
}

PyObject *py_model_hidden(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *keywords)
{
    static const char *const names[] = {"ids", "types", "target", NULL};
    PyObject *values[3], *found = NULL;
    one_sequence s;
    mh_tensor hidden;
    if (!py_arguments("hidden", names, 3, 1, arguments, count, keywords, values))
        return NULL;
    if (read_sequence(values, &s))
        found = run_hidden(((py_model *)self)->model, &s, &hidden);
    release_sequence(&s);
    return found;
}

PyObject *py_model_classify(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *keywords)
{
    static const char *const names[] = {"ids", "types", NULL};
    const mh_model *model = ((py_model *)self)->model;
    const size_t shape[2] = {1, mh_model_describe(model)->labels};
    PyObject *values[3] = {NULL, NULL, NULL}, *found = NULL, *rows = NULL;
    one_sequence s;
    mh_tensor hidden, logits;
    mh_status status = MH_OK;
    if (!py_arguments("classify", names, 2, 1, arguments, count, keywords, values))
        return NULL;
    if (read_sequence(values, &s))
        rows = run_hidden(model, &s, &hidden);
    if (rows)
        found = py_output(PY_NUMPY, MH_F32, 2, shape, &logits);
    mh_context *context = py_context();
    if (found)
        PY_RUN(context, status, mh_model_classify(context, model, &s.input, &hidden, &logits));
    if (status) {
        Py_CLEAR(found);
        py_raise(context, status);
    }
    Py_XDECREF(rows);
    release_sequence(&s);
    return found;
}

// ---- heads --------------------------------------------------------------------------------------

PyObject *py_model_logits(PyObject *self, PyObject *array)
{
    const mh_model *model = ((py_model *)self)->model;
    mh_context *context = py_context();
    py_tensor hidden = {0};
    mh_tensor logits;
    mh_status status;
    PyObject *found = NULL;
    if (!context || !py_tensor_from(array, "hidden", &hidden))
        return NULL;
    const size_t shape[2] = {hidden.tensor.rank ? hidden.tensor.shape[0] : 0,
                             mh_model_describe(model)->target_vocabulary};
    found = py_output(PY_NUMPY, MH_F32, 2, shape, &logits);
    if (found) {
        PY_RUN(context, status, mh_model_logits(context, model, &hidden.tensor, &logits));
        if (status) {
            Py_CLEAR(found);
            py_raise(context, status);
        }
    }
    py_tensor_release(&hidden);
    return found;
}

// The candidates of one row: [(id, log-probability), ...]; there may be fewer than k.
static PyObject *list_candidates(const int32_t *ids, const double *logps, size_t k)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < k && ids[i] >= 0 && list; i++) {
        PyObject *pair = Py_BuildValue("(id)", (int)ids[i], logps[i]);
        if (!pair || PyList_Append(list, pair) != 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

// Whether each row has a candidate, with a probability: NaN and infinities give none.
static bool all_found(const int32_t *ids, const double *logps, size_t rows, size_t k)
{
    for (size_t i = 0; i < rows && k; i++)
        if (ids[i * k] < 0 || !isfinite(logps[i * k]))
            return false;
    return true;
}

static PyObject *top_of(const mh_tensor *logits, size_t k)
{
    mh_context *context = py_context();
    const size_t rows = logits->shape[0];
    if (k && rows > PY_SSIZE_T_MAX / k)
        return PyErr_NoMemory();
    int32_t *ids = PyMem_Calloc(rows * k + 1, sizeof *ids);
    double *logps = PyMem_Calloc(rows * k + 1, sizeof *logps);
    PyObject *list = NULL;
    mh_status status;
    if (context && ids && logps) {
        mh_tensor id_table = mh_tensor_2d(ids, MH_I32, rows, k);
        mh_tensor logp_table = mh_tensor_2d(logps, MH_F64, rows, k);
        PY_RUN(context, status, mh_log_softmax_topk(context, NULL, logits, &id_table, &logp_table));
        if (status)
            py_raise(context, status);
        else if (!all_found(ids, logps, rows, k))
            PyErr_SetString(PyExc_ValueError, "the logits are NaN or infinite, the model's weights "
                                              "or settings are damaged");
        else
            list = PyList_New((Py_ssize_t)rows);
    } else if (context) {
        PyErr_NoMemory();
    }
    for (size_t i = 0; i < rows && list; i++)
        if (!py_put(list, i, list_candidates(ids + i * k, logps + i * k, k)))
            Py_CLEAR(list);
    PyMem_Free(ids);
    PyMem_Free(logps);
    return list;
}

// top(logits, k): the k likeliest of each row.
PyObject *py_top(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    (void)self;
    static const char *const names[] = {"logits", "k", NULL};
    PyObject *values[2], *found = NULL;
    py_tensor logits = {0};
    int64_t k = 0;
    if (!py_arguments("top", names, 2, 2, arguments, count, keywords, values) ||
        !py_integer(values[1], "k", &k) || !py_tensor_from(values[0], "logits", &logits))
        return NULL;
    if (k < 1)
        PyErr_Format(PyExc_ValueError, "k: found %lld, expected 1 or more", (long long)k);
    else if (logits.tensor.rank != 2)
        PyErr_Format(PyExc_ValueError, "logits: found %d dimensions, expected 2",
                     logits.tensor.rank);
    else
        found = top_of(&logits.tensor,
                       (size_t)k < logits.tensor.shape[1] ? (size_t)k : logits.tensor.shape[1]);
    py_tensor_release(&logits);
    return found;
}

// ---- embeddings ---------------------------------------------------------------------------------

PyObject *py_model_embed(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                         PyObject *keywords)
{
    static const char *const names[] = {"texts", "pooling", "normalize", "truncate", "batch", NULL};
    static const char *const poolings[] = {"mean", "cls", "last", "max", NULL};
    const mh_model *model = py_model_of_texts((py_model *)self);
    const mh_model_info *info = mh_model_describe(model);
    PyObject *values[5], *found;
    mh_context *context = py_context();
    py_texts texts;
    int pooling = (int)info->pooling;
    bool normalize = info->normalize, truncate = true;
    int64_t batch = 0;
    mh_tensor embeddings;
    mh_status status;
    if (!context || !py_arguments("embed", names, 5, 1, arguments, count, keywords, values) ||
        !py_choice(values[1], "pooling", poolings, &pooling) ||
        !py_bool(values[2], "normalize", &normalize) ||
        !py_bool(values[3], "truncate", &truncate) || !py_integer(values[4], "batch", &batch))
        return NULL;
    if (batch < 0)
        return PyErr_Format(PyExc_ValueError, "batch: found %lld, expected 0 or more tokens",
                            (long long)batch);
    if (!py_texts_from(values[0], "texts", &texts))
        return NULL;
    const size_t shape[2] = {texts.count, info->embedding_dim};
    found = py_output(PY_NUMPY, MH_F32, 2, shape, &embeddings);
    if (found && texts.count) {
        PY_RUN(context, status,
               mh_model_embed_texts(context, model, (mh_pooling)pooling, normalize, truncate,
                                    (size_t)batch, texts.texts, texts.count, NULL, NULL,
                                    &embeddings));
        if (status) {
            Py_CLEAR(found);
            py_raise(context, status);
        }
    }
    py_texts_release(&texts);
    return found;
}
