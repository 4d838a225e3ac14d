// SPDX-License-Identifier: MIT
// Model.translate: by beam search, or the scores of translations that are given.
#include "py_model.h"

bool py_heads_from(PyObject *value, size_t expected, const bool **heads)
{
    if (!value || value == Py_None)
        return true;
    const char *bytes = PyBytes_Check(value) ? PyBytes_AsString(value) : NULL;
    if (!bytes || (size_t)PyBytes_Size(value) != expected) {
        PyErr_Format(PyExc_ValueError, "disabled_heads: expected %zu bytes, one for each head",
                     expected);
        return false;
    }
    for (size_t i = 0; i < expected; i++)
        if ((unsigned char)bytes[i] > 1) {
            PyErr_SetString(PyExc_ValueError, "disabled_heads: expected bytes of 0 and 1");
            return false;
        }
    *heads = (const bool *)bytes;
    return true;
}

// ---- results ------------------------------------------------------------------------------------

// The parts of a text between `ends`.
static PyObject *list_parts(const char *bytes, const size_t *ends, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++) {
        const size_t begin = i ? ends[i - 1] : 0;
        if (!py_put(list, i, py_string((mh_text){bytes + begin, ends[i] - begin})))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *attention_of(const mh_translation *t)
{
    const size_t shape[2] = {t->count, t->source->count};
    mh_tensor table;
    if (!t->attention)
        Py_RETURN_NONE;
    PyObject *array = py_output(PY_NUMPY, MH_F32, 2, shape, &table);
    if (array && t->count && t->source->count)
        memcpy(table.data, t->attention, shape[0] * shape[1] * sizeof(float));
    return array;
}

static PyObject *token_scores_of(const mh_translation *t)
{
    if (!t->token_log_probabilities)
        Py_RETURN_NONE;
    return py_list_of_doubles(t->token_log_probabilities, t->count + 1);
}

// (text, score, log-probability, ids, tokens, source tokens, attention, token log-probabilities)
static PyObject *translation_tuple(const mh_translation *t)
{
    return Py_BuildValue("(NddNNNNN)", py_string(t->text), t->score, t->log_probability,
                         py_list_of_ids(t->ids, t->count),
                         list_parts(t->text.bytes, t->ends, t->count),
                         list_parts(t->source->text.data, t->source->ends, t->source->count),
                         attention_of(t), token_scores_of(t));
}

static PyObject *list_ranks(const mh_translations *made, size_t i)
{
    PyObject *list = PyList_New(0);
    const mh_translation *t;
    for (size_t rank = 0; list && (t = mh_translations_at(made, i, rank)); rank++) {
        PyObject *one = translation_tuple(t);
        if (!one || PyList_Append(list, one) != 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *list_translations(const mh_translations *made, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++)
        if (!py_put(list, i, list_ranks(made, i)))
            Py_CLEAR(list);
    return list;
}

// ---- calls --------------------------------------------------------------------------------------

static bool read_translate_options(PyObject *keywords, mh_translate_options *o)
{
    int64_t layer = o->alignment_layer;
    const py_field fields[] = {{"num_beams", PY_IS_SIZE, &o->beam, NULL},
                               PY_SIZE(o, n_best),
                               PY_DOUBLE(o, length_penalty),
                               PY_DOUBLE(o, max_length_factor),
                               PY_SIZE(o, max_length_constant),
                               PY_SIZE(o, batch),
                               PY_BOOL(o, attention),
                               {"alignment_layer", PY_IS_INTEGER, &layer, NULL},
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    if (!py_fields("translate", keywords, fields))
        return false;
    if (layer < -1 || layer > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "alignment_layer: found %lld, expected a layer from 0",
                     (long long)layer);
        return false;
    }
    o->alignment_layer = (int)layer;
    return true;
}

static mh_status translate_again(mh_context *context, const mh_translator *translator,
                                 const mh_translate_options *o, const py_texts *texts,
                                 const py_texts *targets, mh_translations **made)
{
    *made = NULL;
    return targets->texts ? mh_score_translations(context, translator, o, texts->texts,
                                                  targets->texts, texts->count, made)
                          : mh_translate(context, translator, o, texts->texts, texts->count, made);
}

static PyObject *translate(const py_model *self, const mh_translate_options *o,
                           const py_texts *texts, const py_texts *targets)
{
    mh_context *context = py_context();
    mh_translations *made = NULL;
    mh_status status;
    if (!context)
        return NULL;
    if (targets->texts && targets->count != texts->count)
        return PyErr_Format(PyExc_ValueError, "target: found %zu texts, expected %zu",
                            targets->count, texts->count);
    if (!self->translator) { // says why not
        mh_translator *none = NULL;
        status = mh_translator_from_model(context, self->model, &none);
        mh_translator_free(none);
        return py_raise(context, status);
    }
    PY_RUN(context, status, translate_again(context, self->translator, o, texts, targets, &made));
    PyObject *found = status ? py_raise(context, status) : list_translations(made, texts->count);
    mh_translations_free(made);
    return found;
}

// translate(texts, targets or None, disabled heads, **options)
PyObject *py_model_translate(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    py_model *model = (py_model *)self;
    const mh_model_info *info = mh_model_describe(model->model);
    PyObject *text_list, *target_list, *heads, *found = NULL;
    mh_translate_options o = mh_translate_options_default();
    py_texts texts = {0}, targets = {0};
    if (!PyArg_ParseTuple(arguments, "OOO:translate", &text_list, &target_list, &heads) ||
        !read_translate_options(keywords, &o) ||
        !py_heads_from(heads, (info->layers + 2 * info->decoder_layers) * info->heads,
                       &o.disabled_heads))
        return NULL;
    if (py_texts_from(text_list, "texts", &texts) &&
        (target_list == Py_None || py_texts_from(target_list, "target", &targets)))
        found = translate(model, &o, &texts, &targets);
    py_texts_release(&texts);
    py_texts_release(&targets);
    return found;
}
