// SPDX-License-Identifier: MIT
// Tokenizer: text to token ids and back.
#include "py_tokenizer.h"

#include "py_arguments.h"
#include "py_view.h"

#include <sys/stat.h>

typedef struct py_tokenizer {
    PyObject_HEAD const mh_tokenizer *tokenizer;
    mh_tokenizer *owned; // the same, or NULL
    PyObject *owner;     // of one that is not, or NULL
} py_tokenizer;

static PyObject *tokenizer_type;

static void tokenizer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mh_tokenizer_free(((py_tokenizer *)self)->owned);
    Py_XDECREF(((py_tokenizer *)self)->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

// ---- making one ---------------------------------------------------------------------------------

PyObject *py_tokenizer_of(PyObject *owner, const mh_tokenizer *tokenizer)
{
    py_tokenizer *made = (py_tokenizer *)py_new_object(tokenizer_type);
    if (!made)
        return NULL;
    made->tokenizer = tokenizer;
    made->owner = Py_NewRef(owner);
    return (PyObject *)made;
}

static PyObject *own_tokenizer(mh_tokenizer *tokenizer)
{
    py_tokenizer *made = (py_tokenizer *)py_new_object(tokenizer_type);
    if (made)
        made->tokenizer = made->owned = tokenizer;
    else
        mh_tokenizer_free(tokenizer);
    return (PyObject *)made;
}

static mh_status load_any(mh_context *context, const char *path, mh_tokenizer **tokenizer)
{
    struct stat found;
    const bool directory = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    return (directory ? mh_tokenizer_load_directory : mh_tokenizer_load)(context, path, tokenizer);
}

PyObject *py_load_tokenizer(PyObject *self, PyObject *path)
{
    (void)self;
    mh_context *context = py_context();
    PyObject *bytes;
    mh_tokenizer *tokenizer = NULL;
    mh_status status;
    if (!context || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    PY_RUN(context, status, load_any(context, PyBytes_AsString(bytes), &tokenizer));
    Py_DECREF(bytes);
    return status ? py_raise(context, status) : own_tokenizer(tokenizer);
}

PyObject *py_train_tokenizer(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    (void)self;
    mh_context *context = py_context();
    mh_tokenizer_options o = mh_tokenizer_options_default();
    const py_field fields[] = {PY_SIZE(&o, merges),
                               {"min_frequency", PY_IS_SIZE, &o.min_frequency, NULL},
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    PyObject *list;
    py_texts texts;
    mh_tokenizer *tokenizer = NULL;
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "O:train", &list) ||
        !py_fields("train", keywords, fields) || !py_texts_from(list, "texts", &texts))
        return NULL;
    PY_RUN(context, status, mh_tokenizer_train(context, &o, texts.texts, texts.count, &tokenizer));
    py_texts_release(&texts);
    return status ? py_raise(context, status) : own_tokenizer(tokenizer);
}

static PyObject *tokenizer_save(PyObject *self, PyObject *path)
{
    mh_context *context = py_context();
    PyObject *bytes;
    mh_status status;
    if (!context || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    PY_RUN(context, status,
           mh_tokenizer_save(context, ((py_tokenizer *)self)->tokenizer, PyBytes_AsString(bytes)));
    Py_DECREF(bytes);
    return status ? py_raise(context, status) : Py_NewRef(Py_None);
}

// ---- encoding -----------------------------------------------------------------------------------

// Offsets in bytes become offsets in characters: characters[i] is how many begin before byte i.
static uint32_t *count_characters(mh_text text)
{
    uint32_t *characters = PyMem_Calloc(text.size + 1, sizeof *characters);
    uint32_t before = 0;
    for (size_t i = 0; i <= text.size && characters; i++) {
        characters[i] = before;
        before += i < text.size && ((unsigned char)text.bytes[i] & 0xC0) != 0x80;
    }
    return characters;
}

static PyObject *list_offsets(const mh_encoding *e, const mh_text *text, const mh_text *pair)
{
    uint32_t *counts[2] = {count_characters(*text),
                           pair ? count_characters(*pair) : PyMem_Calloc(1, sizeof(uint32_t))};
    PyObject *list = counts[0] && counts[1] ? PyList_New((Py_ssize_t)e->count) : PyErr_NoMemory();
    for (size_t i = 0; i < e->count && list; i++) {
        const uint32_t *characters = counts[e->sequences[i] != 0 && pair];
        const unsigned begin = e->special[i] ? 0 : characters[e->begins[i]];
        const unsigned end = e->special[i] ? 0 : characters[e->ends[i]];
        if (!py_put(list, i, Py_BuildValue("(II)", begin, end)))
            Py_CLEAR(list);
    }
    PyMem_Free(counts[0]);
    PyMem_Free(counts[1]);
    return list;
}

static PyObject *list_bytes(const uint8_t *values, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++)
        if (!py_put(list, i, PyLong_FromLong(values[i])))
            Py_CLEAR(list);
    return list;
}

static PyObject *list_names(const mh_tokenizer *tokenizer, const int32_t *ids, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++) {
        mh_text name = {"", 0};
        mh_tokenizer_name(tokenizer, ids[i], &name);
        if (!py_put(list, i, py_string(name)))
            Py_CLEAR(list);
    }
    return list;
}

// (ids, tokens, offsets, words, types, special, sequences, truncated)
static PyObject *encoding_tuple(const mh_tokenizer *tokenizer, const mh_encoding *e,
                                const mh_text *text, const mh_text *pair)
{
    return Py_BuildValue("(NNNNNNNN)", py_list_of_ids(e->ids, e->count),
                         list_names(tokenizer, e->ids, e->count), list_offsets(e, text, pair),
                         py_list_of_ids(e->words, e->count), list_bytes(e->types, e->count),
                         list_bytes(e->special, e->count), list_bytes(e->sequences, e->count),
                         PyBool_FromLong(e->truncated));
}

static PyObject *encode_all(const mh_tokenizer *tokenizer, const mh_encode_options *o,
                            const py_texts *texts, const mh_text *pairs)
{
    mh_context *context = py_context();
    mh_encoding *made = PyMem_Calloc(texts->count + 1, sizeof *made);
    PyObject *list = NULL;
    mh_status status;
    if (!context || !made)
        return context ? PyErr_NoMemory() : NULL;
    PY_RUN(
        context, status,
        mh_tokenizer_encode_batch(context, tokenizer, o, texts->texts, pairs, texts->count, made));
    list = status ? py_raise(context, status) : PyList_New((Py_ssize_t)texts->count);
    for (size_t i = 0; i < texts->count && list; i++)
        if (!py_put(
                list, i,
                encoding_tuple(tokenizer, &made[i], &texts->texts[i], pairs ? &pairs[i] : NULL)))
            Py_CLEAR(list);
    for (size_t i = 0; i < texts->count; i++)
        mh_encoding_free(context, &made[i]);
    PyMem_Free(made);
    return list;
}

// encode(texts, pairs or None, add_special_tokens=, special_from_text=, max_length=)
static PyObject *tokenizer_encode(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    mh_encode_options o = mh_encode_options_default();
    const py_field fields[] = {PY_BOOL(&o, add_special_tokens),
                               PY_BOOL(&o, special_from_text),
                               PY_SIZE(&o, max_length),
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    PyObject *text_list, *pair_list, *found = NULL;
    py_texts texts = {0}, pairs = {0};
    if (!PyArg_ParseTuple(arguments, "OO:encode", &text_list, &pair_list) ||
        !py_fields("encode", keywords, fields))
        return NULL;
    if (py_texts_from(text_list, "text", &texts) &&
        (pair_list == Py_None || py_texts_from(pair_list, "pair", &pairs))) {
        if (pairs.held && pairs.count != texts.count)
            PyErr_Format(PyExc_ValueError, "pair: found %zu texts, expected %zu", pairs.count,
                         texts.count);
        else
            found = encode_all(((py_tokenizer *)self)->tokenizer, &o, &texts, pairs.texts);
    }
    py_texts_release(&texts);
    py_texts_release(&pairs);
    return found;
}

// ---- decoding, and the vocabulary ---------------------------------------------------------------

// decode(ids, skip_special_tokens)
static PyObject *tokenizer_decode(PyObject *self, PyObject *arguments)
{
    mh_context *context = py_context();
    PyObject *list;
    int skip;
    py_ids ids;
    mh_buffer text = {0};
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "Op:decode", &list, &skip) ||
        !py_ids_from(list, "ids", &ids))
        return NULL;
    PY_RUN(context, status,
           mh_tokenizer_decode_text(context, ((py_tokenizer *)self)->tokenizer, skip, ids.ids,
                                    ids.count, &text));
    py_ids_release(&ids);
    return status ? py_raise(context, status) : py_string_of_buffer(context, &text);
}

static PyObject *tokenizer_size(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return PyLong_FromSize_t(mh_tokenizer_size(((py_tokenizer *)self)->tokenizer));
}

// name(id), or None if there is no such token.
static PyObject *tokenizer_name(PyObject *self, PyObject *id)
{
    int64_t number = 0;
    mh_text name;
    if (!py_integer(id, "id", &number))
        return NULL;
    if (number < 0 || number > INT32_MAX ||
        !mh_tokenizer_name(((py_tokenizer *)self)->tokenizer, (int32_t)number, &name))
        Py_RETURN_NONE;
    return py_string(name);
}

// token_bytes(id): what a token decodes to, perhaps a part of a character; None if there is no such
// token.
static PyObject *tokenizer_bytes(PyObject *self, PyObject *id)
{
    int64_t number = 0;
    mh_text text;
    if (!py_integer(id, "id", &number))
        return NULL;
    if (number < 0 || number > INT32_MAX ||
        !mh_tokenizer_token(((py_tokenizer *)self)->tokenizer, (int32_t)number, &text, NULL))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(text.bytes, (Py_ssize_t)text.size);
}

static PyObject *tokenizer_id(PyObject *self, PyObject *name)
{
    mh_text text = {0};
    if (!py_text_from(name, "token", &text))
        return NULL;
    const int32_t id = mh_tokenizer_id(((py_tokenizer *)self)->tokenizer, text.bytes, text.size);
    return id < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(id);
}

// {role: id} of the special tokens that there are.
static PyObject *tokenizer_roles(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    static const char *const names[MH_ROLE_COUNT] = {"pad", "bos", "eos", "unk",
                                                     "cls", "sep", "mask"};
    PyObject *all = PyDict_New();
    for (int role = 0; role < MH_ROLE_COUNT && all; role++) {
        const int32_t id =
            mh_tokenizer_role(((py_tokenizer *)self)->tokenizer, (mh_token_role)role);
        PyObject *value = id < 0 ? NULL : PyLong_FromLong(id);
        if (id >= 0 && (!value || PyDict_SetItemString(all, names[role], value) != 0))
            Py_CLEAR(all);
        Py_XDECREF(value);
    }
    return all;
}

// ---- the type -----------------------------------------------------------------------------------

static PyMethodDef tokenizer_methods[] = {
    {"encode", (PyCFunction)(void (*)(void))tokenizer_encode, METH_VARARGS | METH_KEYWORDS, NULL},
    {"decode", tokenizer_decode, METH_VARARGS, NULL},
    {"save", tokenizer_save, METH_O, NULL},
    {"size", tokenizer_size, METH_NOARGS, NULL},
    {"name", tokenizer_name, METH_O, NULL},
    {"token_bytes", tokenizer_bytes, METH_O, NULL},
    {"id", tokenizer_id, METH_O, NULL},
    {"roles", tokenizer_roles, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot tokenizer_slots[] = {
    {Py_tp_dealloc, tokenizer_dealloc}, {Py_tp_methods, tokenizer_methods}, {0, NULL}};
static PyType_Spec tokenizer_spec = {"multihead._multihead.Tokenizer", sizeof(py_tokenizer), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     tokenizer_slots};

bool py_tokenizer_ready(PyObject *module)
{
    tokenizer_type = py_type(module, &tokenizer_spec);
    return tokenizer_type;
}
