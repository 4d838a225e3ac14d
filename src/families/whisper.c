// SPDX-License-Identifier: MIT
// Whisper: an encoder of sound, of two convolutions and positions from a table, and a decoder of
// text. Norms are before, and keys have no bias. Published by Hugging Face and, with other names of
// tensors and without a config.json, by OpenAI.
#include "families/bart_tables.h"

static void whisper_defaults(mh_description *d)
{
    d->block.order = MH_NORM_BEFORE;
    d->block.activation = MH_GELU;
    d->block.missing_bias = MH_BIAS_K;
    d->final_norm = true;
    d->shared = true;
    d->tied = true;
}

static void whisper_finish(mh_description *d)
{
    mh_bart_finish(d);
    d->sound.frames = 2 * d->sound.positions;
}

static const mh_key keys[] = {
    {"d_model", MH_KEY_SIZE, MH_FIELD(block.d_model), true, NULL},
    {"encoder_layers", MH_KEY_SIZE, MH_FIELD(layers), true, NULL},
    {"encoder_attention_heads", MH_KEY_SIZE, MH_FIELD(block.num_heads), true, NULL},
    {"encoder_ffn_dim", MH_KEY_SIZE, MH_FIELD(block.dim_feedforward), true, NULL},
    {"decoder_layers", MH_KEY_SIZE, MH_FIELD(decoder_layers), true, NULL},
    {"decoder_attention_heads", MH_KEY_SIZE, MH_FIELD(decoder.num_heads), true, NULL},
    {"decoder_ffn_dim", MH_KEY_SIZE, MH_FIELD(decoder.dim_feedforward), true, NULL},
    {"activation_function", MH_KEY_ACTIVATION, MH_FIELD(block.activation), false, NULL},
    {"vocab_size", MH_KEY_SIZE, MH_FIELD(vocabulary), true, NULL},
    {"num_mel_bins", MH_KEY_SIZE, MH_FIELD(sound.mels), true, NULL},
    {"max_source_positions", MH_KEY_SIZE, MH_FIELD(sound.positions), true, NULL},
    {"max_target_positions", MH_KEY_SIZE, MH_FIELD(positions), true, NULL},
    {"scale_embedding", MH_KEY_IS, 0, false, "false"},
    {"decoder_start_token_id", MH_KEY_TOKEN, MH_FIELD(decoder_start), false, NULL},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_tensor_rule rules[] = {
    {"decoder.embed_tokens", "token_embedding", MH_PART_ALL, false},
    MH_BART_RULES,
    {"encoder.conv1", "sound_conv1", MH_PART_ALL, false},
    {"encoder.conv2", "sound_conv2", MH_PART_ALL, false},
    {"encoder.embed_positions", "position_embedding", MH_PART_ALL, false},
    {"decoder.embed_positions", "target_position_embedding", MH_PART_ALL, false},
    {"encoder.layer_norm", "encoder.norm", MH_PART_ALL, false},
    {"decoder.layer_norm", "decoder.norm", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"model.", "", NULL};
static const char *const ignored[] = {"/proj_out.*", NULL};

const mh_family mh_family_whisper = {.model_type = "whisper",
                                     .prefixes = prefixes,
                                     .keys = keys,
                                     .rules = rules,
                                     .ignored = ignored,
                                     .defaults = whisper_defaults,
                                     .finish = whisper_finish};

#define OPENAI_ATTENTION(source, target)                                                           \
    {source ".query", target ".in_proj", MH_PART_Q, false},                                        \
        {source ".key", target ".in_proj", MH_PART_K, false},                                      \
        {source ".value", target ".in_proj", MH_PART_V, false},                                    \
    {                                                                                              \
        source ".out", target ".out_proj", MH_PART_ALL, false                                      \
    }

static const mh_tensor_rule openai_rules[] = {
    {"decoder.token_embedding", "token_embedding", MH_PART_ALL, false},
    {"encoder.conv1", "sound_conv1", MH_PART_ALL, false},
    {"encoder.conv2", "sound_conv2", MH_PART_ALL, false},
    {"encoder.positional_embedding", "position_embedding.weight", MH_PART_ALL, false},
    {"decoder.positional_embedding", "target_position_embedding.weight", MH_PART_ALL, false},
    OPENAI_ATTENTION("encoder.blocks.%.attn", "encoder.layers.%.self_attn"),
    {"encoder.blocks.%.attn_ln", "encoder.layers.%.norm1", MH_PART_ALL, false},
    {"encoder.blocks.%.mlp.0", "encoder.layers.%.linear1", MH_PART_ALL, false},
    {"encoder.blocks.%.mlp.2", "encoder.layers.%.linear2", MH_PART_ALL, false},
    {"encoder.blocks.%.mlp_ln", "encoder.layers.%.norm2", MH_PART_ALL, false},
    {"encoder.ln_post", "encoder.norm", MH_PART_ALL, false},
    OPENAI_ATTENTION("decoder.blocks.%.attn", "decoder.layers.%.self_attn"),
    {"decoder.blocks.%.attn_ln", "decoder.layers.%.norm1", MH_PART_ALL, false},
    OPENAI_ATTENTION("decoder.blocks.%.cross_attn", "decoder.layers.%.multihead_attn"),
    {"decoder.blocks.%.cross_attn_ln", "decoder.layers.%.norm2", MH_PART_ALL, false},
    {"decoder.blocks.%.mlp.0", "decoder.layers.%.linear1", MH_PART_ALL, false},
    {"decoder.blocks.%.mlp.2", "decoder.layers.%.linear2", MH_PART_ALL, false},
    {"decoder.blocks.%.mlp_ln", "decoder.layers.%.norm3", MH_PART_ALL, false},
    {"decoder.ln", "decoder.norm", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const openai_prefixes[] = {"model_state_dict.", "", NULL};
static const char *const openai_ignored[] = {NULL};

const mh_family mh_family_whisper_openai = {.model_type = "whisper",
                                            .prefixes = openai_prefixes,
                                            .keys = keys,
                                            .rules = openai_rules,
                                            .ignored = openai_ignored,
                                            .defaults = whisper_defaults,
                                            .finish = whisper_finish};
