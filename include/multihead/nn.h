// SPDX-License-Identifier: MIT
// multihead/nn.h: modules with parameters, as in torch.nn: multi-head attention, encoder and
// decoder layers, stacks of them, and the whole Transformer; forward, backward, and incremental
// decoding.
//
//     mh_mha_config config = mh_mha_config_default(); // nn.MultiheadAttention(512, 8)
//     config.embed_dim = 512;
//     config.num_heads = 8;
//     mh_mha_create(context, &config, &attention);
//     mh_parameters_init(mh_mha_parameters(attention), seed);
//     mh_mha_forward(context, attention, NULL, &query, &key, &value, &output, &weights);
//
// A module's parameters are one array of f32 and a list of names and offsets, with PyTorch's names.
// They may be shared by any number of threads as long as none writes them; a context and a tape
// belong to one thread at a time. Outputs must not overlap other tensors.
//
// Stability: stable (base.h), but for what is marked experimental.
#ifndef MULTIHEAD_NN_H
#define MULTIHEAD_NN_H

#include <multihead/attention.h>
#include <multihead/kv_cache.h>
#include <multihead/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- parameters ---------------------------------------------------------------------------------

// How a parameter is initialised, as in PyTorch.
typedef enum mh_init {
    MH_INIT_ZERO = 0,
    MH_INIT_ONE = 1,
    MH_INIT_UNIFORM = 2, // in [-scale, scale)
    MH_INIT_NORMAL = 3,  // with standard deviation scale
} mh_init;

typedef struct mh_parameter {
    char name[64]; // "layers.0.self_attn.in_proj_weight"
    int rank;      // 1 to 3
    size_t shape[3];
    size_t offset, count; // in floats, from the start of the values
    mh_init init;
    float init_scale;
} mh_parameter;

// For parameters of your own, such as a classifier's last layer: sets offset and count of each
// parameter in a list from its rank and shape, back to back. Returns the total number of floats,
// SIZE_MAX if a rank is not 1 to 3 or the size overflows. Example: examples/07_train.c.
MH_API size_t mh_parameters_lay_out(mh_parameter *list, size_t count);

// All parameters of a module, which owns them. Gradients and optimiser states are arrays of the
// same size with the same offsets.
typedef struct mh_parameters {
    size_t count;
    const mh_parameter *list; // (count)
    size_t floats;
    float *values; // (floats); 0 until initialised or loaded
} mh_parameters;

// Initialises all parameters that are among the values: a function of the seed and of each
// parameter's index in the list.
MH_API void mh_parameters_init(const mh_parameters *parameters, uint64_t seed);

// The parameter with this name, or NULL.
MH_API const mh_parameter *mh_parameters_find(const mh_parameters *parameters, const char *name);

// A view of a parameter in `values`, or in gradients of the same layout.
MH_API mh_tensor mh_parameter_view(const mh_parameter *parameter, float *values);

// ---- tapes --------------------------------------------------------------------------------------

// The activations that forward saves for backward, and the memory of a forward pass: it grows to
// what is needed and is reused, so that a second call allocates nothing.
typedef struct mh_tape mh_tape;

// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tape_create(mh_context *context, mh_tape **tape);
MH_API void mh_tape_free(mh_tape *tape); // NULL is allowed
MH_API size_t mh_tape_bytes(const mh_tape *tape);

// ---- multi-head attention -----------------------------------------------------------------------

// How the rows of one projection matrix for q, k and v are ordered.
typedef enum mh_qkv_order {
    MH_QKV_STACKED = 0,     // all of q, all of k, all of v: PyTorch's in_proj_weight
    MH_QKV_INTERLEAVED = 1, // q, k, v of head 0, q, k, v of head 1, ...: GPT-NeoX, BLOOM, tutorials
} mh_qkv_order;

// How rotary frequencies are changed for contexts longer than those of training, as published.
typedef enum mh_rope_rule {
    MH_ROPE_LINEAR = 0, // positions are divided by factor
    MH_ROPE_LLAMA3 = 1, // low frequencies are divided by factor, with a smooth transition
    MH_ROPE_YARN = 2,   // the same by wavelength, and cosines and sines are scaled
} mh_rope_rule;

typedef struct mh_rope_scaling {
    size_t struct_size;      // sizeof(mh_rope_scaling)
    mh_rope_rule rule;       // MH_ROPE_LINEAR
    double factor;           // 1
    double low_frequency;    // 1: llama3's low_freq_factor
    double high_frequency;   // 4: llama3's high_freq_factor
    double original_length;  // 8192: positions of the original training; llama3 and yarn
    double beta_fast;        // 32: yarn
    double beta_slow;        // 1: yarn
    double attention_factor; // 0: yarn's 0.1 ln(factor) + 1; of cosines and sines
} mh_rope_scaling;

static inline mh_rope_scaling mh_rope_scaling_default(void)
{
    mh_rope_scaling scaling;
    memset(&scaling, 0, sizeof scaling);
    scaling.struct_size = sizeof scaling;
    scaling.factor = scaling.low_frequency = scaling.beta_slow = 1;
    scaling.high_frequency = 4;
    scaling.original_length = 8192;
    scaling.beta_fast = 32;
    return scaling;
}

// Parts of in_proj_bias.
enum { MH_BIAS_Q = 1, MH_BIAS_K = 2, MH_BIAS_V = 4 };

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
    bool add_zero_attn;     // false; true: one more key and value, all zeros
    bool batch_first;       // false: (T, B, D); true: (B, T, D)
    mh_qkv_order qkv;       // MH_QKV_STACKED
    bool rope;              // false; true: queries and keys are rotated by their position
    bool rope_interleaved;  // false: pairs (x_i, x_{i+E/2}); true: (x_2i, x_{2i+1})
    double rope_base;       // 10000
    bool alibi;             // false
    bool sinks;             // false; true: one learned sink logit per head
    mh_precision precision; // MH_PRECISION_F32: of all matrix products

    size_t head_dim;       // E, 0: embed_dim / num_heads; else embed_dim may be any width
    size_t value_dim;      // Ev, 0: head_dim; width of a value head
    unsigned missing_bias; // 0; MH_BIAS_Q | MH_BIAS_K | MH_BIAS_V: these parts of the bias are 0
    bool no_out_bias;      // false; true: only in_proj has a bias
    bool qk_norm;          // false; true: RMS norm of each head's q and k, before they are rotated
    float qk_norm_eps;     // 1e-6
    float scale;           // MH_SCALE_DEFAULT: 1 / sqrt(E)
    float softcap;         // 0: none
    int64_t window;        // -1: none; else a query sees this many keys before its own
    size_t rope_width;     // 0: E; the rest of a head is not rotated
    const mh_rope_scaling *rope_scaling; // NULL: none
} mh_mha_config;

static inline mh_mha_config mh_mha_config_default(void)
{
    mh_mha_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.bias = true;
    config.rope_base = 10000;
    config.precision = MH_PRECISION_F32;
    config.qk_norm_eps = 1e-6f;
    config.scale = MH_SCALE_DEFAULT;
    config.window = -1;
    return config;
}

typedef struct mh_mha mh_mha;

// Creates a module; its parameters are in_proj_weight ((H + 2G) E, input_dim) and in_proj_bias, or,
// if kdim or vdim differ from input_dim, q_proj_weight, k_proj_weight, v_proj_weight; then
// out_proj.weight, out_proj.bias, bias_k, bias_v (1, 1, G E), sinks (H), and with qk_norm
// q_norm.weight and k_norm.weight (E).
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_mha_create(mh_context *context, const mh_mha_config *config,
                                             mh_mha **mha);
MH_API void mh_mha_free(mh_mha *mha); // NULL is allowed
MH_API const mh_parameters *mh_mha_parameters(const mh_mha *mha);

typedef struct mh_mha_options {
    size_t struct_size; // sizeof(mh_mha_options)

    // As in PyTorch: bool (or u8), true = may NOT be attended to; or floats, which are added.
    const mh_tensor *key_padding_mask; // NULL; (B, S), or (S) for unbatched input
    const mh_tensor *attn_mask;        // NULL; (T, S) or (B * H, T, S)

    bool per_head_weights; // false: weights are the mean over heads, (B, T, S); true: (B, H, T, S)

    // The options of the attention kernel: causal rules, windows, lengths, documents, further
    // masks, taps of stages. Those that the module sets itself (precision, dropout, alibi, sinks)
    // are ignored. The keys of add_bias_kv and add_zero_attn are live for every query, regardless
    // of causal rule and window; with them, lengths, prefixes, documents, masks and ALiBi are
    // rejected, and a causal rule or window takes T (S + 2) bytes more.
    const mh_attention_options *attention; // NULL: the defaults

    mh_kv_cache *cache; // NULL; else keys and values are appended to it, and queries attend to all
                        // it holds
    int64_t first;      // 0: the position of the first token, for RoPE; ignored without. With a
                   // cache, positions continue from its length: 0 or that length, else rejected
    bool training;   // false; true: dropout
    uint64_t seed;   // 0: for dropout, with step and stream
    uint32_t step;   // 0
    uint32_t stream; // 0
    mh_tape *tape;   // NULL; needed for backward
} mh_mha_options;

static inline mh_mha_options mh_mha_options_default(void)
{
    mh_mha_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

// output = concat(head_1, ..., head_H) W_o^T + b_o, head_h = attention of the projected query, key
// and value. query (T, B, input_dim), key (S, B, kdim), value (S, B, vdim), output (T, B, D); batch
// first if the config says so; without B: unbatched. Any float dtype and strides. `weights` NULL or
// as options say, after dropout; with add_bias_kv and add_zero_attn it is wider by one key each.
// A query with no live key gets 0 weights, and the output projection's bias.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_mha_forward(mh_context *context, const mh_mha *mha,
                                              const mh_mha_options *options, const mh_tensor *query,
                                              const mh_tensor *key, const mh_tensor *value,
                                              mh_tensor *output, mh_tensor *weights);

// After a forward with a tape, and with the same arguments: adds the parameters' gradients to
// `gradients` (laid out as the parameters; NULL if not wanted) and writes those of the inputs
// (each NULL if not wanted; where two inputs are the same view, their gradients are summed in the
// first one's and the other's must be NULL). Errors: as above, and MH_ERROR_ARGUMENT if the tape is
// not from such a forward.
MH_API MH_MUST_CHECK mh_status mh_mha_backward(mh_context *context, const mh_mha *mha,
                                               const mh_mha_options *options,
                                               const mh_tensor *query, const mh_tensor *key,
                                               const mh_tensor *value, const mh_tensor *doutput,
                                               float *gradients, mh_tensor *dquery, mh_tensor *dkey,
                                               mh_tensor *dvalue);

// ---- the Transformer ----------------------------------------------------------------------------

// The kind of module, with PyTorch's names for its parameters.
typedef enum mh_transformer_kind {
    MH_TRANSFORMER = 0,   // nn.Transformer: encoder.layers.N.*, encoder.norm.*, decoder.layers.N.*
    MH_ENCODER = 1,       // nn.TransformerEncoder: layers.N.*, norm.*
    MH_DECODER = 2,       // nn.TransformerDecoder: layers.N.*, norm.*
    MH_ENCODER_LAYER = 3, // nn.TransformerEncoderLayer: self_attn.*, linear1.*, norm1.*, ...
    MH_DECODER_LAYER = 4, // nn.TransformerDecoderLayer: the same, multihead_attn.*, norm3.*
} mh_transformer_kind;

typedef struct mh_transformer_config {
    size_t struct_size;        // sizeof(mh_transformer_config)
    mh_transformer_kind kind;  // MH_TRANSFORMER
    size_t d_model;            // 512
    size_t nhead;              // 8
    size_t num_encoder_layers; // 6; ignored by decoders and layers
    size_t num_decoder_layers; // 6
    size_t dim_feedforward;    // 2048
    float dropout;             // 0.1
    mh_activation activation;  // MH_RELU
    float layer_norm_eps;      // 1e-5
    bool batch_first;          // false
    bool norm_first;           // false
    bool bias;                 // true
    bool final_norm;   // true; optional in PyTorch's stacks, always present in nn.Transformer
    size_t vocabulary; // 0; more: the parameters begin with embedding.weight (vocabulary, d_model),
                       // a table for the caller to embed tokens with; the module does not read it
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
MH_API MH_MUST_CHECK mh_status mh_transformer_create(mh_context *context,
                                                     const mh_transformer_config *config,
                                                     mh_transformer **transformer);
MH_API void mh_transformer_free(mh_transformer *transformer); // NULL is allowed
MH_API const mh_parameters *mh_transformer_parameters(const mh_transformer *transformer);

// Which attention a tap reads.
typedef enum mh_tap_kind { MH_TAP_ENCODER = 0, MH_TAP_DECODER = 1, MH_TAP_CROSS = 2 } mh_tap_kind;

// Copies inputs, q, k, v, weights or outputs of one layer's attention; one tap per attention.
// Tensors are f32, bf16 or f16, those with data NULL are skipped; all but weights have B = 1 and
// all rows of a packed batch. The module's output is bitwise identical with and without taps.
typedef struct mh_tap {
    size_t struct_size; // sizeof(mh_tap)
    mh_tap_kind kind;
    size_t layer;
    const size_t *heads; // for weights; NULL: all; else head_count of them
    size_t head_count;   // 0
    mh_tensor weights;   // (B, heads, T, S), before dropout
    mh_tensor q;         // (B, H, T, E)
    mh_tensor k, v;      // (B, G, S, E), (B, G, S, Ev)
    mh_tensor out;       // (B, T, D): the output projection of all heads, before the residual sum
    mh_tensor hidden;    // (B, T, D): the output of the whole layer; not for MH_TAP_CROSS
    mh_tensor x;   // (B, T, D): what the projection to q reads, after the norm if that is first
    mh_tensor sum; // (B, T, D): the residual sum after it, and after the norm if that is last
} mh_tap;

static inline mh_tap mh_tap_default(void)
{
    mh_tap tap;
    memset(&tap, 0, sizeof tap);
    tap.struct_size = sizeof tap;
    return tap;
}

// A tap of this attention that copies nothing yet.
static inline mh_tap mh_tap_make(mh_tap_kind kind, size_t layer)
{
    mh_tap tap = mh_tap_default();
    tap.kind = kind;
    tap.layer = layer;
    return tap;
}

// Called by a backward pass when it has finished a layer: the gradients of all parameters from
// float `first` on are final. Parameters are in the order of the forward pass, so `first` falls
// from call to call. The context is idle: the callback may use it, unlike the pass's arguments.
typedef void (*mh_gradients_ready_fn)(void *user, size_t first);

// Masks are as in PyTorch: true = may not be attended to, floats are added.
typedef struct mh_transformer_options {
    size_t struct_size;                       // sizeof(mh_transformer_options)
    const mh_tensor *src_mask;                // NULL; (S, S) or (B * H, S, S)
    const mh_tensor *tgt_mask;                // NULL; (T, T) or (B * H, T, T)
    const mh_tensor *memory_mask;             // NULL; (T, S) or (B * H, T, S)
    const mh_tensor *src_key_padding_mask;    // NULL; (B, S)
    const mh_tensor *tgt_key_padding_mask;    // NULL; (B, T)
    const mh_tensor *memory_key_padding_mask; // NULL; (B, S)
    bool src_causal, tgt_causal;              // false; true applies a causal mask, no mask tensor
                                              // needed

    // Batches without padding: src and tgt are (rows, D), sequence b is rows starts[b] to
    // starts[b + 1] - 1 of each. Only causal masks are then allowed.
    size_t sequences;          // 0: not packed
    const int64_t *src_starts; // (sequences + 1)
    const int64_t *tgt_starts; // (sequences + 1)

    const mh_tap *taps; // NULL
    size_t tap_count;   // 0

    const bool *disabled_heads; // NULL; (attentions, H): true disables a head; attentions are the
                                // encoder's layers, the decoder's, and the decoder's again for
                                // cross-attention

    bool training;  // false; true: dropout
    uint64_t seed;  // 0: of dropout, with step
    uint32_t step;  // 0
    mh_tape *tape;  // NULL; needed for backward
    bool recompute; // false; true: the tape saves only each layer's input, and backward recomputes
                    // the rest (activation checkpointing): less memory, more time, the same bits
    bool overwrite_gradients; // false; true: backward writes the parameters' gradients instead of
                              // adding to them; those of embedding.weight, which it does not
                              // compute, are left unmodified

    mh_gradients_ready_fn gradients_ready; // NULL; of backward, to send gradients while it goes on
    void *gradients_ready_user;            // NULL
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
MH_API MH_MUST_CHECK mh_status mh_transformer_forward(mh_context *context,
                                                      const mh_transformer *transformer,
                                                      const mh_transformer_options *options,
                                                      const mh_tensor *src, const mh_tensor *tgt,
                                                      mh_tensor *output);

// memory = encoder(src), the input of mh_decoding_create; for whole Transformers and encoders.
// Options of the target and of backward do not apply. Errors: as above.
MH_API MH_MUST_CHECK mh_status mh_transformer_encode(mh_context *context,
                                                     const mh_transformer *transformer,
                                                     const mh_transformer_options *options,
                                                     const mh_tensor *src, mh_tensor *memory);

// After a forward with a tape, and with the same arguments: adds the parameters' gradients to
// `gradients`, or writes them there (`overwrite_gradients`), and writes those of the inputs (NULL
// if not wanted). `recompute` must be as in forward. Errors: as above, and MH_ERROR_ARGUMENT if the
// tape is not from such a forward.
MH_API MH_MUST_CHECK mh_status mh_transformer_backward(mh_context *context,
                                                       const mh_transformer *transformer,
                                                       const mh_transformer_options *options,
                                                       const mh_tensor *src, const mh_tensor *tgt,
                                                       const mh_tensor *doutput, float *gradients,
                                                       mh_tensor *dsrc, mh_tensor *dtgt);

// ---- incremental decoding -----------------------------------------------------------------------

// The state of a decoder on some sequences: a KV cache of every layer, and the memory's keys and
// values, projected once.
typedef struct mh_decoding mh_decoding;

// Starts from memory (S, B, D), or (B, S, D) if the config is batch first, of which sequence b has
// lengths[b] rows (NULL: all); `copies` sequences for each, for beam search: sequence b * copies +
// i. For decoders and whole Transformers, whose parameters must stay unchanged until the last step;
// memory is not read again. Belongs to one thread at a time. Errors: MH_ERROR_ARGUMENT,
// MH_ERROR_UNSUPPORTED (dtype), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_decoding_create(mh_context *context,
                                                  const mh_transformer *transformer,
                                                  const mh_tensor *memory, const int64_t *lengths,
                                                  size_t copies, mh_decoding **decoding);
MH_API void mh_decoding_free(mh_decoding *decoding); // NULL is allowed

// The same for an encoder alone, whose attention is then causal: a decoder-only language model such
// as GPT. Starts with `sequences` empty sequences; tgt of the first step is the prompt. Steps are
// bitwise identical to mh_transformer_forward with src_causal, and taps are for MH_TAP_ENCODER.
MH_API MH_MUST_CHECK mh_status mh_decoding_create_causal(mh_context *context,
                                                         const mh_transformer *transformer,
                                                         size_t sequences, mh_decoding **decoding);

// Experimental, for serving: sequences that begin, end and branch at different times.
typedef struct mh_decoding_options {
    size_t struct_size;   // sizeof(mh_decoding_options)
    size_t sequences;     // 1; 0: none yet, mh_decoding_extend adds them
    mh_dtype cache_dtype; // MH_F32; or MH_BF16, MH_F16: keys and values are rounded when stored
} mh_decoding_options;

static inline mh_decoding_options mh_decoding_options_default(void)
{
    mh_decoding_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.sequences = 1;
    return options;
}

// Experimental: mh_decoding_create_causal with options (NULL: the defaults). With a cache_dtype
// other than f32, outputs differ from mh_transformer_forward by its rounding, and are still bitwise
// identical for any division of the tokens into steps and any other sequences. Errors: as
// mh_decoding_create.
MH_API MH_MUST_CHECK mh_status mh_decoding_create_empty(mh_context *context,
                                                        const mh_transformer *transformer,
                                                        const mh_decoding_options *options,
                                                        mh_decoding **decoding);

// Experimental: appends `count` empty sequences to those of a decoding without memory; the others
// do not change. Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY; the state is then as before.
MH_API MH_MUST_CHECK mh_status mh_decoding_extend(mh_context *context, mh_decoding *decoding,
                                                  size_t count);

// Experimental: sequence b forgets all but its first `length` tokens, its memory stays. Errors:
// MH_ERROR_ARGUMENT, also if a layer with a window has released keys that the next token would see;
// the state is then as before.
MH_API MH_MUST_CHECK mh_status mh_decoding_truncate(mh_context *context, mh_decoding *decoding,
                                                    size_t b, size_t length);

// Experimental: the weights of a Transformer packed as operands of matrix products, for many
// decodings of the same model. A step multiplies few rows, so that packing takes longer than the
// product; mh_decoding_create packs for itself each time. Products with packed weights are bitwise
// identical. It is a copy of the parameters' values at the time, immutable: any thread may read it.
typedef struct mh_packed_weights mh_packed_weights;

// Experimental: packs the weights of a decoding step, of the decoder or of an encoder alone; with
// `whole`, also those that encode and project the memory. Errors: MH_ERROR_ARGUMENT,
// MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_packed_weights_create(mh_context *context,
                                                        const mh_transformer *transformer,
                                                        bool whole, mh_packed_weights **packed);
MH_API void mh_packed_weights_free(mh_packed_weights *packed); // NULL is allowed

// Experimental: mh_transformer_encode and mh_decoding_create with `packed` of this Transformer, or
// else MH_ERROR_ARGUMENT; borrowed until the decoding is freed. NULL: weights are not packed at
// all, which is best for a single step of many rows. Those packed for another level than the
// context's are not used.
MH_API MH_MUST_CHECK mh_status mh_transformer_encode_packed(
    mh_context *context, const mh_transformer *transformer, const mh_packed_weights *packed,
    const mh_transformer_options *options, const mh_tensor *src, mh_tensor *memory);
MH_API MH_MUST_CHECK mh_status mh_decoding_create_packed(
    mh_context *context, const mh_transformer *transformer, const mh_packed_weights *packed,
    const mh_tensor *memory, const int64_t *lengths, size_t copies, mh_decoding **decoding);

// output = decoder of the next tokens, causal: tgt and output (T, B * copies, D), or batch first as
// the memory; bitwise identical to a forward over all tokens so far; output may be tgt. `taps` (or
// NULL) are for MH_TAP_DECODER and MH_TAP_CROSS, with weights (B * copies, heads, T, all tokens so
// far, or the longest memory) and without k and v. After an error the state is as before the step.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_decoding_step(mh_context *context, mh_decoding *decoding,
                                                const mh_tap *taps, size_t tap_count,
                                                const mh_tensor *tgt, mh_tensor *output);

// Experimental: the same for sequences that get different numbers of tokens: tgt and output (rows,
// D), sequence b is rows starts[b] to starts[b + 1] - 1; starts (sequences + 1), from 0 to rows. A
// sequence without rows does not change. Prompts, segments of them and single tokens of other
// sequences may share a step: the bits of a sequence do not depend on it. Taps: q, out and hidden
// have B = 1 and all rows, weights are (sequences, heads, most rows of a sequence, most tokens so
// far of one).
MH_API MH_MUST_CHECK mh_status mh_decoding_step_packed(mh_context *context, mh_decoding *decoding,
                                                       const int64_t *starts, const mh_tap *taps,
                                                       size_t tap_count, const mh_tensor *tgt,
                                                       mh_tensor *output);

// Experimental: the number of sequences; the tokens so far of sequence b, 0 if there is none; and
// the bytes of all keys and values held and of the workspace, which is that of the step with the
// most rows so far.
MH_API size_t mh_decoding_sequences(const mh_decoding *decoding);
MH_API size_t mh_decoding_length(const mh_decoding *decoding, size_t b);
MH_API size_t mh_decoding_bytes(const mh_decoding *decoding);

// Sequence i continues from the current state of sequence parents[i], with its memory; for beam
// search. parents has one entry per sequence.
// Errors: MH_ERROR_ARGUMENT; MH_ERROR_MEMORY, after which only mh_decoding_free may be called if
// layers are inconsistent (every step then reports it).
MH_API MH_MUST_CHECK mh_status mh_decoding_reorder(mh_context *context, mh_decoding *decoding,
                                                   const size_t *parents);

// The same, parents (count), but changes the number of sequences to `count`, which may be 0:
// finished ones are dropped, others branch. If parents ascend, so that sequences are only dropped,
// it cannot run out of memory. Errors: the same.
MH_API MH_MUST_CHECK mh_status mh_decoding_select(mh_context *context, mh_decoding *decoding,
                                                  const size_t *parents, size_t count);

// Disables heads in the following steps: as in mh_transformer_options, (attentions, H), of which
// the encoder's are ignored; NULL: none. Borrowed until the decoding is freed.
MH_API void mh_decoding_disable_heads(mh_decoding *decoding, const bool *disabled_heads);

#ifdef __cplusplus
}
#endif
#endif
