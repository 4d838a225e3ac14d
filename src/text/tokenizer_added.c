// SPDX-License-Identifier: MIT
// Added tokens: texts that become a token wherever they stand, whatever the model would make of
// them. They are looked for from left to right, the longest first.
#include "base/argument_check.h"
#include "text/tokenizer_classes.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_pieces.h"

static bool word_before(const char *text, size_t at)
{
    size_t length;
    if (at == 0)
        return false;
    do
        at--;
    while (at > 0 && (text[at] & 0xC0) == 0x80);
    return mh_is_word_character(mh_utf8_decode(text + at, &length));
}

static bool word_after(const char *text, size_t size, size_t at)
{
    size_t length;
    return at < size && mh_is_word_character(mh_utf8_decode(text + at, &length));
}

// A search for added tokens in one text.
typedef struct search {
    const char *text;
    size_t size;
    size_t free;                   // where the last piece ended
    size_t white_begin, white_end; // whitespace that was skipped last: it is not scanned again
    bool special;                  // special tokens count
} search;

static size_t skip_white(search *s, size_t at)
{
    if (at >= s->white_begin && at < s->white_end)
        return s->white_end;
    s->white_begin = at;
    for (size_t length; at < s->size; at += length)
        if (!mh_is_white(mh_utf8_decode(s->text + at, &length)))
            break;
    s->white_end = at;
    return at;
}

// A match as it is taken: false if it does not count, else with the whitespace that belongs to it.
static bool tokenizer_added_accept(search *s, const mh_added_token *token, size_t *begin,
                                   size_t *end)
{
    if ((token->special && !s->special) ||
        (token->single_word &&
         (word_before(s->text, *begin) || word_after(s->text, s->size, *end))))
        return false;
    if (token->left)
        *begin = *begin <= s->free ? s->free
                                   : s->free + mh_white_begin(s->text + s->free, *begin - s->free);
    if (token->right)
        *end = skip_white(s, *end);
    if (*end < *begin)
        *end = *begin;
    return true;
}

bool mh_added_split(mh_context *context, const mh_tokenizer *t, bool normalized, bool special,
                    const char *all, size_t from, size_t size, mh_chunk_list *pieces)
{
    const mh_added_list *added = &t->parts.added;
    const mh_trie *trie = normalized ? &added->normal : &added->raw;
    if (size == 0)
        return true;
    search s = {.text = all + from, .size = size, .special = special};
    for (size_t at = 0; trie->nodes && at < size;) {
        size_t length, begin = at, end;
        uint32_t found = UINT32_MAX;
        if (trie->root[(unsigned char)s.text[at]] != MH_NO_NODE)
            found = mh_trie_longest(trie, 0, s.text + at, size - at, &length);
        if (found == UINT32_MAX) {
            at++;
            continue;
        }
        at = end = at + length; // a match that does not count hides what is within it
        const mh_added_token *token = &added->items[found];
        if (!tokenizer_added_accept(&s, token, &begin, &end))
            continue;
        if ((begin > s.free && !mh_chunk_add(context, pieces, from + s.free, begin - s.free, -1)) ||
            !mh_chunk_add(context, pieces, from + begin, end - begin, token->id))
            return false;
        s.free = end; // whitespace that a token took may be another token as well, as in tokenizers
    }
    return s.free == size || mh_chunk_add(context, pieces, from + s.free, size - s.free, -1);
}

// ---- tries --------------------------------------------------------------------------------------

static bool tokenizer_added_build(mh_context *context, mh_tokenizer *t, bool normalized,
                                  mh_trie *trie)
{
    const mh_added_list *added = &t->parts.added;
    mh_trie_key *keys = NULL;
    size_t capacity = 0, count = 0;
    if (!mh_grow(context, &keys, &capacity, added->count, sizeof *keys))
        return false;
    for (size_t i = 0; i < added->count; i++) {
        const mh_added_token *token = &added->items[i];
        mh_text text = mh_span_text(t, normalized ? token->normal : token->content);
        if (token->normalized == normalized && text.size > 0)
            keys[count++] = (mh_trie_key){text.bytes, text.size, (uint32_t)i};
    }
    bool built = count == 0 || mh_trie_build(context, trie, keys, count);
    mh_shrink(context, &keys, &capacity, sizeof *keys);
    return built;
}

static bool normalize_content(mh_context *context, mh_tokenizer *t, mh_added_token *token)
{
    mh_aligned text = {.plain = true}, spare = {.plain = true};
    mh_form_scratch scratch = {0};
    mh_text content = mh_span_text(t, token->content);
    bool done = mh_buffer_append(context, &text.text, content.bytes, content.size) &&
                mh_normalize(context, t, true, &scratch, &text, &spare) &&
                mh_tokenizer_keep(context, t, text.text.data, text.text.size, &token->normal);
    mh_aligned_free(context, &text);
    mh_aligned_free(context, &spare);
    mh_form_scratch_free(context, &scratch);
    return done;
}

mh_status mh_added_index(mh_context *context, mh_tokenizer *t)
{
    mh_added_list *added = &t->parts.added;
    for (size_t i = 0; i < added->count; i++) {
        mh_added_token *token = &added->items[i];
        token->normal = token->content;
        if (token->normalized && !token->verbatim && t->parts.normalizers.count > 0 &&
            !normalize_content(context, t, token))
            return MH_ERROR_MEMORY;
    }
    return tokenizer_added_build(context, t, false, &added->raw) &&
                   tokenizer_added_build(context, t, true, &added->normal)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

// ---- tokens that a model does not have ----------------------------------------------------------

// Whether nothing but the search for added tokens can give the id.
static bool is_only_special(const mh_tokenizer *t, size_t id)
{
    const mh_token_entry *token = &t->tokens[id];
    return token->name_size == 0 ||
           (token->added && token->kind == MH_TOKEN_SPECIAL && token->size == 0);
}

static bool template_is_below(const mh_template *form, size_t limit)
{
    for (size_t i = 0; i < form->count; i++)
        if (form->items[i].id >= 0 && (size_t)form->items[i].id >= limit)
            return false;
    return true;
}

static bool can_drop_from(const mh_tokenizer *t, size_t limit)
{
    bool can = template_is_below(&t->parts.single_text, limit) &&
               template_is_below(&t->parts.pair, limit) &&
               (t->parts.unk < 0 || (size_t)t->parts.unk < limit);
    for (size_t id = limit; id < t->count && can; id++)
        can = is_only_special(t, id);
    return can;
}

static void clear_trie(mh_context *context, mh_trie *trie)
{
    mh_shrink(context, &trie->nodes, &trie->capacity, sizeof *trie->nodes);
    *trie = (mh_trie){0};
}

mh_status mh_tokenizer_drop_from(mh_context *context, mh_tokenizer *t, size_t limit)
{
    mh_added_list *added = &t->parts.added;
    size_t kept = 0;
    if (t->count <= limit || !can_drop_from(t, limit))
        return MH_OK;
    for (size_t i = 0; i < added->count; i++) {
        if ((size_t)added->items[i].id >= limit)
            continue;
        added->items[kept++] = added->items[i];
        t->tokens[added->items[i].id].added = (uint32_t)kept;
    }
    for (size_t i = 0; i < MH_ROLE_COUNT; i++)
        t->roles[i] = t->roles[i] >= 0 && (size_t)t->roles[i] >= limit ? -1 : t->roles[i];
    added->count = kept;
    t->count = limit;
    clear_trie(context, &added->raw);
    clear_trie(context, &added->normal);
    return mh_tokenizer_index_keys(context, t) ? mh_added_index(context, t) : MH_ERROR_MEMORY;
}
