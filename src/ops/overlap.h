// SPDX-License-Identifier: MIT
// Whether the outputs of a call overlap: themselves, each other, or an input.
//
// Nearly always the bytes from the first to the last element of two views tell that they are
// apart. Views that are interleaved in one buffer, such as q, k and v of a fused projection, share
// that range but no element; then the question is solved exactly, as a small Diophantine problem
// (overlap.c). The search has a limit of steps: views that are still undecided there are accepted.
#ifndef MH_OPS_OVERLAP_H
#define MH_OPS_OVERLAP_H

#include <multihead/tensor.h>

// A tensor of a call, checked already, under the name it has in messages.
typedef struct mh_operand {
    const char *name;
    const mh_tensor *tensor; // NULL: not given
    unsigned may_be;         // bit i: an input that may be output i itself; the same view, or apart
} mh_operand;

enum { MH_OPERANDS_MOST = 28 };

// Tensors whose variables have their names; the second may be output 0.
#define MH_OPERAND(t)                                                                              \
    {                                                                                              \
        .name = #t, .tensor = (t)                                                                  \
    }
#define MH_OPERAND_IN_PLACE(t)                                                                     \
    {                                                                                              \
        .name = #t, .tensor = (t), .may_be = 1                                                     \
    }

// The first `outputs` of `count` operands are written, the others are read. Error:
// MH_ERROR_ARGUMENT that names both views.
mh_status mh_check_overlap(mh_context *context, size_t outputs, size_t count,
                           const mh_operand *operands);

// The same for a list: MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y), MH_OPERAND_IN_PLACE(x)).
#define MH_CHECK_OVERLAP(context, outputs, ...)                                                    \
    mh_check_overlap(context, outputs, sizeof((mh_operand[]){__VA_ARGS__}) / sizeof(mh_operand),   \
                     (mh_operand[]){__VA_ARGS__})

// Whether two views of the same data, dtype, shape and (where it matters) strides.
bool mh_same_view(const mh_tensor *a, const mh_tensor *b);

#endif
