// SPDX-License-Identifier: MIT
// Marian, the models of OPUS-MT: norms after, positions that are sines and cosines, and, as a rule,
// one token table for source, target and head.
#include "families/bart_tables.h"

static void marian_defaults(mh_description *d)
{
    d->block.order = MH_NORM_AFTER;
    d->block.activation = MH_GELU;
    d->sinusoidal = true;
    d->shared = true;
    d->tied = true;
}

static const mh_key keys[] = {
    MH_BART_KEYS,
    {"decoder_vocab_size", MH_KEY_COUNT, MH_FIELD(target_vocabulary), false, NULL},
    {"share_encoder_decoder_embeddings", MH_KEY_BOOL, MH_FIELD(shared), false, NULL},
    {"normalize_before", MH_KEY_IS, 0, false, "false"},
    {"normalize_embedding", MH_KEY_IS, 0, false, "false"},
    {"add_final_layer_norm", MH_KEY_IS, 0, false, "false"},
    {"static_position_embeddings", MH_KEY_IS, 0, false, "true"},
    {NULL, MH_KEY_SIZE, 0, false, NULL},
};

static const mh_tensor_rule rules[] = {
    MH_BART_RULES,
    {"decoder.embed_tokens", "target_token_embedding", MH_PART_ALL, false},
    {NULL, NULL, MH_PART_ALL, false},
};

static const char *const prefixes[] = {"model.", "", NULL};
static const char *const ignored[] = {"encoder.embed_positions.*", "decoder.embed_positions.*",
                                      "shared.*", NULL};

const mh_family mh_family_marian = {.model_type = "marian",
                                    .prefixes = prefixes,
                                    .keys = keys,
                                    .rules = rules,
                                    .ignored = ignored,
                                    .defaults = marian_defaults,
                                    .finish = mh_bart_finish};
