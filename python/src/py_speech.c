// SPDX-License-Identifier: MIT
// Model.transcribe: speech to text.
#include "py_model.h"

#include <multihead/speech.h>

// ---- results ------------------------------------------------------------------------------------

// [(begin, end, text, probability), ...]
static PyObject *list_words(const mh_speech_segment *g)
{
    PyObject *list = PyList_New((Py_ssize_t)g->word_count);
    for (size_t i = 0; i < g->word_count && list; i++) {
        const mh_speech_word *w = &g->words[i];
        if (!py_put(list, i,
                    Py_BuildValue("(ddNd)", w->begin, w->end, py_string(w->text), w->probability)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *segment_tuple(const mh_speech_segment *g)
{
    return Py_BuildValue("(ddNNddddN)", g->begin, g->end, py_string(g->text),
                         py_list_of_ids(g->ids, g->count), g->temperature, g->logprob,
                         g->compression_ratio, g->no_speech, list_words(g));
}

// (language, segments)
static PyObject *transcription_tuple(const mh_transcription *made)
{
    const size_t count = mh_transcription_count(made);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++)
        if (!py_put(list, i, segment_tuple(mh_transcription_segment(made, i))))
            Py_CLEAR(list);
    return list ? Py_BuildValue("(sN)", mh_transcription_language(made), list) : NULL;
}

// ---- the call -----------------------------------------------------------------------------------

static bool read_transcribe_options(PyObject *keywords, mh_transcribe_options *o)
{
    int64_t seed = 0;
    bool fallback = true;
    const py_field fields[] = {PY_BOOL(o, translate),
                               PY_BOOL(o, timestamps),
                               PY_BOOL(o, word_times),
                               {"num_beams", PY_IS_SIZE, &o->beam, NULL},
                               PY_SIZE(o, best_of),
                               {"fallback", PY_IS_BOOL, &fallback, NULL},
                               {"seed", PY_IS_INTEGER, &seed, NULL},
                               PY_DOUBLE(o, max_compression_ratio),
                               PY_DOUBLE(o, min_logprob),
                               PY_DOUBLE(o, max_no_speech),
                               PY_BOOL(o, condition_on_previous),
                               {NULL, PY_IS_BOOL, NULL, NULL}};
    if (!py_fields("transcribe", keywords, fields))
        return false;
    if (seed < 0) {
        PyErr_Format(PyExc_ValueError, "seed: found %lld, expected 0 or more", (long long)seed);
        return false;
    }
    o->seed = (uint64_t)seed;
    o->temperatures = fallback ? o->temperatures : 1;
    return true;
}

static PyObject *transcribe(const mh_model *model, const mh_transcribe_options *o,
                            const mh_audio *audio)
{
    mh_context *context = py_context();
    mh_transcription *made = NULL;
    mh_status status;
    if (!context)
        return NULL;
    PY_RUN(context, status, mh_transcribe(context, model, o, audio, &made));
    PyObject *found = status ? py_raise(context, status) : transcription_tuple(made);
    mh_transcription_free(made);
    return found;
}

// transcribe(samples, rate, language or None, prompt, **options): samples are contiguous f32.
PyObject *py_model_transcribe(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    mh_transcribe_options o = mh_transcribe_options_default();
    PyObject *array, *found = NULL;
    Py_ssize_t rate, prompt_size;
    const char *prompt;
    py_tensor samples = {0};
    if (!PyArg_ParseTuple(arguments, "Onzs#:transcribe", &array, &rate, &o.language, &prompt,
                          &prompt_size) ||
        !read_transcribe_options(keywords, &o) || !py_tensor_from(array, "samples", &samples))
        return NULL;
    o.prompt = (mh_text){prompt, (size_t)prompt_size};
    const mh_tensor *t = &samples.tensor;
    const mh_audio audio = {t->rank ? t->shape[0] : 0, rate < 0 ? 0 : (size_t)rate, t->data};
    if (t->rank != 1 || t->dtype != MH_F32 || (t->shape[0] > 1 && t->stride[0] != 1))
        PyErr_SetString(PyExc_ValueError, "samples: expected contiguous float32 (samples,)");
    else
        found = transcribe(((py_model *)self)->model, &o, &audio);
    py_tensor_release(&samples);
    return found;
}
