// SPDX-License-Identifier: MIT
// The kernel table: every piece of code that is written per instruction set is one member of
// this struct, and its contract is the comment above it. Kernels are straight-line numeric code
// on pointers and sizes: no threads, no allocation, no errors. Strides are in elements; no
// alignment is needed unless said; nothing outside the named extents is read or written.
//
// What makes results independent of batch, query count and threads: in every kernel a row's
// result depends on that row alone, each sum runs in one fixed order, and a masked entry adds
// exactly nothing.
#ifndef MH_KERNELS_H
#define MH_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Keys of a tile. 64, so that the mask of a row of a tile is one machine word: bit j is set if
// key j of the tile is live. Also the columns of a panel of a packed matrix, at every level.
enum { MH_KEY_TILE = 64, MH_PANEL = 64 };

// What rows of numbers are made of.
typedef enum mh_row_type { MH_ROW_F32, MH_ROW_BF16, MH_ROW_F16 } mh_row_type;

// What mh_gemm.gemm_prefetch prefetches on its way: mh_gemm.ahead * k bytes into the
// L2, strip by strip the panel that comes next; and where the sums will go.
typedef struct mh_gemm_prefetch {
    const char *next;
    const char *target; // `rows` rows of `bytes`, `stride` bytes from one to the next
    size_t rows, bytes;
    ptrdiff_t stride;
} mh_gemm_prefetch;

// The longest vector of any level, for buffers that hold one vector a row; the rows that are taken
// at a time if sequences are short; how many rows are few; and mh_kernels.panel for all columns.
enum { MH_MAX_LANES = 16, MH_SHORT_ROWS = 12, MH_GEMV_ROWS = 3, MH_WHOLE_ROWS = 1 << 16 };

// How raw products x become the scores y of one query over the keys of one tile:
//     y = scale * x;  y = cap * tanh(y / cap) if cap > 0;  y += bias_j if bias;
//     y -= slope * |distance - j| if slope != 0;  y = -inf where live has a 0.
typedef struct mh_score_map {
    float scale;
    float cap;
    const float *bias;     // (64) or NULL
    float slope, distance; // distance of the query's position from the tile's first key
    uint64_t live;
} mh_score_map;

// One step of the online softmax by which attention with matrix engines takes a tile of keys: as
// softmax_step, for scale > 0, but the weights become the next 64 columns of an A operand, 0 from
// n on; and where max grows it is the weights in the columns before that shrink, as their products
// with the values are still to come. With dropout, what is kept of a weight is multiplied by
// keep_scale after it is summed up.
typedef struct mh_softmax_tile {
    size_t m, n;
    float scale;
    const float *scores; // (m, 64)
    float *max, *sum;    // (m), (m, lanes)
    void *weights;       // (m, 64) of an A operand, whose rows have `columns`
    size_t columns;
    size_t before;        // of those, which shrink
    const uint64_t *keep; // (m), or NULL: no dropout
    float keep_scale;
} mh_softmax_tile;

// The softmax's backward for m rows of a tile, with t = scale * s and the gradient g of a kept
// weight:
//     p = exp(t - lse);  w = p * keep_scale, g = g * keep_scale where keep has a 1, else 0;
//     s = w;  g = p * (g - delta);  both 0 where live has a 0.
typedef struct mh_grad_map {
    float scale;
    const float *lse, *delta; // (m), (m): delta is a row's sum_j w_j g_j
    const uint64_t *live;     // (m)
    const uint64_t *keep;     // (m), or NULL: no dropout
    float keep_scale;
} mh_grad_map;

typedef struct mh_softmax_norm {
    float max, log_sum;
} mh_softmax_norm;

// How the sums x of a matrix product become results y:
//     y = x + bias;  y = max(y, 0) if relu;  y = y * keep_scale where keep has a 1, else 0;
//     y += residual.
typedef struct mh_epilogue {
    const float *bias; // (n), or NULL
    bool relu;
    const uint64_t *keep; // (m), a word a row, or NULL: all are kept as they are
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

// A matrix product: C (m x n) = A (m x k) B (k x n), or C += A B. A is the A operand and B the
// right one, each in a form of the product's own, which pack_a and pack_b make; where these
// are NULL, the operands are rows of f32 as they stand.
//
// Each element depends on its row of A and its column of B alone, and is summed in one order of k,
// whatever m and n. Sizes that a form rounds up: rows of A to `group`, k to `step` (both operands
// are filled up with 0 there), n and the columns of B to whole vectors. Rows of C up to the next
// multiple of `group` are written too, with anything.
typedef struct mh_gemm {
    size_t rows;  // of a call, at most: a strip. f32.multiply alone takes any number
    size_t group; // rows of A that lie together; strips start at multiples of it
    size_t step;  // k is rounded up to it
    size_t block; // rows of A that are best packed at a time: whole strips that, as deep as a
                  // stretch of k, fit in the L2
    size_t prefetch_bytes; // bytes of what comes next that a strip prefetches, for each k: strips
                           // of 192 or 256 rows make a panel
    size_t a_size, b_size; // bytes of an element of a packed operand

    // What a thread has to do before it packs an A operand or multiplies, and afterwards; and
    // what it should do every few hundred cycles of other work in between, as matrix engines that
    // are not used power down, and waking takes as long as many products. NULL if there is nothing
    // to do.
    void (*enter)(void);
    void (*leave)(void);
    void (*keep_warm)(void);

    // The A operand from a (m x k, row stride lda). Row r is then at byte
    // r * round_up(k, step) * a_size, if r is a multiple of group.
    void (*pack_a)(size_t m, size_t k, const float *a, ptrdiff_t lda, void *to);

    // The B operand from b (k x n, row stride ldb), n <= columns. Row r is then at byte
    // r * columns * b_size, if r is a multiple of step.
    void (*pack_b)(size_t k, size_t n, const float *b, size_t ldb, void *to, size_t columns);

    // The same operands from the transposes, a (k x m) and b (n x k), and from rows of bf16.
    void (*pack_a_t)(size_t m, size_t k, const float *a, ptrdiff_t lda, void *to);
    void (*pack_b_t)(size_t k, size_t n, const float *b, ptrdiff_t ldb, void *to, size_t columns);
    void (*pack_a_bf16)(size_t m, size_t k, const uint16_t *a, ptrdiff_t lda, void *to);
    void (*pack_a_t_bf16)(size_t m, size_t k, const uint16_t *a, ptrdiff_t lda, void *to);
    void (*pack_b_bf16)(size_t k, size_t n, const uint16_t *b, ptrdiff_t ldb, void *to,
                        size_t columns);
    void (*pack_b_t_bf16)(size_t k, size_t n, const uint16_t *b, ptrdiff_t ldb, void *to,
                          size_t columns);

    // One column (k numbers; up to the next step the others become 0) or one row (n numbers) of a
    // B operand, from numbers that are bf16 already: the bits that pack_b would have put
    // there. And its first k rows and n columns as f32, n rounded up to whole vectors.
    void (*set_b_column)(size_t k, const uint16_t *b, size_t column, void *to, size_t columns);
    void (*set_b_row)(size_t n, const uint16_t *b, size_t row, void *to, size_t columns);
    void (*unpack_b)(size_t k, size_t n, const void *from, size_t columns, float *b, size_t ldb);

    // lda is the length of the A operand's rows: their stride if they are f32, otherwise k
    // rounded up as it was packed, of which the first k are used; ldb the columns of the B operand.
    void (*gemm)(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                 size_t ldb, float *c, size_t ldc, bool accumulate);

    // The same, while what will be needed next comes into the caches.
    void (*gemm_prefetch)(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                          size_t ldb, float *c, size_t ldc, bool accumulate,
                          const mh_gemm_prefetch *prefetch);

    // multiply with few rows of a, m <= MH_GEMV_ROWS, and rows of b as they stand, b (k x n, row
    // stride ldb), which is read in long runs: bit for bit what multiply makes of b as an operand,
    // but for which NaN it is. A product whose operands have a form takes rows of bf16 only.
    void (*gemv)(mh_row_type type, size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda,
                 const void *b, ptrdiff_t ldb, float *c, size_t ldc, bool accumulate);

    // The same as multiply with rows of f32 that are the transpose of the A operand, a (k x m,
    // row stride lda); NULL where pack_a_t is there for that.
    void (*gemm_tn)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda, const void *b,
                    size_t ldb, float *c, size_t ldc, bool accumulate);

    // The weights of attention as A operands of this product; NULL: softmax_step makes them.
    void (*softmax_tile)(const mh_softmax_tile *step);

    // C = A B, and beside it the step of other scores, neither of which depends on the other: the
    // unit that multiplies and those of vectors work at the same time.
    void (*gemm_softmax)(size_t m, size_t n, size_t k, const void *a, ptrdiff_t lda, const void *b,
                         size_t ldb, float *c, size_t ldc, const mh_softmax_tile *step);
} mh_gemm;

typedef struct mh_kernels {
    // ---- matrix products ---------------------------------------------------------------

    // f32: FMAs on rows as they are, without packing: each element one chain in the order
    // of k, to which C is added at the end, so that long sums made of several calls lose less.
    // bf16: the operands may be rounded to bf16, sums are f32; the same as f32 where a level has
    // nothing better.
    mh_gemm f32, bf16;

    size_t lanes; // floats of a vector

    // Attention by f32 products: rows of queries that go together through the scores, the softmax
    // and the values of a tile of keys, each of which then is in the L1 while they
    // do; and rows that pass a tile before the next one comes.
    size_t query_strip, query_group;

    // Columns of a B operand that are best kept together where it is read from memory once, a
    // multiple of 16: those that a tile of rows takes in one go, or all.
    size_t panel;

    // f32.multiply, m <= f32.rows, for a B operand that is read once, as keys by one query:
    // rows of any type, and as many bytes of `next` as are read come into the L2.
    // NULL, with rows of f32: none do.
    void (*gemm_stream)(mh_row_type type, size_t m, size_t n, size_t k, const float *a,
                        ptrdiff_t lda, const void *b, size_t ldb, float *c, size_t ldc,
                        bool accumulate, const void *next);

    // Sums made of `lanes` chains, chain l of every lanes-th k from l on, which are added up from
    // the first to the last. The one takes the operands of f32.multiply, m <= f32.rows; the other,
    // in the same bits, any number of rows of a (m x k) and of b (n x k), and writes n rounded up
    // to whole vectors, with anything in the excess.
    void (*gemm_interleaved)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda,
                             const float *b, size_t ldb, float *c, size_t ldc);
    void (*gemm_nt)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda, const float *b,
                    ptrdiff_t ldb, float *c, ptrdiff_t ldc);

    // Products of short sequences, up to MH_SHORT_ROWS rows, in the bits of f32.multiply. The
    // second makes of each row what scale_row would, given its factor.
    void (*short_scores)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda,
                         const float *b, size_t ldb, float *c, ptrdiff_t ldc);
    void (*short_outputs)(size_t m, size_t n, size_t k, const float *a, ptrdiff_t lda,
                          const float *b, size_t ldb, const float *factors, float *c,
                          ptrdiff_t ldc);

    // softmax_step for up to MH_SHORT_ROWS rows, n <= 16, from max = -inf and sum = 0, and
    // sum_lanes after it, in their bits: s (m x 64), max (m), sum (m).
    void (*short_softmax)(size_t m, size_t n, float scale, float *s, float *max, float *sum);

    // y (m x n, row stride ldy) from sums x (m x n, row stride ldx), n <= 64; see mh_epilogue. y
    // may be x or the residual.
    void (*epilogue_rows)(const mh_epilogue *map, size_t m, size_t n, const float *x, size_t ldx,
                          float *y, ptrdiff_t ldy);

    // ---- packing -------------------------------------------------------------------------

    // dst (columns x rows, row stride ldd) = src (rows x columns, row stride lds) transposed;
    // rows is rounded up to whole vectors, the excess filled with 0.
    void (*transpose)(size_t rows, size_t columns, const float *src, ptrdiff_t lds, float *dst,
                      size_t ldd);

    // dst (rows x columns rounded up to whole vectors, row stride ldd) = src (rows x columns, row
    // stride lds), the excess filled with 0. Returns whether all of it is finite.
    bool (*pack_rows)(size_t rows, size_t columns, const float *src, ptrdiff_t lds, float *dst,
                      size_t ldd);

    // ---- softmax, step by step ------------------------------------------------------------

    // Scores in place, for the n keys of a tile, rounded up to whole vectors.
    void (*score_row)(const mh_score_map *map, size_t n, float *x);

    // One step of the online softmax. For each of m rows, with t = scale * s over n keys (rounded
    // up to whole vectors; the excess counts as masked, whatever stands there):
    //     if some t > max + 8: sum and acc are multiplied by exp(max - new), max = new = max t;
    //     s = exp(t - max);  sum += s, lane by lane.
    // max is thus not always the largest score, but near enough that exp(t - max) < 3000; after
    // the first tile it hardly ever moves, and moving it is what costs. s (m x 64), max (m),
    // sum (m x lanes), acc (m x width, row stride lda), width in whole vectors. Starts from
    // max = -inf, sum = 0, acc = 0. A NaN score makes sum NaN.
    void (*softmax_step)(size_t m, size_t n, float scale, float *s, size_t width, float *max,
                         float *sum, float *acc, size_t lda);

    // Merges the state of later keys (max_b, sum_b, acc_b) into a row's state.
    void (*softmax_merge)(size_t width, float *max, float *sum, float *acc, float max_b,
                          const float *sum_b, const float *acc_b);

    // The lanes of a sum added up, in one fixed order.
    float (*sum_lanes)(const float *sum);

    // Scores to weights, y = exp(x - max) / sum for n entries. y may be x.
    void (*softmax_weights)(size_t n, const float *x, float max, float sum, float *y);

    // y = softmax(x) over n entries; y may be x. A -inf entry gets 0, and a row of only -inf
    // becomes all zeros. Returns the x that is largest and log(sum exp(x - max)), which is -inf
    // for such a row; that alone, in the same bits, if y is NULL.
    mh_softmax_norm (*softmax_row)(size_t n, const float *x, float *y);

    // y = x * factor + 0, so that a zero is +0 whichever way it came about. y may be x.
    void (*scale_row)(size_t n, const float *x, float factor, float *y);

    // ---- dropout and gradients -----------------------------------------------------------------

    // Which of 64 numbers are kept: bit j is set if 16 bits of philox(counter + j / 8, key) are at
    // least threshold, those from bit 16 (j % 8) on if its four words are one number, the first
    // word lowest; j / 8 is added to counter[0].
    uint64_t (*dropout_mask)(uint16_t threshold, const uint32_t key[2], const uint32_t counter[4]);

    // y = x * scale where keep has a 1, else 0; n <= 64. y may be x.
    void (*dropout_row)(uint64_t keep, float scale, size_t n, const float *x, float *y);

    // The softmax backward over n keys of a tile, rounded up to whole vectors, for m rows that are
    // ld apart; see mh_grad_map.
    void (*softmax_grad)(const mh_grad_map *map, size_t m, size_t n, float *s, float *g, size_t ld);

    // y = 1 - tanh(scale * x / cap)^2, the slope of the softcap, over n keys of a tile, rounded up
    // to whole vectors; 0 where bit j of `live` is not set, whatever x holds there.
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
    void (*log)(size_t n, const float *x, float *y);  // x >= 0 and not denormal, inf or NaN
    void (*tanh)(size_t n, const float *x, float *y); // the softcap's, by itself for its tests
    void (*widen_bf16)(size_t n, const uint16_t *x, float *y);
    void (*widen_f16)(size_t n, const uint16_t *x, float *y);
    void (*narrow_bf16)(size_t n, const float *x, uint16_t *y); // round to nearest even
    void (*narrow_f16)(size_t n, const float *x, uint16_t *y);
    // Whether none of n bf16 or f16 numbers is inf or NaN: has all bits of its exponent set.
    bool (*all_finite_16bit)(size_t n, uint16_t exponent, const uint16_t *x);

    // ---- activations -------------------------------------------------------------------------
    // y may be x, dx may be dy or x. NaN stays NaN; infinities give the limits, -inf thus -0 or 0.

    void (*relu)(size_t n, const float *x, float *y); // max(x, 0)
    // x Phi(x), Phi the normal distribution: within 6 ulp, in the negative tail too.
    void (*gelu)(size_t n, const float *x, float *y);
    // x / (1 + exp(-2u)) = x (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)
    void (*gelu_tanh)(size_t n, const float *x, float *y);
    void (*silu)(size_t n, const float *x, float *y); // x / (1 + exp(-x)), within 3 ulp

    // dx = dy f'(x); ReLU's slope at 0 is 0.
    void (*relu_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*gelu_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*gelu_tanh_grad)(size_t n, const float *x, const float *dy, float *dx);
    void (*silu_grad)(size_t n, const float *x, const float *dy, float *dx);

    // y = silu(gate) up;  dgate = dy up silu'(gate), dup = dy silu(gate). Outputs may be inputs.
    void (*swiglu)(size_t n, const float *gate, const float *up, float *y);
    void (*swiglu_grad)(size_t n, const float *gate, const float *up, const float *dy, float *dgate,
                        float *dup);

    // ---- normalisation: see mh_norm_map ---------------------------------------------------------

    // The mean of n > 0 numbers, and the mean square of what they differ from it: two passes.
    void (*moments)(size_t n, const float *x, float *mean, float *variance);
    float (*mean_square)(size_t n, const float *x); // of n > 0 numbers
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

    // sine_i = sin(position * frequency_i), cosine_i likewise, in double and rounded once; for
    // |position * frequency| < 2^31, exact to 1e-9 up to 1e6. The same bits at every level.
    void (*sin_cos)(size_t n, double position, const double *frequency, float *sine, float *cosine);

    // Rotates n pairs (a, b) to (a c - b s, b c + a s) with c = cosine_i, s = sign * sine_i.
    // Pair i is (x_i, x_{i+n}) or, interleaved, (x_2i, x_{2i+1}). y may be x.
    void (*rope_half)(size_t n, const float *cosine, const float *sine, float sign, const float *x,
                      float *y);
    void (*rope_interleaved)(size_t n, const float *cosine, const float *sine, float sign,
                             const float *x, float *y);

    // ---- sums and steps of the optimiser --------------------------------------------------------

    void (*add_rows)(size_t n, const float *a, const float *b, float *y); // y = a + b
    void (*axpy)(size_t n, float factor, const float *x, float *y);       // y += factor x
    // The sum of squares in double, in one order for all levels.
    double (*sum_squares)(size_t n, const float *x);
    // One step for n parameters; see mh_adamw_map and mh_sgd_map. m, v and momentum are updated.
    void (*adamw)(const mh_adamw_map *map, size_t n, const float *gradient, float *parameter,
                  float *m, float *v);
    void (*sgd)(const mh_sgd_map *map, size_t n, const float *gradient, float *parameter,
                float *velocity); // velocity NULL: no momentum

    // ---- predicates ----------------------------------------------------------------------------

    uint64_t (*nonzero_bits)(size_t n, const uint8_t *x);        // n <= 64: bit j = x[j] != 0
    uint64_t (*unequal_bits)(size_t n, const float *x, float y); // n <= 64: bit j = x[j] != y

    // ---- the machine's limits -------------------------------------------------------------------

    // Independent FMAs in registers; returns how many floating-point operations.
    double (*fma_peak)(size_t iterations, float *sink);
    // The same for products of bf16 summed in f32, with the unit that the matrix product uses for
    // them: fma_peak itself at a level that widens them.
    double (*bf16_peak)(size_t iterations, float *sink);
    // Reads n floats once; returns their sum, so that nothing can be left out.
    float (*read_sum)(size_t n, const float *x);
} mh_kernels;

// Fills the table level by level ("scalar", then "avx2", ...), each level replacing what it does
// better, up to max_isa (NULL: all this CPU has). Returns the name of the last level used, or
// NULL if max_isa is unknown.
const char *mh_kernels_init(mh_kernels *table, const char *max_isa);

// Which level that would be on a CPU with these features.
struct mh_cpu;
const char *mh_isa_choose(const struct mh_cpu *cpu, const char *max_isa);

// The levels in order, NULL-terminated, as built; a CPU may lack the later ones.
extern const char *const mh_isa_names[];

// Whether this CPU can run a level that is built in.
bool mh_isa_available(const char *name);

#endif
