// SPDX-License-Identifier: MIT
// Decoding token by token. What a token adds depends on those before it (spaces, bytes of one
// character), so the last ones that were shown are decoded again together with the new ones, and
// the difference is the new text:
//
//     ids      | shown       | new          decode(all) = prefix + what is new
//              ^ where text was cut         held back as long as it ends in a broken character
#include "base/argument_check.h"
#include <multihead/text.h>

#include "support/buffer.h"
#include "support/grow.h"

enum { MOST_HELD = 64 }; // tokens; no character has that many bytes

void mh_text_stream_free(mh_context *context, mh_text_stream *s)
{
    if (!s)
        return;
    mh_shrink(context, &s->ids, &s->capacity, sizeof *s->ids);
    mh_buffer_free(context, &s->text);
    mh_buffer_free(context, &s->prefix);
    memset(s, 0, sizeof *s);
}

static bool ends_broken(const mh_buffer *text)
{
    return text->size >= 3 && memcmp(text->data + text->size - 3, "\xEF\xBF\xBD", 3) == 0;
}

// What is new in s->text goes to `out`, and its tokens become the shown ones.
static mh_status show(mh_context *context, const mh_tokenizer *t, bool skip_special,
                      mh_text_stream *s, mh_buffer *out)
{
    size_t known = s->prefix.size < s->text.size ? s->prefix.size : s->text.size;
    while (known > 0 && known < s->text.size && (s->text.data[known] & 0xC0) == 0x80)
        known--;
    if (known < s->text.size &&
        !mh_buffer_append(context, out, s->text.data + known, s->text.size - known))
        return MH_ERROR_MEMORY;
    memmove(s->ids, s->ids + s->shown, (s->count - s->shown) * sizeof *s->ids);
    s->count -= s->shown;
    s->shown = s->count;
    return mh_tokenizer_decode_text(context, t, skip_special, s->ids, s->count, &s->prefix);
}

mh_status mh_text_stream_next(mh_context *context, const mh_tokenizer *t, bool skip_special,
                              int32_t id, mh_text_stream *s, mh_buffer *out)
{
    if (MH_NEED(context, {"tokenizer", t}, {"stream", s}, {"out", out}))
        return MH_ERROR_ARGUMENT;
    out->size = 0;
    if (id != -1) {
        if (!mh_grow(context, &s->ids, &s->capacity, s->count + 1, sizeof *s->ids))
            return MH_ERROR_MEMORY;
        s->ids[s->count++] = id;
    }
    if (s->count == s->shown)
        return MH_OK;
    mh_status status =
        mh_tokenizer_decode_text(context, t, skip_special, s->ids, s->count, &s->text);
    if (status != MH_OK) {
        s->count -= id != -1;
        return status;
    }
    bool held = id != -1 && s->count - s->shown < MOST_HELD;
    if (held && (ends_broken(&s->text) || s->text.size <= s->prefix.size))
        return MH_OK;
    return show(context, t, skip_special, s, out);
}
