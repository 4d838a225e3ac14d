// SPDX-License-Identifier: MIT
// A trace to a safetensors file, as docs/reference/trace-format.md describes it.
#include <stdio.h>

#include <multihead/io.h>

#include "view/token_text.h"
#include "view/trace.h"

enum {
    // the weights, the scale; choices, a picture
    TENSORS_MAX = MH_TRACE_KINDS * (2 + MH_TRACE_TENSORS) + 3,
    // version, title, model; three lists of tokens, three of words; choices, patches
    METADATA_MAX = 11 + 2 * MH_TRACE_KINDS,
    NAME_MAX_BYTES = 32,
};

typedef struct output {
    mh_context *context;
    mh_named_tensor tensors[TENSORS_MAX];
    char names[TENSORS_MAX][NAME_MAX_BYTES];
    size_t tensor_count;
    mh_metadata metadata[METADATA_MAX];
    char axes_keys[MH_TRACE_KINDS][NAME_MAX_BYTES], norm_keys[MH_TRACE_KINDS][NAME_MAX_BYTES];
    double scales[MH_TRACE_KINDS];
    char patches[48];
    size_t metadata_count;
    mh_buffer owned[METADATA_MAX]; // values that were made here
    size_t owned_count;
    mh_status status;
} output;

static void trace_add_tensor(output *o, const char *group, const char *tap, const mh_tensor *tensor)
{
    if (tensor->data == NULL)
        return;
    char *name = o->names[o->tensor_count];
    snprintf(name, NAME_MAX_BYTES, "%s%s%s", group, *tap ? "." : "", tap);
    o->tensors[o->tensor_count++] = (mh_named_tensor){name, *tensor};
}

static void trace_add_metadata(output *o, const char *key, const char *value)
{
    o->metadata[o->metadata_count++] = (mh_metadata){key, value};
}

// Adds the caller's text, repaired to valid UTF-8.
static void trace_add_text(output *o, const char *key, const char *text)
{
    if (text == NULL || o->status != MH_OK)
        return;
    mh_appender value = {.context = o->context};
    mh_append_utf8(&value, text);
    mh_append(&value, "", 0); // at least a terminating 0
    mh_buffer *bytes = &o->owned[o->owned_count++];
    o->status = mh_append_finish(&value, MH_OK, bytes);
    if (o->status == MH_OK)
        trace_add_metadata(o, key, bytes->data);
}

// Adds a list as JSON, and takes ownership of it.
static void add_list(output *o, const char *key, json_t *list)
{
    mh_buffer *text = &o->owned[o->owned_count++];
    o->status = list ? mh_json_print(o->context, list, text) : MH_ERROR_MEMORY;
    json_decref(list);
    if (o->status == MH_OK)
        trace_add_metadata(o, key, text->data);
}

static void trace_add_tokens(output *o, const char *key, const char *starts_key,
                             mh_trace_tokens tokens)
{
    if (tokens.count == 0 || o->status != MH_OK)
        return;
    add_list(o, key, mh_json_tokens(o->context, tokens));
    if (tokens.word_start != NULL && o->status == MH_OK)
        add_list(o, starts_key, mh_json_starts(o->context, tokens));
}

static void add_choices(output *o, const mh_trace *trace)
{
    const mh_trace_choices *c = &trace->choices;
    const size_t T = trace->target.count;
    if (o->status == MH_OK && c->count > 0) {
        const mh_trace_tokens tokens = {.count = T * c->count, .text = c->text};
        mh_tensor rows = mh_tensor_2d((void *)(uintptr_t)c->probability, MH_F32, T, c->count);
        mh_tensor chosen = mh_tensor_1d((void *)(uintptr_t)c->chosen, MH_F32, T);
        trace_add_tensor(o, "choices.probability", "", &rows);
        trace_add_tensor(o, "choices.chosen", "", &chosen);
        add_list(o, "choices.tokens", mh_json_tokens(o->context, tokens));
    }
}

static void add_group(output *o, const mh_trace_group *group, mh_trace_kind kind)
{
    const char *name = mh_trace_kind_name(kind);
    trace_add_tensor(o, name, "", &group->weights);
    for (int tap = 0; tap < MH_TRACE_TENSORS; tap++)
        trace_add_tensor(o, name, mh_trace_tensor_names[tap], mh_trace_tensor_const(group, tap));
    if (group->sequences && group->weights.data != NULL) {
        snprintf(o->axes_keys[kind], NAME_MAX_BYTES, "%s.axes", name);
        trace_add_metadata(o, o->axes_keys[kind], MH_TRACE_BATCH_AXES);
    }
    if (group->stream && group->stream->order && group->weights.data != NULL) {
        snprintf(o->norm_keys[kind], NAME_MAX_BYTES, "%s.norm", name);
        trace_add_text(o, o->norm_keys[kind], group->stream->order);
    }
    if (group->scale > 0 && group->weights.data != NULL) {
        o->scales[kind] = group->scale;
        mh_tensor scale = mh_tensor_view(&o->scales[kind], MH_F64, 0, NULL);
        trace_add_tensor(o, name, "scale", &scale);
    }
}

static void add_picture(output *o, const mh_trace_picture *p)
{
    if (p->pixels == NULL)
        return;
    const mh_tensor pixels =
        mh_tensor_3d((void *)(uintptr_t)p->pixels, MH_U8, p->height, p->width, 3);
    trace_add_tensor(o, MH_TRACE_PICTURE, "", &pixels);
    snprintf(o->patches, sizeof o->patches, "%zu,%zu", p->rows, p->columns);
    trace_add_metadata(o, MH_TRACE_PICTURE_PATCHES, o->patches);
}

static mh_status collect_and_write(output *o, const char *path, const mh_trace *trace)
{
    trace_add_metadata(o, "trace", "1");
    trace_add_text(o, "title", trace->title);
    trace_add_text(o, "model", trace->model);
    trace_add_tokens(o, "source.tokens", "source.words", trace->source);
    trace_add_tokens(o, "target.tokens", "target.words", trace->target);
    add_choices(o, trace);
    if (mh_trace_has(trace, MH_TRACE_DECODER))
        trace_add_tokens(o, "given.tokens", "given.words", trace->given);
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++)
        add_group(o, &trace->groups[kind], (mh_trace_kind)kind);
    add_picture(o, &trace->picture);
    if (o->status == MH_OK)
        o->status = mh_safetensors_write(o->context, path, o->tensors, o->tensor_count, o->metadata,
                                         o->metadata_count);
    for (size_t i = 0; i < o->owned_count; i++)
        mh_buffer_free(o->context, &o->owned[i]);
    return o->status;
}

mh_status mh_trace_write(mh_context *context, const char *path, const mh_trace *given)
{
    mh_trace trace;
    mh_status status = mh_trace_read(context, given, false, &trace);
    if (status != MH_OK)
        return status;
    output *o = mh_alloc(context, sizeof *o);
    if (o == NULL)
        return MH_ERROR_MEMORY;
    *o = (output){.context = context};
    status = collect_and_write(o, path, &trace);
    mh_free(context, o, sizeof *o);
    return status;
}
