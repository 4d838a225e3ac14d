// SPDX-License-Identifier: MIT
// A text through all components up to the model:
//
//     "Hi <s>there"   added tokens as written      Hi_ | <s> | there
//                     normalizers, piece by piece  hi_ | <s> | there
//                     added tokens, normalised; pre-tokenizers
//                     model                        ids and offsets in the normalised text
//                     offsets in the text as it was given
#include "base/argument_check.h"
#include "text/tokenizer_classes.h"
#include "text/tokenizer_scratch.h"

mh_encode_scratch *mh_encode_scratch_create(mh_context *context)
{
    mh_encode_scratch *scratch = mh_alloc(context, sizeof *scratch);
    if (scratch)
        memset(scratch, 0, sizeof *scratch);
    return scratch;
}

static void free_pieces(mh_context *context, mh_chunk_list *list)
{
    mh_shrink(context, &list->items, &list->capacity, sizeof *list->items);
}

void mh_encode_scratch_free(mh_context *context, mh_encode_scratch *s)
{
    if (!s)
        return;
    mh_aligned_free(context, &s->text);
    mh_aligned_free(context, &s->piece);
    mh_aligned_free(context, &s->spare);
    mh_form_scratch_free(context, &s->form);
    free_pieces(context, &s->raw);
    free_pieces(context, &s->pieces);
    free_pieces(context, &s->spare_pieces);
    mh_model_output_free(context, &s->model);
    for (size_t i = 0; i < 2; i++)
        mh_shrink(context, &s->sequences[i].tokens, &s->sequences[i].capacity,
                  sizeof *s->sequences[i].tokens);
    mh_free(context, s, sizeof *s);
}

// ---- pieces -------------------------------------------------------------------------------------

static bool set_text(mh_context *context, mh_aligned *a, mh_text text, size_t begin, size_t size)
{
    mh_aligned_reset(a, (uint32_t)begin);
    return mh_buffer_append(context, &a->text, text.bytes + begin, size);
}

// Normalises one piece of the original text and appends it to s->text, split at added tokens.
static bool add_text_piece(mh_context *context, const mh_tokenizer *t, bool special, mh_text text,
                           mh_chunk raw, mh_encode_scratch *s)
{
    size_t begin = s->text.text.size;
    if (!set_text(context, &s->piece, text, raw.begin, raw.size) ||
        !mh_normalize(context, t, raw.begin == 0, &s->form, &s->piece, &s->spare))
        return false;
    if (begin == 0) { // nothing to join it to
        mh_aligned old = s->text;
        s->text = s->piece;
        s->piece = old;
    } else if (!mh_aligned_copy(context, &s->text, &s->piece, 0, s->piece.text.size)) {
        return false;
    }
    return mh_added_split(context, t, true, special, s->text.text.data, begin,
                          s->text.text.size - begin, &s->pieces);
}

static bool add_token_piece(mh_context *context, mh_text text, mh_chunk raw, mh_encode_scratch *s)
{
    size_t begin = s->text.text.size;
    return set_text(context, &s->piece, text, raw.begin, raw.size) &&
           mh_aligned_copy(context, &s->text, &s->piece, 0, raw.size) &&
           mh_chunk_add(context, &s->pieces, begin, raw.size, raw.id);
}

static bool make_pieces(mh_context *context, const mh_tokenizer *t, bool special, mh_text text,
                        mh_encode_scratch *s)
{
    s->raw.count = s->pieces.count = 0;
    mh_aligned_reset(&s->text, 0);
    if (text.size > 0 &&
        !mh_added_split(context, t, false, special, text.bytes, 0, text.size, &s->raw))
        return false;
    for (size_t i = 0; i < s->raw.count; i++) {
        mh_chunk raw = s->raw.items[i];
        if (!(raw.id >= 0 ? add_token_piece(context, text, raw, s)
                          : add_text_piece(context, t, special, text, raw, s)))
            return false;
    }
    return mh_pre_tokenize(context, t, &s->text, &s->spare, &s->pieces, &s->spare_pieces);
}

// ---- offsets ------------------------------------------------------------------------------------

static size_t leading_spaces(mh_text text)
{
    size_t count = 0, length;
    for (size_t at = 0; at < text.size; at += length, count++)
        if (!mh_is_white(mh_utf8_decode(text.bytes + at, &length)))
            break;
    return count;
}

static size_t trailing_spaces(mh_text text)
{
    size_t count = 0;
    while (text.size > 0) {
        size_t at = text.size - 1, length;
        while (at > 0 && (text.bytes[at] & 0xC0) == 0x80)
            at--;
        if (!mh_is_white(mh_utf8_decode(text.bytes + at, &length)))
            break;
        text.size = at;
        count++;
    }
    return count;
}

static uint32_t tokenizer_sequence_forward(mh_text text, uint32_t at, uint32_t end,
                                           size_t characters)
{
    for (; at < end && characters > 0; characters--) {
        do
            at++;
        while (at < end && (text.bytes[at] & 0xC0) == 0x80);
    }
    return at;
}

static uint32_t tokenizer_sequence_backward(mh_text text, uint32_t at, uint32_t begin,
                                            size_t characters)
{
    for (; at > begin && characters > 0; characters--) {
        do
            at--;
        while (at > begin && (text.bytes[at] & 0xC0) == 0x80);
    }
    return at;
}

// Spaces as a byte-level token has them: a key may be a part of a character, and U+00A0 is none.
static size_t count_bytes(mh_text key, bool leading)
{
    size_t count = 0;
    while (count < key.size && key.bytes[leading ? count : key.size - 1 - count] == ' ')
        count++;
    return count;
}

// Takes the whitespace of a token, whose text is given, off its range.
static void tokenizer_sequence_trim(const mh_tokenizer *t, mh_text original, mh_text token,
                                    bool bytes, bool first, mh_range *range)
{
    size_t leading = bytes ? count_bytes(token, true) : leading_spaces(token);
    size_t trailing = bytes ? count_bytes(token, false) : trailing_spaces(token);
    if (leading == 1 && t->parts.trim_prefix && (first || range->from == 0))
        leading = 0; // that space was put in front
    range->from = tokenizer_sequence_forward(original, range->from, range->to, leading);
    range->to = tokenizer_sequence_backward(original, range->to, range->from, trailing);
}

// ---- the model ----------------------------------------------------------------------------------

static mh_status run_model(mh_context *context, const mh_tokenizer *t, mh_text piece, size_t origin,
                           mh_model_output *out)
{
    switch (t->parts.model) {
    case MH_MODEL_BPE:
        return mh_bpe_encode(context, t, piece.bytes, piece.size, origin, out);
    case MH_MODEL_WORDPIECE:
        return mh_wordpiece_encode(context, t, piece.bytes, piece.size, origin, out);
    case MH_MODEL_UNIGRAM:
        return mh_unigram_encode(context, t, piece.bytes, piece.size, origin, out);
    case MH_MODEL_WORDLEVEL:
        return mh_wordlevel_encode(context, t, piece.bytes, piece.size, origin, out);
    }
    return MH_ERROR_UNSUPPORTED;
}

static mh_range original_range(const mh_aligned *a, mh_model_token token)
{
    if (token.begin == token.end)
        return (mh_range){token.begin, token.end};
    return (mh_range){mh_aligned_range(a, token.begin).from, mh_aligned_range(a, token.end - 1).to};
}

static bool tokenizer_sequence_add_tokens(mh_context *context, const mh_tokenizer *t,
                                          mh_text original, mh_chunk piece, size_t number,
                                          mh_encode_scratch *s, mh_sequence *to)
{
    const mh_model_output *m = &s->model;
    const mh_text added = {s->text.text.data + piece.begin, piece.size};
    if (!mh_grow(context, &to->tokens, &to->capacity, to->count + m->count, sizeof *to->tokens))
        return false;
    for (size_t i = 0; i < m->count; i++) {
        mh_range range = original_range(&s->text, m->tokens[i]);
        bool bytes = t->parts.byte_level && piece.id < 0;
        const size_t id = (size_t)m->tokens[i].id;
        mh_text key = {mh_token_bytes(t, id), t->tokens[id].size};
        if (t->parts.trim)
            tokenizer_sequence_trim(t, original,
                                    piece.id >= 0 ? added
                                    : bytes       ? key
                                                  : mh_token_name(t, id),
                                    bytes, to->count == 0, &range);
        to->tokens[to->count++] =
            (mh_sequence_token){m->tokens[i].id, range.from, range.to, (int32_t)number};
    }
    return true;
}

mh_status mh_encode_sequence(mh_context *context, const mh_tokenizer *t,
                             const mh_encode_options *options, mh_text text, size_t which,
                             mh_encode_scratch *s)
{
    mh_sequence *to = &s->sequences[which];
    to->count = 0;
    if (text.size >= INT32_MAX / 4)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "encode: a text of %zu bytes, expected less than %d", text.size,
                       INT32_MAX / 4);
    mh_status status = mh_utf8_check(context, text.bytes, text.size);
    if (status != MH_OK)
        return status;
    if (!make_pieces(context, t, options->special_from_text, text, s))
        return MH_ERROR_MEMORY;
    if (s->text.text.size >= INT32_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "encode: %zu bytes after normalisation, expected less than %d",
                       s->text.text.size, INT32_MAX);
    for (size_t i = 0; i < s->pieces.count; i++) {
        mh_chunk piece = s->pieces.items[i];
        mh_text bytes = {s->text.text.data + piece.begin, piece.size};
        s->model.count = 0;
        if (piece.id >= 0)
            status =
                mh_model_add(context, &s->model, piece.id, piece.begin, piece.begin + piece.size)
                    ? MH_OK
                    : MH_ERROR_MEMORY;
        else
            status = run_model(context, t, bytes, piece.begin, &s->model);
        if (status == MH_OK && !tokenizer_sequence_add_tokens(context, t, text, piece, i, s, to))
            status = MH_ERROR_MEMORY;
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}
