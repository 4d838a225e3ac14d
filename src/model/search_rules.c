// SPDX-License-Identifier: MIT
// The rules of search_rules.h, from a model's rules for tokens and its tokenizer.
#include "model/search_rules.h"
#include "base/compiler.h"

// ---- tokens -------------------------------------------------------------------------------------

static mh_status exclude(mh_context *context, mh_search_rules *rules, int32_t id)
{
    if (id == rules->end)
        return MH_OK;
    if (rules->excluded_count + 1 == MH_EXCLUDED_MAX) // the last place is the end's
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "generation_config.json: found more than %d tokens that are never chosen",
                       MH_EXCLUDED_MAX - 1);
    rules->excluded[rules->excluded_count++] = id;
    return MH_OK;
}

static mh_status set_excluded(mh_context *context, const mh_token_rules *from,
                              mh_search_rules *rules)
{
    const mh_token_list *words = &from->bad_words;
    for (size_t i = 0; i < from->suppressed.count; i++)
        MH_TRY(exclude(context, rules, from->suppressed.ids[i]));
    for (size_t i = 0; i < words->count; i += 1 + (size_t)words->ids[i]) {
        if (words->ids[i] != 1)
            return mh_fail(context, MH_ERROR_UNSUPPORTED,
                           "bad_words_ids: found a word of %d tokens, expected words of one",
                           (int)words->ids[i]);
        MH_TRY(exclude(context, rules, words->ids[i + 1]));
    }
    rules->excluded[rules->excluded_count++] = rules->end;
    return MH_OK;
}

mh_status mh_search_rules_set(mh_context *context, const mh_token_rules *from,
                              mh_search_rules *rules)
{
    const int32_t start = from->decoder_start >= 0 ? from->decoder_start : from->bos;
    if (start < 0 || from->eos.count == 0)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "config.json: expected decoder_start_token_id and eos_token_id");
    if (from->eos.count > 1)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "eos_token_id: found %zu tokens, expected one", from->eos.count);
    const int32_t end = from->eos.ids[0];
    const size_t longest = from->defaults.max_length;
    *rules = (mh_search_rules){.start = start,
                               .end = end,
                               .pad = from->pad >= 0 ? from->pad : end,
                               .first = from->forced_bos,
                               .certain_end =
                                   from->forced_eos.count == 1 && from->forced_eos.ids[0] == end,
                               .renormalize = from->renormalize,
                               .transformers = true,
                               .longest = longest > 1 ? longest - 1 : 0}; // without the start
    return set_excluded(context, from, rules);
}

void mh_search_rules_own(const mh_tokenizer *tokenizer, mh_search_rules *rules,
                         mh_source_template *source)
{
    const int32_t pad = mh_tokenizer_pad(tokenizer), start = mh_tokenizer_bos(tokenizer);
    const int32_t end = mh_tokenizer_eos(tokenizer);
    *source = (mh_source_template){.after = {end}, .after_count = 1};
    *rules = (mh_search_rules){.start = start,
                               .end = end,
                               .pad = pad,
                               .first = -1,
                               .excluded = {pad, start, end},
                               .excluded_count = 3};
}

// ---- what the encoder reads ---------------------------------------------------------------------

static mh_status split_template(mh_context *context, const mh_encoding *e, mh_source_template *s)
{
    size_t before = 0, after = 0;
    while (before < e->count && e->special[before])
        before++;
    while (after < e->count - before && e->special[e->count - 1 - after])
        after++;
    if (before > MH_TEMPLATE_MAX || after > MH_TEMPLATE_MAX)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "tokenizer: found %zu and %zu tokens around a text, expected at most %d",
                       before, after, MH_TEMPLATE_MAX);
    *s = (mh_source_template){.before_count = before, .after_count = after};
    for (size_t i = 0; i < before; i++)
        s->before[i] = e->ids[i];
    for (size_t i = 0; i < after; i++)
        s->after[i] = e->ids[e->count - after + i];
    return MH_OK;
}

mh_status mh_source_template_find(mh_context *context, const mh_tokenizer *tokenizer,
                                  mh_source_template *source)
{
    mh_encoding encoding = {0};
    mh_status status =
        mh_tokenizer_encode_text(context, tokenizer, NULL, (mh_text){"a", 1}, NULL, &encoding);
    if (!status)
        status = split_template(context, &encoding, source);
    mh_encoding_free(context, &encoding);
    return status;
}
