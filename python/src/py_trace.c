// SPDX-License-Identifier: MIT
// Trace: what heads attended to, as arrays and as pages.
#include "py_trace.h"

// One of the three owns what `trace` refers to.
typedef struct py_trace {
    PyObject_HEAD mh_model_trace *text;
    mh_translation_trace *translation;
    mh_trace_file *file;
    PyObject *bytes; // that the file borrows, or NULL
    const mh_trace *trace;
} py_trace;

static PyObject *trace_type;

static void trace_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    py_trace *t = (py_trace *)self;
    mh_model_trace_free(t->text);
    mh_translation_trace_free(t->translation);
    mh_trace_file_free(t->file);
    Py_XDECREF(t->bytes);
    PyObject_Free(self);
    Py_DECREF(type);
}

// ---- making one ---------------------------------------------------------------------------------

// The trace of a call that returned `status`, or the exception for it.
static PyObject *finish(mh_context *context, mh_status status, py_trace *made)
{
    if (status) {
        Py_DECREF(made);
        return py_raise(context, status);
    }
    made->trace = made->text          ? mh_model_trace_view(made->text)
                  : made->translation ? mh_translation_trace_view(made->translation)
                                      : mh_trace_file_trace(made->file);
    return (PyObject *)made;
}

PyObject *py_trace_of_model(mh_model_trace *trace)
{
    py_trace *made = (py_trace *)py_new_object(trace_type);
    if (!made) {
        mh_model_trace_free(trace);
        return NULL;
    }
    made->text = trace;
    return finish(NULL, MH_OK, made);
}

const mh_trace *py_trace_view(PyObject *trace)
{
    if (Py_TYPE(trace) == (PyTypeObject *)trace_type)
        return ((py_trace *)trace)->trace;
    PyErr_SetString(PyExc_TypeError, "traces: found something else, expected traces");
    return NULL;
}

PyObject *py_parse_trace(PyObject *self, PyObject *bytes)
{
    (void)self;
    mh_context *context = py_context();
    char *data;
    Py_ssize_t size;
    if (!context || PyBytes_AsStringAndSize(bytes, &data, &size) != 0)
        return NULL;
    py_trace *made = (py_trace *)py_new_object(trace_type);
    mh_status status;
    if (!made)
        return NULL;
    made->bytes = Py_NewRef(bytes);
    PY_RUN(context, status, mh_trace_file_parse(context, "view", data, (size_t)size, &made->file));
    return finish(context, status, made);
}

PyObject *py_open_trace(PyObject *self, PyObject *path)
{
    (void)self;
    mh_context *context = py_context();
    PyObject *bytes;
    mh_status status;
    if (!context || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    py_trace *made = (py_trace *)py_new_object(trace_type);
    if (made)
        PY_RUN(context, status, mh_trace_file_open(context, PyBytes_AsString(bytes), &made->file));
    Py_DECREF(bytes);
    return made ? finish(context, status, made) : NULL;
}

PyObject *py_model_trace(PyObject *self, PyObject *arguments)
{
    const mh_model *model = py_model_of_texts((py_model *)self);
    const mh_model_info *info = mh_model_describe(model);
    mh_context *context = py_context();
    PyObject *texts[2], *heads;
    mh_text text = {0}, pair = {0};
    const bool *disabled = NULL;
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "OOO:trace", &texts[0], &texts[1], &heads) ||
        !py_text_from(texts[0], "text", &text) ||
        (texts[1] != Py_None && !py_text_from(texts[1], "pair", &pair)) ||
        !py_heads_from(heads, (info->layers + 2 * info->decoder_layers) * info->heads, &disabled))
        return NULL;
    py_trace *made = (py_trace *)py_new_object(trace_type);
    if (!made)
        return NULL;
    PY_RUN(context, status,
           mh_model_trace_create(context, model, disabled, text, pair.bytes ? &pair : NULL,
                                 &made->text));
    return finish(context, status, made);
}

PyObject *py_model_trace_ids(PyObject *self, PyObject *arguments)
{
    const mh_model *model = ((py_model *)self)->model;
    const mh_model_info *info = mh_model_describe(model);
    mh_context *context = py_context();
    PyObject *list, *heads;
    const bool *disabled = NULL;
    py_ids ids;
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "OO:trace_ids", &list, &heads) ||
        !py_heads_from(heads, (info->layers + 2 * info->decoder_layers) * info->heads, &disabled) ||
        !py_ids_from(list, "ids", &ids))
        return NULL;
    py_trace *made = (py_trace *)py_new_object(trace_type);
    if (made)
        PY_RUN(context, status,
               mh_model_trace_ids(context, model, disabled, ids.ids, ids.count, &made->text));
    py_ids_release(&ids);
    return made ? finish(context, status, made) : NULL;
}

PyObject *py_model_trace_translation(PyObject *self, PyObject *arguments)
{
    const py_model *model = (py_model *)self;
    const mh_model_info *info = mh_model_describe(model->model);
    mh_context *context = py_context();
    PyObject *source, *list, *heads;
    const bool *disabled = NULL;
    mh_text text = {0};
    py_ids ids;
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "OOO:trace_translation", &source, &list, &heads) ||
        !py_text_from(source, "text", &text) ||
        !py_heads_from(heads, (info->layers + 2 * info->decoder_layers) * info->heads, &disabled))
        return NULL;
    if (!model->translator)
        return PyErr_Format(PyExc_ValueError, "target: found a model that does not translate");
    if (!py_ids_from(list, "target", &ids))
        return NULL;
    py_trace *made = (py_trace *)py_new_object(trace_type);
    if (made)
        PY_RUN(context, status,
               mh_translation_trace_create(context, model->translator, disabled, text, ids.ids,
                                           ids.count, &made->translation));
    py_ids_release(&ids);
    return made ? finish(context, status, made) : NULL;
}

// ---- what it has --------------------------------------------------------------------------------

static PyObject *list_tokens(const mh_trace_tokens *tokens)
{
    PyObject *list = PyList_New((Py_ssize_t)tokens->count);
    for (size_t i = 0; i < tokens->count && list; i++)
        if (!py_put(list, i, py_string((mh_text){tokens->text[i], strlen(tokens->text[i])})))
            Py_CLEAR(list);
    return list;
}

// Whether each token begins a word; None if that is not known.
static PyObject *list_starts(const mh_trace_tokens *tokens)
{
    if (!tokens->word_start)
        Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)tokens->count);
    for (size_t i = 0; i < tokens->count && list; i++)
        if (!py_put(list, i, PyBool_FromLong(tokens->word_start[i])))
            Py_CLEAR(list);
    return list;
}

static PyObject *string_or_none(const char *text)
{
    return text ? py_string((mh_text){text, strlen(text)}) : Py_NewRef(Py_None);
}

// (title, model, {"source": (tokens, word starts), "target": ..., "given": ...})
static PyObject *trace_describe(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_trace *t = ((py_trace *)self)->trace;
    return Py_BuildValue(
        "(NN{s:(NN),s:(NN),s:(NN)})", string_or_none(t->title), string_or_none(t->model), "source",
        list_tokens(&t->source), list_starts(&t->source), "target", list_tokens(&t->target),
        list_starts(&t->target), "given", list_tokens(&t->given), list_starts(&t->given));
}

// Views of the trace's memory; bf16, which NumPy does not have, is widened.
static PyObject *array_of(PyObject *self, const mh_tensor *t)
{
    mh_context *context = py_context();
    mh_tensor to;
    if (!context || !t->data)
        return context ? Py_NewRef(Py_None) : NULL;
    if (t->dtype != MH_BF16)
        return py_view_array(self, t, false);
    PyObject *array = py_output(PY_NUMPY, MH_F32, t->rank, t->shape, &to);
    const mh_status status = array ? mh_tensor_copy(context, t, &to) : MH_OK;
    if (!status)
        return array;
    Py_DECREF(array);
    return py_raise(context, status);
}

static PyObject *group_of(PyObject *self, const mh_trace_group *g)
{
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:d,s:N}", "weights",
                         array_of(self, &g->weights), "q", array_of(self, &g->q), "k",
                         array_of(self, &g->k), "v", array_of(self, &g->v), "out",
                         array_of(self, &g->out), "mask", array_of(self, &g->mask), "scale",
                         g->scale, "sequences", PyBool_FromLong(g->sequences));
}

// {kind: {"weights": array, ...}} of the groups that the trace has.
static PyObject *trace_groups(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_trace *t = ((py_trace *)self)->trace;
    PyObject *all = PyDict_New();
    for (int kind = 0; kind < MH_TRACE_KINDS_MAX && all; kind++) {
        const char *name = mh_trace_kind_name((mh_trace_kind)kind);
        if (!name || !t->groups[kind].weights.data)
            continue;
        PyObject *group = group_of(self, &t->groups[kind]);
        if (!group || PyDict_SetItemString(all, name, group) != 0)
            Py_CLEAR(all);
        Py_XDECREF(group);
    }
    return all;
}

// (pixels (height, width, 3), rows, columns of patches), or None.
static PyObject *trace_picture(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_trace_picture *p = &((py_trace *)self)->trace->picture;
    if (!p->pixels)
        Py_RETURN_NONE;
    const mh_tensor pixels =
        mh_tensor_3d((void *)(uintptr_t)p->pixels, MH_U8, p->height, p->width, 3);
    return Py_BuildValue("(Nnn)", array_of(self, &pixels), (Py_ssize_t)p->rows,
                         (Py_ssize_t)p->columns);
}

// ---- showing it ---------------------------------------------------------------------------------

typedef struct view_call {
    mh_view_options options;
    mh_trace trace; // a copy, perhaps with another title and model
} view_call;

// Options by name: kind, layer, head, bits, width, colour, and the title and the model's name.
static bool read_view(const py_trace *self, PyObject *keywords, view_call *c)
{
    static const char *const kinds[] = {"encoder.self", "decoder.self", "cross", "attention", NULL};
    int kind = MH_TRACE_ANY;
    int64_t layer = -1, head = -1, bits = 0;
    PyObject *title = NULL, *model = NULL;
    mh_text title_text = {0}, model_text = {0};
    *c = (view_call){mh_view_options_default(), *self->trace};
    const py_field fields[] = {{"kind", PY_IS_CHOICE, &kind, kinds},
                               {"layer", PY_IS_INTEGER, &layer, NULL},
                               {"head", PY_IS_INTEGER, &head, NULL},
                               {"bits", PY_IS_INTEGER, &bits, NULL},
                               {"width", PY_IS_SIZE, &c->options.width, NULL},
                               {"colour", PY_IS_BOOL, &c->options.colour, NULL},
                               {"title", PY_IS_OBJECT, &title, NULL},
                               {"model", PY_IS_OBJECT, &model, NULL},
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    if (!py_fields("view", keywords, fields) || !py_text_from(title, "title", &title_text) ||
        !py_text_from(model, "model", &model_text))
        return false;
    c->options.kind = (mh_trace_kind)kind;
    c->options.layer = (ptrdiff_t)layer;
    c->options.head = (ptrdiff_t)head;
    c->options.bits = bits >= 0 && bits <= INT32_MAX ? (int)bits : -1;
    if (title)
        c->trace.title = title_text.bytes;
    if (model)
        c->trace.model = model_text.bytes;
    return true;
}

typedef mh_status (*view_fn)(mh_context *, const mh_view_options *, const mh_trace *, mh_buffer *);

static PyObject *show(PyObject *self, PyObject *arguments, PyObject *keywords, view_fn function)
{
    mh_context *context = py_context();
    view_call c;
    mh_buffer made = {0};
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, ":view") ||
        !read_view((py_trace *)self, keywords, &c))
        return NULL;
    PY_RUN(context, status, function(context, &c.options, &c.trace, &made));
    return status ? py_raise(context, status) : py_string_of_buffer(context, &made);
}

static PyObject *trace_page(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return show(self, arguments, keywords, mh_view_page);
}

static PyObject *trace_text(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return show(self, arguments, keywords, mh_view_text);
}

static PyObject *write_trace(PyObject *self, PyObject *arguments, PyObject *keywords, bool page)
{
    mh_context *context = py_context();
    PyObject *path;
    view_call c;
    mh_status status = MH_OK;
    if (!context || !PyArg_ParseTuple(arguments, "O&:write", PyUnicode_FSConverter, &path))
        return NULL;
    const bool ok = read_view((py_trace *)self, keywords, &c);
    const char *to = PyBytes_AsString(path);
    if (ok)
        PY_RUN(context, status,
               page ? mh_view_page_write(context, &c.options, &c.trace, to)
                    : mh_trace_write(context, to, &c.trace));
    Py_DECREF(path);
    if (status)
        return py_raise(context, status);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *trace_write(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return write_trace(self, arguments, keywords, false);
}

static PyObject *trace_write_page(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return write_trace(self, arguments, keywords, true);
}

// ---- the type -----------------------------------------------------------------------------------

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

static PyMethodDef trace_methods[] = {
    {"describe", trace_describe, METH_NOARGS, NULL},
    {"groups", trace_groups, METH_NOARGS, NULL},
    {"picture", trace_picture, METH_NOARGS, NULL},
    {"page", WITH_KEYWORDS(trace_page), NULL},
    {"text", WITH_KEYWORDS(trace_text), NULL},
    {"write", WITH_KEYWORDS(trace_write), NULL},
    {"write_page", WITH_KEYWORDS(trace_write_page), NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot trace_slots[] = {
    {Py_tp_dealloc, trace_dealloc}, {Py_tp_methods, trace_methods}, {0, NULL}};
static PyType_Spec trace_spec = {"multihead._multihead.Trace", sizeof(py_trace), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 trace_slots};

bool py_trace_ready(PyObject *module)
{
    trace_type = py_type(module, &trace_spec);
    return trace_type;
}
