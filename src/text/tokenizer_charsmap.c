// SPDX-License-Identifier: MIT
// SentencePiece's normalisation rules ("precompiled charsmap"): a trie of character sequences in
// darts-clone's format, each leading to the text that replaces it. A unit of the trie is 32 bits:
//
//     bits 0-7 and 31   the byte that leads here (a value has bit 31)
//     bit 8             a value follows: the unit at its offset
//     bit 9             the offset is shifted by 8
//     bits 10-30        offset to the children, by exclusive or
//
// The file is untrusted: every step checks that it stays within the trie. SentencePiece replaces
// the longest match at each position. The tokenizers package goes by grapheme clusters: one of less
// than 6 bytes is replaced as a whole by the rule of its shortest match, else its characters are,
// one by one.
#include "base/argument_check.h"
#include "text/tokenizer_forms.h"

#include <utf8proc.h>

enum { CLUSTER_MAX = 6 };

static size_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

// The text that replaces the shortest, or the longest, match at the beginning; its length in
// *matched. False if there is none.
static bool find_rule(const mh_tokenizer *t, bool longest, const char *text, size_t size,
                      size_t *matched, mh_text *replacement)
{
    const mh_charsmap *map = &t->parts.charsmap;
    const mh_text texts = mh_span_text(t, map->texts);
    bool found = false;
    size_t at = map->count > 0 ? offset_of(map->units[0]) : SIZE_MAX;
    for (size_t i = 0; i < size && text[i] != '\0' && (longest || !found); i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= map->count || (map->units[at] & (1u << 31 | 0xFF)) != byte)
            break;
        uint32_t unit = map->units[at];
        at ^= offset_of(unit);
        if (!(unit & 1u << 8))
            continue;
        size_t value = at < map->count ? map->units[at] & ((1u << 31) - 1) : SIZE_MAX;
        if (value >= texts.size || (texts.bytes[value] & 0xC0) == 0x80)
            break;
        const char *begin = texts.bytes + value; // ended by NUL: mh_charsmap_read has checked
        *replacement = (mh_text){begin, strlen(begin)};
        *matched = i + 1;
        found = true;
    }
    return found;
}

// ---- ranges -------------------------------------------------------------------------------------

static size_t tokenizer_charsmap_count_characters(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += (text[i] & 0xC0) != 0x80;
    return count;
}

// Writes the replacement of `size` bytes at `at`: character i replaces the i-th; what is left over
// belongs to the last.
static bool write_rule(mh_context *context, const mh_aligned *in, size_t at, size_t size,
                       mh_text replacement, mh_aligned *out)
{
    size_t left = tokenizer_charsmap_count_characters(in->text.data + at, size);
    for (size_t i = 0, length, step; i < replacement.size; i += length) {
        mh_utf8_decode(replacement.bytes + i, &length);
        if (!mh_aligned_append(context, out, replacement.bytes + i, length,
                               mh_aligned_range(in, at)))
            return false;
        mh_utf8_decode(in->text.data + at, &step);
        if (left > 1) {
            at += step;
            left--;
        }
    }
    return true;
}

// ---- the two ways -------------------------------------------------------------------------------

static bool apply_longest(mh_context *context, const mh_tokenizer *t, const mh_aligned *in,
                          mh_aligned *out)
{
    const char *text = in->text.data;
    for (size_t at = 0, length, size = in->text.size; at < size; at += length) {
        mh_text replacement;
        bool written;
        if (find_rule(t, true, text + at, size - at, &length, &replacement)) {
            written = write_rule(context, in, at, length, replacement, out);
        } else {
            mh_utf8_decode(text + at, &length);
            written = mh_aligned_copy(context, out, in, at, length);
        }
        if (!written)
            return false;
    }
    return true;
}

static size_t cluster_length(const char *text, size_t size)
{
    size_t length, end;
    int32_t state = 0, before = (int32_t)mh_utf8_decode(text, &end);
    if (before < 0x80 && before != '\r' && end < size && (unsigned char)text[end] < 0x80)
        return 1;
    while (end < size) {
        int32_t next = (int32_t)mh_utf8_decode(text + end, &length);
        if (utf8proc_grapheme_break_stateful(before, next, &state))
            break;
        before = next;
        end += length;
    }
    return end;
}

static bool apply_cluster(mh_context *context, const mh_tokenizer *t, const mh_aligned *in,
                          size_t at, size_t size, mh_aligned *out)
{
    const char *text = in->text.data;
    mh_text replacement;
    size_t length, matched;
    if (size < CLUSTER_MAX && find_rule(t, false, text + at, size, &matched, &replacement))
        return write_rule(context, in, at, size, replacement, out);
    for (size_t end = at + size; at < end; at += length) {
        mh_utf8_decode(text + at, &length);
        bool written = find_rule(t, false, text + at, length, &matched, &replacement)
                           ? write_rule(context, in, at, length, replacement, out)
                           : mh_aligned_copy(context, out, in, at, length);
        if (!written)
            return false;
    }
    return true;
}

bool mh_charsmap_apply(mh_context *context, const mh_tokenizer *t, bool longest,
                       const mh_aligned *in, mh_aligned *out)
{
    if (longest)
        return apply_longest(context, t, in, out);
    for (size_t at = 0, length; at < in->text.size; at += length) {
        length = cluster_length(in->text.data + at, in->text.size - at);
        if (!apply_cluster(context, t, in, at, length, out))
            return false;
    }
    return true;
}

// ---- reading ------------------------------------------------------------------------------------

static size_t longest_text(const char *texts, size_t size)
{
    size_t longest = 0;
    for (size_t at = 0, length; at < size; at += length + 1) {
        length = strlen(texts + at);
        longest = length > longest ? length : longest;
    }
    return longest;
}

mh_status mh_charsmap_read(mh_context *context, mh_tokenizer *t, const unsigned char *bytes,
                           size_t size)
{
    mh_charsmap *map = &t->parts.charsmap;
    if (size == 0)
        return MH_OK; // no rules
    if (map->count > 0)
        return mh_fail(context, MH_ERROR_FORMAT, "a second charsmap, expected one at most");
    uint32_t trie_size = 0;
    if (size >= sizeof trie_size)
        memcpy(&trie_size, bytes, sizeof trie_size);
    if (size < sizeof trie_size || trie_size > size - sizeof trie_size || trie_size % 4 != 0 ||
        trie_size == 0)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "a charsmap of %zu bytes with a trie of %u, expected a multiple of 4 within",
                       size, trie_size);
    const char *texts = (const char *)bytes + sizeof trie_size + trie_size;
    size_t texts_size = size - sizeof trie_size - trie_size;
    if (texts_size == 0 || texts[texts_size - 1] != '\0' ||
        mh_utf8_valid(texts, texts_size) != texts_size)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "the charsmap's texts are not UTF-8 that is ended by NUL");
    map->longest = longest_text(texts, texts_size);
    if (map->longest > MH_GROWTH_MAX)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "the charsmap has a text of %zu bytes, expected at most %d", map->longest,
                       MH_GROWTH_MAX);
    if (!mh_grow(context, &map->units, &map->capacity, trie_size / 4, sizeof *map->units) ||
        !mh_tokenizer_keep(context, t, texts, texts_size, &map->texts))
        return MH_ERROR_MEMORY;
    memcpy(map->units, bytes + sizeof trie_size, trie_size);
    map->count = trie_size / 4;
    return MH_OK;
}
