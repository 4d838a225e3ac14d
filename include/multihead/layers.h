// SPDX-License-Identifier: MIT
// multihead/layers.h: the layers of a Transformer besides attention and matrix products, each with
// forward and backward: norms, activations, embedding, positions, dropout, the residual sum and the
// loss; and the likeliest tokens of a row of logits.
//
// Common to all: tensors are f32, bf16 or f16, independently per tensor, with any strides (a
// contiguous last dimension is fastest); arithmetic is f32; results are bitwise identical for any
// number of threads. Views are borrowed. Outputs must not overlap other tensors unless documented.
// NULL for an optional tensor means "none". Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED
// (dtype), MH_ERROR_MEMORY; nothing is written then. A context belongs to one thread at a time.
//
// Stability: stable (base.h).
#ifndef MULTIHEAD_LAYERS_H
#define MULTIHEAD_LAYERS_H

#include <multihead/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- normalisation ------------------------------------------------------------------------------

// y = (x - mean) rstd weight + bias over the last dimension, rstd = 1 / sqrt(variance + epsilon),
// with the biased variance (divided by D, not D - 1). x, y (..., D), weight, bias (D) or NULL,
// mean, rstd (...) f32 or NULL: saved for backward. y may be x if dtypes and strides are equal.
MH_API MH_MUST_CHECK mh_status mh_layer_norm(mh_context *context, const mh_tensor *x,
                                             const mh_tensor *weight, const mh_tensor *bias,
                                             float epsilon, mh_tensor *y, mh_tensor *mean,
                                             mh_tensor *rstd);

// With g = dy weight, h = (x - mean) rstd:  dx = rstd (g - mean(g) - h mean(g h)),
// dweight = sum of dy h, dbias = sum of dy over all rows; with `accumulate` these two are
// accumulated. x, dy, dx (..., D); mean, rstd (...) f32 as mh_layer_norm gave them; weight (D) or
// NULL; dx, dweight (D), dbias (D): NULL if not wanted. dx may be dy. Rows are summed in fixed
// blocks of 64, independent of threads.
MH_API MH_MUST_CHECK mh_status mh_layer_norm_backward(mh_context *context, const mh_tensor *x,
                                                      const mh_tensor *weight,
                                                      const mh_tensor *mean, const mh_tensor *rstd,
                                                      const mh_tensor *dy, mh_tensor *dx,
                                                      mh_tensor *dweight, mh_tensor *dbias,
                                                      bool accumulate);

// y = x rstd weight, rstd = 1 / sqrt(mean(x^2) + epsilon); shapes as above.
MH_API MH_MUST_CHECK mh_status mh_rms_norm(mh_context *context, const mh_tensor *x,
                                           const mh_tensor *weight, float epsilon, mh_tensor *y,
                                           mh_tensor *rstd);

// With g = dy weight, h = x rstd:  dx = rstd (g - h mean(g h)), dweight = sum of dy h.
MH_API MH_MUST_CHECK mh_status mh_rms_norm_backward(mh_context *context, const mh_tensor *x,
                                                    const mh_tensor *weight, const mh_tensor *rstd,
                                                    const mh_tensor *dy, mh_tensor *dx,
                                                    mh_tensor *dweight, bool accumulate);

// ---- activations --------------------------------------------------------------------------------

typedef enum mh_activation {
    MH_RELU = 0,      // max(x, 0); its derivative at 0 is 0
    MH_GELU = 1,      // x Phi(x) with the normal CDF Phi, in full precision
    MH_GELU_TANH = 2, // x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
    MH_SILU = 3,      // x / (1 + exp(-x)), also called swish
    MH_TANH = 4,
} mh_activation;

MH_API const char *mh_activation_name(mh_activation kind); // "gelu_tanh"; "?" if invalid

// y = f(x), shapes equal. y may be x if dtypes and strides are equal. At -inf the limit: 0.
MH_API MH_MUST_CHECK mh_status mh_activate(mh_context *context, mh_activation kind,
                                           const mh_tensor *x, mh_tensor *y);

// dx = dy f'(x), shapes equal; x is the input of mh_activate. dx may be dy or x.
MH_API MH_MUST_CHECK mh_status mh_activate_backward(mh_context *context, mh_activation kind,
                                                    const mh_tensor *x, const mh_tensor *dy,
                                                    mh_tensor *dx);

// y = silu(gate) up, shapes equal: gate and up are often the halves of one tensor (two
// mh_tensor_slice views). y may be either.
MH_API MH_MUST_CHECK mh_status mh_swiglu(mh_context *context, const mh_tensor *gate,
                                         const mh_tensor *up, mh_tensor *y);

// dgate = dy up silu'(gate), dup = dy silu(gate). dgate and dup may be gate and up.
MH_API MH_MUST_CHECK mh_status mh_swiglu_backward(mh_context *context, const mh_tensor *gate,
                                                  const mh_tensor *up, const mh_tensor *dy,
                                                  mh_tensor *dgate, mh_tensor *dup);

// y = f(gate) up with any activation f: SwiGLU, GeGLU, ReGLU. Shapes and aliasing as mh_swiglu,
// which is MH_SILU.
MH_API MH_MUST_CHECK mh_status mh_glu(mh_context *context, mh_activation kind,
                                      const mh_tensor *gate, const mh_tensor *up, mh_tensor *y);

// dgate = dy up f'(gate), dup = dy f(gate). dgate and dup may be gate and up.
MH_API MH_MUST_CHECK mh_status mh_glu_backward(mh_context *context, mh_activation kind,
                                               const mh_tensor *gate, const mh_tensor *up,
                                               const mh_tensor *dy, mh_tensor *dgate,
                                               mh_tensor *dup);

// y = a + b, the residual sum; a and b are broadcast to y's shape as in NumPy. y may be a or b.
// (Its backward is dy itself, for both.)
MH_API MH_MUST_CHECK mh_status mh_add(mh_context *context, const mh_tensor *a, const mh_tensor *b,
                                      mh_tensor *y);

// ---- dropout ------------------------------------------------------------------------------------

// Which elements are dropped is a function of these and of the element's index in C order: not of
// threads, strides or how a batch is split. The probability has a resolution of 2^-16.
typedef struct mh_dropout_options {
    size_t struct_size;   // sizeof(mh_dropout_options)
    float probability;    // 0; less than 1
    uint64_t seed;        // 0
    uint32_t step;        // 0: training step
    uint32_t stream;      // 0: distinguishes the dropout layers of a model
    uint64_t first_index; // 0: index of x's first element, if x is part of a larger tensor
} mh_dropout_options;

static inline mh_dropout_options mh_dropout_options_default(void)
{
    mh_dropout_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

// y = x / (1 - probability) where kept, else 0; shapes equal. Backward is the same call with dy for
// x. y may be x if dtypes and strides are equal.
MH_API MH_MUST_CHECK mh_status mh_dropout(mh_context *context, const mh_dropout_options *options,
                                          const mh_tensor *x, mh_tensor *y);

// ---- embedding and positions --------------------------------------------------------------------

// y[...] = scale * table[ids[...]]; table (V, D), ids (...) i32 or i64, y (..., D). An id outside
// 0..V-1 is MH_ERROR_ARGUMENT, with its index in the message. For learned positions, pass positions
// as ids, possibly a view with stride 0.
MH_API MH_MUST_CHECK mh_status mh_embedding(mh_context *context, const mh_tensor *table,
                                            const mh_tensor *ids, float scale, mh_tensor *y);

// dtable[ids[...]] += scale * dy[...], in C order of the ids for each row; dtable (V, D) f32. Ids
// equal to padding_id (-1: none) are skipped.
MH_API MH_MUST_CHECK mh_status mh_embedding_backward(mh_context *context, const mh_tensor *ids,
                                                     float scale, int64_t padding_id,
                                                     const mh_tensor *dy, mh_tensor *dtable);

// y[t, 2i] = scale sin((first + t) / 10000^(2i/D)), y[t, 2i+1] = scale cos(the same), as in
// "Attention is all you need"; y (T, D). |first + t| < 2^31; angles are computed in double.
MH_API MH_MUST_CHECK mh_status mh_positions_sinusoidal(mh_context *context, int64_t first,
                                                       float scale, mh_tensor *y);

// Rotary positions (RoPE). Pair i of a row is rotated by the angle position / base^(2i/width).
typedef struct mh_rope_options {
    size_t struct_size; // sizeof(mh_rope_options)
    bool interleaved;   // false: pair i is (x_i, x_{i+width/2}); true: (x_2i, x_{2i+1})
    bool inverse;       // false; true: rotates by minus the angle, for backward
    double base;        // 10000; at least 1
    size_t width;       // 0: all of E; else even and at most E, the rest is copied
    int64_t first;      // 0: the position of t = 0; row t has position first + t

    // Explicit positions: i32 or i64, broadcast as in NumPy to x's shape without E; (B, 1, T) for x
    // (B, H, T, E). |position| < 2^31.
    const mh_tensor *positions; // NULL

    // Precomputed cosines and sines; NULL: computed. With positions: (P, width/2), indexed by
    // position (0..P-1, else MH_ERROR_ARGUMENT); without: broadcast to (..., T, width/2). `base` is
    // then ignored, and first must be 0.
    const mh_tensor *cosine, *sine;

    const double *frequencies; // NULL: base^(-2i/width); else (width/2), the angle per position
    float amplitude;           // 1: factor of cosines and sines, unless these are given
} mh_rope_options;

static inline mh_rope_options mh_rope_options_default(void)
{
    mh_rope_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.base = 10000;
    options.amplitude = 1;
    return options;
}

// y = x rotated; x, y (..., T, E), shapes equal. (a, b) becomes (a cos - b sin, b cos + a sin).
// y may be x if dtypes and strides are equal. options NULL: the defaults.
MH_API MH_MUST_CHECK mh_status mh_rope(mh_context *context, const mh_rope_options *options,
                                       const mh_tensor *x, mh_tensor *y);

// The cosines and sines that mh_rope computes, for several calls with the same positions: cosine,
// sine (P, width/2) f32, of options->positions (P) or first, first + 1, ...; width is not 0.
MH_API MH_MUST_CHECK mh_status mh_rope_tables(mh_context *context, const mh_rope_options *options,
                                              mh_tensor *cosine, mh_tensor *sine);

// ---- loss ---------------------------------------------------------------------------------------

typedef enum mh_reduction { MH_REDUCTION_MEAN = 0, MH_REDUCTION_SUM = 1 } mh_reduction;

typedef struct mh_cross_entropy_options {
    size_t struct_size;      // sizeof(mh_cross_entropy_options)
    float label_smoothing;   // 0; 0 to 1: this much of the target is spread over all classes
    int64_t ignore_index;    // -100: rows with this target are ignored
    mh_reduction reduction;  // MH_REDUCTION_MEAN: over the rows that are not ignored
    float gradient_scale;    // 1: dlogits is the gradient of gradient_scale * loss
    const mh_tensor *weight; // NULL: 1 each; (V) f32, finite, not negative: class weights
    mh_tensor *losses;       // NULL; (N) f32: receives each row's loss, as reduction="none"
} mh_cross_entropy_options;

static inline mh_cross_entropy_options mh_cross_entropy_options_default(void)
{
    mh_cross_entropy_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.ignore_index = -100;
    options.gradient_scale = 1;
    return options;
}

// loss = sum or mean over rows n of  -sum_v weight_v q_v log softmax(logits_n)_v  with
// q_v = (1 - smoothing) [v = target_n] + smoothing / V, as in PyTorch's F.cross_entropy: the mean
// divides by the sum of the targets' weights. logits (N, V), targets (N) i32 or i64: a class or
// ignore_index, anything else is MH_ERROR_ARGUMENT. *count (or NULL) receives the number of rows
// that are not ignored; if there are none, the mean is NaN and the sum 0. dlogits (N, V) or NULL:
// the gradient, 0 in ignored rows; it may be logits if dtypes and strides are equal. A class of
// weight 0 contributes nothing, not even infinity. Rows are summed in double, in order.
MH_API MH_MUST_CHECK mh_status mh_cross_entropy(mh_context *context,
                                                const mh_cross_entropy_options *options,
                                                const mh_tensor *logits, const mh_tensor *targets,
                                                double *loss, size_t *count, mh_tensor *dlogits);

// ---- the likeliest tokens -----------------------------------------------------------------------

typedef struct mh_topk_options {
    size_t struct_size;        // sizeof(mh_topk_options)
    const mh_tensor *excluded; // NULL; (X) i32 or i64: ids that are not selected
    // NULL; (M) i32 or i64: ids whose log-probabilities are wanted in any case, excluded or not,
    // such as that of </s>, and (N, M) f64: receives them. Both or neither.
    const mh_tensor *wanted;
    mh_tensor *wanted_log_probabilities;
} mh_topk_options;

static inline mh_topk_options mh_topk_options_default(void)
{
    mh_topk_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

// The K largest elements of each row of log softmax(logits), the largest first, equal ones by
// ascending id: the candidates for the next token. logits (N, V); ids (N, K) i32; log_probabilities
// (N, K) f64, (logit - max) - log(sum exp(logit - max)). Excluded ids count in the sum. NaN and
// -inf are never selected; where a row has fewer than K others, the rest is -1 with -inf. options
// NULL: the defaults. An id outside 0..V-1 is MH_ERROR_ARGUMENT, with its index in the message.
MH_API MH_MUST_CHECK mh_status mh_log_softmax_topk(mh_context *context,
                                                   const mh_topk_options *options,
                                                   const mh_tensor *logits, mh_tensor *ids,
                                                   mh_tensor *log_probabilities);

#ifdef __cplusplus
}
#endif
#endif
