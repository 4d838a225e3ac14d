// SPDX-License-Identifier: MIT
// What config.json says about one attention layer: heads, rotary positions, scale, softcap and
// window. Keys have changed over the years; all spellings that published models have are read.
#include "layer.h"
#include "messages.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Models of several parts have a nested config for each.
static json_t *stack_config(json_t *root, const char *stack)
{
    char key[32];
    snprintf(key, sizeof key, "%s_config", *stack ? stack : "text");
    json_t *part = json_object_get(root, key);
    return json_is_object(part) ? part : root;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// A number of the config; `fallback` if the key is missing or null.
static double number_of(json_t *object, const char *key, double fallback)
{
    json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

static int refuse_config(const char *key, const char *what)
{
    complain("--layer: config.json: %s: %s", key, what);
    return EXIT_INPUT;
}

// ---- heads --------------------------------------------------------------------------------------

static void read_head_count(json_t *config, const char *stack, mha *m)
{
    const bool decoder = strcmp(stack, "decoder") == 0 || strcmp(stack, "cross") == 0;
    const char *const keys[] = {decoder ? "decoder_attention_heads" : "encoder_attention_heads",
                                "num_attention_heads",
                                "n_head",
                                "n_heads",
                                "num_heads",
                                "nhead"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !m->config.num_heads; i++) {
        const double heads = number_of(config, keys[i], 0);
        if (heads >= 1 && heads <= 1 << 20)
            m->config.num_heads = (size_t)heads;
    }
}

// ---- rotary positions ---------------------------------------------------------------------------

static const char *layer_type(json_t *config, size_t layer)
{
    const char *type =
        json_string_value(json_array_get(json_object_get(config, "layer_types"), layer));
    return type ? type : "";
}

// rope_parameters, flat or by type of layer, or rope_scaling as it was before.
static json_t *rope_object(json_t *config, const char *type)
{
    json_t *parameters = json_object_get(config, "rope_parameters");
    json_t *of_type = *type ? json_object_get(parameters, type) : NULL;
    if (json_is_object(of_type))
        return of_type;
    return json_is_object(parameters) ? parameters : json_object_get(config, "rope_scaling");
}

static int read_rope_scaling(json_t *config, json_t *rope, mha *m)
{
    mh_rope_scaling *s = &m->scaling;
    const char *rule = text_of(rope, "rope_type");
    if (!*rule)
        rule = text_of(rope, "type");
    if (!*rule || strcmp(rule, "default") == 0)
        return EXIT_DONE;
    *s = mh_rope_scaling_default();
    if (strcmp(rule, "llama3") == 0)
        s->rule = MH_ROPE_LLAMA3;
    else if (strcmp(rule, "yarn") == 0)
        s->rule = MH_ROPE_YARN;
    else if (strcmp(rule, "linear") != 0)
        return refuse_config("rope_type", "expected default, linear, llama3 or yarn");
    s->factor = number_of(rope, "factor", 1);
    s->low_frequency = number_of(rope, "low_freq_factor", s->low_frequency);
    s->high_frequency = number_of(rope, "high_freq_factor", s->high_frequency);
    s->original_length =
        number_of(rope, "original_max_position_embeddings",
                  number_of(config, "max_position_embeddings", s->original_length));
    s->beta_fast = number_of(rope, "beta_fast", s->beta_fast);
    s->beta_slow = number_of(rope, "beta_slow", s->beta_slow);
    s->attention_factor = number_of(rope, "attention_factor", 0);
    m->config.rope_scaling = s;
    return EXIT_DONE;
}

static int read_rope(json_t *config, const char *type, size_t head_width, mha *m)
{
    json_t *rope = rope_object(config, type);
    const bool local = strcmp(type, "sliding_attention") == 0;
    const double base = number_of(config, "rope_theta", number_of(config, "rotary_emb_base", 0));
    const double share =
        number_of(config, "partial_rotary_factor", number_of(config, "rotary_pct", 1));
    if (!json_is_object(rope) && base == 0)
        return EXIT_DONE;
    m->config.rope = true;
    m->config.rope_base = number_of(rope, "rope_theta", base > 0 ? base : 10000);
    if (local && !json_object_get(config, "rope_parameters")) // Gemma 3 in older files
        m->config.rope_base = number_of(config, "rope_local_base_freq", m->config.rope_base);
    const double part = number_of(rope, "partial_rotary_factor", share);
    if (!(part > 0 && part <= 1))
        return refuse_config("partial_rotary_factor", "expected a number from 0 to 1");
    m->config.rope_width = part < 1 ? (size_t)((double)head_width * part) : 0;
    if (local && !json_object_get(config, "rope_parameters") &&
        json_object_get(config, "rope_local_base_freq"))
        return EXIT_DONE;
    return read_rope_scaling(config, rope, m);
}

// ---- scores -------------------------------------------------------------------------------------

// A window of n tokens has the query's own and n - 1 before it.
static void read_window(json_t *config, const char *model_type, const char *type, mha *m)
{
    const double window = number_of(config, "sliding_window", 0);
    const bool local =
        *type ? strcmp(type, "sliding_attention") == 0 : strcmp(model_type, "mistral") == 0;
    if (window >= 1 && window < 1e9 && local)
        m->config.window = (int64_t)window - 1;
}

int read_layer_config(json_t *root, const char *stack, size_t head_width, mha *m)
{
    json_t *config = stack_config(root, stack);
    const char *model_type = text_of(config, "model_type"), *type = layer_type(config, m->layer);
    const double scalar = number_of(config, "query_pre_attn_scalar", 0);
    m->gemma = starts_with(model_type, "gemma");
    if (scalar > 0)
        m->config.scale = (float)(1 / sqrt(scalar));
    m->config.scale = (float)number_of(config, "attention_multiplier", (double)m->config.scale);
    m->config.softcap = (float)number_of(config, "attn_logit_softcapping", 0);
    m->config.qk_norm_eps = (float)number_of(config, "rms_norm_eps", 1e-6);
    m->relative_distance = number_of(config, "relative_attention_max_distance", 128);
    read_window(config, model_type, type, m);
    return read_rope(config, type, head_width, m);
}

void read_layer_heads(json_t *root, const char *stack, mha *m)
{
    read_head_count(stack_config(root, stack), stack, m);
}
