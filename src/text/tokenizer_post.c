// SPDX-License-Identifier: MIT
// The post-processor: texts that are too long are cut, and special tokens are put around and
// between them by a template, for example [CLS] A [SEP] B [SEP].
#include "base/argument_check.h"
#include "text/tokenizer_scratch.h"

static size_t count_special(const mh_template *form)
{
    size_t count = 0;
    for (size_t i = 0; i < form->count; i++)
        count += form->items[i].id >= 0;
    return count;
}

// Two texts that have `most` tokens together lose them from the longer one first.
static void cut_pair(size_t most, size_t *first, size_t *second)
{
    size_t *shorter = *first <= *second ? first : second;
    size_t *longer = *first <= *second ? second : first;
    size_t rest = *shorter > most ? *shorter : most - *shorter;
    *longer = rest > *shorter ? rest : *shorter;
    if (*shorter + *longer > most) {
        *shorter = most / 2;
        *longer = most / 2 + most % 2;
    }
}

static mh_status truncate(mh_context *context, const mh_encode_options *options, size_t added,
                          size_t texts, mh_sequence *sequences, bool *truncated)
{
    size_t total = sequences[0].count + (texts > 1 ? sequences[1].count : 0);
    *truncated = false;
    if (options->max_length == 0)
        return MH_OK;
    if (options->max_length < added)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "encode: max_length: found %zu, expected at least %zu for special tokens",
                       options->max_length, added);
    size_t most = options->max_length - added;
    if (total <= most)
        return MH_OK;
    *truncated = true;
    if (texts > 1)
        cut_pair(most, &sequences[0].count, &sequences[1].count);
    else
        sequences[0].count = most;
    return MH_OK;
}

// ---- output -------------------------------------------------------------------------------------

// All arrays of an encoding grow together, or none does.
static bool tokenizer_post_reserve(mh_context *context, mh_encoding *e, size_t count)
{
    size_t a = 0, b = 0, c = 0, d = 0, f = 0, g = 0, h = 0;
    mh_encoding n = {0};
    if (count <= e->capacity)
        return true;
    bool room = mh_grow(context, &n.ids, &a, count, sizeof *n.ids) &&
                mh_grow(context, &n.words, &b, count, sizeof *n.words) &&
                mh_grow(context, &n.begins, &c, count, sizeof *n.begins) &&
                mh_grow(context, &n.ends, &d, count, sizeof *n.ends) &&
                mh_grow(context, &n.types, &f, count, 1) &&
                mh_grow(context, &n.special, &g, count, 1) &&
                mh_grow(context, &n.sequences, &h, count, 1);
    n.scratch = e->scratch;
    n.capacity = a;
    e->scratch = NULL;
    mh_encoding_free(context, e);
    if (room) {
        *e = n;
        return true;
    }
    mh_shrink(context, &n.ids, &a, sizeof *n.ids);
    mh_shrink(context, &n.words, &b, sizeof *n.words);
    mh_shrink(context, &n.begins, &c, sizeof *n.begins);
    mh_shrink(context, &n.ends, &d, sizeof *n.ends);
    mh_shrink(context, &n.types, &f, 1);
    mh_shrink(context, &n.special, &g, 1);
    mh_shrink(context, &n.sequences, &h, 1);
    e->scratch = n.scratch;
    return false;
}

static void tokenizer_post_put(mh_encoding *e, mh_sequence_token token, uint8_t type,
                               size_t sequence, bool special)
{
    size_t at = e->count++;
    e->ids[at] = token.id;
    e->begins[at] = token.begin;
    e->ends[at] = token.end;
    e->words[at] = token.word;
    e->types[at] = type;
    e->special[at] = special;
    e->sequences[at] = (uint8_t)sequence;
}

mh_status mh_post_process(mh_context *context, const mh_tokenizer *t,
                          const mh_encode_options *options, size_t texts,
                          mh_encode_scratch *scratch, mh_encoding *encoding)
{
    const mh_template *form = texts > 1 ? &t->parts.pair : &t->parts.single_text;
    const size_t added = options->add_special_tokens ? count_special(form) : 0;
    mh_sequence *sequences = scratch->sequences;
    mh_status status = truncate(context, options, added, texts, sequences, &encoding->truncated);
    if (status != MH_OK)
        return status;
    size_t total = added;
    for (size_t i = 0; i < form->count; i++)
        if (form->items[i].id < 0)
            total += sequences[-1 - form->items[i].id].count;
    bool truncated = encoding->truncated;
    if (!tokenizer_post_reserve(context, encoding, total))
        return MH_ERROR_MEMORY;
    encoding->count = 0;
    encoding->truncated = truncated;
    for (size_t i = 0; i < form->count; i++) {
        mh_template_item item = form->items[i];
        if (item.id >= 0) {
            if (options->add_special_tokens)
                tokenizer_post_put(encoding, (mh_sequence_token){item.id, 0, 0, -1}, item.type, 0,
                                   true);
            continue;
        }
        size_t which = (size_t)(-1 - item.id);
        for (size_t k = 0; k < sequences[which].count; k++)
            tokenizer_post_put(encoding, sequences[which].tokens[k], item.type, which, false);
    }
    return MH_OK;
}
