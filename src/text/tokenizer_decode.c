// SPDX-License-Identifier: MIT
// Ids to text: the tokens' names go through the decoders, each of which turns a list of strings
// into another; what is left is put together.
#include "base/argument_check.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/tokenizer_patterns.h"
#include "text/utf8.h"

typedef struct strings {
    mh_buffer bytes;
    size_t *ends; // of each string in `bytes`
    size_t count, capacity;
} strings;

typedef struct decoding {
    mh_context *context;
    const mh_tokenizer *t;
    strings in, out;
    mh_buffer scratch, more;
} decoding;

static void free_strings(mh_context *context, strings *s)
{
    mh_buffer_free(context, &s->bytes);
    mh_shrink(context, &s->ends, &s->capacity, sizeof *s->ends);
}

static mh_text string_at(const strings *s, size_t i)
{
    size_t begin = i > 0 ? s->ends[i - 1] : 0;
    return s->bytes.size > 0 ? (mh_text){s->bytes.data + begin, s->ends[i] - begin}
                             : (mh_text){"", 0};
}

static bool tokenizer_decode_append(decoding *d, mh_text text)
{
    return mh_buffer_append(d->context, &d->out.bytes, text.bytes, text.size);
}

// Ends the string that was appended.
static bool end_string(decoding *d)
{
    strings *s = &d->out;
    if (!mh_grow(d->context, &s->ends, &s->capacity, s->count + 1, sizeof *s->ends))
        return false;
    s->ends[s->count++] = s->bytes.size;
    return true;
}

// ---- replacements -------------------------------------------------------------------------------

static bool replace_into(mh_context *context, mh_pattern pattern, mh_text literal, mh_text content,
                         mh_text text, mh_buffer *out)
{
    size_t at = 0, begin, end;
    if (text.size == 0)
        return true;
    while (mh_pattern_find(pattern, literal, text.bytes, text.size, at, &begin, &end)) {
        if (!mh_buffer_append(context, out, text.bytes + at, begin - at) ||
            !mh_buffer_append(context, out, content.bytes, content.size))
            return false;
        at = end;
    }
    return mh_buffer_append(context, out, text.bytes + at, text.size - at);
}

// English punctuation without the space in front.
static bool clean_up(decoding *d, mh_text text)
{
    static const struct {
        mh_text from, to;
    } rules[] = {
#define RULE(from, to)                                                                             \
    {                                                                                              \
        {from, sizeof from - 1}, { to, sizeof to - 1 }                                             \
    }
        RULE(" .", "."),   RULE(" ?", "?"),     RULE(" !", "!"),     RULE(" ,", ","),
        RULE(" ' ", "'"),  RULE(" n't", "n't"), RULE(" 'm", "'m"),   RULE(" do not", " don't"),
        RULE(" 's", "'s"), RULE(" 've", "'ve"), RULE(" 're", "'re"),
#undef RULE
    };
    d->scratch.size = 0;
    if (!mh_buffer_append(d->context, &d->scratch, text.bytes, text.size))
        return false;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        mh_text now = {d->scratch.data, d->scratch.size};
        d->more.size = 0;
        if (!replace_into(d->context, MH_PATTERN_LITERAL, rules[i].from, rules[i].to, now,
                          &d->more))
            return false;
        mh_buffer old = d->scratch;
        d->scratch = d->more;
        d->more = old;
    }
    return tokenizer_decode_append(d, (mh_text){d->scratch.data, d->scratch.size});
}

// ---- decoders -----------------------------------------------------------------------------------

static bool tokenizer_decode_starts_with(mh_text text, mh_text prefix)
{
    return text.size >= prefix.size && memcmp(text.bytes, prefix.bytes, prefix.size) == 0;
}

// Byte-level characters to bytes; a string with another character is kept as it is.
static bool append_bytes(decoding *d, mh_text text)
{
    size_t before = d->more.size;
    for (size_t at = 0, length; at < text.size; at += length) {
        unsigned char byte;
        if (!mh_character_byte(mh_utf8_decode(text.bytes + at, &length), &byte)) {
            d->more.size = before;
            return mh_buffer_append(d->context, &d->more, text.bytes, text.size);
        }
        if (!mh_buffer_append(d->context, &d->more, (const char *)&byte, 1))
            return false;
    }
    return true;
}

static bool decode_byte_level(decoding *d)
{
    d->more.size = 0;
    for (size_t i = 0; i < d->in.count; i++)
        if (!append_bytes(d, string_at(&d->in, i)))
            return false;
    return mh_utf8_repair(d->context, d->more.data, d->more.size, &d->scratch) == MH_OK &&
           tokenizer_decode_append(d, (mh_text){d->scratch.data, d->scratch.size}) && end_string(d);
}

static bool decode_wordpiece(decoding *d, const mh_component *c)
{
    const mh_text prefix = mh_span_text(d->t, c->text);
    for (size_t i = 0; i < d->in.count; i++) {
        mh_text text = string_at(&d->in, i);
        mh_buffer joined = {0};
        bool continues = i > 0 && tokenizer_decode_starts_with(text, prefix);
        if (continues)
            text = (mh_text){text.bytes + prefix.size, text.size - prefix.size};
        bool done = (i == 0 || continues || mh_buffer_append(d->context, &joined, " ", 1)) &&
                    mh_buffer_append(d->context, &joined, text.bytes, text.size);
        mh_text whole = {joined.data, joined.size};
        done = done && (c->cleanup ? clean_up(d, whole) : tokenizer_decode_append(d, whole)) &&
               end_string(d);
        mh_buffer_free(d->context, &joined);
        if (!done)
            return false;
    }
    return true;
}

static bool decode_metaspace(decoding *d, const mh_component *c)
{
    const mh_text mark = mh_span_text(d->t, c->text), none = {"", 0}, space = {" ", 1};
    for (size_t i = 0; i < d->in.count; i++) {
        bool first = i == 0 && c->prepend != MH_PREPEND_NEVER;
        if (!replace_into(d->context, MH_PATTERN_LITERAL, mark, first ? none : space,
                          string_at(&d->in, i), &d->out.bytes) ||
            !end_string(d))
            return false;
    }
    return true;
}

static bool byte_of(mh_text text, unsigned char *byte)
{
    unsigned value = 0;
    if (text.size != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>')
        return false;
    for (size_t i = 3; i < 5; i++) {
        char c = text.bytes[i], lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = 16 * value + (unsigned)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = 16 * value + (unsigned)(lower - 'a' + 10);
        else
            return false;
    }
    *byte = (unsigned char)value;
    return true;
}

// Bytes in a row are one string if they are valid, else one U+FFFD each.
static bool end_bytes(decoding *d)
{
    const mh_buffer *b = &d->more;
    bool valid = mh_utf8_valid(b->data, b->size) == b->size, done = true;
    if (b->size > 0 && valid)
        done = tokenizer_decode_append(d, (mh_text){b->data, b->size}) && end_string(d);
    for (size_t i = 0; !valid && done && i < b->size; i++)
        done = tokenizer_decode_append(d, (mh_text){"\xEF\xBF\xBD", 3}) && end_string(d);
    d->more.size = 0;
    return done;
}

static bool decode_byte_fallback(decoding *d)
{
    d->more.size = 0;
    for (size_t i = 0; i < d->in.count; i++) {
        unsigned char byte;
        mh_text text = string_at(&d->in, i);
        bool done = byte_of(text, &byte)
                        ? mh_buffer_append(d->context, &d->more, (const char *)&byte, 1)
                        : end_bytes(d) && tokenizer_decode_append(d, text) && end_string(d);
        if (!done)
            return false;
    }
    return end_bytes(d);
}

static bool decode_strip(decoding *d, const mh_component *c)
{
    const mh_text mark = mh_span_text(d->t, c->text);
    for (size_t i = 0; i < d->in.count; i++) {
        mh_text text = string_at(&d->in, i);
        for (size_t n = 0; n < c->start && tokenizer_decode_starts_with(text, mark); n++)
            text = (mh_text){text.bytes + mark.size, text.size - mark.size};
        for (size_t n = 0; n < c->stop && text.size >= mark.size &&
                           memcmp(text.bytes + text.size - mark.size, mark.bytes, mark.size) == 0;
             n++)
            text.size -= mark.size;
        if (!tokenizer_decode_append(d, text) || !end_string(d))
            return false;
    }
    return true;
}

static bool decode_replace(decoding *d, const mh_component *c)
{
    for (size_t i = 0; i < d->in.count; i++)
        if (!replace_into(d->context, (mh_pattern)c->pattern, mh_span_text(d->t, c->text),
                          mh_span_text(d->t, c->content), string_at(&d->in, i), &d->out.bytes) ||
            !end_string(d))
            return false;
    return true;
}

static bool decode_bpe(decoding *d, const mh_component *c)
{
    const mh_text suffix = mh_span_text(d->t, c->text), none = {"", 0}, space = {" ", 1};
    for (size_t i = 0; i < d->in.count; i++)
        if (!replace_into(d->context, MH_PATTERN_LITERAL, suffix,
                          i + 1 == d->in.count ? none : space, string_at(&d->in, i),
                          &d->out.bytes) ||
            !end_string(d))
            return false;
    return true;
}

static bool decode_ctc(decoding *d, const mh_component *c)
{
    const mh_text pad = mh_span_text(d->t, c->text), delimiter = mh_span_text(d->t, c->content);
    const mh_text none = {"", 0}, space = {" ", 1};
    for (size_t i = 0; i < d->in.count; i++) {
        mh_text text = string_at(&d->in, i);
        mh_text before = i > 0 ? string_at(&d->in, i - 1) : none;
        mh_buffer kept = {0}, clean = {0};
        size_t begin = d->out.bytes.size;
        if (i > 0 && text.size == before.size && tokenizer_decode_starts_with(text, before))
            continue;
        bool done = replace_into(d->context, MH_PATTERN_LITERAL, pad, none, text, &kept);
        if (done && c->cleanup) {
            done = clean_up(d, (mh_text){kept.data, kept.size});
            mh_text cleaned = {d->out.bytes.data + begin, d->out.bytes.size - begin};
            done = done &&
                   replace_into(d->context, MH_PATTERN_LITERAL, delimiter, space, cleaned, &clean);
            d->out.bytes.size = begin;
        }
        mh_text result =
            c->cleanup ? (mh_text){clean.data, clean.size} : (mh_text){kept.data, kept.size};
        done = done && tokenizer_decode_append(d, result) && (result.size == 0 || end_string(d));
        mh_buffer_free(d->context, &kept);
        mh_buffer_free(d->context, &clean);
        if (!done)
            return false;
    }
    return true;
}

static bool decode_once(decoding *d, const mh_component *c)
{
    switch ((mh_decoder_kind)c->kind) {
    case MH_DECODE_BYTE_LEVEL:
        return decode_byte_level(d);
    case MH_DECODE_WORDPIECE:
        return decode_wordpiece(d, c);
    case MH_DECODE_METASPACE:
        return decode_metaspace(d, c);
    case MH_DECODE_BYTE_FALLBACK:
        return decode_byte_fallback(d);
    case MH_DECODE_FUSE:
        return tokenizer_decode_append(d, (mh_text){d->in.bytes.data, d->in.bytes.size}) &&
               end_string(d);
    case MH_DECODE_STRIP:
        return decode_strip(d, c);
    case MH_DECODE_REPLACE:
        return decode_replace(d, c);
    case MH_DECODE_BPE:
        return decode_bpe(d, c);
    case MH_DECODE_CTC:
        return decode_ctc(d, c);
    }
    return false;
}

// ---- the whole ----------------------------------------------------------------------------------

static void tokenizer_decode_turn(decoding *d)
{
    strings old = d->in;
    d->in = d->out;
    d->out = old;
    d->out.count = d->out.bytes.size = 0;
}

// A normalised added token is shown as it is found in normalised text.
static mh_text shown_name(const mh_tokenizer *t, size_t id)
{
    const uint32_t added = t->tokens[id].added;
    return added && t->parts.added.items[added - 1].normalized
               ? mh_span_text(t, t->parts.added.items[added - 1].normal)
               : mh_token_name(t, id);
}

static mh_status add_names(decoding *d, bool skip_special, const int32_t *ids, size_t count)
{
    const mh_tokenizer *t = d->t;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= t->count)
            return mh_fail(d->context, MH_ERROR_ARGUMENT,
                           "decode: id %d at position %zu, expected 0 to %zu", ids[i], i,
                           t->count - 1);
        const mh_token_entry *token = &t->tokens[ids[i]];
        if (token->name_size == 0 || (skip_special && token->kind == MH_TOKEN_SPECIAL))
            continue;
        bool joint = t->parts.joined_by_space && d->out.count > 0;
        if ((joint && !tokenizer_decode_append(d, (mh_text){" ", 1})) ||
            !tokenizer_decode_append(d, shown_name(t, (size_t)ids[i])) || !end_string(d))
            return MH_ERROR_MEMORY;
    }
    return MH_OK;
}

mh_status mh_tokenizer_decode_text(mh_context *context, const mh_tokenizer *t, bool skip_special,
                                   const int32_t *ids, size_t count, mh_buffer *out)
{
    if (MH_NEED(context, {"tokenizer", t}, {"out", out}, {"ids", mh_array(ids, count)}))
        return MH_ERROR_ARGUMENT;
    decoding d = {.context = context, .t = t};
    out->size = 0;
    mh_status status = add_names(&d, skip_special, ids, count);
    tokenizer_decode_turn(&d);
    for (size_t i = 0; status == MH_OK && i < t->parts.decoders.count; i++) {
        if (!decode_once(&d, &t->parts.decoders.items[i]))
            status = MH_ERROR_MEMORY;
        tokenizer_decode_turn(&d);
    }
    if (status == MH_OK && !mh_buffer_append(context, out, d.in.bytes.data, d.in.bytes.size))
        status = MH_ERROR_MEMORY;
    free_strings(context, &d.in);
    free_strings(context, &d.out);
    mh_buffer_free(context, &d.scratch);
    mh_buffer_free(context, &d.more);
    return status;
}
