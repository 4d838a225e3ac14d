// SPDX-License-Identifier: MIT
// Pre-tokenizers: each splits every piece of text into smaller ones. ByteLevel and Metaspace change
// the text as well; of ByteLevel only the space in front is left here, because a byte-level model
// compares bytes (tokenizer.h).
//
// A split is a list of matches and of what is between them; a behaviour says what becomes of it:
//
//     a-b--c at "-"   isolated a|-|b|-|-|c       removed a|b|c       contiguous a|-|b|--|c
//                     with previous a-|b-|-|c    with next a|-b|-|-c
#include "text/tokenizer_classes.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_pieces.h"

typedef struct splitter {
    mh_context *context;
    const mh_tokenizer *t;
    const char *text;
    mh_chunk_list *out;
    size_t first;  // of the pieces in `out` that came from the current one
    bool previous; // was the last part a match
} splitter;

bool mh_chunk_add(mh_context *context, mh_chunk_list *list, size_t begin, size_t size, int32_t id)
{
    if (!mh_grow(context, &list->items, &list->capacity, list->count + 1, sizeof *list->items))
        return false;
    list->items[list->count++] = (mh_chunk){begin, size, id};
    return true;
}

// ---- behaviours ---------------------------------------------------------------------------------

// Adds the next part of a piece. Parts with nothing in them are left out.
static bool tokenizer_pre_add_part(splitter *s, mh_split_behaviour behaviour, size_t begin,
                                   size_t end, bool match)
{
    if (begin == end)
        return true;
    bool previous = s->previous;
    mh_chunk *last = s->out->count > s->first ? &s->out->items[s->out->count - 1] : NULL;
    bool joins = false;
    s->previous = match;
    if (behaviour == MH_SPLIT_REMOVED && match)
        return true;
    if (behaviour == MH_SPLIT_CONTIGUOUS)
        joins = match == previous;
    else if (behaviour == MH_SPLIT_WITH_PREVIOUS)
        joins = match && !previous;
    else if (behaviour == MH_SPLIT_WITH_NEXT)
        joins = !match && previous; // of several matches the last one
    if (last && joins) {
        last->size += end - begin;
        return true;
    }
    return mh_chunk_add(s->context, s->out, begin, end - begin, -1);
}

static void begin_piece(splitter *s)
{
    s->first = s->out->count;
    s->previous = false;
}

// ---- patterns -----------------------------------------------------------------------------------

static bool split_pattern(splitter *s, const mh_component *c, mh_pattern pattern, mh_chunk piece)
{
    const mh_text literal = mh_span_text(s->t, c->text);
    const char *text = s->text + piece.begin;
    mh_split_behaviour behaviour = (mh_split_behaviour)c->behaviour;
    size_t at = 0, begin, end;
    begin_piece(s);
    while (mh_pattern_find(pattern, literal, text, piece.size, at, &begin, &end)) {
        if (!tokenizer_pre_add_part(s, behaviour, piece.begin + at, piece.begin + begin,
                                    c->invert) ||
            !tokenizer_pre_add_part(s, behaviour, piece.begin + begin, piece.begin + end,
                                    !c->invert))
            return false;
        at = end;
    }
    return tokenizer_pre_add_part(s, behaviour, piece.begin + at, piece.begin + piece.size,
                                  c->invert);
}

typedef bool (*character_test)(uint32_t c);

// Every character of the class is a match of its own.
static bool split_class(splitter *s, character_test test, mh_split_behaviour behaviour,
                        mh_chunk piece)
{
    size_t at = piece.begin, end = piece.begin + piece.size, begin = at;
    begin_piece(s);
    for (size_t length; at < end; at += length) {
        if (!test(mh_utf8_decode(s->text + at, &length)))
            continue;
        if (!tokenizer_pre_add_part(s, behaviour, begin, at, false) ||
            !tokenizer_pre_add_part(s, behaviour, at, at + length, true))
            return false;
        begin = at + length;
    }
    return tokenizer_pre_add_part(s, behaviour, begin, end, false);
}

static bool is_white(uint32_t c) { return mh_is_white(c); }
static bool is_number(uint32_t c) { return mh_is_number(c); }
static bool tokenizer_pre_is_punctuation(uint32_t c) { return mh_is_punctuation(c); }

// Whitespace removed, punctuation isolated, in one pass.
static bool split_bert(splitter *s, mh_chunk piece)
{
    size_t at = piece.begin, end = piece.begin + piece.size, begin = at;
    for (size_t length; at < end; at += length) {
        uint32_t c = mh_utf8_decode(s->text + at, &length);
        bool white = mh_is_white(c);
        if (!white && !mh_is_punctuation(c))
            continue;
        if (at > begin && !mh_chunk_add(s->context, s->out, begin, at - begin, -1))
            return false;
        if (!white && !mh_chunk_add(s->context, s->out, at, length, -1))
            return false;
        begin = at + length;
    }
    return end == begin || mh_chunk_add(s->context, s->out, begin, end - begin, -1);
}

// \w+|[^\w\s]+
static bool split_words(splitter *s, mh_chunk piece)
{
    size_t at = piece.begin, end = piece.begin + piece.size, begin = at;
    int last = 0; // 0 whitespace, 1 word, 2 other
    for (size_t length; at < end; at += length) {
        uint32_t c = mh_utf8_decode(s->text + at, &length);
        int class = mh_is_white(c) ? 0 : mh_is_word_character(c) ? 1 : 2;
        if (class == last && class != 0)
            continue;
        if (last != 0 && !mh_chunk_add(s->context, s->out, begin, at - begin, -1))
            return false;
        begin = at;
        last = class;
    }
    return last == 0 || mh_chunk_add(s->context, s->out, begin, end - begin, -1);
}

static bool split_piece(splitter *s, const mh_component *c, mh_chunk piece)
{
    mh_split_behaviour digits = c->individual ? MH_SPLIT_ISOLATED : MH_SPLIT_CONTIGUOUS;
    switch ((mh_pre_tokenizer_kind)c->kind) {
    case MH_SPLIT_BYTE_LEVEL:
        if (c->use_regex)
            return split_pattern(s, c, MH_PATTERN_GPT2, piece);
        break;
    case MH_SPLIT_BERT:
        return split_bert(s, piece);
    case MH_SPLIT_WHITESPACE:
        return split_words(s, piece);
    case MH_SPLIT_WHITESPACE_SPLIT:
        return split_class(s, is_white, MH_SPLIT_REMOVED, piece);
    case MH_SPLIT_PUNCTUATION:
        return split_class(s, tokenizer_pre_is_punctuation, (mh_split_behaviour)c->behaviour,
                           piece);
    case MH_SPLIT_METASPACE:
        if (c->split) // at the replacement, with what follows it
            return split_pattern(s, c, MH_PATTERN_LITERAL, piece);
        break;
    case MH_SPLIT_DIGITS:
        return split_class(s, is_number, digits, piece);
    case MH_SPLIT_PATTERN:
        return split_pattern(s, c, (mh_pattern)c->pattern, piece);
    }
    return mh_chunk_add(s->context, s->out, piece.begin, piece.size, -1);
}

// ---- components that change the text ------------------------------------------------------------

static bool tokenizer_pre_starts_with(mh_text text, mh_text prefix)
{
    return text.size >= prefix.size && memcmp(text.bytes, prefix.bytes, prefix.size) == 0;
}

// A piece with a text in front, which has the range of the piece's first character, and with its
// spaces replaced. Its place in `to` is returned in *piece.
static bool rewrite_piece(mh_context *context, const mh_aligned *from, mh_text front, mh_text space,
                          mh_aligned *to, mh_chunk *piece)
{
    size_t begin = to->text.size, end = piece->begin + piece->size;
    bool written = front.size == 0 || mh_aligned_append(context, to, front.bytes, front.size,
                                                        mh_aligned_range(from, piece->begin));
    for (size_t at = piece->begin; written && at < end;) {
        const char *place = space.size ? memchr(from->text.data + at, ' ', end - at) : NULL;
        size_t next = place ? (size_t)(place - from->text.data) : end;
        written = mh_aligned_copy(context, to, from, at, next - at) &&
                  (!place || mh_aligned_append(context, to, space.bytes, space.size,
                                               mh_aligned_range(from, next)));
        at = next + (place != NULL);
    }
    piece->begin = begin;
    piece->size = to->text.size - begin;
    return written;
}

static mh_text front_of(const mh_tokenizer *t, const mh_component *c, const mh_aligned *from,
                        mh_chunk piece)
{
    const mh_text text = {from->text.data + piece.begin, piece.size}, none = {"", 0};
    const mh_text space = {" ", 1}, mark = mh_span_text(t, c->text);
    if (c->kind == MH_SPLIT_BYTE_LEVEL)
        return tokenizer_pre_starts_with(text, space) ? none : space;
    if (c->prepend == MH_PREPEND_NEVER || tokenizer_pre_starts_with(text, space) ||
        tokenizer_pre_starts_with(text, mark))
        return none;
    bool first = mh_aligned_range(from, piece.begin).from == 0;
    return first || c->prepend == MH_PREPEND_ALWAYS ? mark : none;
}

static bool rewrite(mh_context *context, const mh_tokenizer *t, const mh_component *c,
                    mh_aligned *text, mh_aligned *spare, mh_chunk_list *pieces)
{
    const mh_text none = {"", 0};
    const mh_text space = c->kind == MH_SPLIT_METASPACE ? mh_span_text(t, c->text) : none;
    mh_aligned_reset(spare, text->base);
    for (size_t i = 0; i < pieces->count; i++) {
        mh_chunk *piece = &pieces->items[i];
        bool added = piece->id >= 0 || piece->size == 0;
        mh_text front = added ? none : front_of(t, c, text, *piece);
        if (!rewrite_piece(context, text, front, added ? none : space, spare, piece))
            return false;
    }
    mh_aligned old = *text;
    *text = *spare;
    *spare = old;
    return true;
}

static bool changes_text(const mh_component *c)
{
    return c->kind == MH_SPLIT_METASPACE || (c->kind == MH_SPLIT_BYTE_LEVEL && c->prefix_space);
}

bool mh_pre_tokenize(mh_context *context, const mh_tokenizer *t, mh_aligned *text,
                     mh_aligned *spare_text, mh_chunk_list *pieces, mh_chunk_list *spare)
{
    const mh_component_list *list = &t->parts.pre_tokenizers;
    for (size_t i = 0; i < list->count; i++) {
        const mh_component *c = &list->items[i];
        if (changes_text(c) && !rewrite(context, t, c, text, spare_text, pieces))
            return false;
        spare->count = 0;
        splitter s = {.context = context, .t = t, .text = text->text.data, .out = spare};
        for (size_t k = 0; k < pieces->count; k++) {
            mh_chunk piece = pieces->items[k];
            if (!(piece.id >= 0 ? mh_chunk_add(context, spare, piece.begin, piece.size, piece.id)
                                : piece.size == 0 || split_piece(&s, c, piece)))
                return false;
        }
        mh_chunk_list old = *pieces;
        *pieces = *spare;
        *spare = old;
    }
    return true;
}
