// SPDX-License-Identifier: MIT
// multihead/attention.h: scaled dot-product attention.
//
// The first part is enough for the basic call; masks, positions, packed batches and further outputs
// are fields of one options struct, and all can be combined.
//
// Letters: B batch, H query heads, G key/value heads (H a multiple of G), T query length,
// S key length, E width of a query/key head, Ev width of a value head.
//
// Stability: stable (base.h).
#ifndef MULTIHEAD_ATTENTION_H
#define MULTIHEAD_ATTENTION_H

#include <math.h>
#include <multihead/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// The widest head, E or Ev.
enum { MH_MAX_HEAD_DIM = 1024 };

typedef struct mh_attention_options mh_attention_options;

// out = softmax(scale * q k^T) v, for each batch and head:
//
//     q    (B, H, T, E)     k (B, G, S, E)     v (B, G, S, Ev)     out (B, H, T, Ev)
//
// Query head h uses key/value head h / (H/G). Any strides, so (B, T, H, E) or a slice of a packed
// QKV projection is just another view. f32, bf16 or f16, independently per tensor; accumulation is
// in f32. `options` may be NULL. Outputs must not overlap the inputs or each other.
//
// O(T + S) memory unless weights are requested. Results are bitwise identical for any number of
// threads, for a sequence alone or in a batch, padded on the right or packed, all queries at once
// or one by one.
//
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (dtype), MH_ERROR_MEMORY; `out` is then
// unmodified. The context belongs to the calling thread; tensors are borrowed for the call.
MH_API MH_MUST_CHECK mh_status mh_attention_forward(mh_context *context,
                                                    const mh_attention_options *options,
                                                    const mh_tensor *q, const mh_tensor *k,
                                                    const mh_tensor *v, mh_tensor *out);

// ---- options ------------------------------------------------------------------------------------

// Which keys a query attends to: key j is live for query i if j <= i + offset.
typedef enum mh_causal {
    MH_CAUSAL_NONE = 0,
    MH_CAUSAL = 1,          // offset 0, and an error unless T = S: the unambiguous case
    MH_CAUSAL_TOP_LEFT = 2, // offset 0: the first query sees the first key (PyTorch's is_causal)
    MH_CAUSAL_BOTTOM_RIGHT = 3, // offset S_b - T_b: the last query sees the last key (decoding)
    MH_CAUSAL_OFFSET = 4,       // the offset given in the options
} mh_causal;

// A mask's polarity is in its name; there is no bare boolean mask.
typedef enum mh_mask_kind {
    MH_MASK_KEEP = 0, // bool or u8: true = may attend (PyTorch's SDPA, Hugging Face, ONNX)
    MH_MASK_DROP = 1, // bool or u8: true = may not attend (PyTorch's nn.MultiheadAttention)
    MH_MASK_ADD = 2,  // f32, bf16, f16: added to the score; -inf masks the key, -1e9 does not
} mh_mask_kind;

typedef struct mh_mask {
    size_t struct_size; // sizeof(mh_mask)
    mh_mask_kind kind;
    mh_tensor tensor; // broadcast to (B, H, T, S) as NumPy does; never expanded in memory
} mh_mask;

static inline mh_mask mh_mask_make(mh_mask_kind kind, mh_tensor tensor)
{
    mh_mask mask;
    memset(&mask, 0, sizeof mask);
    mask.struct_size = sizeof mask;
    mask.kind = kind;
    mask.tensor = tensor;
    return mask;
}

static inline mh_mask mh_mask_default(void) // no tensor yet
{
    mh_tensor none;
    memset(&none, 0, sizeof none);
    return mh_mask_make(MH_MASK_KEEP, none);
}

typedef enum mh_empty_row { MH_EMPTY_ROW_ZERO = 0, MH_EMPTY_ROW_NAN = 1 } mh_empty_row;

// What the `weights` output contains: the softmax, or an intermediate step.
typedef enum mh_weights_stage {
    MH_WEIGHTS_SOFTMAX = 0, // p_ij, rows sum to 1 (less with sinks), 0 where masked
    MH_WEIGHTS_SCALED = 1,  // scale * q k^T
    MH_WEIGHTS_CAPPED = 2,  // ... after softcap
    MH_WEIGHTS_BIASED = 3,  // ... after additive masks and ALiBi; -inf where masked
} mh_weights_stage;

#define MH_SCALE_DEFAULT ((float)NAN) // means 1/sqrt(E)

// s_ij = scale * q_i . k_j, then softcap, then additive masks and ALiBi. Key j is live for
// query i if the causal rule or the prefix, the window, the document ids, the lengths, and
// every mask allow it. Dead keys have no effect: not even a NaN in them propagates. A row whose
// live scores are all -inf, through -inf in q or k or score + mask < -FLT_MAX, is NaN, with lse =
// -inf. Division by the softmax's sum comes last: |v| < FLT_MAX / (3000 S) never overflows.
struct mh_attention_options {
    size_t struct_size; // sizeof(mh_attention_options)

    float scale;   // MH_SCALE_DEFAULT: 1/sqrt(E); any finite number, 0 and negative included
    float softcap; // 0: none; s = softcap * tanh(s / softcap)

    mh_causal causal;                  // MH_CAUSAL_NONE
    int64_t offset;                    // 0; read for MH_CAUSAL_OFFSET and MH_CAUSAL_NONE
    int64_t window_left, window_right; // -1, -1: none; p - left <= j <= p + right, p = i + offset
    const int64_t *prefix_lengths;     // (B) NULL: none; keys below it are exempt from causal
    const int64_t *key_lengths;        // (B) NULL: S each; keys from there on are ignored
    const mh_tensor *query_documents;  // (B, T) i32 or i64, NULL: none; a query sees the
    const mh_tensor *key_documents;    // (B, S)   keys that have the same document id
    const mh_mask *masks;              // NULL
    size_t mask_count;                 // 0
    bool alibi;                        // false; adds -slope_h |i + offset - j|
    const float *alibi_slopes;         // (H) NULL: the published slopes
    const float *sinks;                // (H) NULL: none; adds exp(sink_h) to the softmax's sum

    // Packed batches without padding: q, k, v, out, lse have B = 1 and hold `sequences`
    // sequences back to back; sequence b is rows starts[b] .. starts[b+1]-1. Rows before the first
    // start and from the last one on are not touched. Per-batch options are then per sequence;
    // masks and weights are (sequences, H, longest T, longest S).
    size_t sequences;            // 0: not packed
    const int64_t *query_starts; // (sequences + 1)
    const int64_t *key_starts;   // (sequences + 1)

    // Each weight is dropped with this probability, the others are scaled by 1 / (1 - dropout).
    // Which ones is a function of the seed and of the weight's index (sequence, head, query, key)
    // alone: not of threads, tiles or the batch a sequence is in. The probability has a resolution
    // of 2^-16.
    float dropout;             // 0: none; less than 1
    uint64_t dropout_seed;     // 0
    uint64_t dropout_sequence; // 0: the index of this batch's first sequence

    mh_empty_row empty_row; // MH_EMPTY_ROW_ZERO: what out and weights get where a query has no
                            // live key and no sink

    // Further outputs; `out` is bitwise identical with and without them.
    mh_tensor *lse;                 // (B, H, T) f32, NULL; log of the softmax's sum, -inf if empty
    mh_tensor *weights;             // (B, H, T, S) f32, bf16 or f16, NULL
    mh_weights_stage weights_stage; // MH_WEIGHTS_SOFTMAX
    bool weights_average;           // false; true: (B, 1, T, S), the mean over heads
    bool weights_dropped;           // false: before dropout
    const size_t *weights_heads;    // NULL: all; else only these, in this order: weights' dim 1
    size_t weights_head_count;      // 0
    const size_t *weights_rows;     // NULL: all; else only these queries: weights' dim 2
    size_t weights_row_count;       // 0

    void *workspace;       // NULL: the context's own; else workspace_size bytes, any alignment
    size_t workspace_size; // at least what mh_attention_workspace returns

    mh_precision precision; // MH_PRECISION_AUTO: of the products q k and weights v
};

// Inline, so that struct_size is that of the struct the caller was compiled with.
static inline mh_attention_options mh_attention_options_default(void)
{
    mh_attention_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.scale = MH_SCALE_DEFAULT;
    options.window_left = options.window_right = -1;
    return options;
}

// The scratch memory that mh_attention_forward needs for these arguments, in bytes.
MH_API MH_MUST_CHECK mh_status mh_attention_workspace(mh_context *context,
                                                      const mh_attention_options *options,
                                                      const mh_tensor *q, const mh_tensor *k,
                                                      const mh_tensor *v, const mh_tensor *out,
                                                      size_t *bytes);

// ---- backward -----------------------------------------------------------------------------------

// Output tensors for the gradients; each may be NULL if not wanted.
typedef struct mh_attention_gradients {
    size_t struct_size;       // sizeof(mh_attention_gradients)
    mh_tensor *dq, *dk, *dv;  // NULL; shaped as q, k, v; f32, bf16 or f16
    mh_tensor *const *dmasks; // NULL; else one pointer per mask, NULL where not wanted: the
                              // gradient of an MH_MASK_ADD, f32, in the mask's own shape,
                              // summed over the dimensions it was broadcast along
    mh_tensor *dsinks;        // NULL; (H) f32
} mh_attention_gradients;

static inline mh_attention_gradients mh_attention_gradients_default(void)
{
    mh_attention_gradients gradients;
    memset(&gradients, 0, sizeof gradients);
    gradients.struct_size = sizeof gradients;
    return gradients;
}

// The gradients of a loss with respect to the inputs of mh_attention_forward, from its gradient
// with respect to `out`:
//
//     dout (B, H, T, Ev)     out, options->lse: as forward wrote them for the same inputs
//
// Gradients must not overlap each other or any input. Backward supports every option of forward.
// Scores are recomputed, so memory stays O(T + S). Dead keys and queries without live keys get 0.
// Results are bitwise identical for any number of threads, and for a sequence alone, padded or
// packed (except sums over the batch: dmasks, dsinks).
//
// Errors: as mh_attention_forward, and MH_ERROR_ARGUMENT if options->lse is NULL; gradients are
// then unmodified. options->weights is ignored.
MH_API MH_MUST_CHECK mh_status mh_attention_backward(mh_context *context,
                                                     const mh_attention_options *options,
                                                     const mh_tensor *q, const mh_tensor *k,
                                                     const mh_tensor *v, const mh_tensor *out,
                                                     const mh_tensor *dout,
                                                     const mh_attention_gradients *gradients);

// The scratch memory that mh_attention_backward needs, in bytes; options->workspace as above.
MH_API MH_MUST_CHECK mh_status mh_attention_backward_workspace(
    mh_context *context, const mh_attention_options *options, const mh_tensor *q,
    const mh_tensor *k, const mh_tensor *v, const mh_tensor *out, const mh_tensor *dout,
    const mh_attention_gradients *gradients, size_t *bytes);

// ---- what will run, and why ---------------------------------------------------------------------

typedef struct mh_attention_plan {
    size_t struct_size;  // sizeof(mh_attention_plan)
    const char *isa;     // the kernels' level
    size_t threads;      // used
    size_t tasks;        // independent units of work
    size_t query_rows;   // rows of a query tile, processed together per key tile
    size_t key_tile;     // keys of a key tile
    size_t kv_split;     // keys of a KV split, reduced before a log-sum-exp merge
    size_t block_rows;   // maximum of query rows that share one packed key tile
    size_t workspace;    // bytes of scratch
    uint64_t tiles;      // query tiles x key tiles, of `out`: weights take a second pass
    uint64_t dead_tiles; // of these, skipped: no live pair
    uint64_t edge_tiles; // of these, with some dead pairs: masked element by element, with smaller
                         // query tiles where that helps
    uint64_t live_pairs; // unmasked query-key pairs, over all heads
    double flops;        // 2 (E + Ev) per live pair: the minimum work
    char why[512];       // the reasons, in words
} mh_attention_plan;

static inline mh_attention_plan mh_attention_plan_default(void)
{
    mh_attention_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.struct_size = sizeof plan;
    return plan;
}

// Fills `plan`, which begins as mh_attention_plan_default(), for these arguments without computing
// attention. Reads masks, not q, k, v. After an error `plan` is unmodified.
MH_API MH_MUST_CHECK mh_status mh_attention_explain(mh_context *context,
                                                    const mh_attention_options *options,
                                                    const mh_tensor *q, const mh_tensor *k,
                                                    const mh_tensor *v, const mh_tensor *out,
                                                    mh_attention_plan *plan);

// The slope ALiBi gives to head h of H: 2^(-8(h+1)/H) for a power of two, else interpolated
// as published. 0 if there is no such head.
MH_API float mh_alibi_slope(size_t head, size_t heads);

#ifdef __cplusplus
}
#endif
#endif
