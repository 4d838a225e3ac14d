// SPDX-License-Identifier: MIT
// The GEMM behind mh_matmul and mh_linear: C = A B with an epilogue.
//
//     for each block of rows of A and column block of panels of B            one task
//         for each kc block of 1024
//             pack A's block
//             for each few panels
//                 for each row block, for each of the panels: sums += A B
//                     after the last kc block: sums -> bias, activation, dropout, residual -> C
//
// Threads split blocks and panels, never k: an element is a sum over kc blocks of 1024 in the order
// of k, whatever M, N and the number of threads.
//
// A linear layer computes C = A W^T: W's rows are contiguous, so that as B they have to be
// transposed, which for few rows of A is more work than the product. Then C^T = W A^T is computed
// instead, with W in place as the A operand, and transposed in the epilogue. x y is y x: the bits
// are the same.
#ifndef MH_OPS_GEMM_INTERNAL_H
#define MH_OPS_GEMM_INTERNAL_H

#include "base/arena.h"
#include "base/context.h"
#include "ops/gemm/gemm_kernel.h"
#include "ops/layers/layers_internal.h"
#include "ops/row_io.h"
#include <multihead/ops.h>

// Most panels of B per task where sums are kept from one kc block to the next, most panels that
// share a row block, and kc: so that a task's part of A, the panels and the sums fit in an L2 of
// 2 MiB.
enum { MH_GEMM_PANELS = 16, MH_GEMM_AT_ONCE = 4, MH_GEMM_DEPTH = 1024 };

struct mh_packed_matrix {
    mh_allocator allocator;
    size_t bytes;    // of this allocation
    const char *isa; // the level whose GEMM it was packed for
    bool bf16;       // and the precision
    size_t K, N;
    char *panels;     // (ceil(N / 64), K rounded up, 64), the last one padded with 0
    mh_row_type type; // of rows of a panel where the GEMM does not pack B: f32, or bf16 if B is
};

// Workspace of a worker.
typedef struct mh_gemm_scratch {
    float *rows;         // (block, depth): A's block as f32, if it needs converting
    void *packed_a;      // (block, depth): the same, packed
    float *transposed;   // (depth, 64): a panel of B as f32, before it is packed
    float *staging;      // (64, depth): columns of B that need converting
    void *panel;         // (depth, 64): a panel of B, if B is not prepacked
    float *sums;         // (panels, block, 64); one panel if K is one kc block and it is no GEMV
    float *transposed_c; // (64, block): a panel of sums transposed, if C is
    float *row_sums;     // (block), if they are wanted
} mh_gemm_scratch;

typedef struct mh_gemm_job {
    const mh_kernels *kernels;
    const mh_gemm *gemm;
    mh_tensor a, b, c;              // (M, K), (K, N), (M, N)
    bool transposed;                // C^T is computed: a, b, c are for that
    mh_tensor target;               // C itself
    bool gemv;                      // few rows of A; B is read in place
    bool plain;                     // no epilogue: sums are computed in C
    const mh_packed_matrix *packed; // B, or NULL
    float *row_sums;                // (M): gets the sums of A's rows, as C does; NULL: not wanted
    mh_linear_options options;      // the epilogue
    const mh_tensor *relu_output;   // and the last step of mh_linear_masked, or NULL
    mh_activation_fn activate;      // options.activation's, or NULL
    bool relu;                      // it is ReLU
    mh_dropout_options dropout;     // options.dropout's; probability 0: none
    size_t workers;
    size_t rows, panels;          // of a task
    size_t blocks, column_blocks; // of rows, and of `panels` panels, in all
    char *packed_b;               // B prepacked, or NULL: each task packs what it needs
    mh_gemm_scratch *scratch;     // (workers)
} mh_gemm_job;

// Sums x of a part of C, or of C^T.
typedef struct mh_gemm_part {
    size_t row, rows, column, columns;
    float *x;
    size_t ldx;
} mh_gemm_part;

static inline size_t mh_panels_of(size_t columns) { return (columns + MH_PANEL - 1) / MH_PANEL; }

// Bytes of a packed panel of K rows; SIZE_MAX, which no arena has, on overflow.
static inline size_t mh_panel_bytes(const mh_gemm *gemm, size_t K)
{
    const size_t row = MH_PANEL * gemm->b_size;
    return K < PTRDIFF_MAX / row ? mh_round_up(K, gemm->step) * row : SIZE_MAX;
}

// Whether b's panels are bf16 rows: a GEMM without a layout of its own widens them as it reads.
static inline bool mh_packs_bf16_rows(const mh_gemm *gemm, const mh_tensor *b)
{
    return !gemm->pack_b && b->dtype == MH_BF16;
}

// Bytes of a panel of a packed matrix.
static inline size_t mh_packed_panel_bytes(const mh_gemm *gemm, mh_row_type type, size_t K)
{
    const size_t bytes = mh_panel_bytes(gemm, K);
    return bytes != SIZE_MAX && type == MH_ROW_BF16 ? bytes / 2 : bytes;
}

// Multiplies, with a, b or packed, c and options checked and set. Error: MH_ERROR_MEMORY.
mh_status mh_gemm_run(mh_context *context, mh_gemm_job *job);

// Whether rows of t are contiguous f32; and the address of row i of a part of it.
static inline bool mh_gemm_plain(const mh_tensor *t)
{
    return t->dtype == MH_F32 && t->stride[1] == 1;
}
static inline void *mh_gemm_row(const mh_tensor *t, const mh_gemm_part *p, size_t i)
{
    return (void *)mh_element(t, 2, (size_t[]){p->row + i, p->column});
}

// The epilogue of at most 64 rows and columns; or, where C^T was computed, of all columns of a part
// of that, transposed into transposed_c (64, block). Sums are overwritten.
void mh_gemm_epilogue(const mh_gemm_job *job, const mh_gemm_part *p);
void mh_gemm_epilogue_t(const mh_gemm_job *job, const mh_gemm_part *p, float *transposed_c);

// Chooses tasks that keep all threads busy and let threads of different speed finish together.
void mh_gemm_plan(const mh_context *context, mh_gemm_job *job);

// The tasks' workspace, from an arena.
void mh_gemm_layout(mh_gemm_job *job, mh_arena *arena);

// mh_linear in a backward pass through ReLU and dropout: `relu_output` (M, N) is their saved
// output, or NULL; y is multiplied by their derivative, 0 where that is 0 and 1 / (1 - probability)
// elsewhere, instead of by a new dropout mask.
mh_status mh_linear_masked(mh_context *context, const mh_linear_options *options,
                           const mh_tensor *relu_output, const mh_tensor *x,
                           const mh_tensor *weight, mh_tensor *y);

// The shapes of a product: a (M, K), b (K, N), c (M, N).
mh_status mh_gemm_check(mh_context *context, const mh_tensor *a, size_t K, size_t N,
                        const mh_tensor *c);

// ---- operands -----------------------------------------------------------------------------------

// The operands of a matrix product: blocks of A and panels of B, in place where the kernel can read
// them, else converted, transposed and packed.

// A panel of B, or a kc block of one.
typedef struct mh_b_operand {
    const char *data;
    mh_row_type type;
    size_t columns;
    const char *next; // prefetched part by part by its row blocks: the panel that replaces it, or
                      // data
} mh_b_operand;

static inline bool mh_runs_along(const mh_tensor *t, int d) { return t->stride[d] == 1; }

// Whether A's block can be packed into an A operand, or is one, without a copy as f32 rows.
bool mh_gemm_packs_block(const mh_gemm_job *job);

// Rows first .. of A over k .. k + depth. Without packing, in place if they are f32, transposed if
// A's columns are contiguous, as in a transposed view; otherwise read one by one.
mh_a_operand mh_gemm_load_block(const mh_gemm_job *job, size_t first, size_t rows, size_t k,
                                size_t depth, const mh_gemm_scratch *scratch);

// Panels that are multiplied by a row block of A together: several, if row blocks are packed and
// fit in L1, and panels are packed, which then stay in L2 for the next row block.
size_t mh_gemm_at_once(const mh_gemm_job *job);

// The kc block k .. k + depth of a panel: prepacked, in place, or packed now.
mh_b_operand mh_gemm_find_panel(const mh_gemm_job *job, size_t panel, size_t k, size_t depth,
                                const mh_gemm_scratch *scratch);

// A task that packs panel number `panel` of job->b into job->packed_b; and one that packs it as
// bf16 rows.
void mh_gemm_pack_panel(void *job, size_t panel, size_t worker);
void mh_gemm_pack_panel_bf16(void *job, size_t panel, size_t worker);

// Whether a register tile is as wide as a panel.
static inline bool mh_gemm_wide(const mh_gemm_job *job)
{
    return job->kernels->attention.panel >= MH_PANEL;
}

// Few rows times prepacked panels of plain rows, which are read once: limited by memory. Wide
// register tiles of two row blocks read a panel of bf16 rows faster than it is widened.
static inline bool mh_gemm_streams(const mh_gemm_job *job)
{
    const bool bf16 = job->packed && job->packed->type == MH_ROW_BF16;
    const size_t blocks = bf16 && mh_gemm_wide(job) ? 2 : 1;
    return job->packed && !job->gemm->pack_b && job->a.shape[0] <= blocks * job->gemm->rows;
}

#endif
