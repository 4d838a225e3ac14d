// SPDX-License-Identifier: MIT
// What published models call the matrices of their attention layers, for `multihead mha --layer`.
#ifndef CLI_MHA_LAYER_NAMES_H
#define CLI_MHA_LAYER_NAMES_H

#include <multihead/io.h>

enum { LAYER_NAME_BYTES = 512, MOST_STACKS = 8 };

typedef struct attention_names {
    const char *stack;     // --stack; "" where a model has one only
    const char *base;      // before the names of the projections; % is the number of the layer
    const char *q, *k, *v; // k and v NULL: one matrix for all three
    const char *out;
    unsigned features; // LAYER_...
} attention_names;

enum {
    LAYER_CAUSAL = 1,       // no key after the query
    LAYER_INTERLEAVED = 2,  // one matrix: q, k, v of head 0, of head 1, ...
    LAYER_IN_OUT = 4,       // matrices are (in, out), as GPT-2's Conv1D
    LAYER_UNSCALED = 8,     // T5: scores are q k^T, and have a bias by relative position
    LAYER_HEADS_OF_64 = 16, // OpenAI's Whisper, whose files have no config.json
};

// The attention layers of a file by stack, and the one that is looked for.
typedef struct attention_search {
    size_t layer;      // wanted
    const char *stack; // wanted, or NULL
    struct {
        const char *name;
        size_t layers;                // the largest number + 1
        const attention_names *names; // of the layer that is wanted, NULL: not there
        char base[LAYER_NAME_BYTES];  // "model.layers.3.self_attn."
    } stacks[MOST_STACKS];
    size_t count;
} attention_search;

void find_attention_layers(const mh_tensor_file *file, attention_search *search);

// The tensor of a projection: base + stem + ".weight", or "_weight" as in nn.MultiheadAttention.
bool find_layer_tensor(const mh_tensor_file *file, const char *base, const char *stem,
                       const char *kind, size_t *index, mh_tensor *tensor);

#endif
