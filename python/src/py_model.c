// SPDX-License-Identifier: MIT
// Model: a pretrained model, loaded as the command loads it.
#include "py_model.h"

#include "py_pictures.h"
#include "py_tokenizer.h"
#include "py_trace.h"

static PyObject *model_type;

// ---- loading ------------------------------------------------------------------------------------

static mh_status load_model(mh_context *context, const char *path, mh_precision precision,
                            mh_model **model)
{
    mh_model_options options = mh_model_options_default();
    options.precision = precision;
    return mh_model_load(context, path, &options, model);
}

// A translator of our own is loaded by mh_translator_load, which verifies its checksums; a
// published one runs the model. One that cannot be made (a decoder with other heads) is NULL.
static mh_status load_translator(mh_context *context, const char *path, mh_precision precision,
                                 py_model *to)
{
    const mh_model_info *info = mh_model_describe(to->model);
    if (!(info->abilities & MH_CAN_TRANSLATE) || !mh_model_tokenizer(to->model))
        return MH_OK;
    if (strcmp(info->family, "multihead translator") == 0)
        return mh_translator_load(context, path, precision, &to->translator);
    mh_status status = mh_translator_from_model(context, to->model, &to->translator);
    return status == MH_ERROR_UNSUPPORTED ? MH_OK : status;
}

// The command translates in bf16 where that is native, and only the loaded model tells that it
// translates: it is then loaded again.
static mh_status load_all(mh_context *context, const char *path, mh_precision precision,
                          py_model *to)
{
    mh_status status = load_model(context, path, precision, &to->model);
    const bool again = !status && precision == MH_PRECISION_AUTO &&
                       mh_context_native_bf16(context) &&
                       (mh_model_describe(to->model)->abilities & MH_CAN_TRANSLATE);
    if (again) {
        mh_model_free(to->model);
        to->model = NULL;
        status = load_model(context, path, MH_PRECISION_BF16, &to->model);
    }
    if (precision == MH_PRECISION_AUTO)
        precision = MH_PRECISION_NATIVE;
    return status ? status : load_translator(context, path, precision, to);
}

static mh_status load_released(mh_context *context, const char *path, mh_precision precision,
                               py_model *to)
{
    mh_translator_free(to->translator); // of a call that was cancelled and is made again
    mh_model_free(to->model);
    to->translator = NULL;
    to->model = NULL;
    return load_all(context, path, precision, to);
}

static bool load_into(py_model *self, PyObject *path, int dtype)
{
    static const mh_precision precisions[] = {MH_PRECISION_AUTO, MH_PRECISION_F32,
                                              MH_PRECISION_BF16};
    mh_context *context = py_context();
    mh_status status;
    if (!context)
        return false;
    PY_RUN(context, status,
           load_released(context, PyBytes_AsString(path), precisions[dtype], self));
    if (status)
        py_raise(context, status);
    return !status;
}

static PyObject *model_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"path", "dtype", NULL};
    static const char *const dtypes[] = {"auto", "f32", "bf16", NULL};
    PyObject *path = NULL, *dtype = Py_None;
    int chosen = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|O", names, PyUnicode_FSConverter,
                                     &path, &dtype))
        return NULL;
    py_model *self = NULL;
    if (py_choice(dtype == Py_None ? NULL : dtype, "dtype", dtypes, &chosen))
        self = (py_model *)py_new_object((PyObject *)type);
    if (self && !load_into(self, path, chosen))
        Py_CLEAR(self);
    Py_DECREF(path);
    return (PyObject *)self;
}

static void model_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    py_model *m = (py_model *)self;
    mh_translator_free(m->translator);
    mh_model_free(m->model);
    PyObject_Free(self);
    Py_DECREF(type);
}

// The model's tokenizer, or None.
static PyObject *model_tokenizer(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const mh_tokenizer *tokenizer = mh_model_tokenizer(py_model_of_texts((py_model *)self));
    return tokenizer ? py_tokenizer_of(self, tokenizer) : Py_NewRef(Py_None);
}

// ---- the type -----------------------------------------------------------------------------------

static PyMethodDef model_methods[] = {
    {"describe", py_model_describe, METH_NOARGS, NULL},
    {"encode", PY_WITH_OPTIONS(py_model_encode), NULL},
    {"hidden", PY_WITH_OPTIONS(py_model_hidden), NULL},
    {"logits", py_model_logits, METH_O, NULL},
    {"classify", PY_WITH_OPTIONS(py_model_classify), NULL},
    {"embed", PY_WITH_OPTIONS(py_model_embed), NULL},
    {"embed_pictures", PY_WITH_OPTIONS(py_model_embed_pictures), NULL},
    {"classify_pictures", py_model_classify_pictures, METH_O, NULL},
    {"generate", (PyCFunction)(void (*)(void))py_model_generate, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {"chat", PY_WITH_OPTIONS(py_model_chat), NULL},
    {"translate", (PyCFunction)(void (*)(void))py_model_translate, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {"transcribe", (PyCFunction)(void (*)(void))py_model_transcribe, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {"tokenizer", model_tokenizer, METH_NOARGS, NULL},
    {"trace", py_model_trace, METH_VARARGS, NULL},
    {"trace_picture", py_model_trace_picture, METH_VARARGS, NULL},
    {"trace_ids", py_model_trace_ids, METH_VARARGS, NULL},
    {"trace_translation", py_model_trace_translation, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot model_slots[] = {{Py_tp_new, model_new},
                                    {Py_tp_dealloc, model_dealloc},
                                    {Py_tp_methods, model_methods},
                                    {0, NULL}};
static PyType_Spec model_spec = {"multihead._multihead.Model", sizeof(py_model), 0,
                                 Py_TPFLAGS_DEFAULT, model_slots};

bool py_model_ready(PyObject *module)
{
    model_type = py_type(module, &model_spec);
    return model_type && py_generate_ready(module);
}
