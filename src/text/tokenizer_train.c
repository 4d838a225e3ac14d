// SPDX-License-Identifier: MIT
// BPE training: count the distinct words once, then repeatedly merge the most frequent pair of
// neighbours, in the words where it occurs, keeping the counts of all pairs up to date
// (train_pairs.h). A word is a row of ids that gets shorter in place:
//
//     Ġ t h e r e      merge t h:   Ġ th e r e      less: (Ġ,t) (h,e)   more: (Ġ,th) (th,e)
//
// 161,312 pairs of sentences (11 MB) and 8,000 merges take 0.3 to 0.6 s.
#include "base/argument_check.h"
#include "base/sized_struct.h"
#include "support/buffer.h"
#include "text/byte_level.h"
#include "text/tokenizer_build.h"
#include "text/train_pairs.h"
#include "text/train_words.h"

typedef struct trainer {
    mh_context *context;
    mh_tokenizer *tokenizer;
    mh_word_table words;
    mh_train_pairs pairs;
    uint32_t *ids; // of all words, parallel to their bytes: word i's begin at words[i].begin
    size_t ids_capacity;
    mh_buffer scratch;
} trainer;

static uint64_t key_of(uint32_t left, uint32_t right) { return (uint64_t)left << 32 | right; }

// ---- from texts to pairs ------------------------------------------------------------------------

static mh_status tokenizer_count_words(trainer *tr, const mh_text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mh_text text = texts[i];
        if (!text.bytes && text.size > 0)
            return mh_fail(tr->context, MH_ERROR_ARGUMENT, "train: text %zu is NULL", i);
        size_t valid = mh_utf8_valid(text.bytes, text.size);
        if (valid < text.size)
            return mh_fail(tr->context, MH_ERROR_FORMAT,
                           "train: text %zu: byte %zu (0x%02x) is not valid UTF-8", i, valid,
                           (unsigned char)text.bytes[valid]);
        mh_status status = mh_text_nfc(tr->context, text.bytes, text.size, &tr->scratch);
        if (status == MH_OK)
            status =
                mh_train_words_add(tr->context, &tr->words, tr->scratch.data, tr->scratch.size);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

static mh_status count_pairs(trainer *tr)
{
    const mh_word_table *w = &tr->words;
    if (!mh_grow(tr->context, &tr->ids, &tr->ids_capacity, w->bytes.size, sizeof *tr->ids))
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < w->bytes.size; i++)
        tr->ids[i] = tr->tokenizer->byte_ids[(unsigned char)w->bytes.data[i]];
    for (size_t i = 0; i < w->count; i++) {
        const uint32_t *ids = tr->ids + w->words[i].begin;
        for (size_t k = 0; k + 1 < w->words[i].size; k++)
            if (!mh_train_pairs_grow(tr->context, &tr->pairs, key_of(ids[k], ids[k + 1]),
                                     w->words[i].count, (uint32_t)i))
                return MH_ERROR_MEMORY;
    }
    return mh_train_pairs_settle(tr->context, &tr->pairs) ? MH_OK : MH_ERROR_MEMORY;
}

// ---- merging ------------------------------------------------------------------------------------

// left m.left m.right right  ->  left m.result right
static bool change_neighbours(trainer *tr, uint32_t word, mh_merge m, const uint32_t *left,
                              const uint32_t *right)
{
    uint64_t count = tr->words.words[word].count;
    if (left) {
        mh_train_pairs_lessen(&tr->pairs, key_of(*left, m.left), count);
        if (!mh_train_pairs_grow(tr->context, &tr->pairs, key_of(*left, m.result), count, word))
            return false;
    }
    if (right) {
        mh_train_pairs_lessen(&tr->pairs, key_of(m.right, *right), count);
        if (!mh_train_pairs_grow(tr->context, &tr->pairs, key_of(m.result, *right), count, word))
            return false;
    }
    return true;
}

static bool merge_in_word(trainer *tr, uint32_t word, mh_merge m)
{
    mh_table_word *w = &tr->words.words[word];
    uint32_t *ids = tr->ids + w->begin, size = w->size, kept = 0;
    for (uint32_t i = 0; i < size; i++) {
        bool here = ids[i] == m.left && i + 1 < size && ids[i + 1] == m.right;
        if (here && !change_neighbours(tr, word, m, kept > 0 ? &ids[kept - 1] : NULL,
                                       i + 2 < size ? &ids[i + 2] : NULL))
            return false;
        ids[kept++] = here ? m.result : ids[i];
        i += here;
    }
    w->size = kept;
    return true;
}

static bool merge_everywhere(trainer *tr, size_t pair, mh_merge m)
{
    // The list does not change meanwhile: pairs that are added contain m.result, which is longer.
    for (size_t occurrence = tr->pairs.pairs[pair].first; occurrence != MH_NO_OCCURRENCE;
         occurrence = tr->pairs.occurrences[occurrence].next)
        if (!merge_in_word(tr, tr->pairs.occurrences[occurrence].word, m))
            return false;
    mh_train_pairs_finish(&tr->pairs, pair);
    return mh_train_pairs_settle(tr->context, &tr->pairs);
}

static bool is_special_name(const mh_buffer *bytes)
{
    for (size_t i = 0; i < MH_SPECIAL_COUNT; i++)
        if (bytes->size == strlen(mh_special_names[i]) &&
            memcmp(bytes->data, mh_special_names[i], bytes->size) == 0)
            return true;
    return false;
}

// The bytes of both tokens, concatenated, into tr->scratch.
static bool join(trainer *tr, uint32_t left, uint32_t right)
{
    const mh_tokenizer *t = tr->tokenizer;
    tr->scratch.size = 0;
    return mh_buffer_append(tr->context, &tr->scratch, mh_token_bytes(t, left),
                            t->tokens[left].size) &&
           mh_buffer_append(tr->context, &tr->scratch, mh_token_bytes(t, right),
                            t->tokens[right].size);
}

// Merges one pair. Two pairs may produce the same bytes ("ab" "c", "a" "bc"), and then share a
// token; such a token may recreate a pair that was already merged: it is merged again, but listed
// once. A text's "</s>" must not become the special token: such a pair is skipped.
static mh_status merge_pair(trainer *tr, size_t pair)
{
    mh_tokenizer *t = tr->tokenizer;
    uint64_t key = tr->pairs.pairs[pair].key;
    mh_merge m = {(uint32_t)(key >> 32), (uint32_t)(key & UINT32_MAX), 0, 0};
    if (!join(tr, m.left, m.right))
        return MH_ERROR_MEMORY;
    if (is_special_name(&tr->scratch)) {
        mh_train_pairs_finish(&tr->pairs, pair);
        return MH_OK;
    }
    size_t id = mh_tokenizer_find(t, tr->scratch.data, tr->scratch.size);
    m.result = (uint32_t)(id == SIZE_MAX ? t->count : id);
    if ((id == SIZE_MAX &&
         !mh_tokenizer_add(tr->context, t, MH_TOKEN_TEXT, tr->scratch.data, tr->scratch.size)) ||
        (!tr->pairs.pairs[pair].finished && !mh_tokenizer_add_merge(tr->context, t, m)) ||
        !merge_everywhere(tr, pair, m))
        return MH_ERROR_MEMORY;
    return MH_OK;
}

static mh_status tokenizer_learn_merges(trainer *tr, const mh_tokenizer_options *options)
{
    uint64_t least = options->min_frequency > 0 ? options->min_frequency : 1;
    mh_status status = MH_OK;
    while (status == MH_OK && tr->tokenizer->merge_count < options->merges) {
        size_t pair = mh_train_pairs_next(&tr->pairs);
        if (pair == SIZE_MAX || tr->pairs.pairs[pair].count < least)
            break;
        status = merge_pair(tr, pair);
    }
    return status;
}

// ---- the whole ----------------------------------------------------------------------------------

static bool add_first_tokens(mh_context *context, mh_tokenizer *t)
{
    unsigned char bytes[256];
    mh_bytes_in_order(bytes);
    for (size_t i = 0; i < MH_SPECIAL_COUNT; i++)
        if (!mh_tokenizer_add(context, t, MH_TOKEN_SPECIAL, mh_special_names[i],
                              strlen(mh_special_names[i])))
            return false;
    for (size_t i = 0; i < 256; i++)
        if (!mh_tokenizer_add(context, t, MH_TOKEN_TEXT, (const char *)&bytes[i], 1))
            return false;
    t->roles[MH_ROLE_PAD] = 0, t->roles[MH_ROLE_BOS] = 1, t->roles[MH_ROLE_EOS] = 2;
    return true;
}

static mh_status tokenizer_learn(trainer *tr, const mh_tokenizer_options *options,
                                 const mh_text *texts, size_t count)
{
    tr->tokenizer = mh_tokenizer_create(tr->context);
    if (!tr->tokenizer || !add_first_tokens(tr->context, tr->tokenizer))
        return MH_ERROR_MEMORY;
    mh_status status = tokenizer_count_words(tr, texts, count);
    if (status == MH_OK)
        status = count_pairs(tr);
    if (status == MH_OK)
        status = tokenizer_learn_merges(tr, options);
    return status == MH_OK ? mh_build_own(tr->context, tr->tokenizer) : status;
}

static mh_status tokenizer_check_options(mh_context *context, const mh_tokenizer_options *options)
{
    const size_t most = MH_TOKENS_MAX - 256 - MH_SPECIAL_COUNT;
    if (options->merges > most)
        return mh_fail(context, MH_ERROR_ARGUMENT, "train: %zu merges, expected at most %zu",
                       options->merges, most);
    return MH_OK;
}

mh_status mh_tokenizer_train(mh_context *context, const mh_tokenizer_options *options,
                             const mh_text *texts, size_t count, mh_tokenizer **tokenizer)
{
    if (tokenizer)
        *tokenizer = NULL;
    if (MH_NEED(context, {"tokenizer", tokenizer}, {"texts", mh_array(texts, count)}))
        return MH_ERROR_ARGUMENT;
    mh_tokenizer_options own = mh_tokenizer_options_default();
    mh_status status = MH_READ_STRUCT(context, mh_tokenizer_options, options, &own);
    if (status == MH_OK)
        status = tokenizer_check_options(context, &own);
    if (status != MH_OK)
        return status;
    trainer tr = {.context = context};
    status = tokenizer_learn(&tr, &own, texts, count);
    mh_word_table_free(context, &tr.words);
    mh_train_pairs_free(context, &tr.pairs);
    mh_shrink(context, &tr.ids, &tr.ids_capacity, sizeof *tr.ids);
    mh_buffer_free(context, &tr.scratch);
    if (status == MH_OK)
        *tokenizer = tr.tokenizer;
    else
        mh_tokenizer_free(tr.tokenizer);
    return status;
}
