// SPDX-License-Identifier: MIT
// The gradients that are sums over a batch: of additive masks, summed over their broadcast
// dimensions, and of sinks. A task owns a part of the result and accumulates all contributions to
// it in order, recomputing scores; so there are no partial results, and the order is fixed.
#include "base/arena.h"
#include "ops/attention/attention_grad.h"
#include "ops/row_io.h"
#include <math.h>
#include <string.h>

// ---- masks --------------------------------------------------------------------------------------

// The range of one dimension that a task reduces.
typedef struct range {
    size_t begin, end;
} range;

typedef struct mask_job {
    const mh_attention_grad_job *job;
    mh_tensor dmask; // (Bm, Hm, Tm, Sm), each 1 or full
    size_t row_blocks, key_tiles;
} mask_job;

// Block `i` of a dimension of the mask stands for its own elements or, if broadcast, for all.
static range stands_for(size_t i, size_t step, size_t mask_size, size_t size)
{
    if (mask_size == 1)
        return (range){0, size};
    return (range){i * step, i * step + step < size ? i * step + step : size};
}

// Adds a block's score gradients to the task's sums (64, 64), in which a broadcast dimension has
// only its first row or column.
static void attention_grad_mask_add_scores(const mask_job *m,
                                           const mh_attention_grad_scratch *scratch, size_t keys,
                                           float *sums)
{
    const bool one_row = m->dmask.shape[2] == 1, one_key = m->dmask.shape[3] == 1;
    for (size_t r = 0; r < scratch->block.count; r++) {
        const float *scores = scratch->scores + r * MH_KEY_TILE;
        float *to = sums + (one_row ? 0 : r * MH_KEY_TILE);
        for (size_t j = 0; j < keys; j++)
            to[one_key ? 0 : j] += scores[j];
    }
}

static void sum_mask(void *arg, size_t index, size_t worker)
{
    const mask_job *m = arg;
    const mh_attention_grad_job *job = m->job;
    const mh_attention_desc *p = job->forward.desc;
    mh_attention_grad_scratch *scratch = &job->scratch[worker];
    const size_t *shape = m->dmask.shape;
    const size_t tile = index % m->key_tiles, block = index / m->key_tiles % m->row_blocks;
    const size_t h = index / m->key_tiles / m->row_blocks % shape[1];
    const size_t b = index / m->key_tiles / m->row_blocks / shape[1];
    const range batches = stands_for(b, 1, shape[0], p->B),
                heads = stands_for(h, 1, shape[1], p->H);
    const range rows = stands_for(block, MH_GRAD_ROWS, shape[2], p->T);
    const range keys = stands_for(tile, MH_KEY_TILE, shape[3], p->S);

    float *sums = scratch->transposed;
    memset(sums, 0, MH_GRAD_ROWS * MH_KEY_TILE * sizeof(float));
    mh_gemm_enter(job->forward.gemm);
    for (size_t sb = batches.begin; sb < batches.end; sb++) {
        const mh_sequence sequence = mh_attention_sequence(p, sb);
        for (size_t head = heads.begin; head < heads.end; head++) {
            for (size_t row = rows.begin; row < rows.end && row < sequence.T; row += MH_GRAD_ROWS) {
                mh_attention_grad_load_block(job, &sequence, head, row, scratch);
                for (size_t key = keys.begin; key < keys.end && key < sequence.keys;
                     key += MH_KEY_TILE) {
                    mh_attention_grad_tile *packed = &scratch->tiles[0];
                    mh_attention_grad_pack_tile(job, &sequence, head / p->heads_per_group, key,
                                                packed, scratch);
                    if (mh_attention_grad_block_tile(job, &sequence, packed, true, scratch))
                        attention_grad_mask_add_scores(m, scratch, packed->count, sums);
                }
            }
        }
    }
    mh_gemm_leave(job->forward.gemm);
    const size_t row_count = shape[2] == 1 ? 1 : rows.end - rows.begin;
    const size_t key_count = shape[3] == 1 ? 1 : keys.end - keys.begin;
    for (size_t r = 0; r < row_count; r++) {
        const size_t at[4] = {b, h, shape[2] == 1 ? 0 : rows.begin + r,
                              shape[3] == 1 ? 0 : keys.begin};
        mh_row_write(job->forward.kernels, MH_F32, (void *)mh_element(&m->dmask, 4, at),
                     m->dmask.stride[3], key_count, sums + r * MH_KEY_TILE);
    }
}

void mh_attention_grad_masks(mh_context *context, const mh_attention_grad_job *job)
{
    const mh_attention_desc *p = job->forward.desc;
    for (size_t i = 0; i < p->options.mask_count; i++) {
        const mh_tensor *given = job->gradients.dmasks[i];
        if (!given)
            continue;
        mask_job m = {.job = job, .dmask = *given};
        const int missing = 4 - given->rank; // leading dimensions, all broadcast
        m.dmask.rank = 4;
        for (int d = 0; d < 4; d++) {
            m.dmask.shape[d] = d < missing ? 1 : given->shape[d - missing];
            m.dmask.stride[d] = d < missing ? 0 : given->stride[d - missing];
        }
        m.row_blocks = (m.dmask.shape[2] + MH_GRAD_ROWS - 1) / MH_GRAD_ROWS;
        m.key_tiles = (m.dmask.shape[3] + MH_KEY_TILE - 1) / MH_KEY_TILE;
        mh_attention_run(context, job->workers,
                         m.dmask.shape[0] * m.dmask.shape[1] * m.row_blocks * m.key_tiles, sum_mask,
                         &m);
    }
}

// ---- sinks --------------------------------------------------------------------------------------

// dsink_h = - sum over sequences and queries of exp(sink_h - lse) * delta.
static void sum_sink(void *arg, size_t head, size_t worker)
{
    const mh_attention_grad_job *job = arg;
    const mh_attention_desc *p = job->forward.desc;
    mh_attention_grad_scratch *scratch = &job->scratch[worker];
    float total = 0;
    for (size_t b = 0; b < p->B; b++) {
        const mh_sequence sequence = mh_attention_sequence(p, b);
        for (size_t row = 0; row < sequence.T; row += MH_GRAD_ROWS) {
            mh_attention_grad_load_block(job, &sequence, head, row, scratch);
            float sum = 0;
            for (size_t r = 0; r < scratch->block.count; r++) {
                float exponent = p->options.sinks[mh_whole_head(p, head)] - scratch->block.lse[r],
                      weight;
                job->forward.kernels->elementwise.exp(1, &exponent, &weight);
                sum += weight * scratch->block.delta[r];
            }
            total -= sum;
        }
    }
    *(float *)mh_element(job->gradients.dsinks, 1, &head) = total;
}

void mh_attention_grad_sinks(mh_context *context, const mh_attention_grad_job *job)
{
    mh_attention_run(context, job->workers, job->forward.desc->H, sum_sink, (void *)job);
}
