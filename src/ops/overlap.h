// SPDX-License-Identifier: MIT
// Whether the outputs of a call overlap: themselves, each other, or an input.
//
// Usually the byte ranges of two views are disjoint, which settles it. Views that are interleaved
// in one buffer, such as q, k and v of a fused projection, share a range but no element; then the
// question is solved exactly, as a small Diophantine problem (overlap.c). The search is limited:
// views that are still undecided then are accepted.
#ifndef MH_OPS_OVERLAP_H
#define MH_OPS_OVERLAP_H

#include <multihead/tensor.h>

// A tensor of a call, already checked, with its name for messages.
typedef struct mh_operand {
    const char *name;
    const mh_tensor *tensor; // NULL: not given
    unsigned may_be;         // bit i: an input that may be the same view as output i
} mh_operand;

enum { MH_OPERANDS_MOST = 28 };

// Tensors named like their variables; the second may be the same view as output 0.
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

// Whether two views have the same data, dtype, shape and (where it matters) strides.
bool mh_same_view(const mh_tensor *a, const mh_tensor *b);

#endif
