// SPDX-License-Identifier: MIT
// Splits texts into segments. A text is normalised (translator_text.c); one that fits the model is
// one segment; a longer one is split at sentence ends, a sentence that is too long as
// mh_sentence_length does, and if that is not enough, between tokens. A text's tokens are those of
// its segments, concatenated; whitespace between segments has no token of its own.
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/translate_internal.h"
#include "model/translator_internal.h"
#include "support/buffer.h"
#include "support/grow.h"

typedef struct cutter {
    mh_context *context;
    const mh_translator *translator;
    mh_text_memory memory;
    size_t limit;         // tokens of a segment
    mh_tokens tokens;     // of one segment
    int32_t *ids;         // of the whole text
    size_t *ends;         //
    size_t count;         //
    size_t ids_capacity;  //
    size_t ends_capacity; //
    mh_buffer text;       //
} cutter;

static bool is_whitespace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

mh_text mh_trim_whitespace(mh_text text)
{
    while (text.size > 0 && is_whitespace(text.bytes[text.size - 1]))
        text.size--;
    while (text.size > 0 && is_whitespace(text.bytes[0]))
        text.bytes++, text.size--;
    return text;
}

static mh_status translate_segment_encode(cutter *c, mh_text text)
{
    return mh_translator_tokenize(c->context, c->translator, MH_SIDE_SOURCE, text, &c->memory,
                                  &c->tokens);
}

// ---- one segment --------------------------------------------------------------------------------

static mh_status add_segment(cutter *c, size_t text, size_t first, size_t count,
                             mh_segment_list *list)
{
    if (!mh_grow(c->context, &list->items, &list->capacity, list->count + 1, sizeof *list->items))
        return MH_ERROR_MEMORY;
    list->items[list->count++] = (mh_segment){.text = text, .first = first, .count = count};
    return MH_OK;
}

// Adds the tokens just encoded, as segments of at most `limit`.
static mh_status translate_segment_add_tokens(cutter *c, size_t text, mh_segment_list *list)
{
    const size_t first = c->count, count = c->tokens.count, base = c->text.size;
    if (!mh_grow(c->context, &c->ids, &c->ids_capacity, first + count, sizeof *c->ids) ||
        !mh_grow(c->context, &c->ends, &c->ends_capacity, first + count, sizeof *c->ends) ||
        !mh_buffer_append(c->context, &c->text, c->tokens.text.data, c->tokens.text.size))
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        c->ids[first + i] = c->tokens.ids[i];
        c->ends[first + i] = base + c->tokens.ends[i];
    }
    c->count += count;
    mh_status status = MH_OK;
    for (size_t i = 0; i < count && !status; i += c->limit)
        status = add_segment(c, text, first + i, mh_smaller(c->limit, count - i), list);
    return status;
}

// Takes the next sentence, or as much of it as fits, off the beginning of `rest`.
static mh_status take_sentence(cutter *c, size_t text, mh_text *rest, mh_segment_list *list)
{
    enum { LEAST = 4 };
    size_t most = mh_larger(LEAST, 4 * c->limit), size;
    mh_text segment;
    mh_status status;
    for (;; most = mh_larger(LEAST, most / 2)) {
        size = mh_sentence_length(rest->bytes, rest->size, most);
        segment = mh_trim_whitespace((mh_text){rest->bytes, size});
        status = translate_segment_encode(c, segment);
        if (status || c->tokens.count <= c->limit || most == LEAST)
            break;
    }
    if (!status)
        status = translate_segment_add_tokens(c, text, list);
    const char *blanks = segment.bytes + segment.size, *end = rest->bytes + size;
    if (!status && !mh_buffer_append(c->context, &c->text, blanks, (size_t)(end - blanks)))
        status = MH_ERROR_MEMORY;
    *rest = (mh_text){end, rest->size - size};
    return status;
}

// ---- a text -------------------------------------------------------------------------------------

static mh_status cut_text(cutter *c, size_t i, mh_text text, mh_segment_list *list)
{
    const size_t valid = mh_utf8_valid(text.bytes, text.size);
    if (valid != text.size)
        return mh_fail(c->context, MH_ERROR_FORMAT, "texts[%zu]: byte %zu is not UTF-8", i, valid);
    c->count = c->text.size = 0;
    if (mh_trim_whitespace(text).size == 0)
        return MH_OK;
    MH_TRY(mh_translator_normalize(c->context, c->translator, text, &c->memory, &text));
    MH_TRY(translate_segment_encode(c, text));
    if (c->tokens.count <= c->limit)
        return translate_segment_add_tokens(c, i, list);
    mh_status status = MH_OK;
    while (text.size > 0 && !status)
        status = take_sentence(c, i, &text, list);
    return status;
}

static mh_status keep_tokens(const cutter *c, mh_result_arena *store, mh_tokens *tokens)
{
    *tokens = (mh_tokens){.count = c->count};
    tokens->ids = mh_result_copy(c->context, store, c->ids, c->count, sizeof *c->ids);
    tokens->ends = mh_result_copy(c->context, store, c->ends, c->count, sizeof *c->ends);
    tokens->text.data = mh_result_copy(c->context, store, c->text.data, c->text.size, 1);
    tokens->text.size = c->text.size;
    return tokens->ids && tokens->ends && tokens->text.data ? MH_OK : MH_ERROR_MEMORY;
}

mh_status mh_cut_texts(mh_context *context, const mh_translator *translator, const mh_text *texts,
                       mh_translations *t, mh_segment_list *segments)
{
    cutter c = {.context = context,
                .translator = translator,
                .limit = mh_translator_source_limit(translator)};
    mh_status status = MH_OK;
    for (size_t i = 0; i < t->count && !status; i++) {
        const size_t first = segments->count;
        status = cut_text(&c, i, texts[i], segments);
        if (!status)
            status = keep_tokens(&c, &t->store, &t->sources[i]);
        for (size_t p = first; p < segments->count && !status; p++)
            segments->items[p].ids = t->sources[i].ids + segments->items[p].first;
    }
    mh_tokens_free(context, &c.tokens);
    mh_shrink(context, &c.ids, &c.ids_capacity, sizeof *c.ids);
    mh_shrink(context, &c.ends, &c.ends_capacity, sizeof *c.ends);
    mh_buffer_free(context, &c.text);
    mh_text_memory_free(context, &c.memory);
    return status;
}
