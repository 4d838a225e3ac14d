// SPDX-License-Identifier: MIT
// generation_config.json; see token_rules.h.
#include "model/token_rules.h"
#include "base/compiler.h"
#include "base/release.h"
#include "model/json_file.h"
#include "model/model_config.h"
#include "support/grow.h"
#include <math.h>
#include <stdio.h>

mh_token_rules mh_token_rules_none(void)
{
    return (mh_token_rules){.bos = -1, .pad = -1, .decoder_start = -1, .forced_bos = -1};
}

void mh_token_rules_free(const mh_allocator *allocator, mh_token_rules *rules)
{
    mh_token_list *lists[] = {&rules->eos, &rules->suppressed, &rules->suppressed_first,
                              &rules->bad_words, &rules->forced_eos};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        mh_release(allocator, lists[i]->ids, lists[i]->capacity * sizeof *lists[i]->ids);
    mh_release(allocator, rules->alignment_heads,
               rules->alignment_capacity * sizeof *rules->alignment_heads);
    *rules = mh_token_rules_none();
}

// ---- values -------------------------------------------------------------------------------------

typedef struct rules_reader {
    const mh_source *source;
    const json_t *root;
    size_t V;
} rules_reader;

static mh_status add_token(mh_context *context, mh_token_list *list, int32_t id)
{
    if (!mh_grow(context, &list->ids, &list->capacity, list->count + 1, sizeof *list->ids))
        return MH_ERROR_MEMORY;
    list->ids[list->count++] = id;
    return MH_OK;
}

mh_status mh_token_list_add(mh_context *context, mh_token_list *list, int32_t id)
{
    bool there = id < 0;
    for (size_t i = 0; i < list->count && !there; i++)
        there = list->ids[i] == id;
    return there ? MH_OK : add_token(context, list, id);
}

static bool is_token(const rules_reader *r, const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           (size_t)json_integer_value(value) < r->V;
}

// One id; null and ids that the vocabulary does not have, such as -1, are none.
static mh_status read_token(const rules_reader *r, const char *name, int32_t *id)
{
    const json_t *value = json_object_get(r->root, name);
    if (value && !json_is_null(value) && !json_is_integer(value))
        return mh_config_bad_value(r->source, name, value, "a token id");
    if (is_token(r, value))
        *id = (int32_t)json_integer_value(value);
    return MH_OK;
}

// One id or a list of them.
static mh_status read_tokens(const rules_reader *r, const char *name, mh_token_list *list)
{
    const json_t *value = json_object_get(r->root, name);
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    list->given = list->given || (value && !json_is_null(value));
    for (size_t i = 0; i < count && value && !json_is_null(value); i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(id))
            return mh_config_bad_value(r->source, name, id, "a token id, or a list of them");
        if (is_token(r, id))
            MH_TRY(add_token(r->source->context, list, (int32_t)json_integer_value(id)));
    }
    return MH_OK;
}

// A word with an id that cannot be generated is never complete, and left out.
static mh_status add_bad_word(const rules_reader *r, const json_t *word, mh_token_list *list)
{
    const size_t count = json_array_size(word);
    for (size_t i = 0; i < count; i++) {
        if (!json_is_integer(json_array_get(word, i)))
            return mh_config_bad_value(r->source, "bad_words_ids", json_array_get(word, i),
                                       "token ids");
        if (!is_token(r, json_array_get(word, i)))
            return MH_OK;
    }
    if (count == 0)
        return MH_OK;
    MH_TRY(add_token(r->source->context, list, (int32_t)count));
    for (size_t i = 0; i < count; i++)
        MH_TRY(add_token(r->source->context, list,
                         (int32_t)json_integer_value(json_array_get(word, i))));
    return MH_OK;
}

static mh_status read_bad_words(const rules_reader *r, mh_token_list *list)
{
    const json_t *words = json_object_get(r->root, "bad_words_ids");
    if (words && !json_is_null(words) && !json_is_array(words))
        return mh_config_bad_value(r->source, "bad_words_ids", words,
                                   "a list of lists of token ids");
    for (size_t i = 0; i < json_array_size(words); i++) {
        if (!json_is_array(json_array_get(words, i)))
            return mh_config_bad_value(r->source, "bad_words_ids", json_array_get(words, i),
                                       "a list of token ids");
        MH_TRY(add_bad_word(r, json_array_get(words, i), list));
    }
    return MH_OK;
}

// Pairs of layer and head; whether the decoder has them is checked where they are used.
static mh_status read_heads(const rules_reader *r, mh_token_rules *rules)
{
    static const char expected[] = "a list of [layer, head]";
    const json_t *list = json_object_get(r->root, "alignment_heads");
    if (list && !json_is_null(list) && !json_is_array(list))
        return mh_config_bad_value(r->source, "alignment_heads", list, expected);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const json_int_t layer = json_integer_value(json_array_get(pair, 0));
        const json_int_t head = json_integer_value(json_array_get(pair, 1));
        if (json_array_size(pair) != 2 || !json_is_integer(json_array_get(pair, 0)) ||
            !json_is_integer(json_array_get(pair, 1)) || layer < 0 || head < 0)
            return mh_config_bad_value(r->source, "alignment_heads", pair, expected);
        if (!mh_grow(r->source->context, &rules->alignment_heads, &rules->alignment_capacity,
                     rules->alignment_count + 1, sizeof *rules->alignment_heads))
            return MH_ERROR_MEMORY;
        rules->alignment_heads[rules->alignment_count++] =
            (mh_head_position){(size_t)layer, (size_t)head};
    }
    return MH_OK;
}

static mh_status read_count(const rules_reader *r, const char *name, size_t *to)
{
    const json_t *value = json_object_get(r->root, name);
    if (!value || json_is_null(value))
        return MH_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return mh_config_bad_value(r->source, name, value, "an integer of at least 0");
    *to = (size_t)json_integer_value(value);
    return MH_OK;
}

static mh_status read_number(const rules_reader *r, const char *name, double *to)
{
    const json_t *value = json_object_get(r->root, name);
    if (!value || json_is_null(value))
        return MH_OK;
    if (!json_is_number(value))
        return mh_config_bad_value(r->source, name, value, "a number");
    *to = json_number_value(value);
    return MH_OK;
}

// ---- files --------------------------------------------------------------------------------------

static mh_status read_defaults(const rules_reader *r, mh_generation_defaults *d)
{
    const json_t *sample = json_object_get(r->root, "do_sample");
    if (sample && !json_is_boolean(sample) && !json_is_null(sample))
        return mh_config_bad_value(r->source, "do_sample", sample, "true or false");
    d->sample = json_is_true(sample);
    MH_TRY(read_number(r, "temperature", &d->temperature));
    MH_TRY(read_number(r, "top_p", &d->top_p));
    MH_TRY(read_number(r, "min_p", &d->min_p));
    MH_TRY(read_number(r, "repetition_penalty", &d->repetition_penalty));
    MH_TRY(read_number(r, "length_penalty", &d->length_penalty));
    MH_TRY(read_count(r, "top_k", &d->top_k));
    if (json_is_integer(json_object_get(r->root, "top_k")) && !d->top_k)
        d->top_k = r->V; // 0: all
    MH_TRY(read_count(r, "num_beams", &d->beam));
    MH_TRY(read_count(r, "max_length", &d->max_length));
    return read_count(r, "max_new_tokens", &d->max_new_tokens);
}

// Settings of generation_config.json that change what transformers generates, and have no effect
// here, with the value that changes nothing besides null, false, 0 and empty lists. Those of
// Whisper's tokens are in its prompt.
static const struct {
    const char *name;
    double neutral;
} unsupported[] = {
    {"constraints", 0},
    {"diversity_penalty", 0},
    {"dola_layers", 0},
    {"early_stopping", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"exponential_decay_length_penalty", 0},
    {"force_words_ids", 0},
    {"forced_decoder_ids", 0},
    {"guidance_scale", 1},
    {"no_repeat_ngram_size", 0},
    {"num_beam_groups", 1},
    {"penalty_alpha", 0},
    {"sequence_bias", 0},
    {"stop_strings", 0},
    {"top_h", 1},
    {"typical_p", 1},
    {"watermarking_config", 0},
};

static bool is_neutral(const json_t *value, double neutral)
{
    if (json_is_number(value))
        return json_number_value(value) == neutral || json_number_value(value) == 0;
    if (json_is_array(value) || json_is_object(value))
        return json_array_size(value) + json_object_size(value) == 0;
    return !json_is_string(value) && !json_is_true(value);
}

static void list_unsupported(const rules_reader *r, mh_generation_defaults *d)
{
    d->unsupported[0] = 0;
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (!is_neutral(json_object_get(r->root, unsupported[i].name), unsupported[i].neutral)) {
            const size_t used = strlen(d->unsupported);
            snprintf(d->unsupported + used, sizeof d->unsupported - used, "%s%s", used ? " " : "",
                     unsupported[i].name);
        }
}

static mh_status read_rules(const rules_reader *r, mh_token_rules *rules)
{
    if (!json_is_object(r->root))
        return mh_source_fail(r->source, MH_ERROR_FORMAT, "expected an object");
    MH_TRY(read_tokens(r, "eos_token_id", &rules->eos));
    MH_TRY(read_token(r, "bos_token_id", &rules->bos));
    MH_TRY(read_token(r, "pad_token_id", &rules->pad));
    MH_TRY(read_token(r, "decoder_start_token_id", &rules->decoder_start));
    MH_TRY(read_token(r, "forced_bos_token_id", &rules->forced_bos));
    MH_TRY(read_tokens(r, "forced_eos_token_id", &rules->forced_eos));
    MH_TRY(read_tokens(r, "suppress_tokens", &rules->suppressed));
    MH_TRY(read_tokens(r, "begin_suppress_tokens", &rules->suppressed_first));
    MH_TRY(read_bad_words(r, &rules->bad_words));
    MH_TRY(read_heads(r, rules));
    rules->renormalize = json_is_true(json_object_get(r->root, "renormalize_logits"));
    MH_TRY(read_count(r, "min_length", &rules->min_length));
    MH_TRY(read_count(r, "min_new_tokens", &rules->min_new_tokens));
    list_unsupported(r, &rules->defaults);
    return read_defaults(r, &rules->defaults);
}

mh_status mh_token_rules_parse(mh_context *context, const char *name, const char *text, size_t size,
                               size_t V, mh_token_rules *rules)
{
    enum { NESTING = 32 };
    const mh_source source = {context, name, (const unsigned char *)text, size};
    mh_json_scan scan = {0};
    json_t *root = NULL;
    MH_TRY(mh_json_scan_text(&source, "", text, size, NESTING, &scan));
    MH_TRY(mh_json_load(&source, "", text, size, &scan, &root));
    const rules_reader reader = {&source, root, V};
    mh_status status = read_rules(&reader, rules);
    json_decref(root);
    return status;
}

// config.json has these tokens in older directories. It is that of the whole model, so that only
// what is certainly meant is taken from it: of an encoder-decoder, whose rules are for its
// translations, `all`.
static mh_status read_config_tokens(mh_context *context, const char *directory, size_t V, bool all,
                                    mh_token_rules *rules)
{
    char path[MH_PATH_BYTES];
    mh_json_file file;
    MH_TRY(mh_json_file_open_optional(context, directory, "config.json", path, &file));
    const rules_reader r = {&file.source, file.root, V};
    mh_status status = MH_OK;
    if (all && json_is_true(json_object_get(file.root, "is_encoder_decoder")))
        status = read_rules(&r, rules);
    if (!status && file.root && rules->eos.count == 0)
        status = read_tokens(&r, "eos_token_id", &rules->eos);
    if (!status && file.root && rules->bos < 0)
        status = read_token(&r, "bos_token_id", &rules->bos);
    if (!status && file.root && rules->pad < 0)
        status = read_token(&r, "pad_token_id", &rules->pad);
    if (!status && file.root && rules->decoder_start < 0)
        status = read_token(&r, "decoder_start_token_id", &rules->decoder_start);
    mh_json_file_close(&file);
    return status;
}

mh_status mh_token_rules_complete(mh_context *context, const mh_tokenizer *tokenizer,
                                  mh_token_rules *rules)
{
    if (!tokenizer)
        return MH_OK;
    if (rules->bos < 0)
        rules->bos = mh_tokenizer_bos(tokenizer);
    if (rules->pad < 0)
        rules->pad = mh_tokenizer_pad(tokenizer);
    if (rules->eos.count == 0 && mh_tokenizer_eos(tokenizer) >= 0)
        return add_token(context, &rules->eos, mh_tokenizer_eos(tokenizer));
    return MH_OK;
}

mh_status mh_token_rules_load(mh_context *context, const char *directory,
                              const mh_tokenizer *tokenizer, size_t V, mh_token_rules *rules)
{
    char path[MH_PATH_BYTES];
    mh_json_file file;
    MH_TRY(mh_json_file_open_optional(context, directory, "generation_config.json", path, &file));
    const rules_reader reader = {&file.source, file.root, V};
    mh_status status = file.root ? read_rules(&reader, rules) : MH_OK;
    const bool found = file.root != NULL;
    mh_json_file_close(&file);
    if (!status)
        status = read_config_tokens(context, directory, V, !found, rules);
    return status ? status : mh_token_rules_complete(context, tokenizer, rules);
}

// ---- rules --------------------------------------------------------------------------------------

bool mh_token_rules_ends(const mh_token_rules *rules, int32_t id)
{
    for (size_t i = 0; i < rules->eos.count; i++)
        if (rules->eos.ids[i] == id)
            return true;
    return false;
}

static void forbid(const mh_token_list *list, float *scores)
{
    for (size_t i = 0; i < list->count; i++)
        scores[list->ids[i]] = -INFINITY;
}

static void force(const int32_t *ids, size_t count, float *scores, size_t V)
{
    for (size_t i = 0; i < V; i++)
        scores[i] = -INFINITY;
    for (size_t i = 0; i < count; i++)
        scores[ids[i]] = 0;
}

// The last token of a bad word is forbidden where its others have come; words that are an
// end-of-text token are allowed.
static void forbid_bad_words(const mh_token_rules *rules, const mh_rule_state *s, float *scores)
{
    const int32_t *words = rules->bad_words.ids;
    for (size_t i = 0; i < rules->bad_words.count;) {
        const size_t before = (size_t)words[i] - 1;
        const int32_t *word = words + i + 1, last = word[before];
        if (before <= s->count && !(before == 0 && mh_token_rules_ends(rules, last)) &&
            (before == 0 || memcmp(s->ids + s->count - before, word, before * sizeof *word) == 0))
            scores[last] = -INFINITY;
        i += before + 2;
    }
}

static bool forces_first(const mh_token_rules *rules, const mh_rule_state *s)
{
    return rules->forced_bos >= 0 && s->count == 1;
}

static bool forces_last(const mh_token_rules *rules, const mh_rule_state *s)
{
    return rules->forced_eos.count && s->count + 1 == s->most;
}

bool mh_token_rules_force(const mh_token_rules *rules, const mh_rule_state *state)
{
    return forces_first(rules, state) || forces_last(rules, state);
}

void mh_token_rules_apply(const mh_token_rules *rules, const mh_rule_state *s, float *scores,
                          size_t V)
{
    forbid_bad_words(rules, s, scores);
    if (s->count < rules->min_length || s->count - s->prompt < rules->min_new_tokens)
        forbid(&rules->eos, scores);
    if (forces_first(rules, s))
        force(&rules->forced_bos, 1, scores, V);
    if (forces_last(rules, s))
        force(rules->forced_eos.ids, rules->forced_eos.count, scores, V);
    forbid(&rules->suppressed, scores);
    // A forced first token comes before the first free one.
    const size_t first = s->prompt + (s->prompt <= 1 && rules->forced_bos >= 0);
    if (s->count == first)
        forbid(&rules->suppressed_first, scores);
}
