// SPDX-License-Identifier: MIT
// What a model is, as a dictionary.
#include "py_model.h"

static PyObject *abilities_of(const mh_model_info *info)
{
    static const struct {
        unsigned ability;
        const char *name;
    } names[] = {{MH_CAN_EMBED, "embed"},         {MH_CAN_FILL, "fill"},
                 {MH_CAN_CLASSIFY, "classify"},   {MH_CAN_GENERATE, "generate"},
                 {MH_CAN_TRANSLATE, "translate"}, {MH_CAN_TRANSCRIBE, "transcribe"},
                 {MH_CAN_MATCH, "match"}};
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < sizeof names / sizeof *names && list; i++) {
        if (!(info->abilities & names[i].ability))
            continue;
        PyObject *word = PyUnicode_FromString(names[i].name);
        if (!word || PyList_Append(list, word) != 0)
            Py_CLEAR(list);
        Py_XDECREF(word);
    }
    return list;
}

static PyObject *labels_of(const mh_model *model)
{
    const size_t count = mh_model_describe(model)->labels;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && list; i++) {
        const char *label = mh_model_label(model, i);
        if (!py_put(list, i,
                    label ? py_string((mh_text){label, strlen(label)})
                          : PyUnicode_FromFormat("label %zu", i)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *defaults_of(const mh_model *model)
{
    const mh_generation_defaults *d = mh_model_generation_defaults(model);
    return Py_BuildValue("{s:N,s:d,s:d,s:d,s:d,s:d,s:n,s:n,s:n,s:n}", "sample",
                         PyBool_FromLong(d->sample), "temperature", d->temperature, "top_p",
                         d->top_p, "min_p", d->min_p, "repetition_penalty", d->repetition_penalty,
                         "length_penalty", d->length_penalty, "top_k", (Py_ssize_t)d->top_k,
                         "num_beams", (Py_ssize_t)d->beam, "max_length", (Py_ssize_t)d->max_length,
                         "max_new_tokens", (Py_ssize_t)d->max_new_tokens);
}

// Adds the sizes, one entry for each field.
static bool add_sizes(PyObject *to, const mh_model_info *info)
{
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {{"layers", info->layers},
                 {"d_model", info->d_model},
                 {"heads", info->heads},
                 {"kv_heads", info->kv_heads},
                 {"head_dim", info->head_dim},
                 {"dim_feedforward", info->dim_feedforward},
                 {"vocabulary", info->vocabulary},
                 {"max_length", info->max_length},
                 {"parameters", info->parameters},
                 {"file_bytes", info->file_bytes},
                 {"memory_bytes", info->memory_bytes},
                 {"memory_bytes_bf16", info->memory_bytes_bf16},
                 {"decoder_layers", info->decoder_layers},
                 {"target_vocabulary", info->target_vocabulary},
                 {"window", info->window},
                 {"window_layers", info->window_layers},
                 {"embedding_dim", info->embedding_dim},
                 {"image_size", info->image_size},
                 {"patch_size", info->patch_size},
                 {"image_channels", info->image_channels}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        PyObject *value = PyLong_FromSize_t(sizes[i].value);
        const bool ok = value && PyDict_SetItemString(to, sizes[i].name, value) == 0;
        Py_XDECREF(value);
        if (!ok)
            return false;
    }
    return true;
}

PyObject *py_model_describe(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    static const char *const poolings[] = {"mean", "cls", "last", "max"};
    const mh_model *model = ((py_model *)self)->model;
    const mh_model_info *info = mh_model_describe(model);
    PyObject *all = Py_BuildValue(
        "{s:s,s:s,s:N,s:N,s:s,s:N,s:N,s:d,s:s,s:z,s:N,s:N,s:d}", "family", info->family,
        "architecture", info->architecture, "abilities", abilities_of(info), "labels",
        labels_of(model), "pooling", poolings[info->pooling], "normalize",
        PyBool_FromLong(info->normalize), "causal", PyBool_FromLong(info->causal), "rope_base",
        info->rope_base, "rope_scaling", info->rope_scaling, "chat_template",
        mh_model_chat_template(model), "generation_defaults", defaults_of(model), "tokenizer",
        PyBool_FromLong(mh_model_tokenizer(py_model_of_texts((py_model *)self)) != NULL),
        "logit_scale", info->logit_scale);
    if (all && !add_sizes(all, info))
        Py_CLEAR(all);
    return all;
}
