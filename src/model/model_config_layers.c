// SPDX-License-Identifier: MIT
// config.json, what differs between layers: kinds of layers and their rotary positions.
#include "base/compiler.h"
#include "model/model_config.h"
#include "text/tokenizer_rules.h"
#include <math.h>
#include <string.h>

static const char *const kind_names[MH_LAYER_KINDS] = {"full_attention", "sliding_attention"};

// ---- kinds --------------------------------------------------------------------------------------

static mh_status config_kind_of(const mh_source *source, const json_t *name, mh_layer_kind *kind)
{
    const char *text = json_string_value(name);
    for (*kind = MH_LAYER_FULL; text && *kind < MH_LAYER_KINDS; ++*kind)
        if (strcmp(text, kind_names[*kind]) == 0)
            return MH_OK;
    if (!text)
        return mh_config_bad_value(source, "layer_types", name, "a list of names");
    return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                          "\"layer_types\": found %s, and only full_attention and "
                          "sliding_attention are supported",
                          mh_quote_string(text).text);
}

static bool slides_by_rule(const mh_description *d, size_t layer)
{
    return layer >= d->full_first && !(d->full_every && (layer + 1) % d->full_every == 0);
}

mh_status mh_config_read_layer_types(const mh_source *source, const json_t *root, mh_description *d)
{
    const json_t *types = json_object_get(root, "layer_types");
    const bool listed = types && !json_is_null(types);
    if (listed && json_array_size(types) != d->layers)
        return mh_config_bad_value(source, "layer_types", types, "a name for each layer");
    for (size_t i = 0; i < d->layers; i++) {
        mh_layer_kind kind = slides_by_rule(d, i) ? MH_LAYER_SLIDING : MH_LAYER_FULL;
        if (listed)
            MH_TRY(config_kind_of(source, json_array_get(types, i), &kind));
        if (kind == MH_LAYER_SLIDING && d->windowed && d->window)
            d->sliding[i / 64] |= UINT64_C(1) << i % 64;
    }
    return MH_OK;
}

// ---- rotary positions ---------------------------------------------------------------------------

// A number of at least `least`, which is `to` already if there is none.
static mh_status read_number(const mh_source *source, const json_t *object, const char *name,
                             double least, double *to)
{
    const json_t *value = json_object_get(object, name);
    if (!value || json_is_null(value))
        return MH_OK;
    if (!json_is_number(value) || !isfinite(json_number_value(value)) ||
        json_number_value(value) < least)
        return mh_config_bad_value(source, name, value,
                                   least > 0 ? "a number of at least 1" : "a number");
    *to = json_number_value(value);
    return MH_OK;
}

static mh_status read_part(const mh_source *source, const json_t *object, const char *name,
                           double *part)
{
    MH_TRY(read_number(source, object, name, 0, part));
    if (*part > 0 && *part <= 1)
        return MH_OK;
    return mh_config_bad_value(source, name, json_object_get(object, name),
                               "a number above 0, at most 1");
}

// YaRN's factor of cosines and sines, where a file has DeepSeek's two in its place.
static double yarn_attention_factor(double factor, double mscale, double mscale_all)
{
    const double grown = factor > 1 ? 0.1 * log(factor) : 0;
    return (mscale * grown + 1) / (mscale_all * grown + 1);
}

static mh_status read_scaling(const mh_source *source, const json_t *o, const char *rule,
                              const mh_description *d, mh_rotary *rotary)
{
    mh_rope_scaling *s = &rotary->scaling;
    double mscale = 0, mscale_all = 0;
    *s = mh_rope_scaling_default();
    s->rule = strcmp(rule, "linear") == 0   ? MH_ROPE_LINEAR
              : strcmp(rule, "llama3") == 0 ? MH_ROPE_LLAMA3
                                            : MH_ROPE_YARN;
    s->original_length = d->longest ? (double)d->longest : s->original_length;
    MH_TRY(read_number(source, o, "original_max_position_embeddings", 1, &s->original_length));
    s->factor = d->longest ? (double)d->longest / s->original_length : 1;
    MH_TRY(read_number(source, o, "factor", 1, &s->factor));
    MH_TRY(read_number(source, o, "low_freq_factor", 0, &s->low_frequency));
    MH_TRY(read_number(source, o, "high_freq_factor", 0, &s->high_frequency));
    MH_TRY(read_number(source, o, "beta_fast", 0, &s->beta_fast));
    MH_TRY(read_number(source, o, "beta_slow", 0, &s->beta_slow));
    MH_TRY(read_number(source, o, "mscale", 0, &mscale));
    MH_TRY(read_number(source, o, "mscale_all_dim", 0, &mscale_all));
    if (mscale > 0 && mscale_all > 0)
        s->attention_factor = yarn_attention_factor(s->factor, mscale, mscale_all);
    MH_TRY(read_number(source, o, "attention_factor", 0, &s->attention_factor));
    if (json_is_false(json_object_get(o, "truncate")) && s->rule == MH_ROPE_YARN)
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "\"truncate\": found false, and only true is supported");
    rotary->scaled = true;
    return MH_OK;
}

// "dynamic" changes nothing up to max_position_embeddings tokens, which are the most that we
// accept.
static mh_status read_rule(const mh_source *source, const json_t *o, const mh_description *d,
                           mh_rotary *rotary)
{
    static const char *const plain[] = {"default", "dynamic"};
    static const char *const scaled[] = {"linear", "llama3", "yarn"};
    const json_t *name = json_object_get(o, "rope_type");
    name = name ? name : json_object_get(o, "type");
    const char *rule = json_string_value(name);
    if (!name || json_is_null(name))
        return MH_OK;
    for (size_t i = 0; rule && i < 2; i++)
        if (strcmp(rule, plain[i]) == 0)
            return MH_OK;
    for (size_t i = 0; rule && i < 3; i++)
        if (strcmp(rule, scaled[i]) == 0)
            return read_scaling(source, o, rule, d, rotary);
    return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                          "\"rope_type\": found %s, and only default, dynamic, linear, llama3 and "
                          "yarn are supported",
                          mh_json_describe(name).text);
}

// One object of rope_parameters; what it lacks stays as it is.
static mh_status read_rotary(const mh_source *source, const json_t *o, const mh_description *d,
                             mh_rotary *rotary)
{
    MH_TRY(read_number(source, o, "rope_theta", 1, &rotary->base));
    MH_TRY(read_part(source, o, "partial_rotary_factor", &rotary->part));
    return read_rule(source, o, d, rotary);
}

// The older keys of config.json itself.
static mh_status read_older_keys(const mh_source *source, const json_t *root, mh_description *d)
{
    static const char *const bases[] = {"rope_theta", "rotary_emb_base"};
    static const char *const parts[] = {"partial_rotary_factor", "rotary_pct"};
    for (int kind = 0; kind < MH_LAYER_KINDS; kind++)
        for (size_t i = 0; i < 2; i++) {
            mh_rotary *rotary = &d->rotary[kind];
            if (kind == MH_LAYER_FULL || !d->rotary_by_kind)
                MH_TRY(read_number(source, root, bases[i], 1, &rotary->base));
            MH_TRY(read_part(source, root, parts[i], &rotary->part));
        }
    return read_number(source, root, "rope_local_base_freq", 1, &d->rotary[MH_LAYER_SLIDING].base);
}

mh_status mh_config_read_rotary(const mh_source *source, const json_t *root, mh_description *d)
{
    const json_t *parameters = json_object_get(root, "rope_parameters");
    const json_t *scaling = json_object_get(root, "rope_scaling");
    MH_TRY(read_older_keys(source, root, d));
    for (int kind = 0; kind < MH_LAYER_KINDS; kind++) {
        const json_t *own = json_object_get(parameters, kind_names[kind]);
        const bool flat = !json_object_get(parameters, kind_names[MH_LAYER_FULL]);
        MH_TRY(read_rotary(source, flat ? parameters : own, d, &d->rotary[kind]));
        if (kind == MH_LAYER_FULL || !d->rotary_by_kind)
            MH_TRY(read_rotary(source, scaling, d, &d->rotary[kind]));
    }
    return MH_OK;
}
