// SPDX-License-Identifier: MIT
// Text that grows token by token; see generate_text.h.
#include "model/generate_text.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "support/buffer.h"
#include <string.h>

// A model may have more rows than its tokenizer has tokens, and generate one without a name.
static bool is_named(const mh_tokenizer *tokenizer, int32_t id)
{
    return (size_t)id < mh_tokenizer_size(tokenizer);
}

mh_status mh_growing_text_begin(mh_context *context, const mh_tokenizer *tokenizer,
                                const int32_t *prompt, size_t count, mh_growing_text *t)
{
    enum { CONTEXT = 4 }; // tokens: enough for a character of four bytes
    const size_t known = mh_smaller(count, CONTEXT);
    for (size_t i = count - known; i < count && tokenizer; i++)
        if (is_named(tokenizer, prompt[i]))
            MH_TRY(mh_text_stream_next(context, tokenizer, true, prompt[i], &t->stream, &t->added));
    return tokenizer && known
               ? mh_text_stream_next(context, tokenizer, true, -1, &t->stream, &t->added)
               : MH_OK;
}

void mh_growing_text_free(mh_context *context, mh_growing_text *t)
{
    mh_text_stream_free(context, &t->stream);
    mh_buffer_free(context, &t->text);
    mh_buffer_free(context, &t->added);
}

// ---- stop strings -------------------------------------------------------------------------------

// The first offset from `from` on where a stop string begins; the text's size if there is none.
static size_t find_stop(const mh_buffer *text, size_t from, const mh_text *stop, size_t count)
{
    for (size_t i = from; i < text->size; i++)
        for (size_t j = 0; j < count; j++)
            if (stop[j].size <= text->size - i &&
                memcmp(text->data + i, stop[j].bytes, stop[j].size) == 0)
                return i;
    return text->size;
}

// The first offset from `from` on from which the rest is the beginning of a stop string.
static size_t find_beginning(const mh_buffer *text, size_t from, const mh_text *stop, size_t count)
{
    for (size_t i = from; i < text->size; i++)
        for (size_t j = 0; j < count; j++)
            if (stop[j].size > text->size - i &&
                memcmp(text->data + i, stop[j].bytes, text->size - i) == 0)
                return i;
    return text->size;
}

mh_status mh_growing_text_add(mh_context *context, const mh_tokenizer *tokenizer,
                              const mh_text *stop, size_t stop_count, int32_t id,
                              mh_growing_text *t, mh_text *shown)
{
    *shown = (mh_text){"", 0};
    if (!tokenizer || t->stopped || (id != -1 && !is_named(tokenizer, id)))
        return MH_OK;
    MH_TRY(mh_text_stream_next(context, tokenizer, true, id, &t->stream, &t->added));
    if (!mh_buffer_append(context, &t->text, t->added.data, t->added.size))
        return MH_ERROR_MEMORY;
    // What is shown has no beginning of a stop string at its end.
    size_t end = find_stop(&t->text, t->shown, stop, stop_count);
    t->stopped = end < t->text.size;
    if (t->stopped)
        t->text.size = end;
    else if (id != -1)
        end = find_beginning(&t->text, t->shown, stop, stop_count);
    *shown = (mh_text){t->text.data ? t->text.data + t->shown : "", end - t->shown};
    t->shown = end;
    return MH_OK;
}
