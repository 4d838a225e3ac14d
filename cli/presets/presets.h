// SPDX-License-Identifier: MIT
// Sizes of well-known models, one table for `mha`, `info` and `bench`: the table and its names are
// in presets.c, what follows from the sizes (parameters, bytes, FLOPs) in preset_sizes.c.
//
// Letters: D width of the model, H heads, G key/value heads, E head width, F feed-forward width, V
// vocabulary, L layers.
#ifndef CLI_PRESETS_H
#define CLI_PRESETS_H

#include <argp.h>
#include <multihead/block.h>

// What all models of a family have in common.
typedef struct preset_family {
    const char *kind; // in words
    mh_norm_kind norm;
    mh_norm_order order;
    mh_activation activation;
    bool gated;            // feed-forward of three matrices
    bool bias;             // of all matrices of the blocks
    unsigned missing_bias; // MH_BIAS_..., although `bias`
    bool final_norm;       // after the blocks
    bool embedding_norm;   // before them
    bool causal;           // decoder-only
    bool output;           // hidden states are multiplied by (V, D) for logits
    bool tied;             // by the token embeddings' matrix
    bool pooler;           // (D, D) and a bias, of a sequence's first token
    bool learned;          // a table of positions
    const char *position;  // how positions are encoded, in words
    bool rope;             // rotary positions
    size_t types;          // token types
    size_t patch;          // numbers in a patch of an image; else 0
    size_t source;         // positions of the encoder's input if that is fixed, else 0
    size_t labels;         // of the classifier
} preset_family;

typedef struct model_preset {
    const char *name, *model;
    const char *aliases; // other names, "a|b"; see is_name()
    const preset_family *family;
    size_t layers;         // of the encoder, or of a decoder-only model
    size_t decoder_layers; // with cross-attention; 0: none
    size_t d_model, heads;
    size_t kv_heads, head_dim; // 0: heads, d_model / heads; see preset_kv_heads()
    size_t ffn;
    size_t vocabulary; // 0: none
    size_t positions;  // longest input; of an encoder-decoder, longest target
    size_t mels;       // channels of the audio; else 0
} model_preset;

// ---- presets.c ----------------------------------------------------------------------------------

extern const model_preset model_presets[]; // a NULL name ends the list

// A preset by its name, in any spelling; unknown ones end the program through argp_error.
const model_preset *find_preset(struct argp_state *state, const char *name);

// ---- preset_sizes.c -----------------------------------------------------------------------------

size_t preset_kv_heads(const model_preset *p);
size_t preset_head_dim(const model_preset *p);

// Positions of the encoder's longest input, or of the decoder-only model's.
size_t preset_source_length(const model_preset *p);

// Numbers in the parts of a model. Norms include those of embeddings and stacks, the head is what
// follows the blocks: pooler, classifier, or a matrix for logits of its own.
typedef struct preset_parameters {
    size_t embeddings, attention, feed_forward, norms, head, total;
} preset_parameters;

preset_parameters preset_count(const model_preset *p);

// Numbers in a KV cache per token: keys and values of all layers that generate; 0 if none does.
size_t preset_cache_size(const model_preset *p);

// Numbers in the matrices of a block, which each token is multiplied by. Cross-attention's
// matrices for keys and values are multiplied by memory rows instead and not included.
size_t preset_block_matrices(const model_preset *p, bool decoder);

// FLOPs of a token's attention in one layer, over this many keys: 2 per FMA, of scores and of
// weighted values.
double preset_attention_flops(const model_preset *p, double keys);

// Forward FLOPs of one token, of matrix products and of attention at full length. Of an
// encoder-decoder's token on either side; cross-attention's keys and values are the source's work.
// Look-ups, norms, activations, poolers and classifiers are not counted.
typedef struct preset_flops {
    double products, attention;
} preset_flops;

preset_flops preset_source_flops(const model_preset *p);
preset_flops preset_target_flops(const model_preset *p); // zeros unless there is a decoder

// A block of the encoder or the decoder.
mh_block_config preset_block(const model_preset *p, bool decoder, mh_precision precision);

#endif
