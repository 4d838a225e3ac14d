// SPDX-License-Identifier: MIT
// Overlap of strided views; see overlap.h.
//
// A view covers the bytes low + sum of a_i x_i + e with 0 <= x_i < shape_i, 0 <= e < element size,
// a_i the absolute strides in bytes (a negative stride counts from its other end). Two views
// overlap if they have a byte in common; with the second one's indices reversed this is
//
//     sum of a_i x_i + sum of b_j y_j + e = last byte of the second - first byte of the first
//
// where every coefficient is positive and every unknown is bounded: a bounded linear Diophantine
// equation. Equal coefficients are merged, so that views of the same strides have as many unknowns
// as one of them. The search starts with the largest coefficient; the reach of the others and their
// greatest common divisor leave it few values, often one.
//
// A view overlaps itself if two different indices give the same element; that is the same kind of
// equation for the differences of indices, once for each dimension with a positive difference.
#include "ops/overlap.h"

#include <assert.h>

enum { TERMS_MOST = 2 * MH_MAX_RANK + 1, STEPS_MOST = 2000 };

// ---- sum of coefficient * x = target, 0 <= x <= bound -------------------------------------------

typedef struct equation {
    size_t count;
    size_t coefficient[TERMS_MOST]; // descending, all different
    size_t bound[TERMS_MOST];
    size_t reach[TERMS_MOST + 1];   // the largest sum of the terms from here on
    size_t divisor[TERMS_MOST + 1]; // the greatest common divisor of their coefficients
    size_t steps;                   // left in the search
} equation;

static void add_term(equation *e, size_t coefficient, size_t bound)
{
    size_t at = 0;
    if (coefficient == 0 || bound == 0)
        return;
    while (at < e->count && e->coefficient[at] > coefficient)
        at++;
    if (at < e->count && e->coefficient[at] == coefficient) {
        e->bound[at] += bound;
        return;
    }
    for (size_t i = e->count++; i > at; i--) {
        e->coefficient[i] = e->coefficient[i - 1];
        e->bound[i] = e->bound[i - 1];
    }
    e->coefficient[at] = coefficient;
    e->bound[at] = bound;
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool search(equation *e, size_t term, size_t target)
{
    if (term == e->count || target == 0)
        return target == 0;
    if (target > e->reach[term] || target % e->divisor[term] != 0)
        return false;
    const size_t a = e->coefficient[term], rest = e->reach[term + 1];
    const size_t least = target > rest ? (target - rest - 1) / a + 1 : 0;
    const size_t most = target / a < e->bound[term] ? target / a : e->bound[term];
    for (size_t x = least; x <= most && e->steps > 0; x++) {
        e->steps--;
        if (search(e, term + 1, target - a * x))
            return true;
    }
    return false;
}

// Whether there is a solution; false also if none was found within STEPS_MOST steps.
static bool is_solvable(equation *e, size_t target)
{
    e->reach[e->count] = e->divisor[e->count] = 0;
    for (size_t i = e->count; i-- > 0;) {
        e->reach[i] = e->reach[i + 1] + e->coefficient[i] * e->bound[i];
        e->divisor[i] = common_divisor(e->coefficient[i], e->divisor[i + 1]);
    }
    e->steps = STEPS_MOST;
    return search(e, 0, target);
}

// ---- views --------------------------------------------------------------------------------------

static size_t magnitude(ptrdiff_t stride)
{
    return stride < 0 ? 0 - (size_t)stride : (size_t)stride;
}

// The addresses of the first and the last byte.
typedef struct byte_range {
    uintptr_t low, high;
} byte_range;

static const byte_range no_bytes = {UINTPTR_MAX, 0};

static byte_range range_of(const mh_tensor *t)
{
    ptrdiff_t below = 0, above = 0; // mh_strides_fit() holds unless the tensor is empty
    if (mh_tensor_count(t) == 0)
        return no_bytes;
    for (int i = 0; i < t->rank; i++) {
        const ptrdiff_t reach = (ptrdiff_t)(t->shape[i] - 1) * t->stride[i];
        below += reach < 0 ? reach : 0;
        above += reach < 0 ? 0 : reach;
    }
    const uintptr_t size = mh_dtype_size(t->dtype), first = (uintptr_t)t->data;
    return (byte_range){first + (uintptr_t)below * size,
                        first + (uintptr_t)above * size + size - 1};
}

static bool ranges_meet(byte_range a, byte_range b) { return a.low <= b.high && b.low <= a.high; }

static bool views_meet(const mh_tensor *a, byte_range in_a, const mh_tensor *b, byte_range in_b)
{
    const size_t size_a = mh_dtype_size(a->dtype), size_b = mh_dtype_size(b->dtype);
    equation e;
    e.count = 0;
    for (int i = 0; i < a->rank; i++)
        add_term(&e, magnitude(a->stride[i]) * size_a, a->shape[i] - 1);
    for (int i = 0; i < b->rank; i++)
        add_term(&e, magnitude(b->stride[i]) * size_b, b->shape[i] - 1);
    add_term(&e, 1, size_a + size_b - 2);
    return is_solvable(&e, in_b.high - in_a.low);
}

// The usual sufficient test: each stride is larger than the reach of all smaller ones.
static bool is_nested(const mh_tensor *t)
{
    size_t step[MH_MAX_RANK], reach[MH_MAX_RANK], inner = 0;
    int count = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] < 2)
            continue;
        const size_t s = magnitude(t->stride[i]);
        int at = count++;
        for (; at > 0 && step[at - 1] > s; at--) {
            step[at] = step[at - 1];
            reach[at] = reach[at - 1];
        }
        step[at] = s;
        reach[at] = s * (t->shape[i] - 1);
    }
    for (int i = 0; i < count; i++) {
        if (step[i] <= inner)
            return false;
        inner += reach[i];
    }
    return true;
}

// Whether index i and one that is larger in dimension `up` give the same element. The difference
// in `up` is 1 + x; those in other dimensions, from -(n - 1) to n - 1, are shifted by n - 1.
static bool repeats_along(const mh_tensor *t, int up)
{
    equation e;
    e.count = 0;
    size_t target = 0;
    for (int i = 0; i < t->rank; i++) {
        const size_t step = magnitude(t->stride[i]), most = t->shape[i] - 1;
        if (i == up)
            continue;
        add_term(&e, step, 2 * most);
        target += step * most;
    }
    const size_t step = magnitude(t->stride[up]);
    add_term(&e, step, t->shape[up] - 2);
    return target >= step && is_solvable(&e, target - step);
}

static bool overlaps_itself(const mh_tensor *t)
{
    if (is_nested(t))
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] > 1 && repeats_along(t, i))
            return true;
    return false;
}

bool mh_same_view(const mh_tensor *a, const mh_tensor *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++)
        same = a->shape[i] == b->shape[i] && (a->shape[i] < 2 || a->stride[i] == b->stride[i]);
    return same;
}

// ---- calls --------------------------------------------------------------------------------------

static mh_status refuse(mh_context *context, const mh_operand *a, const mh_operand *b)
{
    char text_a[128], text_b[128];
    return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, which overlaps %s, %s, expected %s",
                   a->name, mh_tensor_describe(a->tensor, text_a, sizeof text_a), b->name,
                   mh_tensor_describe(b->tensor, text_b, sizeof text_b),
                   b->may_be ? "the same view or separate memory" : "separate memory");
}

static mh_status refuse_self(mh_context *context, const mh_operand *a)
{
    char text[128];
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   "%s: found %s with strides that put two elements at the same address, "
                   "expected an output without overlap",
                   a->name, mh_tensor_describe(a->tensor, text, sizeof text));
}

mh_status mh_check_overlap(mh_context *context, size_t outputs, size_t count,
                           const mh_operand *operands)
{
    byte_range ranges[MH_OPERANDS_MOST];
    assert(count <= MH_OPERANDS_MOST);
    for (size_t i = 0; i < count; i++) {
        const mh_operand *a = &operands[i];
        ranges[i] = a->tensor ? range_of(a->tensor) : no_bytes;
        if (i < outputs && ranges[i].low <= ranges[i].high && overlaps_itself(a->tensor))
            return refuse_self(context, a);
        for (size_t j = 0; j < i && j < outputs; j++) {
            const mh_operand *b = &operands[j];
            if (ranges_meet(ranges[i], ranges[j]) &&
                !((a->may_be >> j & 1) && mh_same_view(a->tensor, b->tensor)) &&
                views_meet(a->tensor, ranges[i], b->tensor, ranges[j]))
                return refuse(context, b, a);
        }
    }
    return MH_OK;
}
