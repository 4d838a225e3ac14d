// SPDX-License-Identifier: MIT
// The kernel table: every piece of code that is written per instruction set is one member of
// this struct, and its contract is the comment above it. Kernels are straight-line numeric code
// on pointers and sizes: no threads, no allocation, no errors. Strides are in elements; no
// alignment is required unless stated; nothing outside the named extents is read or written.
//
// Results do not depend on batch composition, query count or threads, because in every kernel a
// row's result depends on that row alone, each sum has one fixed order, and a masked entry
// contributes exactly nothing.
#ifndef MH_KERNELS_H
#define MH_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Keys per tile: 64, so that the mask of a query row over a tile is one machine word, in which bit
// j is set if key j is live. And columns per panel of a packed B, at every level.
enum { MH_KEY_TILE = 64, MH_PANEL = 64 };

// Element type of a row.
typedef enum mh_row_type { MH_ROW_F32, MH_ROW_BF16, MH_ROW_F16 } mh_row_type;

// What mh_gemm.gemm_prefetch prefetches: mh_gemm.prefetch_bytes * k bytes of the next panel into
// the L2, so that successive row blocks bring all of it; and the part of C that the sums go to.
typedef struct mh_gemm_prefetch {
    const char *next;   // NULL: nothing
    const char *target; // `rows` rows of `bytes`, `stride` bytes apart
    size_t rows, bytes;
    ptrdiff_t stride;
} mh_gemm_prefetch;

// The longest vector of any level, for buffers of one vector per row; query rows of a call on the
// short-sequence path; the most rows of a GEMV; and mh_kernels.panel where it is all columns.
enum { MH_MAX_LANES = 16, MH_SHORT_ROWS = 12, MH_GEMV_ROWS = 3, MH_WHOLE_ROWS = 1 << 16 };

// How raw products x become the scores y of one query over the keys of one tile:
//     y = scale * x;  y = cap * tanh(y / cap) if cap > 0;  y += bias_j if bias;
//     y -= slope * |distance - j| if slope != 0;  y = -inf where live has a 0.
typedef struct mh_score_map {
    float scale;
    float cap;
    const float *bias;     // (64) or NULL
    float slope, distance; // distance: the query's position minus that of the tile's first key
    uint64_t live;
} mh_score_map;

// One online softmax step of the MMA path over a tile of keys: as softmax_step, for scale > 0, but
//   - the weights become the next 64 columns of an A operand, 0 from n on;
//   - if max grows, the weights in the preceding columns are rescaled instead of acc, as they are
//     not multiplied with the values yet;
//   - with dropout, sum takes the weights before they are dropped or multiplied by keep_scale.
typedef struct mh_softmax_tile {
    size_t m, n;
    float scale;
    const float *scores; // (m, 64)
    float *max, *sum;    // (m), (m, lanes)
    void *weights;       // (m, 64) of an A operand with `columns` columns
    size_t columns;
    size_t before;        // preceding columns, rescaled if max grows
    const uint64_t *keep; // (m), or NULL: no dropout
    float keep_scale;
} mh_softmax_tile;

// Softmax backward for m rows of a tile, with t = scale * s and g the gradient of a weight after
// dropout:
//     p = exp(t - lse);  w = p * keep_scale, g = g * keep_scale where keep has a 1, else 0;
//     s = w;  g = p * (g - delta);  both 0 where live has a 0.
typedef struct mh_grad_map {
    float scale;
    const float *lse, *delta; // (m), (m): delta = sum_j w_j g_j of a row
    const uint64_t *live;     // (m)
    const uint64_t *keep;     // (m), or NULL: no dropout
    float keep_scale;
} mh_grad_map;

typedef struct mh_softmax_norm {
    float max, log_sum;
} mh_softmax_norm;

// How the sums x of a matrix product become its results y:
//     y = x + bias;  y = max(y, 0) if relu;  y = y * keep_scale where keep has a 1, else 0;
//     y += residual.
typedef struct mh_epilogue {
    const float *bias; // (n), or NULL
    bool relu;
    const uint64_t *keep; // (m), one word per row, or NULL: no dropout
    float keep_scale;
    const float *residual; // (m x n, row stride ldr), or NULL
    ptrdiff_t ldr;
} mh_epilogue;

// y = (x - mean) * rstd * weight + bias for one row, weight 1 and bias 0 where NULL.
typedef struct mh_norm_map {
    float mean, rstd; // mean 0: RMS norm
    const float *weight, *bias;
} mh_norm_map;

// With g = gradient_scale * gradient:
//     p = p * decay;  m = m + (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;
//     p = p - step * m / (sqrt(v) * root + epsilon)
typedef struct mh_adamw_map {
    float gradient_scale;
    float decay;      // 1 - learning rate * weight decay
    float beta1_rest; // 1 - beta1
    float beta2, beta2_rest;
    float step; // learning rate / (1 - beta1^t)
    float root; // 1 / sqrt(1 - beta2^t)
    float epsilon;
} mh_adamw_map;

// With g = gradient_scale * gradient + weight_decay * p:
//     velocity = momentum * velocity + g;  p = p - rate * (nesterov: g + momentum * velocity,
//     else velocity; without velocity g)
typedef struct mh_sgd_map {
    float gradient_scale, rate, weight_decay, momentum;
    bool nesterov;
} mh_sgd_map;

// A matrix product: C (m x n) = A (m x k) B (k x n), or C += A B. pack_a and pack_b bring A and B
// into layouts that are private to the product; where they are NULL, operands are plain f32 rows
// in place.
//
// Each element of C depends on its row of A and its column of B alone, and is summed in one order
// of k for any m and n. Layouts round up sizes: rows of A to `micro_panel`, k to `step` (both
// operands are padded with 0), n and the columns of B to whole vectors. Rows of C up to the next
// multiple of `micro_panel` are written too, with unspecified values.
typedef struct mh_gemm {
    size_t rows;        // of a call, at most: a row block. f32.gemm alone takes any number
    size_t micro_panel; // rows of A that are packed together; row blocks start at multiples of it
    size_t step;        // k is rounded up to it
    size_t block; // rows of A to pack at a time: whole row blocks that, one kc block deep, fit in
                  // the L2
    size_t prefetch_bytes; // of the next panel, per k and row block: after 192 or 256 rows the
                           // whole panel is prefetched
    size_t a_size, b_size; // bytes per element of a packed operand

    // Per thread: enter before it packs an A operand or multiplies, leave afterwards, and keep_warm
    // every few hundred cycles of other work in between, as an idle matrix engine powers down and
    // takes as long as many products to wake. NULL if there is nothing to do.
    void (*enter)(void);
    void (*leave)(void);
    void (*keep_warm)(void);

    // Packs A from a (m x k, row stride lda). Row r, a multiple of micro_panel, is then at byte
    // r * round_up(k, step) * a_size.
    void (*pack_a)(size_t m, size_t k, const float *a, ptrdiff_t lda, void *to);

    // Packs B from b (k x n, row stride ldb), n <= columns. Row r, a multiple of step, is then at
    // byte r * columns * b_size.
    void (*pack_b)(size_t k, size_t n, const float *b, size_t ldb, void *to, size_t columns);

    // The same layouts from the transposes, a (k x m) and b (n x k), and from bf16 rows.
    void (*pack_a_t)(size_t m, size_t k, const float *a, ptrdiff_t lda, void *to);
    void (*pack_b_t)(size_t k, size_t n, const float *b, ptrdiff_t ldb, void *to, size_t columns);
    void (*pack_a_bf16)(size_t m, size_t k, const uint16_t *a, ptrdiff_t lda, void *to);
    void (*pack_a_t_bf16)(size_t m, size_t k, const uint16_t *a, ptrdiff_t lda, void *to);
    void (*pack_b_bf16)(size_t k, size_t n, const uint16_t *b, ptrdiff_t ldb, void *to,
                        size_t columns);
    void (*pack_b_t_bf16)(size_t k, size_t n, const uint16_t *b, ptrdiff_t ldb, void *to,
                          size_t columns);

    // Writes one column (k elements, padded with 0 up to the next step) or one row (n elements) of
    // a packed B from bf16 elements, with the bits that pack_b would write. unpack_b reads the
    // first k rows and n columns back as f32, n rounded up to whole vectors.
    void (*set_b_column)(size_t k, const uint16_t *b, size_t column, void *to, size_t columns);
    void (*set_b_row)(size_t n, const uint16_t *b, size_t row, void *to, size_t columns);
    void (*unpack_b)(size_t k, size_t n, const void *from, size_t columns, float *b, size_t ldb);

    // C = A B, or C += A B if `accumulate`. lda is the row stride of A if it is plain f32, else k
    // rounded up as A was packed, of which the first k are used; ldb the columns of B.
    void (*gemm)(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                 size_t ldb, float *c, size_t ldc, bool accumulate);

    // The same, prefetching what is needed next; see mh_gemm_prefetch.
    void (*gemm_prefetch)(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                          size_t ldb, float *c, size_t ldc, bool accumulate,
                          const mh_gemm_prefetch *prefetch);

    // gemm for m <= MH_GEMV_ROWS rows and an unpacked b (k x n, row stride ldb), which is read in
    // long runs. Bitwise identical to gemm with b packed, except for the bits of a NaN. A product
    // with packed layouts takes bf16 rows only.
    void (*gemv)(mh_row_type type, size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda,
                 const void *b, ptrdiff_t ldb, float *c, size_t ldc, bool accumulate);

    // gemm with A transposed, in f32 rows a (k x m, row stride lda); NULL where there is pack_a_t.
    void (*gemm_tn)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda, const void *b,
                    size_t ldb, float *c, size_t ldc, bool accumulate);

    // Attention weights written as A operands of this product; NULL: use softmax_step.
    void (*softmax_tile)(const mh_softmax_tile *step);

    // C = A B, interleaved with a softmax_tile of other scores. Neither depends on the other, so
    // that the matrix engine and the vector units work at the same time.
    void (*gemm_softmax)(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                         size_t ldb, float *c, size_t ldc, const mh_softmax_tile *step);
} mh_gemm;

typedef struct mh_kernels {
    // ---- matrix products ---------------------------------------------------------------

    // f32: FMAs on unpacked rows. Each element is one chain of FMAs in the order of k; C is added
    // at the end, so that sums over several kc blocks lose less accuracy.
    // bf16: operands may be rounded to bf16, sums are f32; the same as f32 at levels without bf16
    // products.
    mh_gemm f32, bf16;

    bool native_bf16; // bf16 has packed operands for a matrix engine; else it is f32 itself

    size_t lanes; // floats per vector

    // FMA path of attention: query rows that go through the scores, softmax and values of a key
    // tile together, so that each of these stays in the L1 meanwhile; and query rows that are
    // processed per tile before the next tile.
    size_t query_rows, row_group;

    // Columns of a B operand to store contiguously where it is read from memory once (KV cache), a
    // multiple of 16: those of a register tile, or all (MH_WHOLE_ROWS).
    size_t panel;

    // f32.gemm, m <= f32.rows, for a B operand that is read once, such as keys by one query: rows
    // of any type. As many bytes of `next` as are read of b are prefetched into the L2. `next` may
    // be NULL if rows are f32: no prefetch.
    void (*gemm_stream)(mh_row_type type, size_t m, size_t n, size_t k, const float *a,
                        ptrdiff_t lda, const void *b, size_t ldb, float *c, size_t ldc,
                        bool accumulate, const void *next);

    // Interleaved partial sums: `lanes` of them, sum l over every lanes-th k from l on, reduced
    // from first to last. gemm_interleaved takes the operands of f32.gemm, m <= f32.rows. gemm_nt
    // takes any number of rows of a (m x k) and of b (n x k) and is bitwise identical; it writes n
    // rounded up to whole vectors, with unspecified values in the excess.
    void (*gemm_interleaved)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda,
                             const float *b, size_t ldb, float *c, size_t ldc);
    void (*gemm_nt)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda, const float *b,
                    ptrdiff_t ldb, float *c, ptrdiff_t ldc);

    // Products of the short-sequence path, m <= MH_SHORT_ROWS, bitwise identical to f32.gemm.
    // short_outputs also multiplies each row by its factor, as scale_row does.
    void (*short_scores)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda,
                         const float *b, size_t ldb, float *c, ptrdiff_t ldc);
    void (*short_outputs)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda,
                          const float *b, size_t ldb, const float *factors, float *c,
                          ptrdiff_t ldc);

    // softmax_step for m <= MH_SHORT_ROWS, n <= 16, from max = -inf and sum = 0, followed by
    // sum_lanes; bitwise identical to these. s (m x 64), max (m), sum (m).
    void (*short_softmax)(size_t m, size_t n, float scale, float *s, float *max, float *sum);

    // Results y (m x n, row stride ldy) from sums x (m x n, row stride ldx), n <= 64; see
    // mh_epilogue. y may be x or the residual.
    void (*epilogue_rows)(const mh_epilogue *map, size_t m, size_t n, const float *x, size_t ldx,
                          float *y, ptrdiff_t ldy);

    // ---- packing -------------------------------------------------------------------------

    // dst (columns x rows, row stride ldd) = src (rows x columns, row stride lds) transposed;
    // rows is rounded up to whole vectors, padded with 0.
    void (*transpose)(size_t rows, size_t columns, const float *src, ptrdiff_t lds, float *dst,
                      size_t ldd);

    // dst (rows x columns rounded up to whole vectors, row stride ldd) = src (rows x columns, row
    // stride lds), padded with 0. Returns whether all elements are finite.
    bool (*pack_rows)(size_t rows, size_t columns, const float *src, ptrdiff_t lds, float *dst,
                      size_t ldd);

    // ---- softmax, step by step ------------------------------------------------------------

    // Raw products to scores, in place, for the n keys of a tile, rounded up to whole vectors; see
    // mh_score_map.
    void (*score_row)(const mh_score_map *map, size_t n, float *x);

    // One step of the online softmax. For each of m rows, with t = scale * s over n keys (rounded
    // up to whole vectors; the excess counts as masked, whatever it holds):
    //     if some t > max + 8: sum and acc are multiplied by exp(max - new), max = new = max t;
    //     s = exp(t - max);  sum += s, lane by lane.
    // max is thus not always the largest score, but exp(t - max) < 3000. After the first tile it
    // rarely changes, which avoids most rescaling. s (m x 64), max (m), sum (m x lanes), acc
    // (m x width, row stride lda), width in whole vectors. Initially max = -inf, sum = 0, acc = 0.
    // A NaN score makes sum NaN.
    void (*softmax_step)(size_t m, size_t n, float scale, float *s, size_t width, float *max,
                         float *sum, float *acc, size_t lda);

    // Merges the state of later keys (max_b, sum_b, acc_b) into a row's state.
    void (*softmax_merge)(size_t width, float *max, float *sum, float *acc, float max_b,
                          const float *sum_b, const float *acc_b);

    // Reduces the lanes of a sum, in one fixed order.
    float (*sum_lanes)(const float *sum);

    // Scores to weights, y = exp(x - max) / sum for n entries. y may be x.
    void (*softmax_weights)(size_t n, const float *x, float max, float sum, float *y);

    // y = softmax(x) over n entries; y may be x. A -inf entry gets 0, and a row of only -inf
    // becomes all zeros. Returns max x and log(sum exp(x - max)), which is -inf for such a row. If
    // y is NULL, these alone are computed, with the same bits.
    mh_softmax_norm (*softmax_row)(size_t n, const float *x, float *y);

    // y = x * factor + 0, so that every zero is +0. y may be x.
    void (*scale_row)(size_t n, const float *x, float factor, float *y);

    // ---- dropout and gradients -----------------------------------------------------------------

    // Dropout mask of 64 elements. Bit j is set (keep) if u_j >= threshold, where u_j is 16 bits of
    // philox(counter + j / 8, key), from bit 16 (j % 8) on of its four words read as one integer,
    // first word lowest; j / 8 is added to counter[0].
    uint64_t (*dropout_mask)(uint16_t threshold, const uint32_t key[2], const uint32_t counter[4]);

    // y = x * scale where keep has a 1, else 0; n <= 64. y may be x.
    void (*dropout_row)(uint64_t keep, float scale, size_t n, const float *x, float *y);

    // Softmax backward over n keys of a tile, rounded up to whole vectors, for m rows of stride ld;
    // see mh_grad_map.
    void (*softmax_grad)(const mh_grad_map *map, size_t m, size_t n, float *s, float *g, size_t ld);

    // y = 1 - tanh(scale * x / cap)^2, the derivative of the softcap, over n keys of a tile,
    // rounded up to whole vectors; 0 where bit j of `live` is not set, whatever x holds there.
    void (*softcap_slope)(size_t n, float scale, float cap, uint64_t live, const float *x,
                          float *y);

    void (*add_row)(size_t n, const float *x, float *y); // y += x
    // y (n) += the rows of x (m x n, row stride ldx), one after the other.
    void (*reduce_rows)(size_t m, size_t n, const float *x, ptrdiff_t ldx, float *y);
    void (*reduce_rows_bf16)(size_t m, size_t n, const uint16_t *x, ptrdiff_t ldx,
                             float *y);                     // bf16
    void (*mul_row)(size_t n, const float *x, float *y);    // y *= x
    float (*dot)(size_t n, const float *x, const float *y); // in one fixed order

    // ---- elementwise ------------------------------------------------------------------------

    void (*exp)(size_t n, const float *x, float *y);  // within 1 ulp for every float
    void (*log)(size_t n, const float *x, float *y);  // x = 0, normal > 0, inf or NaN
    void (*tanh)(size_t n, const float *x, float *y); // that of the softcap, exposed for its test
    void (*widen_bf16)(size_t n, const uint16_t *x, float *y);
    void (*widen_f16)(size_t n, const uint16_t *x, float *y);
    void (*narrow_bf16)(size_t n, const float *x, uint16_t *y); // round to nearest even
    void (*narrow_f16)(size_t n, const float *x, uint16_t *y);
    // Whether none of n bf16 or f16 elements is inf or NaN (has all bits of `exponent` set).
    bool (*all_finite_16bit)(size_t n, uint16_t exponent, const uint16_t *x);

    // ---- activations -------------------------------------------------------------------------
    // y may be x, dx may be dy or x. NaN stays NaN; infinities give the limits, so -inf gives +-0.

    void (*relu)(size_t n, const float *x, float *y); // max(x, 0)
    // x Phi(x), Phi the normal CDF: within 6 ulp, in the negative tail too.
    void (*gelu)(size_t n, const float *x, float *y);
    // x / (1 + exp(-2u)) = x (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)
    void (*gelu_tanh)(size_t n, const float *x, float *y);
    void (*silu)(size_t n, const float *x, float *y); // x / (1 + exp(-x)), within 3 ulp

    // dx = dy f'(x); ReLU'(0) = 0.
    void (*relu_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*gelu_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*gelu_tanh_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*silu_grad)(size_t n, const float *x, const float *dy, float *dx);

    // y = silu(gate) up;  dgate = dy up silu'(gate), dup = dy silu(gate). Outputs may be inputs.
    void (*swiglu)(size_t n, const float *gate, const float *up, float *y);
    void (*swiglu_grad)(size_t n, const float *gate, const float *up, const float *dy, float *dgate,
                        float *dup);

    // ---- normalisation: see mh_norm_map ---------------------------------------------------------

    // Mean and variance (mean squared deviation) of n > 0 elements, in two passes.
    void (*moments)(size_t n, const float *x, float *mean, float *variance);
    float (*mean_square)(size_t n, const float *x);                               // n > 0
    void (*norm_row)(const mh_norm_map *map, size_t n, const float *x, float *y); // y may be x
    // With g = dy weight and h = (x - mean) rstd: sum = sum of g, product = sum of g h.
    void (*norm_grad_sums)(const mh_norm_map *map, size_t n, const float *x, const float *dy,
                           float *sum, float *product);
    // dx = rstd (g - a - b h); dx may be dy or x.
    void (*norm_grad_row)(const mh_norm_map *map, size_t n, const float *x, const float *dy,
                          float a, float b, float *dx);
    // dweight += dy h, and dbias += dy unless it is NULL.
    void (*norm_grad_weight)(const mh_norm_map *map, size_t n, const float *x, const float *dy,
                             float *dweight, float *dbias);

    // ---- positions ----------------------------------------------------------------------------

    // sine_i = sin(position * frequency_i), cosine_i likewise, in double and rounded once, for
    // |position * frequency| < 2^31; exact to 1e-9 up to 1e6. The same bits at every level.
    void (*sin_cos)(size_t n, double position, const double *frequency, float *sine, float *cosine);

    // Rotates n pairs (a, b) to (a c - b s, b c + a s) with c = cosine_i, s = sign * sine_i.
    // Pair i is (x_i, x_{i+n}) or, interleaved, (x_2i, x_{2i+1}). y may be x.
    void (*rope_half)(size_t n, const float *cosine, const float *sine, float sign, const float *x,
                      float *y);
    void (*rope_interleaved)(size_t n, const float *cosine, const float *sine, float sign,
                             const float *x, float *y);

    // ---- optimiser ------------------------------------------------------------------------------

    void (*add_rows)(size_t n, const float *a, const float *b, float *y); // y = a + b
    void (*axpy)(size_t n, float factor, const float *x, float *y);       // y += factor x
    // Sum of squares in double, in the same order at all levels.
    double (*sum_squares)(size_t n, const float *x);
    // One step for n parameters; see mh_adamw_map and mh_sgd_map. m, v and velocity are updated.
    void (*adamw)(const mh_adamw_map *map, size_t n, const float *gradient, float *parameter,
                  float *m, float *v);
    void (*sgd)(const mh_sgd_map *map, size_t n, const float *gradient, float *parameter,
                float *velocity); // velocity NULL: no momentum

    // ---- predicates ----------------------------------------------------------------------------

    uint64_t (*nonzero_bits)(size_t n, const uint8_t *x);        // n <= 64: bit j = x[j] != 0
    uint64_t (*unequal_bits)(size_t n, const float *x, float y); // n <= 64: bit j = x[j] != y

    // ---- machine peak ---------------------------------------------------------------------------

    // Independent FMAs in registers; returns the number of floating-point operations.
    double (*fma_peak)(size_t iterations, float *sink);
    // The same for bf16 products summed in f32, on the unit that the bf16 GEMM uses: fma_peak
    // itself at levels that widen to f32.
    double (*bf16_peak)(size_t iterations, float *sink);
    // Reads n floats once; returns their sum, so that no load is optimised away.
    float (*read_sum)(size_t n, const float *x);
} mh_kernels;

// Fills the table level by level ("scalar", then "avx2", ...), each level replacing the entries it
// improves, up to max_isa (NULL: all that this CPU supports). Returns the name of the last level
// used, or NULL if max_isa is unknown.
const char *mh_kernels_init(mh_kernels *table, const char *max_isa);

// The level that mh_kernels_init would use on a CPU with these features.
struct mh_cpu;
const char *mh_isa_choose(const struct mh_cpu *cpu, const char *max_isa);

// The levels of this build in order, NULL-terminated; a CPU may lack the later ones.
extern const char *const mh_isa_names[];

// Whether a level is in this build and this CPU supports it.
bool mh_isa_available(const char *name);

#endif
