// SPDX-License-Identifier: MIT
// Model.generate and Model.chat, and Stop, by which another thread ends a call.
#include "py_model.h"

// ---- Stop ---------------------------------------------------------------------------------------

// The calling thread of stop() and the one that generates both hold the GIL when they use it.
typedef struct stop_object {
    PyObject_HEAD mh_context *running; // NULL: no call
    bool stopped;
} stop_object;

static PyObject *stop_type;

static PyObject *stop_stop(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    stop_object *s = (stop_object *)self;
    s->stopped = true;
    if (s->running)
        mh_context_cancel(s->running);
    Py_RETURN_NONE;
}

static void stop_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef stop_methods[] = {{"stop", stop_stop, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot stop_slots[] = {
    {Py_tp_dealloc, stop_dealloc}, {Py_tp_methods, stop_methods}, {0, NULL}};
static PyType_Spec stop_spec = {"multihead._multihead.Stop", sizeof(stop_object), 0,
                                Py_TPFLAGS_DEFAULT, stop_slots};

// ---- results ------------------------------------------------------------------------------------

static const char *finish_name(mh_finish finish)
{
    static const char *const names[] = {"stop", "length", "stopped"};
    return names[finish];
}

// The likeliest tokens of a step: [(id, log-probability), ...].
static PyObject *list_scores(const mh_token_score *scores, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++)
        if (!py_put(list, i, Py_BuildValue("(id)", (int)scores[i].id, scores[i].logprob)))
            Py_CLEAR(list);
    return list;
}

static PyObject *list_top(const mh_generation *g)
{
    PyObject *list = PyList_New((Py_ssize_t)(g->top_count ? g->count : 0));
    for (size_t i = 0; i < g->count && g->top_count && list; i++)
        if (!py_put(list, i, list_scores(g->top + i * g->top_count, g->top_count)))
            Py_CLEAR(list);
    return list;
}

// [(text, ids, logprobs, top, prompt ids, finish), ...]
static PyObject *list_generations(const mh_generations *made, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++) {
        const mh_generation *g = mh_generations_at(made, i);
        if (!py_put(list, i,
                    Py_BuildValue("(NNNNNs)", py_string(g->text), py_list_of_ids(g->ids, g->count),
                                  py_list_of_doubles(g->logprobs, g->count), list_top(g),
                                  py_list_of_ids(g->prompt, g->prompt_count),
                                  finish_name(g->finish))))
            Py_CLEAR(list);
    }
    return list;
}

// ---- the callback -------------------------------------------------------------------------------

typedef struct generating {
    PyObject *callback;                 // NULL: none
    stop_object *stop;                  // NULL: none
    PyObject *type, *value, *traceback; // of an exception in the callback
} generating;

static PyObject *call_back(PyObject *callback, const mh_generated_token *t)
{
    PyObject *arguments = Py_BuildValue(
        "(nnidNNNs)", (Py_ssize_t)t->sequence, (Py_ssize_t)t->position, (int)t->token.id,
        t->token.logprob, py_string(t->text), list_scores(t->top, t->top_count),
        PyBool_FromLong(t->last), t->last ? finish_name(t->finish) : "");
    PyObject *answer = arguments ? PyObject_CallObject(callback, arguments) : NULL;
    Py_XDECREF(arguments);
    return answer;
}

// Called without the GIL. False as an answer ends the sequence.
static mh_generate_action on_token(void *user, const mh_generated_token *token)
{
    generating *g = user;
    const PyGILState_STATE state = PyGILState_Ensure();
    mh_generate_action action = MH_GENERATE_STOP_ALL;
    PyObject *answer = g->type ? NULL : call_back(g->callback, token);
    if (answer)
        action = answer == Py_False ? MH_GENERATE_STOP : MH_GENERATE_CONTINUE;
    else if (!g->type)
        PyErr_Fetch(&g->type, &g->value, &g->traceback);
    Py_XDECREF(answer);
    PyGILState_Release(state);
    return action;
}

// ---- generate -----------------------------------------------------------------------------------

static bool read_generate_options(PyObject *keywords, mh_generate_options *o)
{
    static const char *const dtypes[] = {"f32", "bf16", "f16", NULL};
    static const mh_dtype values[] = {MH_F32, MH_BF16, MH_F16};
    int dtype = 0;
    const py_field fields[] = {{"max_new_tokens", PY_IS_SIZE, &o->max_tokens, NULL},
                               PY_SIZE(o, max_length),
                               PY_DOUBLE(o, temperature),
                               PY_SIZE(o, top_k),
                               PY_DOUBLE(o, top_p),
                               PY_DOUBLE(o, min_p),
                               PY_DOUBLE(o, repetition_penalty),
                               {"seed", PY_IS_SIZE, &o->seed, NULL},
                               {"num_beams", PY_IS_SIZE, &o->beam, NULL},
                               PY_DOUBLE(o, length_penalty),
                               PY_SIZE(o, top_logprobs),
                               PY_BOOL(o, ignore_eos),
                               PY_BOOL(o, add_special_tokens),
                               PY_SIZE(o, batch),
                               PY_SIZE(o, segment),
                               {"cache_dtype", PY_IS_CHOICE, &dtype, dtypes},
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    if (!py_fields("generate", keywords, fields))
        return false;
    o->cache_dtype = values[dtype];
    return true;
}

// ---- prompts ------------------------------------------------------------------------------------

// Texts or, if starts is not NULL, token ids back to back.
typedef struct prompt_list {
    py_texts texts;
    int64_t *starts; // (count + 1)
    int32_t *ids;    // (starts[count])
    size_t count;
} prompt_list;

static void release_prompts(prompt_list *p)
{
    py_texts_release(&p->texts);
    PyMem_Free(p->starts);
    PyMem_Free(p->ids);
}

static bool append_ids(prompt_list *p, size_t i, PyObject *list)
{
    py_ids more;
    if (!py_ids_from(list, "prompt", &more))
        return false;
    const size_t before = (size_t)p->starts[i], total = before + more.count;
    int32_t *grown = PyMem_Realloc(p->ids, (total + 1) * sizeof *grown);
    if (grown) {
        p->ids = grown;
        memcpy(grown + before, more.ids, more.count * sizeof *grown);
        p->starts[i + 1] = (int64_t)total;
    } else {
        PyErr_NoMemory();
    }
    py_ids_release(&more);
    return grown;
}

// A list of texts, or of lists of token ids.
static bool read_prompts(PyObject *list, prompt_list *p)
{
    *p = (prompt_list){0};
    PyObject *tuple = PySequence_Tuple(list);
    if (!tuple)
        return false;
    p->count = (size_t)PyTuple_Size(tuple);
    bool ok = true;
    if (p->count == 0 || PyUnicode_Check(PyTuple_GetItem(tuple, 0))) {
        ok = py_texts_from(tuple, "prompt", &p->texts);
    } else {
        p->starts = PyMem_Calloc(p->count + 1, sizeof *p->starts);
        ok = p->starts;
        if (!ok)
            PyErr_NoMemory();
        for (size_t i = 0; i < p->count && ok; i++)
            ok = append_ids(p, i, PyTuple_GetItem(tuple, (Py_ssize_t)i));
    }
    Py_DECREF(tuple);
    return ok;
}

static mh_status generate_prompts(mh_context *context, const mh_model *model,
                                  const mh_generate_options *o, const prompt_list *p,
                                  mh_generations **made)
{
    return p->starts ? mh_generate(context, model, o, p->starts, p->ids, p->count, made)
                     : mh_generate_texts(context, model, o, p->texts.texts, p->count, made);
}

// ---- calls --------------------------------------------------------------------------------------

// status of the call, which a Stop or a signal may cancel.
static mh_status run_generate(mh_context *context, const mh_model *model, generating *g,
                              const mh_generate_options *o, const prompt_list *prompts,
                              mh_generations **made)
{
    mh_status status;
    bool again;
    do {
        if (g->stop)
            g->stop->running = context;
        const py_call call = py_begin(context);
        status = generate_prompts(context, model, o, prompts, made);
        again = py_end(call, &status) && !(g->stop && g->stop->stopped);
        if (g->stop)
            g->stop->running = NULL;
    } while (again && !g->type);
    return status;
}

static PyObject *generate(const mh_model *model, generating *g, mh_generate_options *o,
                          const prompt_list *prompts)
{
    mh_context *context = py_context();
    mh_generations *made = NULL;
    PyObject *found = NULL;
    if (!context)
        return NULL;
    if (g->callback) {
        o->on_token = on_token;
        o->user = g;
    }
    if (g->stop && g->stop->stopped)
        Py_RETURN_NONE;
    mh_status status = run_generate(context, model, g, o, prompts, &made);
    if (g->type)
        PyErr_Restore(g->type, g->value, g->traceback);
    else if (status == MH_ERROR_CANCELLED && g->stop && g->stop->stopped)
        found = Py_NewRef(Py_None);
    else
        found = status ? py_raise(context, status) : list_generations(made, prompts->count);
    mh_generations_free(made);
    return found;
}

static bool check_stop(PyObject *value, stop_object **stop)
{
    if (value == Py_None)
        return true;
    if (!PyObject_TypeCheck(value, (PyTypeObject *)stop_type)) {
        PyErr_Format(PyExc_TypeError, "stopper: found %R, expected a Stop", value);
        return false;
    }
    *stop = (stop_object *)value;
    return true;
}

// generate(prompts, stop strings, disabled heads, callback, stopper, **options)
PyObject *py_model_generate(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    const mh_model *model = ((py_model *)self)->model;
    const mh_model_info *info = mh_model_describe(model);
    PyObject *list, *stop_list, *heads, *callback, *stopper, *found = NULL;
    mh_generate_options o = mh_generate_options_default();
    generating g = {0};
    prompt_list prompts = {0};
    py_texts stops = {0};
    if (!PyArg_ParseTuple(arguments, "OOOOO:generate", &list, &stop_list, &heads, &callback,
                          &stopper) ||
        !read_generate_options(keywords, &o) || !check_stop(stopper, &g.stop) ||
        !py_heads_from(heads, info->layers * info->heads, &o.disabled_heads))
        return NULL;
    if (callback != Py_None && !PyCallable_Check(callback))
        return PyErr_Format(PyExc_TypeError, "callback: found %R, expected a function", callback);
    g.callback = callback == Py_None ? NULL : callback;
    if (read_prompts(list, &prompts) && py_texts_from(stop_list, "stop", &stops)) {
        o.stop = stops.texts;
        o.stop_count = stops.count;
        found = generate(model, &g, &o, &prompts);
    }
    release_prompts(&prompts);
    py_texts_release(&stops);
    return found;
}

// ---- chat ---------------------------------------------------------------------------------------

static bool read_message(PyObject *pair, mh_chat_message *to)
{
    static const char *const roles[] = {"system", "user", "assistant", NULL};
    int chosen = 0;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_Format(PyExc_TypeError, "messages: found %R, expected (role, content)", pair);
        return false;
    }
    if (!py_choice(PyTuple_GetItem(pair, 0), "role", roles, &chosen) ||
        !py_text_from(PyTuple_GetItem(pair, 1), "content", &to->content))
        return false;
    to->role = (mh_chat_role)chosen;
    return true;
}

// chat(messages, template): the prompt of a conversation; messages are tuples (role, content).
PyObject *py_model_chat(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *keywords)
{
    static const char *const names[] = {"messages", "template", NULL};
    PyObject *values[2], *found = NULL;
    mh_context *context = py_context();
    mh_text template = {0};
    mh_buffer text = {0};
    if (!context || !py_arguments("chat", names, 2, 1, arguments, count, keywords, values) ||
        !py_text_from(values[1], "template", &template))
        return NULL;
    PyObject *tuple = PySequence_Tuple(values[0]);
    const size_t total = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    mh_chat_message *messages = tuple ? PyMem_Calloc(total + 1, sizeof *messages) : NULL;
    bool ok = messages;
    if (tuple && !messages)
        PyErr_NoMemory();
    for (size_t i = 0; i < total && ok; i++)
        ok = read_message(PyTuple_GetItem(tuple, (Py_ssize_t)i), &messages[i]);
    if (ok) {
        mh_status status = mh_model_chat(context, ((py_model *)self)->model, template.bytes,
                                         messages, total, &text);
        found = status ? py_raise(context, status) : py_string_of_buffer(context, &text);
    }
    PyMem_Free(messages);
    Py_XDECREF(tuple);
    return found;
}

bool py_generate_ready(PyObject *module)
{
    stop_type = py_type(module, &stop_spec);
    return stop_type;
}
