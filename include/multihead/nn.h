// SPDX-License-Identifier: MIT
// multihead/nn.h: modules with parameters, as torch.nn has them: multi-head attention, encoder and
// decoder layers, stacks of them, and the whole Transformer; forward, backward, and token by token.
//
//     mh_mha_config config = mh_mha_config_default(); // nn.MultiheadAttention(512, 8)
//     config.embed_dim = 512;
//     config.num_heads = 8;
//     mh_mha_create(context, &config, &attention);
//     mh_parameters_init(mh_mha_parameters(attention), seed);
//     mh_mha_forward(context, attention, NULL, &query, &key, &value, &output, &weights);
//
// A module's parameters are one array of f32 and a list that says what is where, under PyTorch's
// names. They may be shared by any number of threads as long as nobody writes them; a context and
// a tape belong to one thread at a time. Outputs must not overlap other tensors.
#ifndef MULTIHEAD_NN_H
#define MULTIHEAD_NN_H

#include <multihead/attention.h>
#include <multihead/kv_cache.h>
#include <multihead/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- parameters -----------------------------------------------------------------------------

// How a parameter starts: PyTorch's ways.
typedef enum mh_init {
    MH_INIT_ZERO,
    MH_INIT_ONE,
    MH_INIT_UNIFORM, // in [-scale, scale)
    MH_INIT_NORMAL,  // with standard deviation scale
} mh_init;

typedef struct mh_parameter {
    char name[64]; // "layers.0.self_attn.in_proj_weight"
    int rank;      // 1 to 3
    size_t shape[3];
    size_t offset, count; // floats, from the start of the values
    mh_init init;
    float init_scale;
} mh_parameter;

// For parameters of your own, such as a classifier's last layer: sets offset and count of each in a
// list from its rank and shape, one behind the other. Returns the floats of all, SIZE_MAX if a rank
// is not 1 to 3 or the product does not fit. Example: examples/07_train.c.
MH_API size_t mh_parameters_lay_out(mh_parameter *list, size_t count);

// All parameters of a module; belongs to it. Gradients and optimiser states are arrays of as many
// floats with the same offsets.
typedef struct mh_parameters {
    size_t count;
    const mh_parameter *list; // (count)
    size_t floats;
    float *values; // (floats); 0 until they are initialised or loaded
} mh_parameters;

// Draws all parameters anew: a function of the seed and of each parameter's place in the list.
MH_API void mh_parameters_init(const mh_parameters *parameters, uint64_t seed);

// The parameter of that name, or NULL.
MH_API const mh_parameter *mh_parameters_find(const mh_parameters *parameters, const char *name);

// A view of it in `values`, or in gradients that have the same layout.
MH_API mh_tensor mh_parameter_view(const mh_parameter *parameter, float *values);

// ---- tapes ------------------------------------------------------------------------------------

// The memory of a forward pass: grows to what is needed and is used again, so that a second call
// allocates nothing; and what a backward pass reads.
typedef struct mh_tape mh_tape;

// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API mh_status mh_tape_create(mh_context *context, mh_tape **tape);
MH_API void mh_tape_free(mh_tape *tape); // NULL is fine
MH_API size_t mh_tape_bytes(const mh_tape *tape);

// ---- multi-head attention -----------------------------------------------------------------------

// How the rows of one projection matrix for q, k and v are ordered.
typedef enum mh_qkv_order {
    MH_QKV_STACKED,     // all of q, all of k, all of v: PyTorch's in_proj_weight
    MH_QKV_INTERLEAVED, // q, k, v of head 0, q, k, v of head 1, ...: GPT-NeoX, BLOOM, tutorials
} mh_qkv_order;

typedef struct mh_mha_config {
    size_t struct_size;     // sizeof(mh_mha_config)
    size_t embed_dim;       // D: no default
    size_t num_heads;       // H: no default; divides embed_dim
    size_t kv_heads;        // G, 0: H; divides H
    size_t input_dim;       // 0: embed_dim; the width of query
    size_t kdim, vdim;      // 0: input_dim; the widths of key and value
    float dropout;          // 0; of the weights, in training
    bool bias;              // true
    bool add_bias_kv;       // false; true: one learned key and value that all queries see
    bool add_zero_attn;     // false; true: one more key and value, 0
    bool batch_first;       // false: (T, B, D); true: (B, T, D)
    mh_qkv_order qkv;       // MH_QKV_STACKED
    bool rope;              // false; true: queries and keys are turned by their position
    bool rope_interleaved;  // false: pairs (x_i, x_{i+E/2}); true: (x_2i, x_{2i+1})
    double rope_base;       // 10000
    bool alibi;             // false
    bool sinks;             // false; true: one learned logit a head that takes part in the sum
    mh_precision precision; // MH_PRECISION_F32: of all matrix products
} mh_mha_config;

static inline mh_mha_config mh_mha_config_default(void)
{
    mh_mha_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.bias = true;
    config.rope_base = 10000;
    config.precision = MH_PRECISION_F32;
    return config;
}

typedef struct mh_mha mh_mha;

// Makes a module; its parameters are in_proj_weight ((H + 2G) E, input_dim) and in_proj_bias, or,
// if kdim or vdim differ from input_dim, q_proj_weight, k_proj_weight, v_proj_weight; then
// out_proj.weight, out_proj.bias, bias_k, bias_v (1, 1, G E), sinks (H).
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API mh_status mh_mha_create(mh_context *context, const mh_mha_config *config, mh_mha **mha);
MH_API void mh_mha_free(mh_mha *mha); // NULL is fine
MH_API const mh_parameters *mh_mha_parameters(const mh_mha *mha);

typedef struct mh_mha_options {
    size_t struct_size; // sizeof(mh_mha_options)

    // As in PyTorch: bool (or u8), true = may NOT be attended to; or floats, which are added.
    const mh_tensor *key_padding_mask; // NULL; (B, S), or (S) for unbatched input
    const mh_tensor *attn_mask;        // NULL; (T, S) or (B * H, T, S)

    bool per_head_weights; // false: weights are the mean over heads, (B, T, S); true: (B, H, T, S)

    // The engine's own options: causal rules, windows, lengths, documents, further masks, taps of
    // stages. Those that the module sets itself (precision, dropout, alibi, sinks) are not read.
    // The keys of add_bias_kv and add_zero_attn are seen by every query, whatever causal rule or
    // window there is; with them, lengths, prefixes, documents, masks and ALiBi are refused, and a
    // rule takes T (S + 2) bytes more.
    mh_attention_options attention;

    mh_kv_cache *cache; // NULL; else keys and values are appended to it, and all it has attended to
    int64_t first;      // 0: the position of the first token, for RoPE. With a cache positions
                        // continue from its length: 0 or that length, anything else is refused
    bool training;      // false; true: dropout
    uint64_t seed;      // 0: of dropout, with step and stream
    uint32_t step;      // 0
    uint32_t stream;    // 0
    mh_tape *tape;      // NULL; needed for backward
} mh_mha_options;

static inline mh_mha_options mh_mha_options_default(void)
{
    mh_mha_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.attention = mh_attention_options_default();
    return options;
}

// output = concat(head_1, ..., head_H) W_o^T + b_o, head_h = attention of the projected query, key
// and value. query (T, B, input_dim), key (S, B, kdim), value (S, B, vdim), output (T, B, D); batch
// first if the config says so; without B: unbatched. Any float dtype and strides. `weights` NULL or
// as options say, after dropout; with add_bias_kv and add_zero_attn it is wider by one key each.
// A query with no live key gets 0 weights, and the output projection's bias.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
MH_API mh_status mh_mha_forward(mh_context *context, const mh_mha *mha,
                                const mh_mha_options *options, const mh_tensor *query,
                                const mh_tensor *key, const mh_tensor *value,
                                const mh_tensor *output, const mh_tensor *weights);

// After a forward with a tape, and with the same arguments: adds the parameters' gradients to
// `gradients` (laid out as the parameters; NULL if not wanted) and writes those of the inputs
// (each NULL if not wanted; where two inputs are the same view, their gradients are added up in the
// first one's and the other's must be NULL). Errors: as above, and MH_ERROR_ARGUMENT if the tape is
// not of such a forward.
MH_API mh_status mh_mha_backward(mh_context *context, const mh_mha *mha,
                                 const mh_mha_options *options, const mh_tensor *query,
                                 const mh_tensor *key, const mh_tensor *value,
                                 const mh_tensor *doutput, float *gradients,
                                 const mh_tensor *dquery, const mh_tensor *dkey,
                                 const mh_tensor *dvalue);

// ---- the Transformer ----------------------------------------------------------------------------

// What a module is, with PyTorch's names for its parameters.
typedef enum mh_transformer_kind {
    MH_TRANSFORMER,   // nn.Transformer: encoder.layers.N.*, encoder.norm.*, decoder.layers.N.*, ...
    MH_ENCODER,       // nn.TransformerEncoder: layers.N.*, norm.*
    MH_DECODER,       // nn.TransformerDecoder: layers.N.*, norm.*
    MH_ENCODER_LAYER, // nn.TransformerEncoderLayer: self_attn.*, linear1.*, linear2.*, norm1.*, ...
    MH_DECODER_LAYER, // nn.TransformerDecoderLayer: the same, multihead_attn.*, norm3.*
} mh_transformer_kind;

typedef struct mh_transformer_config {
    size_t struct_size;        // sizeof(mh_transformer_config)
    mh_transformer_kind kind;  // MH_TRANSFORMER
    size_t d_model;            // 512
    size_t nhead;              // 8
    size_t num_encoder_layers; // 6; not read by decoders and layers
    size_t num_decoder_layers; // 6
    size_t dim_feedforward;    // 2048
    float dropout;             // 0.1
    mh_activation activation;  // MH_RELU
    float layer_norm_eps;      // 1e-5
    bool batch_first;          // false
    bool norm_first;           // false
    bool bias;                 // true
    bool final_norm;   // true; PyTorch's stacks have one if it is given, nn.Transformer always
    size_t vocabulary; // 0; more: the parameters begin with embedding.weight (vocabulary, d_model),
                       // a table for whoever embeds tokens; the module itself does not read it
    mh_precision precision; // MH_PRECISION_F32
} mh_transformer_config;

static inline mh_transformer_config mh_transformer_config_default(void)
{
    mh_transformer_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.d_model = 512;
    config.nhead = 8;
    config.num_encoder_layers = config.num_decoder_layers = 6;
    config.dim_feedforward = 2048;
    config.dropout = 0.1f;
    config.layer_norm_eps = 1e-5f;
    config.bias = config.final_norm = true;
    config.precision = MH_PRECISION_F32;
    return config;
}

typedef struct mh_transformer mh_transformer;

// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API mh_status mh_transformer_create(mh_context *context, const mh_transformer_config *config,
                                       mh_transformer **transformer);
MH_API void mh_transformer_free(mh_transformer *transformer); // NULL is fine
MH_API const mh_parameters *mh_transformer_parameters(const mh_transformer *transformer);

// Which attention a tap listens to.
typedef enum mh_tap_kind { MH_TAP_ENCODER, MH_TAP_DECODER, MH_TAP_CROSS } mh_tap_kind;

// Where the numbers of a layer's attention go; one tap for each attention. Tensors are f32, bf16 or
// f16, those with data NULL are not wanted; q, k, v and out of a packed batch have B = 1 and all
// rows. No bit of the output changes.
typedef struct mh_tap {
    mh_tap_kind kind;
    size_t layer;
    const size_t *heads; // of weights; NULL: all; else head_count of them
    size_t head_count;   // 0
    mh_tensor weights;   // (B, heads, T, S), before dropout
    mh_tensor q;         // (B, H, T, E)
    mh_tensor k, v;      // (B, H, S, E)
    mh_tensor out;       // (B, T, D): the output projection of all heads, before the residual sum
} mh_tap;

// Masks mean what they mean in PyTorch: true = may not be attended to, floats are added.
typedef struct mh_transformer_options {
    size_t struct_size;                       // sizeof(mh_transformer_options)
    const mh_tensor *src_mask;                // NULL; (S, S) or (B * H, S, S)
    const mh_tensor *tgt_mask;                // NULL; (T, T) or (B * H, T, T)
    const mh_tensor *memory_mask;             // NULL; (T, S) or (B * H, T, S)
    const mh_tensor *src_key_padding_mask;    // NULL; (B, S)
    const mh_tensor *tgt_key_padding_mask;    // NULL; (B, T)
    const mh_tensor *memory_key_padding_mask; // NULL; (B, S)
    bool src_causal, tgt_causal;              // false: commands, no mask needed

    // Batches without padding: src and tgt are (rows, D), sequence b is rows starts[b] to
    // starts[b + 1] - 1 of each. No masks but causal ones then.
    size_t sequences;          // 0: not packed
    const int64_t *src_starts; // (sequences + 1)
    const int64_t *tgt_starts; // (sequences + 1)

    const mh_tap *taps; // NULL
    size_t tap_count;   // 0

    const bool *disabled_heads; // NULL; (attentions, H): true switches a head off; attentions are
                                // the encoder's layers, the decoder's, and the decoder's again for
                                // cross-attention

    bool training;  // false; true: dropout
    uint64_t seed;  // 0: of dropout, with step
    uint32_t step;  // 0
    mh_tape *tape;  // NULL; needed for backward
    bool recompute; // false; true: the tape keeps each layer's input only, backward computes the
                    // rest again: less memory, more time, the same bits
    bool fresh_gradients; // false; true: backward writes the parameters' gradients instead of
                          // adding to them; embedding.weight's, which it has none of, stay
} mh_transformer_options;

static inline mh_transformer_options mh_transformer_options_default(void)
{
    mh_transformer_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

// Encoders: output = encoder(src), tgt NULL. Decoders: src is the encoder's memory. The whole:
// output = decoder(tgt, encoder(src)). src (S, B, D), tgt (T, B, D), output as tgt (or src); batch
// first if the config says so, without B unbatched.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
MH_API mh_status mh_transformer_forward(mh_context *context, const mh_transformer *transformer,
                                        const mh_transformer_options *options, const mh_tensor *src,
                                        const mh_tensor *tgt, const mh_tensor *output);

// memory = encoder(src): what mh_decoding_create starts with; for whole Transformers and encoders.
// Options of the target and of backward are not for this call. Errors: as above.
MH_API mh_status mh_transformer_encode(mh_context *context, const mh_transformer *transformer,
                                       const mh_transformer_options *options, const mh_tensor *src,
                                       const mh_tensor *memory);

// After a forward with a tape, and with the same arguments: adds the parameters' gradients to
// `gradients`, or writes them there (`fresh_gradients`), and writes those of the inputs (NULL if
// not wanted). `recompute` is the forward's. Errors: as above, and MH_ERROR_ARGUMENT if the tape is
// not of such a forward.
MH_API mh_status mh_transformer_backward(mh_context *context, const mh_transformer *transformer,
                                         const mh_transformer_options *options,
                                         const mh_tensor *src, const mh_tensor *tgt,
                                         const mh_tensor *doutput, float *gradients,
                                         const mh_tensor *dsrc, const mh_tensor *dtgt);

// ---- token by token -----------------------------------------------------------------------------

// A decoder at work on some sequences: what it has seen so far, as keys and values of every layer,
// and the memory's keys and values, projected once.
typedef struct mh_decoding mh_decoding;

// Starts with memory (S, B, D), or (B, S, D) if the config is batch first, of which sequence b has
// lengths[b] rows (NULL: all); `copies` sequences for each, for beam search: sequence b * copies +
// i. Decoders and whole Transformers, which must keep their parameters until the last step; memory
// is not read again. Belongs to one thread at a time. Errors: MH_ERROR_ARGUMENT,
// MH_ERROR_UNSUPPORTED (dtype), MH_ERROR_MEMORY.
MH_API mh_status mh_decoding_create(mh_context *context, const mh_transformer *transformer,
                                    const mh_tensor *memory, const int64_t *lengths, size_t copies,
                                    mh_decoding **decoding);
MH_API void mh_decoding_free(mh_decoding *decoding); // NULL is fine

// The same for an encoder alone, whose attention is then causal: a language model such as GPT.
// `sequences` of them, all empty; tgt of the first step is the prompt. Steps give the bits of
// mh_transformer_forward with src_causal, and taps are for MH_TAP_ENCODER.
MH_API mh_status mh_decoding_create_causal(mh_context *context, const mh_transformer *transformer,
                                           size_t sequences, mh_decoding **decoding);

// output = decoder of the next tokens, causal: tgt and output (T, B * copies, D), or batch first as
// the memory, the bits of a forward over all tokens so far; output may be tgt. `taps` (or NULL) are
// for MH_TAP_DECODER and MH_TAP_CROSS, with weights (B * copies, heads, T, all tokens so far, or
// the longest memory) and without k and v. After an error it is as if the step had not been tried.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
MH_API mh_status mh_decoding_step(mh_context *context, mh_decoding *decoding, const mh_tap *taps,
                                  size_t tap_count, const mh_tensor *tgt, const mh_tensor *output);

// Sequence i goes on from where sequence parents[i] is, with that one's memory; for beam search.
// parents has as many numbers as there are sequences.
// Errors: MH_ERROR_ARGUMENT; MH_ERROR_MEMORY, after which only mh_decoding_free is left if layers
// disagree (then every step says so).
MH_API mh_status mh_decoding_reorder(mh_context *context, mh_decoding *decoding,
                                     const size_t *parents);

// The same, parents (count), and there are `count` sequences then, at least 1: some are done,
// others begin to branch. Errors: the same.
MH_API mh_status mh_decoding_select(mh_context *context, mh_decoding *decoding,
                                    const size_t *parents, size_t count);

// Switches heads off in the steps that follow: as in mh_transformer_options, (attentions, H), of
// which the encoder's are not read; NULL: none. Borrowed until the decoding is freed.
MH_API void mh_decoding_disable_heads(mh_decoding *decoding, const bool *disabled_heads);

#ifdef __cplusplus
}
#endif
#endif
