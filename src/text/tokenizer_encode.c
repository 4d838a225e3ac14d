// SPDX-License-Identifier: MIT
// Text to ids and back for tokenizers that we train: byte-level, with offsets in the normalised
// text. tokenizer_sequence.c is for all tokenizers.
#include "base/argument_check.h"
#include "text/tokenizer.h"
#include "text/words.h"

// ---- a text -------------------------------------------------------------------------------------

// Both arrays grow together.
bool mh_tokens_reserve(mh_context *context, mh_tokens *tokens, size_t more)
{
    size_t ids_capacity = tokens->capacity, ends_capacity = tokens->capacity;
    if (tokens->count + more <= tokens->capacity)
        return true;
    if (!mh_grow(context, &tokens->ends, &ends_capacity, tokens->count + more,
                 sizeof *tokens->ends))
        return false;
    if (mh_grow(context, &tokens->ids, &ids_capacity, tokens->count + more, sizeof *tokens->ids)) {
        tokens->capacity = ids_capacity;
        return true;
    }
    // one has grown and the other has not: one capacity no longer describes both
    mh_shrink(context, &tokens->ends, &ends_capacity, sizeof *tokens->ends);
    mh_shrink(context, &tokens->ids, &ids_capacity, sizeof *tokens->ids);
    tokens->capacity = tokens->count = 0;
    return false;
}

static bool add_word(mh_context *context, const mh_tokenizer *t, const char *word, size_t size,
                     mh_tokens *tokens)
{
    size_t id = mh_tokenizer_find(t, word, size);
    if (id != SIZE_MAX && t->tokens[id].whole) {
        if (!mh_tokens_reserve(context, tokens, 1))
            return false;
        tokens->ids[tokens->count++] = (int32_t)id;
        return true;
    }
    char *scratch = tokens->scratch;
    bool room = mh_tokens_reserve(context, tokens, size) &&
                mh_grow(context, &scratch, &tokens->scratch_size, mh_word_scratch(size), 1);
    tokens->scratch = scratch;
    if (room)
        tokens->count +=
            mh_word_encode(t, word, size, tokens->scratch, tokens->ids + tokens->count);
    return room;
}

static void set_ends(const mh_tokenizer *t, mh_tokens *tokens)
{
    size_t end = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        end += t->tokens[tokens->ids[i]].size;
        tokens->ends[i] = end;
    }
}

static bool add_words(mh_context *context, const mh_tokenizer *t, mh_tokens *tokens)
{
    const char *text = tokens->text.data;
    for (size_t left = tokens->text.size, size; left > 0; text += size, left -= size) {
        size = mh_word_length(text, left);
        if (!add_word(context, t, text, size, tokens))
            return false;
    }
    return true;
}

mh_status mh_tokenizer_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                              size_t size, mh_tokens *tokens)
{
    if (MH_NEED(context, {"tokenizer", t}, {"tokens", tokens}, {"text", mh_array(text, size)}))
        return MH_ERROR_ARGUMENT;
    tokens->count = tokens->text.size = 0;
    if (!t->own)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "encode: the tokenizer has other components than ours; use "
                       "mh_tokenizer_encode_text");
    mh_status status = mh_text_nfc(context, text, size, &tokens->text);
    if (status == MH_OK && tokens->text.size >= INT32_MAX)
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "encode: a text of %zu bytes, expected less than %d", tokens->text.size,
                         INT32_MAX);
    if (status == MH_OK && !add_words(context, t, tokens))
        status = MH_ERROR_MEMORY;
    if (status != MH_OK)
        tokens->count = tokens->text.size = 0;
    set_ends(t, tokens);
    return status;
}

void mh_tokens_free(mh_context *context, mh_tokens *tokens)
{
    if (!tokens)
        return;
    size_t ids = tokens->capacity, ends = tokens->capacity;
    mh_shrink(context, &tokens->ids, &ids, sizeof *tokens->ids);
    mh_shrink(context, &tokens->ends, &ends, sizeof *tokens->ends);
    mh_buffer_free(context, &tokens->text);
    mh_free(context, tokens->scratch, tokens->scratch_size);
    memset(tokens, 0, sizeof *tokens);
}

mh_status mh_tokenizer_decode(mh_context *context, const mh_tokenizer *t, const int32_t *ids,
                              size_t count, mh_buffer *out)
{
    if (MH_NEED(context, {"tokenizer", t}, {"out", out}, {"ids", mh_array(ids, count)}))
        return MH_ERROR_ARGUMENT;
    out->size = 0;
    for (size_t i = 0; i < count; i++) {
        mh_text text;
        mh_token_kind kind;
        if (!mh_tokenizer_token(t, ids[i], &text, &kind)) {
            out->size = 0;
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "decode: id %d at position %zu, expected 0 to %zu", ids[i], i,
                           t->count - 1);
        }
        if (kind == MH_TOKEN_TEXT && !mh_buffer_append(context, out, text.bytes, text.size)) {
            out->size = 0;
            return MH_ERROR_MEMORY;
        }
    }
    return MH_OK;
}
