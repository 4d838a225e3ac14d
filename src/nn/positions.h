// SPDX-License-Identifier: MIT
// What a pass derives from its rows' positions, once for all blocks: rotary tables and the relative
// position bias.
#ifndef MH_NN_POSITIONS_H
#define MH_NN_POSITIONS_H

#include "nn/transformer.h"

typedef struct mh_positions {
    int32_t *rows; // positions of packed rows, or of all rows if sequences are at different ones
    mh_rope_table ropes[MH_MOST_ROPES];
    mh_tensor relative; // (1 or B, H, T, S), if the stack has a relative position bias: a view of
    float *diagonals;   // (1 or B, H, T + S - 1)
    float *drelative;
} mh_positions;

// Lays out the memory for a pass over a stack; `lengths` (sequences) are the tokens before this
// pass, NULL: none. `keep`: backward will follow.
void mh_positions_layout(const mh_transformer *t, const mh_stack *stack, const mh_pass *pass,
                         const size_t *lengths, bool keep, mh_arena *arena, mh_positions *p);

// Fills it, and sets pass->ropes and pass->relative.
mh_status mh_positions_fill(mh_context *context, const mh_transformer *t, const mh_stack *stack,
                            const size_t *lengths, mh_positions *p, mh_pass *pass);

// Before the blocks' backward: their gradients are summed from 0. A tape may have several.
void mh_positions_begin_backward(const mh_positions *p);

// Adds the gradient in p->drelative to that of the table.
void mh_positions_backward(const mh_stack *stack, const mh_pass *pass, const mh_positions *p);

#endif
