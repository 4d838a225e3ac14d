// SPDX-License-Identifier: MIT
// One attention layer of a whole model, for `multihead mha -m MODEL --layer N`: found by the names
// of its tensors (layer_names.c), with the settings of config.json (layer_config.c).
#ifndef CLI_MHA_LAYER_H
#define CLI_MHA_LAYER_H

#include "mha.h"

#include <jansson.h>

// ---- mha_files.c --------------------------------------------------------------------------------

// config.json next to m->model_file; NULL with *code EXIT_DONE if there is none.
json_t *mha_read_config(const mha *m, int *code);

// ---- layer_config.c -----------------------------------------------------------------------------

// m->config.num_heads, unless it is given or the config has none.
void read_layer_heads(json_t *root, const char *stack, mha *m);

// Rotary positions, scale, softcap and window of layer m->layer into m->config.
int read_layer_config(json_t *root, const char *stack, size_t head_width, mha *m);

// ---- layer.c ------------------------------------------------------------------------------------

// Finds layer m->layer and sets m->config; then, once the module is made, copies its parameters.
int layer_find(mha *m);
int layer_load(mha *m);

// ---- layer_bias.c -------------------------------------------------------------------------------

// T5's table of relative position bias, from the file of the layer `base`...
int layer_load_bias(mha *m, const mh_tensor_file *file, const char *base);

// ... and the bias of its scores, as an additive mask for the inputs that have been read.
int layer_add_bias(mha *m);

#endif
