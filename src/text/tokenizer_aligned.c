// SPDX-License-Identifier: MIT
// Text with ranges of the original; see tokenizer_aligned.h.
#include "text/tokenizer_aligned.h"

void mh_aligned_free(mh_context *context, mh_aligned *a)
{
    mh_buffer_free(context, &a->text);
    mh_shrink(context, &a->from, &a->from_capacity, sizeof *a->from);
    mh_shrink(context, &a->to, &a->to_capacity, sizeof *a->to);
}

void mh_aligned_reset(mh_aligned *a, uint32_t base)
{
    a->text.size = 0;
    a->base = base;
    a->plain = true;
}

static bool tokenizer_aligned_reserve(mh_context *context, mh_aligned *a, size_t size)
{
    return mh_grow(context, &a->from, &a->from_capacity, size, sizeof *a->from) &&
           mh_grow(context, &a->to, &a->to_capacity, size, sizeof *a->to);
}

// Writes the ranges of plain text from position `begin` on, which is `from` in the original.
static void write_plain(mh_aligned *a, const char *text, size_t size, size_t begin, uint32_t from)
{
    for (size_t at = 0, length; at < size; at += length) {
        mh_utf8_decode(text + at, &length);
        for (size_t i = 0; i < length; i++) {
            a->from[begin + at + i] = from + (uint32_t)at;
            a->to[begin + at + i] = from + (uint32_t)(at + length);
        }
    }
}

static bool leave_plain(mh_context *context, mh_aligned *a, size_t more)
{
    if (!tokenizer_aligned_reserve(context, a, a->text.size + more))
        return false;
    write_plain(a, a->text.data, a->text.size, 0, a->base);
    a->plain = false;
    return true;
}

bool mh_aligned_append(mh_context *context, mh_aligned *a, const char *bytes, size_t size,
                       mh_range from)
{
    size_t at = a->text.size;
    if (size == 0)
        return true;
    bool stays = a->plain && from.from == a->base + at && from.to == from.from + size;
    if (stays && size > 4) { // several characters have one range
        stays = false;
    } else if (stays && size > 1) {
        size_t length;
        mh_utf8_decode(bytes, &length);
        stays = length == size;
    }
    if (!stays && a->plain && !leave_plain(context, a, size))
        return false;
    if (!mh_buffer_append(context, &a->text, bytes, size))
        return false;
    if (stays)
        return true;
    if (!tokenizer_aligned_reserve(context, a, at + size))
        return false;
    for (size_t i = at; i < at + size; i++) {
        a->from[i] = from.from;
        a->to[i] = from.to;
    }
    return true;
}

bool mh_aligned_copy(mh_context *context, mh_aligned *a, const mh_aligned *source, size_t begin,
                     size_t size)
{
    size_t at = a->text.size;
    if (size == 0)
        return true;
    bool stays = a->plain && source->plain && a->base + at == source->base + begin;
    if (!stays && a->plain && !leave_plain(context, a, size))
        return false;
    if (!mh_buffer_append(context, &a->text, source->text.data + begin, size))
        return false;
    if (stays)
        return true;
    if (!tokenizer_aligned_reserve(context, a, at + size))
        return false;
    if (source->plain) {
        write_plain(a, source->text.data + begin, size, at, source->base + (uint32_t)begin);
        return true;
    }
    memcpy(a->from + at, source->from + begin, size * sizeof *a->from);
    memcpy(a->to + at, source->to + begin, size * sizeof *a->to);
    return true;
}
