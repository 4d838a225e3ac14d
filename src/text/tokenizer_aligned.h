// SPDX-License-Identifier: MIT
// Text that remembers where it came from: every character has a range of bytes of the original
// text. Most texts come through a tokenizer's normalizers unchanged or with as many bytes as
// before, and then no ranges are stored:
//
//     plain      position p of the text is position base + p of the original
//     else       from[p], to[p]: the range of the character that the byte at p belongs to
//
// A text becomes stored ranges with the first character for which the rule of `plain` fails.
#ifndef MH_TEXT_TOKENIZER_ALIGNED_H
#define MH_TEXT_TOKENIZER_ALIGNED_H

#include "support/buffer.h"
#include "support/grow.h"
#include "text/utf8.h"

typedef struct mh_aligned {
    mh_buffer text;
    uint32_t *from, *to; // (text.size) unless plain
    size_t from_capacity, to_capacity;
    uint32_t base;
    bool plain;
} mh_aligned;

typedef struct mh_range {
    uint32_t from, to; // in the original text
} mh_range;

void mh_aligned_free(mh_context *context, mh_aligned *a);

// Makes it empty; what is appended next came from `base` on.
void mh_aligned_reset(mh_aligned *a, uint32_t base);

// Appends characters that all came from one range. False with a message if out of memory.
bool mh_aligned_append(mh_context *context, mh_aligned *a, const char *bytes, size_t size,
                       mh_range from);

// Appends a part of another text, with its ranges.
bool mh_aligned_copy(mh_context *context, mh_aligned *a, const mh_aligned *source, size_t begin,
                     size_t size);

// The range of the character that the byte at `at` belongs to.
static inline mh_range mh_aligned_range(const mh_aligned *a, size_t at)
{
    if (!a->plain)
        return (mh_range){a->from[at], a->to[at]};
    size_t begin = at, end = at + 1;
    while (begin > 0 && (a->text.data[begin] & 0xC0) == 0x80)
        begin--;
    while (end < a->text.size && (a->text.data[end] & 0xC0) == 0x80)
        end++;
    return (mh_range){a->base + (uint32_t)begin, a->base + (uint32_t)end};
}

#endif
