// SPDX-License-Identifier: MIT
// Where the attention of heads goes, over many traces.
#include "py_trace.h"

#include "heads/heads_parts.h"

// ---- figures as objects -------------------------------------------------------------------------

// A group of heads while it is read.
typedef struct head_group {
    mh_context *context;
    const mh_head_statistics *statistics;
    mh_trace_kind kind;
    size_t layers, heads;
    bool picture;
} head_group;

static mh_head_figures figures_of(const head_group *g, size_t i)
{
    mh_head_figures f = mh_head_figures_default();
    const mh_status status =
        mh_head_statistics_read(g->context, g->statistics, g->kind, i / g->heads, i % g->heads, &f);
    (void)status; // the group has this head
    return f;
}

// A number of every head, layer by layer: weight[pattern], or the entropy or the distance.
enum { ENTROPY = -1, DISTANCE = -2 };
static PyObject *list_of_heads(const head_group *g, int what)
{
    const size_t count = g->layers * g->heads;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++) {
        const mh_head_figures f = figures_of(g, i);
        const double value = what == ENTROPY    ? f.entropy
                             : what == DISTANCE ? f.distance
                                                : f.weight[what];
        if (!py_put(list, i, PyFloat_FromDouble(value)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *list_of_names(const head_group *g)
{
    const size_t count = g->layers * g->heads;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++) {
        const mh_head_figures f = figures_of(g, i);
        if (!py_put(list, i, PyUnicode_FromString(mh_head_name(g->kind, &f))))
            Py_CLEAR(list);
    }
    return list;
}

// {pattern: (weights of every head, uniform, queries)} of the patterns that any query had keys of.
static PyObject *dictionary_of_patterns(const head_group *g)
{
    const mh_head_figures any = figures_of(g, 0);
    PyObject *all = PyDict_New();
    for (const head_column *c = head_columns(g->kind, g->picture); c->label && all; c++) {
        if (!any.queries[c->pattern])
            continue;
        PyObject *one =
            Py_BuildValue("(NdK)", list_of_heads(g, (int)c->pattern), any.uniform[c->pattern],
                          (unsigned long long)any.queries[c->pattern]);
        if (!one || PyDict_SetItemString(all, mh_head_pattern_name(g->kind, c->pattern), one) != 0)
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

// {kind: (layers, heads, names, patterns, entropies, distances, uniform distance)}
static PyObject *describe_statistics(mh_context *context, const mh_head_statistics *s)
{
    PyObject *all = PyDict_New();
    for (int kind = 0; kind < MH_TRACE_KINDS_MAX && all; kind++) {
        head_group g = {.context = context, .statistics = s, .kind = (mh_trace_kind)kind};
        if (!mh_trace_kind_name(g.kind) ||
            !mh_head_statistics_size(s, g.kind, &g.layers, &g.heads, &g.picture))
            continue;
        PyObject *group =
            Py_BuildValue("(nnNNNNd)", (Py_ssize_t)g.layers, (Py_ssize_t)g.heads, list_of_names(&g),
                          dictionary_of_patterns(&g), list_of_heads(&g, ENTROPY),
                          list_of_heads(&g, DISTANCE), figures_of(&g, 0).uniform_distance);
        if (!group || PyDict_SetItemString(all, mh_trace_kind_name(g.kind), group) != 0)
            Py_CLEAR(all);
        Py_XDECREF(group);
    }
    return all;
}

// ---- adding texts -------------------------------------------------------------------------------

static bool count_words(mh_context *context, const py_texts *texts, mh_head_statistics *s)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < texts->count && !status; i++)
        PY_RUN(context, status, mh_head_statistics_count_words(context, s, texts->texts[i]));
    if (status)
        py_raise(context, status);
    return !status;
}

// The iterator makes each trace when it is asked for it, so that only one is in memory.
static bool add_traces(mh_context *context, PyObject *traces, mh_head_statistics *s)
{
    PyObject *iterator = PyObject_GetIter(traces), *one;
    bool added = iterator != NULL;
    while (added && (one = PyIter_Next(iterator)) != NULL) {
        const mh_trace *trace = py_trace_view(one);
        mh_status status = MH_OK;
        if (trace)
            PY_RUN(context, status, mh_head_statistics_add(context, s, trace));
        if (status)
            py_raise(context, status);
        added = trace && !status;
        Py_DECREF(one);
    }
    Py_XDECREF(iterator);
    return added && !PyErr_Occurred();
}

// A context of its own: the traces are made by Python code, which may change the thread's.
static mh_context *make_context(void)
{
    char error[256];
    mh_context *context = NULL;
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    const mh_status status = mh_context_create(&options, &context, error, sizeof error);
    if (status)
        PyErr_SetString(status == MH_ERROR_MEMORY ? PyExc_MemoryError : PyExc_ValueError, error);
    return status ? NULL : context;
}

static PyObject *find_statistics_of(mh_context *context, const py_texts *texts, PyObject *traces,
                                    size_t far)
{
    mh_head_options options = mh_head_options_default();
    mh_head_statistics *s;
    options.far = far;
    const mh_status status = mh_head_statistics_create(context, &options, &s);
    if (status)
        return py_raise(context, status);
    PyObject *found = NULL;
    if (count_words(context, texts, s) && add_traces(context, traces, s))
        found = describe_statistics(context, s);
    mh_head_statistics_free(s);
    return found;
}

PyObject *py_head_statistics(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *words, *traces, *found = NULL;
    Py_ssize_t far;
    py_texts texts = {0};
    if (!py_context() || !PyArg_ParseTuple(arguments, "OOn:head_statistics", &words, &traces, &far))
        return NULL;
    if (far < 0)
        return PyErr_Format(PyExc_ValueError, "far: found %zd, expected 1 or more", far);
    if (!py_texts_from(words, "texts", &texts))
        return NULL;
    mh_context *context = make_context();
    if (context)
        found = find_statistics_of(context, &texts, traces, (size_t)far);
    mh_context_free(context);
    py_texts_release(&texts);
    return found;
}
