// SPDX-License-Identifier: MIT
// Causal rule, prefix, window and lengths leave each query one interval of keys, whose intersection
// with a tile is a run of bits. Documents and mask tensors then clear single bits. All masks are
// combined here, so one rule decides whether a tile is dead, an edge or full:
//
//     keys  0 ............ 63        interval [5, 20)  ->  0000 1111 1111 1110 0000
//     row   .....xxxxxxxxxxxxxxx...  & documents & keep masks & (bias != -inf)
#include "ops/attention/attention_internal.h"
#include "ops/row_io.h"
#include <float.h>
#include <math.h>
#include <string.h>

static uint64_t low_bits(size_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

static uint64_t interval_bits(mh_interval interval, size_t tile)
{
    if (interval.begin <= tile && interval.end >= tile + MH_KEY_TILE)
        return ~UINT64_C(0);
    if (interval.end <= tile || interval.begin >= tile + MH_KEY_TILE)
        return 0;
    uint64_t bits = low_bits(interval.end - tile);
    return interval.begin > tile ? bits & ~low_bits(interval.begin - tile) : bits;
}

static int64_t document_id(const mh_tensor *ids, size_t batch, size_t position)
{
    const void *id = mh_element(ids, 2, (size_t[]){batch, position});
    return ids->dtype == MH_I32 ? *(const int32_t *)id : *(const int64_t *)id;
}

static uint64_t document_bits(const mh_attention_desc *p, const mh_sequence *sequence, size_t query,
                              size_t tile, size_t count)
{
    int64_t wanted = document_id(&p->query_documents, sequence->batch,
                                 sequence->query_begin + mh_whole_position(p, query));
    uint64_t bits = 0;
    for (size_t j = 0; j < count; j++) {
        int64_t id =
            document_id(&p->key_documents, sequence->batch, sequence->key_begin + tile + j);
        bits |= (uint64_t)(id == wanted) << j;
    }
    return bits;
}

static uint64_t flag_bits(const mh_kernels *kernels, const uint8_t *flags, ptrdiff_t stride,
                          size_t count)
{
    if (stride == 1)
        return kernels->elementwise.nonzero_bits(count, flags);
    uint64_t bits = 0;
    for (size_t j = 0; j < count; j++)
        bits |= (uint64_t)(flags[(ptrdiff_t)j * stride] != 0) << j;
    return bits;
}

// Adds a row of a mask to the bias (or initialises it) and returns the bits it leaves live.
static uint64_t bias_bits(const mh_kernels *kernels, const mh_tensor *mask, const void *row,
                          size_t count, bool first, float *bias)
{
    float values[MH_KEY_TILE];
    float *target = first ? bias : values;
    mh_row_read(kernels, mask->dtype, row, mask->stride[3], count, target);
    uint64_t bits = kernels->elementwise.unequal_bits(count, target, -INFINITY);
    if (first)
        memset(bias + count, 0, (MH_KEY_TILE - count) * sizeof *bias);
    else
        for (size_t j = 0; j < count; j++) {
            float sum = bias[j] + values[j];
            bias[j] = sum < -FLT_MAX ? -FLT_MAX : sum; // a sum of finite values stays finite
        }
    return bits;
}

// The bits of a row that documents and masks leave live.
static uint64_t elementwise_bits(const mh_attention_desc *p, const mh_kernels *kernels,
                                 const mh_sequence *sequence, const mh_query_row *row, size_t tile,
                                 float *bias)
{
    size_t left = sequence->keys - tile, count = left < MH_KEY_TILE ? left : MH_KEY_TILE;
    uint64_t bits = ~UINT64_C(0);
    if (p->options.query_documents)
        bits = document_bits(p, sequence, row->query, tile, count);
    bool first = true;
    for (size_t i = 0; i < p->options.mask_count; i++) {
        const mh_tensor *mask = &p->masks[i].tensor;
        const void *flags = mh_element(mask, 4,
                                       (size_t[]){sequence->index, mh_whole_head(p, row->head),
                                                  mh_whole_position(p, row->query), tile});
        switch (p->masks[i].kind) {
        case MH_MASK_KEEP:
            bits &= flag_bits(kernels, flags, mask->stride[3], count);
            break;
        case MH_MASK_DROP:
            bits &= ~flag_bits(kernels, flags, mask->stride[3], count);
            break;
        case MH_MASK_ADD:
            bits &= bias_bits(kernels, mask, flags, count, first, bias);
            first = false;
            break;
        }
    }
    return bits;
}

uint64_t mh_mask_tile(const mh_attention_desc *desc, const mh_kernels *kernels,
                      const mh_sequence *sequence, const mh_query_row *rows, size_t count,
                      size_t tile, uint64_t *live, float *bias)
{
    uint64_t any = 0;
    for (size_t r = 0; r < count; r++) {
        live[r] = interval_bits(rows[r].interval, tile);
        if (live[r] && desc->elementwise)
            live[r] &= elementwise_bits(desc, kernels, sequence, &rows[r], tile,
                                        bias ? bias + r * MH_KEY_TILE : NULL);
        any |= live[r];
    }
    return any;
}
