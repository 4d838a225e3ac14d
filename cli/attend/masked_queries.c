// SPDX-License-Identifier: MIT
// Which keys a query sees; see masked_queries.h.
//
// Queries without any are counted from the masks before anything is computed: a row's log-sum-exp
// would show it as well, but not with sinks, and a module does not return it. The scan of a query
// stops at the first key that it sees, so that usual masks cost little.
#include "masked_queries.h"
#include "messages.h"

#include <math.h>
#include <string.h>

enum { MOST_MASKS = 4 };

typedef struct scene {
    const mh_attention_options *options;
    size_t shape[4];             // (B, H, T, S)
    mh_tensor masks[MOST_MASKS]; // broadcast to it
} scene;

static bool is_live(const mh_mask *mask, const mh_tensor *wide, ptrdiff_t at)
{
    if (mask->kind == MH_MASK_ADD)
        return ((const float *)wide->data)[at] != -INFINITY;
    return (((const unsigned char *)wide->data)[at] != 0) == (mask->kind == MH_MASK_KEEP);
}

static bool masks_allow(const scene *s, size_t b, size_t h, size_t i, int64_t j)
{
    for (size_t m = 0; m < s->options->mask_count; m++) {
        const mh_tensor *wide = &s->masks[m];
        const ptrdiff_t at = (ptrdiff_t)b * wide->stride[0] + (ptrdiff_t)h * wide->stride[1] +
                             (ptrdiff_t)i * wide->stride[2] + (ptrdiff_t)j * wide->stride[3];
        if (!is_live(&s->options->masks[m], wide, at))
            return false;
    }
    return true;
}

// The keys that causal rule, window and length leave to query i: *first to *end - 1.
static void key_range(const scene *s, size_t b, size_t i, int64_t *first, int64_t *end)
{
    const mh_attention_options *o = s->options;
    const int64_t keys = o->key_lengths ? o->key_lengths[b] : (int64_t)s->shape[3];
    const int64_t offset =
        o->causal == MH_CAUSAL_BOTTOM_RIGHT ? keys - (int64_t)s->shape[2] : o->offset;
    const int64_t position = (int64_t)i + offset;
    *first = o->window_left >= 0 && position > o->window_left ? position - o->window_left : 0;
    *end = keys;
    if (o->window_right >= 0 && position + o->window_right + 1 < *end)
        *end = position + o->window_right + 1;
    if (o->causal != MH_CAUSAL_NONE && position + 1 < *end)
        *end = position + 1;
}

static bool sees_a_key(const scene *s, size_t b, size_t h, size_t i)
{
    int64_t first, end;
    key_range(s, b, i, &first, &end);
    for (int64_t j = first; j < end; j++)
        if (masks_allow(s, b, h, i, j))
            return true;
    return false;
}

// Whether anything differs between sequences (dim 0) or heads (dim 1).
static bool differs(const scene *s, int dim)
{
    bool found = dim == 0 && s->options->key_lengths;
    for (size_t m = 0; m < s->options->mask_count; m++)
        found |= s->masks[m].stride[dim] != 0;
    return found;
}

// Broadcasts the masks to the scene's shape.
static mh_status set_masks(mh_context *context, scene *s)
{
    mh_status status = MH_OK;
    for (size_t m = 0; m < s->options->mask_count && status == MH_OK; m++)
        status =
            mh_tensor_broadcast(context, &s->options->masks[m].tensor, 4, s->shape, &s->masks[m]);
    return status;
}

static float added_to(const scene *s, size_t b, size_t h, size_t i, int64_t j)
{
    float sum = 0;
    for (size_t m = 0; m < s->options->mask_count; m++) {
        const mh_tensor *wide = &s->masks[m];
        const ptrdiff_t at = (ptrdiff_t)b * wide->stride[0] + (ptrdiff_t)h * wide->stride[1] +
                             (ptrdiff_t)i * wide->stride[2] + (ptrdiff_t)j * wide->stride[3];
        if (s->options->masks[m].kind == MH_MASK_ADD)
            sum += ((const float *)wide->data)[at];
    }
    return sum;
}

mh_status mask_scores_of(mh_context *context, const mh_attention_options *options,
                         mh_tensor *scores)
{
    scene s = {.options = options};
    memcpy(s.shape, scores->shape, sizeof s.shape);
    if (options->mask_count > MOST_MASKS)
        return MH_ERROR_ARGUMENT;
    const mh_status status = set_masks(context, &s);
    float *x = scores->data;
    for (size_t b = 0; b < s.shape[0] && status == MH_OK; b++)
        for (size_t h = 0; h < s.shape[1]; h++)
            for (size_t i = 0; i < s.shape[2]; i++) {
                int64_t first, end;
                key_range(&s, b, i, &first, &end);
                for (int64_t j = 0; j < (int64_t)s.shape[3]; j++, x++) {
                    const bool live = j >= first && j < end && masks_allow(&s, b, h, i, j);
                    *x = live ? *x + added_to(&s, b, h, i, j) : -INFINITY;
                }
            }
    return status;
}

void note_masked_queries(mh_context *context, const mh_attention_options *options,
                         const size_t shape[4], const char *where, const char *hint)
{
    scene s = {.options = options, .shape = {shape[0], shape[1], shape[2], shape[3]}};
    if (is_quiet() || options->mask_count > MOST_MASKS)
        return;
    if (set_masks(context, &s) != MH_OK)
        return; // the computation rejects it
    const size_t B = shape[0] > 1 && !differs(&s, 0) ? 1 : shape[0];
    const size_t H = shape[1] > 1 && !differs(&s, 1) ? 1 : shape[1];
    size_t count = 0;
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < shape[2]; i++)
                count += !sees_a_key(&s, b, h, i);
    const size_t all = B * H * shape[2];
    if (count)
        note("%s: %zu of %zu %s%s %s no key%s", where, count, all, plural(all, "query", "queries"),
             H > 1 ? " of all heads" : "", plural(count, "sees", "see"), hint);
}
