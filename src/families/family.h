// SPDX-License-Identifier: MIT
// A model family is a table: which keys of config.json set which part of the description of a
// model, and which tensors of a file are which parameters. families.c lists all of them.
#ifndef MH_FAMILIES_FAMILY_H
#define MH_FAMILIES_FAMILY_H

#include <multihead/block.h>

enum { MH_MOST_LAYERS = 4096 };

// Layers of a model may be of two kinds: full ones see all keys, sliding ones a window.
typedef enum mh_layer_kind { MH_LAYER_FULL, MH_LAYER_SLIDING, MH_LAYER_KINDS } mh_layer_kind;

// Rotary positions of the layers of a kind.
typedef struct mh_rotary {
    double base;
    double part; // of a head's width that is rotated
    bool scaled;
    mh_rope_scaling scaling; // if scaled
} mh_rotary;

// What a classifier multiplies.
typedef enum mh_label_input {
    MH_LABELS_POOLED,     // the pooler's output; without one, the first token
    MH_LABELS_FIRST,      // the first token
    MH_LABELS_FIRST_MEAN, // the first token, then the mean of the patches
} mh_label_input;

// Pictures as input: a picture of C channels is cut into patches of P x P pixels, and
// x = W patch + b + position, behind the rows of a class token and, of DeiT, a distillation token.
typedef struct mh_vision {
    size_t image; // height and width of the pictures that positions are for; 0: inputs are tokens
    size_t patch; // P
    size_t channels; // C
    size_t first;    // rows before those of the patches: 1, or 2
    bool patch_bias;
    bool gated;       // a key's value: the feed-forward is gated by SiLU, and narrower
    size_t mlp_ratio; // a key's value: dim_feedforward is so many times d_model
} mh_vision;

// Sound as input: a log-mel spectrogram (mels, frames), of which two convolutions make a row per
// two frames.
typedef struct mh_sound {
    size_t mels;      // 0: inputs are something else
    size_t positions; // rows at most
    size_t frames;    // twice as many
} mh_sound;

// A whole model: embeddings, blocks, and what comes after them.
typedef struct mh_description {
    mh_block_config block; // of every layer of the encoder, or of the only stack; mh_family.layer
                           // changes what differs between them
    size_t layers;
    mh_block_config decoder;          // of an encoder-decoder's second stack
    size_t decoder_layers;            // 0: there is one stack
    bool final_norm;                  // of both
    bool norm_plus_one;               // files have w - 1 for norms' weights w
    bool causal;                      // the only stack is
    bool norm_first;                  // a key's value: block.order is MH_NORM_BEFORE
    mh_rotary rotary[MH_LAYER_KINDS]; // if block.rope
    bool rotary_by_kind;              // older keys are those of full layers

    // Unless config.json has layer_types, all layers are sliding, except for the first full_first
    // and every full_every-th.
    size_t window;                         // keys that a query sees, with its own; 0: all
    bool windowed;                         // false: `window` does not apply
    size_t full_first, full_every;         // 0: none
    uint64_t sliding[MH_MOST_LAYERS / 64]; // one bit per layer, from all of these

    // x = scale * token[id] + position[offset + i] + type[type], then a norm
    size_t vocabulary;        // 0 until the weights are read: the rows of the token table
    size_t target_vocabulary; // of the decoder's own token table
    bool shared;              // the decoder has none, but the encoder's
    size_t positions;         // rows of the table of positions; 0: none
    size_t position_offset;   // of a sequence's first token in that table
    bool sinusoidal;          // that table is computed: sines, then as many cosines
    bool interleaved;         // or a sine and a cosine in turn
    size_t types;             // 0: none
    size_t longest;           // input of a model without such a table; 0: any
    bool scale_embedding;     // by sqrt(d_model)
    bool round_scale;         // that root is rounded to the table's type
    float embedding_scale;    // from these
    bool embedding_norm;      // of both stacks

    mh_activation pool_activation; // of the pooler, or the classifier's first layer
    mh_activation lm_activation;   // of the masked language model's transform
    bool tied;                     // the language model head is the (decoder's) token table
    bool lm_scaled;                // a key's value: lm_scale is 1 / sqrt(d_model)
    float lm_scale;                // of hidden states before the language model head
    float logits_softcap;          // 0: none; logits are softcap * tanh(logits / softcap)
    size_t labels;                 // of the classifier; 0: none
    mh_label_input label_input;    // of the classifier
    size_t projection;             // width of embeddings, from the weights; 0: d_model
    size_t decoder_start;          // the token before a target's first
    size_t frozen_token;           // its embedding gets no gradient; SIZE_MAX: none

    mh_vision vision;
    mh_sound sound;         // of the encoder; `positions` are the decoder's
    bool layer_scale;       // files have a vector per branch that its output is multiplied by
    float activation_scale; // the feed-forward's activation is f(scale x) / scale, of quick GELU
} mh_description;

// Whether the decoder has a token table of its own.
static inline bool mh_has_target_tokens(const mh_description *d)
{
    return d->decoder_layers && !d->shared;
}

// The rows of the language model head.
static inline size_t mh_description_target_vocabulary(const mh_description *d)
{
    return mh_has_target_tokens(d) && d->target_vocabulary ? d->target_vocabulary : d->vocabulary;
}

typedef enum mh_key_kind {
    MH_KEY_SIZE,         // an integer of at least 1
    MH_KEY_COUNT,        // an integer of at least 0; null is 0
    MH_KEY_FLOAT,        // null is 0
    MH_KEY_INVERSE_ROOT, // a number x > 0, of which 1 / sqrt(x) is a float
    MH_KEY_BOOL,         //
    MH_KEY_TOKEN,        // a token's id; null leaves the default
    MH_KEY_ACTIVATION,   // a name such as "gelu_new"
    MH_KEY_FEED_FORWARD, // of a block: an activation, or "gated-" and one
    MH_KEY_SCALED,       // of the description: an activation, or "quick_gelu"
    MH_KEY_IS, // must have the value `text` if it is there, else the model is not supported; null
               // is false
} mh_key_kind;

typedef struct mh_key {
    const char *name;
    mh_key_kind kind;
    size_t offset; // of the member of mh_description
    bool required;
    const char *text; // MH_KEY_IS: JSON text
} mh_key;

// Which part of a parameter a tensor is.
typedef enum mh_part {
    MH_PART_ALL,
    MH_PART_Q,
    MH_PART_K,
    MH_PART_V,
    MH_PART_GATE,
    MH_PART_UP,
    MH_PART_QKV_BY_HEAD, // all of it: q, k, v of head 0, q, k, v of head 1, ...
} mh_part;

// A tensor's name and the parameter it is, both without ".weight" or ".bias", which the rule covers
// together (LayerNorm's old "gamma" and "beta", too), or both with it. "%" stands for the number of
// a layer. A source that begins with "/" has no prefix before it; names separated by "|" are
// alternatives. A parameter that has rules for the whole and for parts is whole where the file has
// that tensor.
typedef struct mh_tensor_rule {
    const char *source; // in the file
    const char
        *target; // one of the Transformer's parameters, or of the model's own (model_ends.c);
                 // an encoder-decoder's encoder has "encoder." before it even if it is alone
    mh_part part;
    bool transposed; // the file has (in, out), as GPT-2's Conv1D
} mh_tensor_rule;

typedef struct mh_family {
    const char *model_type;      // of config.json; of an own family its "format"
    const char *const *prefixes; // of tensor names, NULL-terminated: the first that fits is used
    const mh_key *keys;          // ends with name NULL
    const mh_tensor_rule *rules; // ends with source NULL
    const char *const
        *ignored; // tensors that are known and not needed, as sources; "*" at the end: any
    void (*defaults)(mh_description *description);
    // Changes the common block to that of a layer; NULL: all are the same.
    void (*layer)(const mh_description *description, size_t layer, mh_block_config *block);
    const char *section; // the member of config.json that has the keys; NULL: config.json itself
    void (*finish)(mh_description *description); // NULL, or what follows from several keys
    const struct mh_family *text; // NULL, or the second model of a directory: CLIP's text tower
    bool own; // of directories that mh_translator_save writes, with their tokenizer
} mh_family;

// mh_family.layer of families with rotary positions: those of the layer's kind, and its window.
void mh_family_rotary_layer(const mh_description *description, size_t layer,
                            mh_block_config *block);

#define MH_FIELD(member) offsetof(mh_description, member)

// The family of a model_type, or NULL; and the names of all published ones, separated by commas.
const mh_family *mh_family_find(const char *model_type);
const char *mh_family_names(void);

extern const mh_family mh_family_bert, mh_family_roberta, mh_family_xlm_roberta,
    mh_family_distilbert, mh_family_gpt2, mh_family_llama, mh_family_mistral, mh_family_qwen2,
    mh_family_qwen3, mh_family_gemma2, mh_family_gemma3, mh_family_gemma3_text, mh_family_gpt_neox,
    mh_family_marian, mh_family_bart, mh_family_mbart, mh_family_t5, mh_family_mt5,
    mh_family_translator, mh_family_vit, mh_family_deit, mh_family_dinov2, mh_family_clip,
    mh_family_clip_vision, mh_family_clip_text, mh_family_whisper, mh_family_whisper_openai;

#endif
