// SPDX-License-Identifier: MIT
// Foreign characters and their plain relatives. The vocabulary shows whether a character is
// foreign: byte-level BPE merges the bytes of whatever occurs more than once or twice, and no other
// character's bytes contain them. So a model of typeset French keeps its apostrophes.
#include "text/plain_text.h"

#include "support/buffer.h"
#include "support/grow.h"
#include "text/utf8.h"

// No relative is longer than its character, and there are at most 64.
static const struct {
    const char *character, *plain;
} relatives[] = {
    // spaces: no-break, Ogham, en quad to hair space, narrow no-break, mathematical, ideographic
    {u8"\u00A0", " "},
    {u8"\u1680", " "},
    {u8"\u2000", " "},
    {u8"\u2001", " "},
    {u8"\u2002", " "},
    {u8"\u2003", " "},
    {u8"\u2004", " "},
    {u8"\u2005", " "},
    {u8"\u2006", " "},
    {u8"\u2007", " "},
    {u8"\u2008", " "},
    {u8"\u2009", " "},
    {u8"\u200A", " "},
    {u8"\u202F", " "},
    {u8"\u205F", " "},
    {u8"\u3000", " "},
    // apostrophes and single quotes, the letter and the prime too
    {u8"\u2018", "'"},
    {u8"\u2019", "'"},
    {u8"\u201B", "'"},
    {u8"\u02BC", "'"},
    {u8"\u2032", "'"},
    // double quotes
    {u8"\u201C", "\""},
    {u8"\u201D", "\""},
    {u8"\u201E", "\""},
    {u8"\u201F", "\""},
    {u8"\u2033", "\""},
    {u8"\u00AB", "\""},
    {u8"\u00BB", "\""},
    // hyphens, dashes, the minus sign
    {u8"\u2010", "-"},
    {u8"\u2011", "-"},
    {u8"\u2012", "-"},
    {u8"\u2013", "-"},
    {u8"\u2014", "-"},
    {u8"\u2212", "-"},
    {u8"\u2026", "..."},
    // ligatures, which come with text from PDF files
    {u8"\uFB00", "ff"},
    {u8"\uFB01", "fi"},
    {u8"\uFB02", "fl"},
    // invisible: soft hyphen, zero-width space, word joiner, byte-order mark
    {u8"\u00AD", ""},
    {u8"\u200B", ""},
    {u8"\u2060", ""},
    {u8"\uFEFF", ""},
};
enum { RELATIVES = sizeof relatives / sizeof *relatives, NONE = RELATIVES };
_Static_assert(RELATIVES <= 64, "a bit each");

// The relative whose character the text begins with.
static size_t plain_find(const char *text, size_t size)
{
    for (size_t i = 0; i < RELATIVES; i++) {
        const char *character = relatives[i].character;
        if (*text == *character && strlen(character) <= size &&
            memcmp(text, character, strlen(character)) == 0)
            return i;
    }
    return NONE;
}

static bool plain_text_is_ascii(char c) { return (unsigned char)c < 0x80; }

uint64_t mh_plain_foreign(const mh_tokenizer *tokenizer)
{
    uint64_t foreign = UINT64_MAX;
    for (size_t id = 0; id < mh_tokenizer_size(tokenizer); id++) {
        mh_text token;
        mh_token_kind kind;
        if (!mh_tokenizer_token(tokenizer, (int32_t)id, &token, &kind) || kind != MH_TOKEN_TEXT)
            continue;
        for (size_t i = 0; i < token.size; i++) {
            const size_t r = plain_text_is_ascii(token.bytes[i])
                                 ? NONE
                                 : plain_find(token.bytes + i, token.size - i);
            if (r != NONE)
                foreign &= ~(UINT64_C(1) << r);
        }
    }
    return foreign;
}

// The replacement of the character at `text`, or of its first byte, or NULL; *length is the bytes
// read.
static const char *relative_of(uint64_t foreign, const char *text, size_t size, size_t *length)
{
    *length = 1;
    if (plain_text_is_ascii(*text))
        return *text >= '\t' && *text <= '\r' ? " " : NULL; // tabs and line breaks
    const size_t r = plain_find(text, size);
    if (r == NONE || !(foreign >> r & 1))
        return NULL;
    *length = strlen(relatives[r].character);
    return relatives[r].plain;
}

mh_status mh_plain_text(mh_context *context, uint64_t foreign, const char *text, size_t size,
                        mh_buffer *out)
{
    return mh_plain_text_from(context, foreign, text, size, out, NULL);
}

mh_status mh_plain_text_from(mh_context *context, uint64_t foreign, const char *text, size_t size,
                             mh_buffer *out, uint32_t *from)
{
    mh_status status = mh_utf8_check(context, text, size);
    out->size = 0;
    if (!status && !mh_grow(context, &out->data, &out->capacity, size + 1, 1))
        status = MH_ERROR_MEMORY;
    if (status)
        return status;
    size_t length;
    for (size_t i = 0; i < size; i += length) {
        const char *plain = relative_of(foreign, text + i, size - i, &length);
        const size_t count = plain ? strlen(plain) : 1;
        const char *copied = plain ? plain : text + i;
        const bool again = out->size > 0 && out->data[out->size - 1] == ' ';
        if (count == 1 && *copied == ' ' && again)
            continue;
        memcpy(out->data + out->size, copied, count);
        for (size_t j = 0; from && j < count; j++)
            from[out->size + j] = (uint32_t)i;
        out->size += count;
    }
    if (from)
        from[out->size] = (uint32_t)size;
    return MH_OK;
}
