// SPDX-License-Identifier: MIT
// Unicode normalisation form C. utf8proc has the tables and the composition; the rest is here
// because utf8proc_map() sorts combining marks by insertion: 1 MB of marks, two alternating, takes
// it minutes. Long runs are sorted by counting.
//
// Most text is normalised already. A character below U+0300 is a starter that never composes with
// the one before it, so
//
//     C ' e s t  t r e ̀ s  b o n          one by one: copied if below U+0300; what is above is
//     copied     ~~~~~~~    copied        taken with the character before it up to the next below
//                  segment
#include "base/argument_check.h"
#include "support/buffer.h"
#include "support/grow.h"
#include "text/utf8.h"

#include <utf8proc.h>

enum {
    FIRST_BYTE = 0xCC, // of U+0300 and all above
    SHORT_RUN = 32,
    CLASSES = 256,
    MOST_DECOMPOSED = 32,
};

typedef struct segment {
    int32_t *points, *sorted; // sorted: of the same size, for counting sort
    size_t count, capacity, sorted_capacity;
} segment;

static unsigned nfc_class_of(int32_t point)
{
    return (unsigned)(utf8proc_get_property(point)->combining_class) & (CLASSES - 1);
}

static void nfc_sort_short(int32_t *points, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int32_t point = points[i];
        size_t j = i;
        for (; j > 0 && nfc_class_of(points[j - 1]) > nfc_class_of(point); j--)
            points[j] = points[j - 1];
        points[j] = point;
    }
}

static bool nfc_sort_long(mh_context *context, segment *s, int32_t *points, size_t count)
{
    size_t begin[CLASSES + 1] = {0};
    if (!mh_grow(context, &s->sorted, &s->sorted_capacity, count, sizeof *s->sorted))
        return false;
    for (size_t i = 0; i < count; i++)
        begin[nfc_class_of(points[i]) + 1]++;
    for (size_t c = 0; c < CLASSES; c++)
        begin[c + 1] += begin[c];
    for (size_t i = 0; i < count; i++)
        s->sorted[begin[nfc_class_of(points[i])]++] = points[i];
    memcpy(points, s->sorted, count * sizeof *points);
    return true;
}

// Canonical order: each run of marks (class not 0), stable, by class.
static bool nfc_sort_marks(mh_context *context, segment *s)
{
    for (size_t i = 0; i < s->count;) {
        size_t end = i;
        while (end < s->count && nfc_class_of(s->points[end]) != 0)
            end++;
        if (end - i > SHORT_RUN && !nfc_sort_long(context, s, s->points + i, end - i))
            return false;
        if (end - i <= SHORT_RUN)
            nfc_sort_short(s->points + i, end - i);
        i = end + 1;
    }
    return true;
}

static bool nfc_decompose(mh_context *context, const char *text, size_t size, segment *s)
{
    s->count = 0;
    for (size_t at = 0, length; at < size; at += length) {
        int32_t point = (int32_t)mh_utf8_decode(text + at, &length);
        int last_class = 0;
        if (!mh_grow(context, &s->points, &s->capacity, s->count + MOST_DECOMPOSED,
                     sizeof *s->points))
            return false;
        utf8proc_ssize_t made =
            utf8proc_decompose_char(point, s->points + s->count, MOST_DECOMPOSED,
                                    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &last_class);
        if (made < 0 || made > MOST_DECOMPOSED) { // cannot be: the longest has 4
            mh_fail(context, MH_ERROR_UNSUPPORTED, "utf8proc cannot decompose U+%04X", point);
            return false;
        }
        s->count += (size_t)made;
    }
    return true;
}

static bool normalise_segment(mh_context *context, const char *text, size_t size, segment *s,
                              mh_buffer *out)
{
    if (!nfc_decompose(context, text, size, s) || !nfc_sort_marks(context, s))
        return false;
    utf8proc_ssize_t count = utf8proc_normalize_utf32(s->points, (utf8proc_ssize_t)s->count,
                                                      UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        char bytes[4];
        size_t length = mh_utf8_encode((uint32_t)s->points[i], bytes);
        if (!mh_buffer_append(context, out, bytes, length))
            return false;
    }
    return true;
}

static bool nfc_normalise(mh_context *context, const char *text, size_t size, segment *s,
                          mh_buffer *out)
{
    size_t copied = 0, before = 0; // before: the beginning of the character before `at`
    for (size_t at = 0, length; at < size;) {
        if ((unsigned char)text[at] < FIRST_BYTE) {
            before = at;
            at += (unsigned char)text[at] < 0x80 ? 1 : 2;
            continue;
        }
        while (at < size && (unsigned char)text[at] >= FIRST_BYTE) {
            mh_utf8_decode(text + at, &length);
            at += length;
        }
        if (!mh_buffer_append(context, out, text + copied, before - copied) ||
            !normalise_segment(context, text + before, at - before, s, out))
            return false;
        copied = before = at;
    }
    return mh_buffer_append(context, out, text + copied, size - copied);
}

mh_status mh_text_nfc(mh_context *context, const char *text, size_t size, mh_buffer *out)
{
    if (MH_NEED(context, {"out", out}, {"text", mh_array(text, size)}))
        return MH_ERROR_ARGUMENT;
    out->size = 0;
    mh_status status = mh_utf8_check(context, text, size);
    if (status != MH_OK || size == 0)
        return status;
    segment s = {0};
    if (!nfc_normalise(context, text, size, &s, out)) {
        out->size = 0;
        status = MH_ERROR_MEMORY;
    }
    mh_shrink(context, &s.points, &s.capacity, sizeof *s.points);
    mh_shrink(context, &s.sorted, &s.sorted_capacity, sizeof *s.sorted);
    return status;
}
