// SPDX-License-Identifier: MIT
// Unicode's normalisation forms with alignment. As in nfc.c, runs of characters that no form
// changes are copied; what is between them is decomposed, put in canonical order and composed:
//
//     e ́ -> é      e replaces e, ́ replaces ́  ; composed: é replaces e and removes one more (-1)
//     é -> e ́      e replaces é, ́  is put in (+1); composed again: 0 + 1 - 1, é replaces é
#include "text/tokenizer_forms.h"

#include "base/argument_check.h"

#include <utf8proc.h>

enum {
    SHORT_RUN = 32,
    CLASSES = 256,
    MOST_DECOMPOSED = 32,
    COMPOSES_FIRST = 0xCC, // the first byte of U+0300: nothing below changes in NFC
};

typedef struct writer {
    mh_context *context;
    const mh_aligned *in;
    mh_aligned *out;
    size_t at; // in `in`: the next character to be replaced
} writer;

void mh_form_scratch_free(mh_context *context, mh_form_scratch *s)
{
    mh_shrink(context, &s->points, &s->capacity, sizeof *s->points);
    mh_shrink(context, &s->sorted, &s->sorted_capacity, sizeof *s->sorted);
}

static void skip_character(writer *w)
{
    if (w->at < w->in->text.size)
        w->at++;
    while (w->at < w->in->text.size && (w->in->text.data[w->at] & 0xC0) == 0x80)
        w->at++;
}

static bool write_point(writer *w, mh_form_point p)
{
    char bytes[4];
    mh_range range = {w->in->base, w->in->base};
    size_t length = mh_utf8_encode((uint32_t)p.point, bytes), size = w->in->text.size;
    if (p.change > 0 && w->at > 0)
        range = mh_aligned_range(w->in, w->at - 1);
    else if (p.change <= 0 && size > 0)
        range = mh_aligned_range(w->in, w->at < size ? w->at : size - 1);
    for (int32_t removed = p.change; removed <= 0; removed++)
        skip_character(w);
    return mh_aligned_append(w->context, w->out, bytes, length, range);
}

// ---- canonical order ----------------------------------------------------------------------------

static unsigned class_of(int32_t point)
{
    return (unsigned)(utf8proc_get_property(point)->combining_class) & (CLASSES - 1);
}

static void tokenizer_forms_sort_short(mh_form_point *points, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        mh_form_point point = points[i];
        size_t j = i;
        for (; j > 0 && class_of(points[j - 1].point) > class_of(point.point); j--)
            points[j] = points[j - 1];
        points[j] = point;
    }
}

static bool tokenizer_forms_sort_long(mh_context *context, mh_form_scratch *s,
                                      mh_form_point *points, size_t count)
{
    size_t begin[CLASSES + 1] = {0};
    if (!mh_grow(context, &s->sorted, &s->sorted_capacity, count, sizeof *s->sorted))
        return false;
    for (size_t i = 0; i < count; i++)
        begin[class_of(points[i].point) + 1]++;
    for (size_t c = 0; c < CLASSES; c++)
        begin[c + 1] += begin[c];
    for (size_t i = 0; i < count; i++)
        s->sorted[begin[class_of(points[i].point)]++] = points[i];
    memcpy(points, s->sorted, count * sizeof *points);
    return true;
}

static bool tokenizer_forms_sort_marks(mh_context *context, mh_form_scratch *s)
{
    for (size_t i = 0; i < s->count;) {
        size_t end = i;
        while (end < s->count && class_of(s->points[end].point) != 0)
            end++;
        if (end - i > SHORT_RUN && !tokenizer_forms_sort_long(context, s, s->points + i, end - i))
            return false;
        if (end - i <= SHORT_RUN)
            tokenizer_forms_sort_short(s->points + i, end - i);
        i = end + 1;
    }
    return true;
}

// ---- decomposition and composition --------------------------------------------------------------

static bool tokenizer_forms_decompose(mh_context *context, bool compatible, const char *text,
                                      size_t size, mh_form_scratch *s)
{
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    if (compatible)
        options |= UTF8PROC_COMPAT;
    s->count = 0;
    for (size_t at = 0, length; at < size; at += length) {
        int32_t parts[MOST_DECOMPOSED], point = (int32_t)mh_utf8_decode(text + at, &length);
        int last_class = 0;
        if (!mh_grow(context, &s->points, &s->capacity, s->count + MOST_DECOMPOSED,
                     sizeof *s->points))
            return false;
        utf8proc_ssize_t made =
            utf8proc_decompose_char(point, parts, MOST_DECOMPOSED, options, &last_class);
        if (made < 0 || made > MOST_DECOMPOSED) { // cannot be: the longest has 18
            mh_fail(context, MH_ERROR_UNSUPPORTED, "utf8proc cannot decompose U+%04X", point);
            return false;
        }
        for (utf8proc_ssize_t i = 0; i < made; i++)
            s->points[s->count++] = (mh_form_point){parts[i], i > 0};
    }
    return true;
}

static bool compose_pair(int32_t first, int32_t second, int32_t *composed)
{
    int32_t pair[2] = {first, second};
    bool hangul = second >= 0x1161 && second <= 0x11C2;
    if (!hangul && utf8proc_get_property(second)->comb_index == UINT16_MAX)
        return false;
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1)
        return false;
    *composed = pair[0];
    return true;
}

// Composes in place: a starter with each later mark that no other of its class or higher precedes.
static void compose(mh_form_scratch *s)
{
    size_t kept = 0, starter = SIZE_MAX;
    int last = -1; // the class of the last mark kept after the starter
    for (size_t i = 0; i < s->count; i++) {
        mh_form_point p = s->points[i];
        int class = (int)class_of(p.point);
        int32_t composed;
        if (starter != SIZE_MAX && (last < 0 || last < class) &&
            compose_pair(s->points[starter].point, p.point, &composed)) {
            s->points[starter].point = composed;
            s->points[starter].change += p.change - 1;
            continue;
        }
        if (class == 0)
            starter = kept;
        last = class == 0 ? -1 : class;
        s->points[kept++] = p;
    }
    s->count = kept;
}

// ---- a text -------------------------------------------------------------------------------------

static bool write_segment(writer *w, mh_normalizer_kind form, size_t begin, size_t end,
                          mh_form_scratch *s)
{
    bool compatible = form == MH_NORMALIZE_NFKC || form == MH_NORMALIZE_NFKD;
    if (!tokenizer_forms_decompose(w->context, compatible, w->in->text.data + begin, end - begin,
                                   s) ||
        !tokenizer_forms_sort_marks(w->context, s))
        return false;
    if (form == MH_NORMALIZE_NFC || form == MH_NORMALIZE_NFKC)
        compose(s);
    w->at = begin;
    for (size_t i = 0; i < s->count; i++)
        if (!write_point(w, s->points[i]))
            return false;
    return true;
}

bool mh_unicode_form(mh_context *context, mh_normalizer_kind form, const mh_aligned *in,
                     mh_form_scratch *scratch, mh_aligned *out)
{
    const unsigned first = form == MH_NORMALIZE_NFC ? COMPOSES_FIRST : 0x80;
    const unsigned char *text = (const unsigned char *)in->text.data;
    writer w = {context, in, out, 0};
    size_t copied = 0, before = 0, size = in->text.size; // before: the character before `at`
    for (size_t at = 0, length; at < size;) {
        if (text[at] < first) {
            before = at;
            at += text[at] < 0x80 ? 1 : 2;
            continue;
        }
        while (at < size && text[at] >= first) {
            mh_utf8_decode(in->text.data + at, &length);
            at += length;
        }
        if (!mh_aligned_copy(context, out, in, copied, before - copied) ||
            !write_segment(&w, form, before, at, scratch))
            return false;
        copied = before = at;
    }
    return mh_aligned_copy(context, out, in, copied, size - copied);
}
