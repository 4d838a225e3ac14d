// SPDX-License-Identifier: MIT
// Parts of reading config.json that have files of their own.
#ifndef MH_MODEL_MODEL_CONFIG_H
#define MH_MODEL_MODEL_CONFIG_H

#include "families/family.h"
#include "support/json_load.h"

// Fails with MH_ERROR_FORMAT: "name": found `value`, expected ...
mh_status mh_config_bad_value(const mh_source *source, const char *name, const json_t *value,
                              const char *expected);

// All of config.json: the family, unless it is set already, description, labels and architecture of
// `model`.
struct mh_model;
mh_status mh_config_read_description(const mh_source *source, const json_t *root,
                                     struct mh_model *model);

// layer_types, or the description's rules: which layers are sliding.
mh_status mh_config_read_layer_types(const mh_source *source, const json_t *root,
                                     mh_description *description);

// Rotary positions, in all spellings: rope_parameters, as one object or one per kind of layers; in
// older files rope_theta, rope_scaling, partial_rotary_factor, rope_local_base_freq, and GPT-NeoX's
// rotary_emb_base and rotary_pct.
mh_status mh_config_read_rotary(const mh_source *source, const json_t *root,
                                mh_description *description);

#endif
