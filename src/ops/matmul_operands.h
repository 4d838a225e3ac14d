// SPDX-License-Identifier: MIT
// The operands of a matrix product: blocks of A and panels of B, in place where the kernel can read
// them, else converted, transposed and packed.
#ifndef MH_OPS_MATMUL_OPERANDS_H
#define MH_OPS_MATMUL_OPERANDS_H

#include "ops/matmul_job.h"

// A panel of B, or a kc block of one.
typedef struct mh_b_operand {
    const char *data;
    size_t columns;
    const char *next; // prefetched part by part by its row blocks: the panel that replaces it, or
                      // data
} mh_b_operand;

static inline bool mh_runs_along(const mh_tensor *t, int d) { return t->stride[d] == 1; }

// Whether A's block can be packed into an A operand, or is one, without a copy as f32 rows.
bool mh_matmul_packs_block(const mh_matmul_job *job);

// Rows first .. of A over k .. k + depth. Without packing, in place if they are f32, transposed if
// A's columns are contiguous, as in a transposed view; otherwise read one by one.
mh_a_operand mh_matmul_load_block(const mh_matmul_job *job, size_t first, size_t rows, size_t k,
                                  size_t depth, const mh_matmul_scratch *scratch);

// Panels that are multiplied by a row block of A together: several, if row blocks are packed and
// fit in L1, and panels are packed, which then stay in L2 for the next row block.
size_t mh_matmul_at_once(const mh_matmul_job *job);

// The kc block k .. k + depth of a panel: prepacked, in place, or packed now.
mh_b_operand mh_matmul_find_panel(const mh_matmul_job *job, size_t panel, size_t k, size_t depth,
                                  const mh_matmul_scratch *scratch);

// A task that packs panel number `panel` of job->b into job->packed_b.
void mh_matmul_pack_panel(void *job, size_t panel, size_t worker);

#endif
