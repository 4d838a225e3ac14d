// SPDX-License-Identifier: MIT
// Texts of a translator. Our own are normalised for the model (text/plain_text.h), trimmed, and
// tokenised by our own tokenizer, whose tokens are bytes of the text. Those of published models are
// tokenised as they are, as Hugging Face's transformers does.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/translate_internal.h"
#include "model/translator_internal.h"
#include "support/buffer.h"
#include "text/plain_text.h"
#include "text/tokenizer.h"

void mh_text_memory_free(mh_context *context, mh_text_memory *memory)
{
    mh_buffer_free(context, &memory->plain);
    mh_encoding_free(context, &memory->encoding);
}

bool mh_translator_has_own_text(const mh_translator *t) { return t->tokenizer->own; }

mh_status mh_translator_normalize(mh_context *context, const mh_translator *t, mh_text text,
                                  mh_text_memory *memory, mh_text *normal)
{
    *normal = text;
    if (!mh_translator_has_own_text(t))
        return MH_OK; // the tokenizer checks that it is UTF-8
    MH_TRY(mh_plain_text(context, t->foreign, text.bytes, text.size, &memory->plain));
    *normal = mh_trim_whitespace((mh_text){memory->plain.data, memory->plain.size});
    return MH_OK;
}

// ---- text to tokens -----------------------------------------------------------------------------

// The first tokens of an encoding. One that covers no text ends where the one before it does.
static mh_status keep_encoding(mh_context *context, mh_text text, const mh_encoding *e,
                               size_t count, mh_tokens *tokens)
{
    tokens->count = tokens->text.size = 0;
    if (!mh_tokens_reserve(context, tokens, count) ||
        !mh_buffer_append(context, &tokens->text, text.bytes, text.size))
        return MH_ERROR_MEMORY;
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        end = mh_larger(end, e->ends[i]);
        tokens->ids[i] = e->ids[i];
        tokens->ends[i] = end;
    }
    tokens->count = count;
    return MH_OK;
}

mh_status mh_translator_tokenize(mh_context *context, const mh_translator *t, mh_side side,
                                 mh_text text, mh_text_memory *memory, mh_tokens *tokens)
{
    if (mh_translator_has_own_text(t))
        return mh_tokenizer_encode(context, t->tokenizer, text.bytes, text.size, tokens);
    const bool target = side == MH_SIDE_TARGET;
    const mh_tokenizer *tokenizer = target ? t->target_tokenizer : t->tokenizer;
    mh_encode_options options = mh_encode_options_default();
    options.add_special_tokens = target; // Bart's translations begin with <s>
    mh_encoding *e = &memory->encoding;
    tokens->count = 0;
    MH_TRY(mh_tokenizer_encode_text(context, tokenizer, &options, text, NULL, e));
    size_t ending = 0; // what the template adds behind a text
    while (target && ending < e->count && e->special[e->count - 1 - ending])
        ending++;
    return keep_encoding(context, text, e, e->count - ending, tokens);
}

mh_status mh_translator_encode(mh_context *context, const mh_translator *translator, mh_text text,
                               mh_tokens *tokens)
{
    mh_text_memory memory = {0};
    mh_status status =
        MH_NEED(context, {"translator", translator},
                {"text.bytes", text.bytes || !text.size ? translator : NULL}, {"tokens", tokens});
    if (status)
        return status;
    status = mh_translator_normalize(context, translator, text, &memory, &text);
    if (!status)
        status = mh_translator_tokenize(context, translator, MH_SIDE_SOURCE, text, &memory, tokens);
    mh_text_memory_free(context, &memory);
    return status;
}

// ---- tokens to text -----------------------------------------------------------------------------

// Maps token ends to the repaired text: each is the length of the repaired prefix up to it.
static mh_status repair_ends(mh_context *context, const mh_buffer *raw, size_t most, size_t *ends,
                             size_t count)
{
    mh_buffer prefix = {0};
    mh_status status = MH_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = mh_utf8_repair(context, raw->data, ends[i], &prefix);
        ends[i] = mh_smaller(prefix.size, most);
    }
    mh_buffer_free(context, &prefix);
    return status;
}

// Tokens are bytes; together they may be invalid.
static mh_status detokenize_own(mh_context *context, const mh_tokenizer *tokenizer,
                                const int32_t *ids, size_t count, mh_buffer *raw, mh_buffer *text,
                                size_t *ends)
{
    MH_TRY(mh_tokenizer_decode(context, tokenizer, ids, count, raw));
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        mh_text token;
        mh_token_kind kind = MH_TOKEN_SPECIAL;
        if (mh_tokenizer_token(tokenizer, ids[i], &token, &kind) && kind == MH_TOKEN_TEXT)
            end += token.size;
        ends[i] = end;
    }
    MH_TRY(mh_utf8_repair(context, raw->data, raw->size, text));
    if (mh_utf8_valid(raw->data, raw->size) == raw->size)
        return MH_OK;
    return repair_ends(context, raw, text->size, ends, count);
}

// A token ends where the text of all up to it does. A character that several tokens make up ends
// with the last of them.
static mh_status detokenize_published(mh_context *context, const mh_tokenizer *tokenizer,
                                      const int32_t *ids, size_t count, mh_buffer *raw,
                                      mh_buffer *text, size_t *ends)
{
    mh_text_stream stream = {0};
    mh_status status = mh_tokenizer_decode_text(context, tokenizer, true, ids, count, text);
    size_t end = 0;
    for (size_t i = 0; i < count && !status; i++) {
        status = mh_text_stream_next(context, tokenizer, true, ids[i], &stream, raw);
        end += raw->size;
        ends[i] = mh_smaller(end, text->size);
    }
    if (count && !status)
        ends[count - 1] = text->size;
    mh_text_stream_free(context, &stream);
    return status;
}

mh_status mh_translator_detokenize(mh_context *context, const mh_translator *t, const int32_t *ids,
                                   size_t count, mh_buffer *text, size_t *ends)
{
    mh_buffer raw = {0};
    mh_status status = (mh_translator_has_own_text(t) ? detokenize_own : detokenize_published)(
        context, t->target_tokenizer, ids, count, &raw, text, ends);
    mh_buffer_free(context, &raw);
    return status;
}
