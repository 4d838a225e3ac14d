// SPDX-License-Identifier: MIT
// The normalizers that go character by character, and the order of all of them. Runs of ASCII that
// a normalizer does not change are copied at once.
#include "text/tokenizer_classes.h"
#include "text/tokenizer_forms.h"
#include "text/tokenizer_patterns.h"

typedef struct pass {
    mh_context *context;
    const mh_tokenizer *t;
    mh_form_scratch *scratch;
    const mh_aligned *in;
    mh_aligned *out;
    bool first;
} pass;

static bool tokenizer_normalize_is_ascii(const mh_aligned *a)
{
    for (size_t i = 0; i < a->text.size; i++)
        if ((unsigned char)a->text.data[i] >= 0x80)
            return false;
    return true;
}

// Writes a character in place of the one at `at`.
static bool tokenizer_normalize_put(pass *p, size_t at, uint32_t c)
{
    char bytes[4];
    return mh_aligned_append(p->context, p->out, bytes, mh_utf8_encode(c, bytes),
                             mh_aligned_range(p->in, at));
}

static bool tokenizer_normalize_keep(pass *p, size_t at, size_t length)
{
    return mh_aligned_copy(p->context, p->out, p->in, at, length);
}

// ---- lower case ---------------------------------------------------------------------------------

enum { I_WITH_DOT = 0x130 };

static bool put_lowercase(pass *p, size_t at, size_t length, uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? tokenizer_normalize_put(p, at, c | 0x20)
                                    : tokenizer_normalize_keep(p, at, length);
    if (c == I_WITH_DOT) // the only character whose lower case is two
        return tokenizer_normalize_put(p, at, 'i') && tokenizer_normalize_put(p, at, 0x307);
    uint32_t lower = (uint32_t)utf8proc_tolower((int32_t)c);
    return lower == c ? tokenizer_normalize_keep(p, at, length)
                      : tokenizer_normalize_put(p, at, lower);
}

static bool lowercase(pass *p)
{
    const char *text = p->in->text.data;
    size_t size = p->in->text.size;
    if (tokenizer_normalize_is_ascii(p->in)) {
        size_t begin = p->out->text.size;
        if (!tokenizer_normalize_keep(p, 0, size))
            return false;
        for (size_t i = begin; i < p->out->text.size; i++)
            if (p->out->text.data[i] >= 'A' && p->out->text.data[i] <= 'Z')
                p->out->text.data[i] |= 0x20;
        return true;
    }
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t c = mh_utf8_decode(text + at, &length);
        if (!put_lowercase(p, at, length, c))
            return false;
    }
    return true;
}

// ---- characters that are left out ---------------------------------------------------------------

static bool strip_marks(pass *p, unsigned categories, bool lower)
{
    const char *text = p->in->text.data;
    for (size_t at = 0, length; at < p->in->text.size; at += length) {
        uint32_t c = mh_utf8_decode(text + at, &length);
        if (c >= 0x80 && mh_has_category(c, categories))
            continue;
        if (!(lower ? put_lowercase(p, at, length, c) : tokenizer_normalize_keep(p, at, length)))
            return false;
    }
    return true;
}

static bool is_nmt_removed(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool is_nmt_space(uint32_t c)
{
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
}

static bool nmt(pass *p)
{
    for (size_t at = 0, length; at < p->in->text.size; at += length) {
        uint32_t c = mh_utf8_decode(p->in->text.data + at, &length);
        if (is_nmt_removed(c))
            continue;
        if (!(is_nmt_space(c) ? tokenizer_normalize_put(p, at, ' ')
                              : tokenizer_normalize_keep(p, at, length)))
            return false;
    }
    return true;
}

static size_t white_end(const char *text, size_t size)
{
    size_t at = 0;
    for (size_t length; at < size; at += length)
        if (!mh_is_white(mh_utf8_decode(text + at, &length)))
            break;
    return at;
}

size_t mh_white_begin(const char *text, size_t size)
{
    while (size > 0) {
        size_t at = size - 1, length;
        while (at > 0 && (text[at] & 0xC0) == 0x80)
            at--;
        if (!mh_is_white(mh_utf8_decode(text + at, &length)))
            break;
        size = at;
    }
    return size;
}

static bool strip(pass *p, const mh_component *c)
{
    const char *text = p->in->text.data;
    size_t end = c->right ? mh_white_begin(text, p->in->text.size) : p->in->text.size;
    size_t begin = c->left ? white_end(text, end) : 0;
    return tokenizer_normalize_keep(p, begin, end - begin);
}

// Spaces, not other whitespace: none at the ends, one between words. At the end U+2581, which will
// stand for a space, is one as well.
static bool single_spaces(pass *p)
{
    const char *text = p->in->text.data;
    size_t end = p->in->text.size, at = 0;
    for (;;) {
        if (end > 0 && text[end - 1] == ' ')
            end--;
        else if (end >= 3 && memcmp(text + end - 3, "\xE2\x96\x81", 3) == 0)
            end -= 3;
        else
            break;
    }
    while (at < end && text[at] == ' ')
        at++;
    while (at < end) {
        size_t begin = at;
        while (at < end && !(text[at] == ' ' && text[at + 1] == ' ')) // text[end - 1] is none
            at++;
        if (!tokenizer_normalize_keep(p, begin, at - begin + (at < end)))
            return false;
        while (at < end && text[at] == ' ')
            at++;
    }
    return true;
}

// ---- BERT ---------------------------------------------------------------------------------------

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool is_removed_by_cleaning(uint32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r')
        return false;
    if (c < 0x80)
        return c < 0x20 || c == 0x7F;
    return c == 0xFFFD || mh_has_category(c, MH_CATEGORY(CC) | MH_CATEGORY(CF) | MH_CATEGORY(CO));
}

static bool bert_clean(pass *p, const mh_component *c)
{
    const char *text = p->in->text.data;
    size_t size = p->in->text.size;
    for (size_t at = 0, length; at < size; at += length) {
        for (length = 0; at + length < size && text[at + length] >= ' ' && text[at + length] < 0x7F;
             length++)
            ;
        if (length > 0) {
            if (!tokenizer_normalize_keep(p, at, length))
                return false;
            continue;
        }
        uint32_t point = mh_utf8_decode(text + at, &length);
        if (c->clean && is_removed_by_cleaning(point))
            continue;
        bool alone = c->chinese && is_chinese(point), space = c->clean && mh_is_white(point);
        if ((alone && !tokenizer_normalize_put(p, at, ' ')) ||
            !(space ? tokenizer_normalize_put(p, at, ' ')
                    : tokenizer_normalize_keep(p, at, length)) ||
            (alone && !tokenizer_normalize_put(p, at, ' ')))
            return false;
    }
    return true;
}

static void swap(mh_aligned *a, mh_aligned *b)
{
    mh_aligned c = *a;
    *a = *b;
    *b = c;
}

// The output becomes the input of the next pass, which may be that of another normalizer.
static void tokenizer_normalize_turn(mh_aligned *text, mh_aligned *spare)
{
    swap(text, spare);
    mh_aligned_reset(spare, text->base);
}

static bool bert(pass *p, const mh_component *c, mh_aligned *text, mh_aligned *spare)
{
    if (!bert_clean(p, c))
        return false;
    if (c->accents && !tokenizer_normalize_is_ascii(spare)) {
        tokenizer_normalize_turn(text, spare);
        if (!mh_unicode_form(p->context, MH_NORMALIZE_NFD, p->in, p->scratch, p->out))
            return false;
        tokenizer_normalize_turn(text, spare);
        return strip_marks(p, MH_CATEGORY(MN), c->lowercase);
    }
    if (!c->lowercase)
        return true;
    tokenizer_normalize_turn(text, spare);
    return lowercase(p);
}

// ---- texts that are put in ----------------------------------------------------------------------

static bool prepend(pass *p, const mh_component *c)
{
    const mh_text text = mh_span_text(p->t, c->text);
    if (p->in->text.size > 0 && (p->first || !c->first)) {
        mh_range range = mh_aligned_range(p->in, 0);
        for (size_t at = 0, length; at < text.size; at += length) {
            mh_utf8_decode(text.bytes + at, &length);
            if (!mh_aligned_append(p->context, p->out, text.bytes + at, length, range))
                return false;
        }
    }
    return tokenizer_normalize_keep(p, 0, p->in->text.size);
}

static bool put_text(pass *p, mh_text text, mh_range range)
{
    for (size_t at = 0, length; at < text.size; at += length) {
        mh_utf8_decode(text.bytes + at, &length);
        if (!mh_aligned_append(p->context, p->out, text.bytes + at, length, range))
            return false;
    }
    return true;
}

static bool replace(pass *p, const mh_component *c)
{
    const mh_text literal = mh_span_text(p->t, c->text), content = mh_span_text(p->t, c->content);
    const char *text = p->in->text.data;
    size_t size = p->in->text.size, begin, end;
    for (size_t at = 0;; at = end) {
        bool found = mh_pattern_find((mh_pattern)c->pattern, literal, text, size, at, &begin, &end);
        if (!tokenizer_normalize_keep(p, at, (found ? begin : size) - at))
            return false;
        if (!found)
            return true;
        if (!put_text(p, content, mh_aligned_range(p->in, end - 1)))
            return false;
    }
}

// ---- all of them --------------------------------------------------------------------------------

static bool normalize_once(pass *p, const mh_component *c, mh_aligned *text, mh_aligned *spare)
{
    switch ((mh_normalizer_kind)c->kind) {
    case MH_NORMALIZE_NFC:
    case MH_NORMALIZE_NFD:
    case MH_NORMALIZE_NFKC:
    case MH_NORMALIZE_NFKD:
        return mh_unicode_form(p->context, (mh_normalizer_kind)c->kind, p->in, p->scratch, p->out);
    case MH_NORMALIZE_LOWERCASE:
        return lowercase(p);
    case MH_NORMALIZE_STRIP_ACCENTS:
        return strip_marks(p, MH_CATEGORIES_M, false);
    case MH_NORMALIZE_BERT:
        return bert(p, c, text, spare);
    case MH_NORMALIZE_PREPEND:
        return prepend(p, c);
    case MH_NORMALIZE_REPLACE:
        return replace(p, c);
    case MH_NORMALIZE_STRIP:
        return strip(p, c);
    case MH_NORMALIZE_PRECOMPILED:
        return mh_charsmap_apply(p->context, p->t, c->longest, p->in, p->out);
    case MH_NORMALIZE_NMT:
        return nmt(p);
    case MH_NORMALIZE_SPACES:
        return single_spaces(p);
    }
    return false;
}

bool mh_normalize(mh_context *context, const mh_tokenizer *t, bool first, mh_form_scratch *scratch,
                  mh_aligned *text, mh_aligned *spare)
{
    const mh_component_list *list = &t->parts.normalizers;
    pass p = {context, t, scratch, text, spare, first};
    for (size_t i = 0; i < list->count; i++) {
        mh_aligned_reset(spare, text->base);
        if (!normalize_once(&p, &list->items[i], text, spare))
            return false;
        swap(text, spare);
    }
    return true;
}
