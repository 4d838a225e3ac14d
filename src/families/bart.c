// SPDX-License-Identifier: MIT
// BART: learned positions that start at 2, and a norm of the embeddings. mBART's norms are before,
// with one more after each stack.
#include "families/bart_tables.h"

void mh_bart_finish(mh_description *d)
{
    const mh_block_config own = d->decoder;
    d->decoder = d->block;
    d->decoder.num_heads = own.num_heads;
    d->decoder.dim_feedforward = own.dim_feedforward;
    d->decoder.cross_attention = true;
}

// The table has rows before the first position, which max_position_embeddings does not count.
static void finish_positions(mh_description *d)
{
    mh_bart_finish(d);
    d->positions += d->position_offset;
}

static void bart_defaults(mh_description *d)
{
    d->block.order = MH_NORM_AFTER;
    d->block.activation = MH_GELU;
    d->position_offset = 2;
    d->embedding_norm = true;
    d->shared = true;
    d->tied = true;
    d->decoder_start = 2;
}

static void mbart_defaults(mh_description *d)
{
    bart_defaults(d);
    d->block.order = MH_NORM_BEFORE;
    d->final_norm = true;
}

static const mh_key bart_keys[] = {
    MH_BART_KEYS,
    {"normalize_before", MH_KEY_IS, 0, false, "false"},
    {"normalize_embedding", MH_KEY_IS, 0, false, "true"},
    {"add_final_layer_norm", MH_KEY_IS, 0, false, "false"},
    {"static_position_embeddings", MH_KEY_IS, 0, false, "false"},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_key mbart_keys[] = {
    MH_BART_KEYS,
    {"normalize_before", MH_KEY_IS, 0, false, "true"},
    {"normalize_embedding", MH_KEY_IS, 0, false, "true"},
    {"add_final_layer_norm", MH_KEY_IS, 0, false, "true"},
    {"static_position_embeddings", MH_KEY_IS, 0, false, "false"},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_tensor_rule rules[] = {
    MH_BART_RULES,
    {"encoder.embed_positions", "position_embedding", MH_PART_ALL, false},
    {"decoder.embed_positions", "target_position_embedding", MH_PART_ALL, false},
    {"encoder.layernorm_embedding", "embedding_norm", MH_PART_ALL, false},
    {"decoder.layernorm_embedding", "target_embedding_norm", MH_PART_ALL, false},
    {"encoder.layer_norm", "encoder.norm", MH_PART_ALL, false},
    {"decoder.layer_norm", "decoder.norm", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"model.", "", NULL};
static const char *const ignored[] = {"shared.*", "decoder.embed_tokens.*", NULL};

const mh_family mh_family_bart = {.model_type = "bart",
                                  .prefixes = prefixes,
                                  .keys = bart_keys,
                                  .rules = rules,
                                  .ignored = ignored,
                                  .defaults = bart_defaults,
                                  .finish = finish_positions};
const mh_family mh_family_mbart = {.model_type = "mbart",
                                   .prefixes = prefixes,
                                   .keys = mbart_keys,
                                   .rules = rules,
                                   .ignored = ignored,
                                   .defaults = mbart_defaults,
                                   .finish = finish_positions};
