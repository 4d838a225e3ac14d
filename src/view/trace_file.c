// SPDX-License-Identifier: MIT
// A trace from a safetensors file; docs/reference/trace-format.md describes it. The tensors are
// views of the mapped file; the token lists are JSON in the file's metadata, owned by jansson.
//
// A list is scanned before jansson sees it, because jansson's tree takes many times the size of the
// text: a list that is not flat, or has more members than a sequence of the file has tokens, is
// rejected.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <multihead/io.h>

#include "base/argument_check.h"
#include "base/release.h"
#include "support/json_load.h"
#include "support/source.h"
#include "view/trace.h"

enum { SOURCE, TARGET, GIVEN, SIDES };

struct mh_trace_file {
    mh_allocator allocator;
    mh_tensor_file *file;
    mh_trace trace;
    mh_trace_stream streams[MH_TRACE_KINDS];
    json_t *lists[SIDES];
    json_t *choice_list;
    const char **choice_texts; // (choice_count), into the list
    size_t choice_count;       // T K
    float *probabilities;      // (choice_count + T)
    const char **texts[SIDES]; // (count), into the lists
    bool *starts[SIDES];       // (count)
};

static const char *const side_keys[SIDES][2] = {
    [SOURCE] = {"source.tokens", "source.words"},
    [TARGET] = {"target.tokens", "target.words"},
    [GIVEN] = {"given.tokens", "given.words"},
};

static mh_trace_tokens *tokens_of(mh_trace *trace, int side)
{
    return side == SOURCE ? &trace->source : side == TARGET ? &trace->target : &trace->given;
}

// ---- token lists --------------------------------------------------------------------------------

// The list under `key`; *list stays NULL if there is none.
static mh_status load_list(const mh_source *source, const mh_tensor_file *file, const char *key,
                           size_t most, json_t **list)
{
    const char *text = mh_tensor_file_metadata(file, key);
    if (text == NULL)
        return MH_OK;
    char what[80];
    mh_json_scan scan = {0};
    const size_t size = strlen(text);
    snprintf(what, sizeof what, "metadata '%s' ", key);
    mh_status status = mh_json_scan_text(source, what, text, size, 1, &scan);
    if (status == MH_OK && scan.members >= most && scan.members > 0)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "metadata '%s': expected a list of at most %zu member%s, found %s",
                              key, most, most == 1 ? "" : "s", mh_quote_string(text).text);
    if (status == MH_OK)
        status = mh_json_load(source, what, text, size, &scan, list);
    if (status == MH_OK && !json_is_array(*list))
        return mh_source_fail(source, MH_ERROR_FORMAT, "metadata '%s': expected a list, found %s",
                              key, mh_quote_string(text).text);
    return status;
}

static mh_status trace_read_tokens(mh_trace_file *f, const mh_source *source, const char *key,
                                   int side, size_t most, mh_trace_tokens *tokens)
{
    json_t *item;
    size_t i;
    mh_status status = load_list(source, f->file, key, most, &f->lists[side]);
    size_t count = json_array_size(f->lists[side]);
    if (status != MH_OK || count == 0)
        return status;
    const char **texts = mh_alloc(source->context, count * sizeof *texts);
    if (texts == NULL)
        return MH_ERROR_MEMORY;
    f->texts[side] = texts;
    *tokens = (mh_trace_tokens){.count = count, .text = texts};
    json_array_foreach(f->lists[side], i, item)
    {
        if (!json_is_string(item))
            return mh_source_fail(source, MH_ERROR_FORMAT,
                                  "metadata '%s': member %zu is not a string", key, i);
        texts[i] = json_string_value(item);
    }
    return MH_OK;
}

// Which tokens begin a word: true and false, one for each.
static mh_status read_starts(mh_trace_file *f, const mh_source *source, const char *key, int side,
                             mh_trace_tokens *tokens)
{
    json_t *list = NULL, *item;
    size_t i;
    mh_status status = load_list(source, f->file, key, tokens->count, &list);
    size_t found = json_array_size(list);
    if (status == MH_OK && list != NULL && found != tokens->count)
        status = mh_source_fail(
            source, MH_ERROR_FORMAT,
            "metadata '%s': found a list of %zu, expected one for each of %zu tokens", key, found,
            tokens->count);
    if (status == MH_OK && found != 0 &&
        (f->starts[side] = mh_alloc(source->context, found * sizeof(bool))) == NULL)
        status = MH_ERROR_MEMORY;
    json_array_foreach(list, i, item)
    {
        if (status != MH_OK)
            break;
        if (!json_is_boolean(item))
            status = mh_source_fail(source, MH_ERROR_FORMAT,
                                    "metadata '%s': member %zu is neither true nor false", key, i);
        else
            f->starts[side][i] = json_is_true(item);
    }
    if (status == MH_OK && found != 0)
        tokens->word_start = f->starts[side];
    json_decref(list);
    return status;
}

// ---- choices ------------------------------------------------------------------------------------

static mh_status keep_choices(mh_trace_file *f, const mh_source *source, const mh_tensor *rows,
                              const mh_tensor *chosen)
{
    const size_t T = rows->shape[0], count = T * rows->shape[1];
    mh_context *context = source->context;
    json_t *item;
    size_t i;
    mh_status status = load_list(source, f->file, "choices.tokens", count, &f->choice_list);
    if (status != MH_OK)
        return status;
    if (json_array_size(f->choice_list) != count)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "metadata 'choices.tokens': found a list of %zu, expected %zu",
                              json_array_size(f->choice_list), count);
    f->choice_texts = mh_alloc(context, count * sizeof *f->choice_texts);
    f->probabilities = mh_alloc(context, (count + T) * sizeof *f->probabilities);
    f->choice_count = count;
    if (!f->choice_texts || !f->probabilities)
        return MH_ERROR_MEMORY;
    json_array_foreach(f->choice_list, i, item)
    {
        f->choice_texts[i] = json_string_value(item);
        if (!f->choice_texts[i])
            return mh_source_fail(source, MH_ERROR_FORMAT,
                                  "metadata 'choices.tokens': member %zu is not a string", i);
    }
    mh_tensor to = mh_tensor_2d(f->probabilities, MH_F32, T, rows->shape[1]);
    mh_tensor taken = mh_tensor_1d(f->probabilities + count, MH_F32, T);
    status = mh_tensor_copy(context, rows, &to);
    if (status == MH_OK)
        status = mh_tensor_copy(context, chosen, &taken);
    f->trace.choices = (mh_trace_choices){.count = rows->shape[1],
                                          .text = f->choice_texts,
                                          .probability = f->probabilities,
                                          .chosen = f->probabilities + count};
    return status;
}

static mh_status read_choices(mh_trace_file *f, const mh_source *source)
{
    mh_tensor rows, chosen;
    if (!mh_tensor_file_find(f->file, "choices.probability", &rows) ||
        !mh_tensor_file_find(f->file, "choices.chosen", &chosen))
        return MH_OK;
    if (rows.rank != 2 || chosen.rank != 1 || rows.dtype != MH_F32 || chosen.dtype != MH_F32 ||
        rows.shape[0] != f->trace.target.count || chosen.shape[0] != rows.shape[0] ||
        mh_tensor_count(&rows) == 0)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "choices: expected f32 of (T, K) and (T) for %zu target tokens",
                              f->trace.target.count);
    return keep_choices(f, source, &rows, &chosen);
}

// ---- tensors and the rest -----------------------------------------------------------------------

// Finds tensor `name`; its data stays NULL if there is none.
static mh_status trace_find_tensor(const mh_source *source, const mh_tensor_file *file,
                                   const char *name, mh_tensor *tensor)
{
    char shape[160];
    if (!mh_tensor_file_find(file, name, tensor))
        return MH_OK;
    if (mh_tensor_count(tensor) == 0)
        return mh_source_fail(source, MH_ERROR_FORMAT, "tensor '%s': found %s, expected elements",
                              name, mh_tensor_describe(tensor, shape, sizeof shape));
    return MH_OK;
}

// One number, of any float type.
static mh_status read_scale(const mh_source *source, const mh_tensor_file *file, const char *name,
                            double *scale)
{
    char shape[160];
    mh_tensor found, number = mh_tensor_1d(scale, MH_F64, 1);
    if (!mh_tensor_file_find(file, name, &found))
        return MH_OK;
    mh_tensor flat = mh_tensor_1d(found.data, found.dtype, 1);
    if (mh_tensor_count(&found) == 1 && mh_tensor_copy(source->context, &flat, &number) == MH_OK &&
        *scale > 0)
        return MH_OK;
    return mh_source_fail(source, MH_ERROR_FORMAT, "tensor '%s': found %s, expected a number > 0",
                          name, mh_tensor_describe(&found, shape, sizeof shape));
}

// Turns a failed check into an error of the file.
static mh_status blame_file(const mh_source *source, mh_status status)
{
    char message[512];
    if (status != MH_ERROR_ARGUMENT)
        return status;
    snprintf(message, sizeof message, "%s", mh_error_message(source->context));
    return mh_source_fail(source, MH_ERROR_FORMAT, "%s", message);
}

static mh_status read_axes(const mh_source *source, const mh_tensor_file *file, const char *key,
                           bool *sequences)
{
    const char *axes = mh_tensor_file_metadata(file, key);
    *sequences = axes != NULL && strcmp(axes, MH_TRACE_BATCH_AXES) == 0;
    if (axes == NULL || *sequences || strcmp(axes, MH_TRACE_LAYER_AXES) == 0)
        return MH_OK;
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "metadata '%s': found %s, expected \"" MH_TRACE_LAYER_AXES
                          "\" or \"" MH_TRACE_BATCH_AXES "\"",
                          key, mh_quote_string(axes).text);
}

// The residual stream, if the file has any of it.
static mh_status read_stream(const mh_source *source, const mh_tensor_file *file,
                             const char *prefix, mh_trace_stream *stream, mh_trace_group *group)
{
    char name[64];
    mh_tensor *tensors[] = {&stream->x, &stream->sum, &stream->hidden};
    mh_status status = MH_OK;
    for (int i = 0; i < 3 && status == MH_OK; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, mh_trace_tensor_names[MH_TRACE_X + i]);
        status = trace_find_tensor(source, file, name, tensors[i]);
        if (tensors[i]->data != NULL)
            group->stream = stream;
    }
    snprintf(name, sizeof name, "%s.norm", prefix);
    stream->order = mh_tensor_file_metadata(file, name);
    return status;
}

static mh_status read_group(const mh_source *source, const mh_tensor_file *file, mh_trace_kind kind,
                            mh_trace_stream *stream, mh_trace_group *group)
{
    char name[64];
    const char *prefix = mh_trace_kind_name(kind);
    mh_status status = trace_find_tensor(source, file, prefix, &group->weights);
    if (status == MH_OK)
        status = blame_file(source, mh_trace_check_rank(source->context, kind, &group->weights));
    mh_tensor *tensors[] = {&group->q, &group->k, &group->v, &group->out, &group->mask};
    for (int tap = 0; tap <= MH_TRACE_MASK && status == MH_OK; tap++) {
        snprintf(name, sizeof name, "%s.%s", prefix, mh_trace_tensor_names[tap]);
        status = trace_find_tensor(source, file, name, tensors[tap]);
    }
    if (status == MH_OK)
        status = read_stream(source, file, prefix, stream, group);
    snprintf(name, sizeof name, "%s.axes", prefix);
    if (status == MH_OK)
        status = read_axes(source, file, name, &group->sequences);
    snprintf(name, sizeof name, "%s.scale", prefix);
    if (status == MH_OK)
        status = read_scale(source, file, name, &group->scale);
    return status;
}

// The longest sequence in the file's weights.
static size_t longest_sequence(const mh_trace *trace)
{
    size_t most = 0;
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++) {
        const mh_tensor *w = &trace->groups[kind].weights;
        for (int d = 2; w->data != NULL && d < 4; d++)
            if (w->shape[d] > most)
                most = w->shape[d];
    }
    return most;
}

// "ROWS,COLUMNS", each of at most four digits.
static bool read_patches(const char *text, size_t *rows, size_t *columns)
{
    enum { MOST_DIGITS = 4 };
    static const char digits[] = "0123456789";
    const size_t first = text ? strspn(text, digits) : 0;
    const size_t second = first && text[first] == ',' ? strspn(text + first + 1, digits) : 0;
    if (!second || first > MOST_DIGITS || second > MOST_DIGITS || text[first + 1 + second])
        return false;
    *rows = strtoul(text, NULL, 10);
    *columns = strtoul(text + first + 1, NULL, 10);
    return true;
}

static mh_status read_picture(const mh_source *source, const mh_tensor_file *file,
                              mh_trace_picture *p)
{
    char shape[160];
    mh_tensor t = {0};
    const char *patches = mh_tensor_file_metadata(file, MH_TRACE_PICTURE_PATCHES);
    mh_status status = trace_find_tensor(source, file, MH_TRACE_PICTURE, &t);
    if (status != MH_OK || t.data == NULL)
        return status;
    if (t.dtype != MH_U8 || t.rank != 3 || t.shape[2] != 3)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "tensor '%s': found %s, expected u8 (height, width, 3)",
                              MH_TRACE_PICTURE, mh_tensor_describe(&t, shape, sizeof shape));
    if (!read_patches(patches, &p->rows, &p->columns))
        return mh_source_fail(
            source, MH_ERROR_FORMAT, "metadata '%s': found %s, expected \"ROWS,COLUMNS\"",
            MH_TRACE_PICTURE_PATCHES, patches ? mh_quote_string(patches).text : "none");
    p->pixels = t.data;
    p->height = t.shape[0];
    p->width = t.shape[1];
    return MH_OK;
}

static mh_status read_all(mh_trace_file *f, const mh_source *source)
{
    mh_trace *trace = &f->trace;
    mh_status status = MH_OK;
    const char *version = mh_tensor_file_metadata(f->file, "trace");
    if (version != NULL && strcmp(version, "1") != 0)
        return mh_source_fail(source, MH_ERROR_FORMAT, "trace version %s, expected \"1\"",
                              mh_quote_string(version).text);
    trace->title = mh_tensor_file_metadata(f->file, "title");
    trace->model = mh_tensor_file_metadata(f->file, "model");
    for (int kind = 0; kind < MH_TRACE_KINDS && status == MH_OK; kind++)
        status = read_group(source, f->file, (mh_trace_kind)kind, &f->streams[kind],
                            &trace->groups[kind]);
    if (status == MH_OK)
        status = read_picture(source, f->file, &trace->picture);
    size_t most = longest_sequence(trace);
    for (int side = 0; side < SIDES && status == MH_OK; side++)
        status =
            trace_read_tokens(f, source, side_keys[side][0], side, most, tokens_of(trace, side));
    for (int side = 0; side < SIDES && status == MH_OK; side++)
        status = read_starts(f, source, side_keys[side][1], side, tokens_of(trace, side));
    return status == MH_OK ? read_choices(f, source) : status;
}

// Takes ownership of the tensor file, also on failure.
static mh_status trace_take(mh_context *context, const char *name, mh_tensor_file *tensors,
                            mh_trace_file **file)
{
    const mh_source source = {.context = context, .name = name};
    mh_trace_file *f = mh_alloc(context, sizeof *f);
    if (f == NULL) {
        mh_tensor_file_free(tensors);
        return MH_ERROR_MEMORY;
    }
    *f = (mh_trace_file){
        .allocator = mh_context_allocator(context), .file = tensors, .trace = mh_trace_default()};
    mh_status status = read_all(f, &source);
    if (status == MH_OK)
        status = blame_file(&source, mh_trace_check(context, &f->trace));
    if (status == MH_OK)
        *file = f;
    else
        mh_trace_file_free(f);
    return status;
}

mh_status mh_trace_file_open(mh_context *context, const char *path, mh_trace_file **file)
{
    mh_tensor_file *tensors;
    if (mh_need(context, file, "file"))
        return MH_ERROR_ARGUMENT;
    *file = NULL;
    mh_status status = mh_tensor_file_open(context, path, &tensors);
    return status == MH_OK ? trace_take(context, path, tensors, file) : status;
}

mh_status mh_trace_file_parse(mh_context *context, const char *name, const void *bytes, size_t size,
                              mh_trace_file **file)
{
    mh_tensor_file *tensors;
    if (mh_need(context, file, "file"))
        return MH_ERROR_ARGUMENT;
    *file = NULL;
    name = name ? name : "(memory)";
    mh_status status = mh_tensor_file_parse(context, name, bytes, size, &tensors);
    return status == MH_OK ? trace_take(context, name, tensors, file) : status;
}

const mh_trace *mh_trace_file_trace(const mh_trace_file *file) { return &file->trace; }

void mh_trace_file_free(mh_trace_file *file)
{
    if (file == NULL)
        return;
    const mh_allocator allocator = file->allocator;
    for (int side = 0; side < SIDES; side++) {
        size_t count = tokens_of(&file->trace, side)->count;
        mh_release(&allocator, file->texts[side], count * sizeof *file->texts[side]);
        mh_release(&allocator, file->starts[side], count * sizeof *file->starts[side]);
        json_decref(file->lists[side]);
    }
    const size_t choices = file->choice_count, rows = file->trace.target.count;
    mh_release(&allocator, file->choice_texts, choices * sizeof *file->choice_texts);
    mh_release(&allocator, file->probabilities, (choices + rows) * sizeof *file->probabilities);
    json_decref(file->choice_list);
    mh_tensor_file_free(file->file);
    mh_release(&allocator, file, sizeof *file);
}
