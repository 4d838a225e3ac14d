// SPDX-License-Identifier: MIT
// Matrix products by micro-kernels, and the packing of their operands.
#ifndef MH_GEMM_KERNELS_H
#define MH_GEMM_KERNELS_H

#include "kernels/kernel_types.h"

// The most rows of a GEMV.
enum { MH_GEMV_ROWS = 4 };

// What a gemm prefetches: mh_gemm.prefetch_bytes * k bytes of the next panel into the L2, so that
// successive row blocks bring all of it; and the part of C that the sums go to. Where operands are
// read once, as in decoding from a cache, it is as many bytes as are read of B (or none: a hint).
typedef struct mh_gemm_prefetch {
    const char *next;   // NULL: nothing
    bool whole;         // as many bytes as are read of B
    const char *target; // `rows` rows of `bytes`, `stride` bytes apart
    size_t rows, bytes;
    ptrdiff_t stride;
} mh_gemm_prefetch;

// The arguments of a product C (m x n) = A (m x k) B (k x n); members that are not named in an
// initialiser are 0.
typedef struct mh_gemm_args {
    size_t m, n, k;
    const void *a; // plain f32 rows, or packed
    ptrdiff_t lda; // row stride of A; of a packed A, k rounded up as it was packed
    const void *b;
    ptrdiff_t ldb; // row stride of B; of a packed B, its columns
    float *c;
    ptrdiff_t ldc;
    bool accumulate;                  // C += A B
    mh_row_type b_type;               // of an unpacked B; other than f32 for gemv and gemm_stream
    bool from_memory;                 // gemv: B is too large for a cache, rows are prefetched
    const mh_gemm_prefetch *prefetch; // gemm: what is needed next, or NULL
} mh_gemm_args;

// The matrix that an operand is packed from: rows of f32 or bf16. If `transposed`, they are the
// rows of the operand's transpose.
typedef struct mh_pack_source {
    const void *data;
    ptrdiff_t stride; // of rows
    mh_row_type type; // MH_ROW_F32 or MH_ROW_BF16
    bool transposed;
} mh_pack_source;

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
    size_t gemv_rows;      // most rows of A for which gemv is the faster way, <= MH_GEMV_ROWS

    // Per thread: enter before it packs an A operand or multiplies, leave afterwards, and keep_warm
    // every few hundred cycles of other work in between, as an idle matrix engine powers down and
    // takes as long as many products to wake. NULL if there is nothing to do.
    void (*enter)(void);
    void (*leave)(void);
    void (*keep_warm)(void);

    // Packs A (m x k). Row r, a multiple of micro_panel, is then at byte
    // r * round_up(k, step) * a_size.
    void (*pack_a)(size_t m, size_t k, const mh_pack_source *a, void *to);

    // Packs B (k x n), n <= columns. Row r, a multiple of step, is then at byte
    // r * columns * b_size.
    void (*pack_b)(size_t k, size_t n, const mh_pack_source *b, void *to, size_t columns);

    // Writes one column (k elements, padded with 0 up to the next step) or one row (n elements) of
    // a packed B from bf16 elements, with the bits that pack_b would write. unpack_b reads the
    // first k rows and n columns back as f32, n rounded up to whole vectors.
    void (*set_b_column)(size_t k, const uint16_t *b, size_t column, void *to, size_t columns);
    void (*set_b_row)(size_t n, const uint16_t *b, size_t row, void *to, size_t columns);
    void (*unpack_b)(size_t k, size_t n, const void *from, size_t columns, float *b, size_t ldb);

    // C = A B. Of a packed A, the first k are used.
    void (*gemm)(const mh_gemm_args *args);

    // gemm for m <= MH_GEMV_ROWS rows and an unpacked b (k x n, row stride ldb) of any type, which
    // is read in long runs. Bitwise identical to gemm with b packed, except for the bits of a NaN.
    // A product with packed layouts takes bf16 rows only.
    void (*gemv)(const mh_gemm_args *args);

    // gemm with A transposed, in f32 rows a (k x m, row stride lda), m <= rows; NULL where A is
    // packed.
    void (*gemm_tn)(const mh_gemm_args *args);
} mh_gemm;

#endif
