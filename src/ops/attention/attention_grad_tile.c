// SPDX-License-Identifier: MIT
// The part of the backward pass that all gradients share: weights and score gradients of a block of
// query rows against a tile of keys.
#include "base/size_math.h"
#include "ops/attention/attention_grad.h"
#include "ops/row_io.h"
#include <math.h>
#include <string.h>

// Rows of a tensor (.., row, ..) as f32, padded to whole vectors. Returns whether all are finite.
static bool attention_grad_tile_load_rows(const mh_attention_grad_job *job, const mh_tensor *t,
                                          const size_t at[3], size_t count, size_t n, size_t width,
                                          mh_attention_grad_scratch *scratch, float *to)
{
    ptrdiff_t stride;
    const float *rows = mh_rows_as_f32(job->forward.kernels, t, 2, mh_element(t, 3, at), count, n,
                                       scratch->staging, &stride);
    return job->forward.kernels->matrix.pack_rows(count, n, rows, stride, to, width);
}

static bool all_zero(size_t n, const float *x)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

float mh_attention_grad_delta(const mh_kernels *kernels, size_t n, const float *out,
                              const float *dout)
{
    return all_zero(n, out) ? 0 : kernels->rowwise.dot(n, out, dout);
}

float mh_attention_grad_lse(const mh_attention_desc *desc, const size_t at[3])
{
    const float lse = *(const float *)mh_element(desc->options.lse, 3, at);
    return lse == -INFINITY ? INFINITY : lse;
}

// Queries and output gradients as A and as B operands.
static void attention_grad_tile_pack_block(const mh_attention_grad_job *job,
                                           mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_gemm *gemm = job->forward.gemm;
    const size_t width = job->key_width, value_width = job->forward.value_width;
    mh_attention_grad_block *b = &scratch->block;
    b->queries =
        mh_a_pack(gemm, b->count, p->E, scratch->queries, (ptrdiff_t)width, scratch->a_queries);
    b->douts =
        mh_a_pack(gemm, b->count, p->Ev, scratch->douts, (ptrdiff_t)value_width, scratch->a_douts);
    b->b_queries = mh_b_pack(gemm, b->count, width, scratch->queries, width, scratch->b_queries);
    b->b_douts =
        mh_b_pack(gemm, b->count, value_width, scratch->douts, value_width, scratch->b_douts);
}

void mh_attention_grad_load_block(const mh_attention_grad_job *job, const mh_sequence *sequence,
                                  size_t head, size_t first, mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_kernels *kernels = job->forward.kernels;
    const size_t width = job->forward.value_width;
    mh_attention_grad_block *block = &scratch->block;
    const size_t at[3] = {sequence->batch, head, sequence->query_begin + first};
    block->count = mh_smaller(sequence->T - first, MH_GRAD_ROWS);

    block->finite_queries = attention_grad_tile_load_rows(
        job, &p->q, at, block->count, p->E, job->key_width, scratch, scratch->queries);
    block->finite_douts = attention_grad_tile_load_rows(job, &job->dout, at, block->count, p->Ev,
                                                        width, scratch, scratch->douts);
    attention_grad_tile_pack_block(job, scratch);
    ptrdiff_t stride = 0;
    const float *outs = NULL;
    if (!job->delta)
        outs = mh_rows_as_f32(kernels, &p->out, 2, mh_element(&p->out, 3, at), block->count, p->Ev,
                              scratch->staging, &stride);
    for (size_t r = 0; r < block->count; r++) {
        const size_t row[3] = {at[0], at[1], at[2] + r};
        block->delta[r] =
            job->delta ? *(const float *)mh_element(job->delta, 3, row)
                       : mh_attention_grad_delta(kernels, p->Ev, outs + (ptrdiff_t)r * stride,
                                                 scratch->douts + r * width);
        block->lse[r] = mh_attention_grad_lse(p, row);
        block->rows[r] = (mh_query_row){.head = head, .query = first + r};
        mh_attention_interval(p, sequence, first + r, &block->rows[r].interval);
    }
}

// `rows` rows of n elements, transposed, as a B operand.
static void pack_transposed(const mh_attention_grad_job *job, size_t rows, size_t n,
                            const float *from, ptrdiff_t stride, mh_attention_grad_scratch *scratch,
                            void *to)
{
    const mh_gemm *gemm = job->forward.gemm;
    float *transposed = mh_b_source(gemm, to, scratch->unpacked);
    job->forward.kernels->matrix.transpose(rows, n, from, stride, transposed, MH_KEY_TILE);
    mh_b_pack(gemm, n, mh_round_up(rows, job->forward.kernels->lanes), transposed, MH_KEY_TILE, to);
}

void mh_attention_grad_pack_tile(const mh_attention_grad_job *job, const mh_sequence *sequence,
                                 size_t group, size_t begin, mh_attention_grad_tile *tile,
                                 mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_kernels *kernels = job->forward.kernels;
    const size_t at[3] = {sequence->batch, group, mh_key_row(sequence, begin)};
    tile->begin = begin;
    tile->count = mh_smaller(sequence->keys - begin, MH_KEY_TILE);
    tile->finite = attention_grad_tile_load_rows(job, &p->k, at, tile->count, p->E, job->key_width,
                                                 scratch, tile->rows);
    tile->keys = mh_b_pack(job->forward.gemm, tile->count, job->key_width, tile->rows,
                           job->key_width, tile->packed);
    pack_transposed(job, tile->count, p->E, tile->rows, (ptrdiff_t)job->key_width, scratch,
                    tile->keys_t);
    ptrdiff_t stride;
    const float *values = mh_rows_as_f32(kernels, &p->v, 2, mh_element(&p->v, 3, at), tile->count,
                                         p->Ev, scratch->staging, &stride);
    pack_transposed(job, tile->count, p->Ev, values, stride, scratch, tile->values_t);
}

// Q K^T to scores, for options other than a scale, and the slope of the softcap.
static void attention_grad_tile_map_scores(const mh_attention_grad_job *job,
                                           const mh_sequence *sequence,
                                           const mh_attention_grad_tile *tile, size_t first,
                                           size_t count, size_t columns,
                                           mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_kernels *kernels = job->forward.kernels;
    for (size_t r = 0; r < count; r++) {
        float *row = scratch->weights + (first + r) * MH_KEY_TILE;
        if (p->options.softcap > 0)
            kernels->attention.softcap_slope(columns, p->scale, p->options.softcap,
                                             scratch->live[first + r], row,
                                             scratch->slope + r * MH_KEY_TILE);
        mh_score_map score = mh_attention_score_map(
            &job->forward, sequence, &scratch->block.rows[first + r], tile->begin,
            scratch->live[first + r], scratch->bias + r * MH_KEY_TILE);
        kernels->attention.score_row(&score, columns, row);
    }
}

// Softmax backward, MH_KEEP_WARM_ROWS rows at a time.
static void map_gradients(const mh_attention_grad_job *job, const mh_sequence *sequence,
                          const mh_attention_grad_tile *tile, size_t first, size_t count,
                          size_t columns, mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const bool dropout = p->options.dropout > 0;
    uint64_t keep[MH_KEEP_WARM_ROWS];
    for (size_t r = first, end = first + count, rows; r < end; r += rows) {
        rows = mh_smaller(end - r, MH_KEEP_WARM_ROWS);
        for (size_t i = 0; i < rows && dropout; i++)
            keep[i] = mh_attention_keep(&job->forward, sequence, &scratch->block.rows[r + i],
                                        tile->begin);
        const mh_grad_map map = {.scale = job->forward.modified ? 1 : p->scale,
                                 .lse = scratch->block.lse + r,
                                 .delta = scratch->block.delta + r,
                                 .live = scratch->live + r,
                                 .keep = dropout ? keep : NULL,
                                 .keep_scale = job->forward.keep_scale};
        job->forward.kernels->attention.softmax_grad(
            &map, rows, columns, scratch->weights + r * MH_KEY_TILE,
            scratch->scores + r * MH_KEY_TILE, MH_KEY_TILE);
        mh_gemm_keep_warm(job->forward.gemm);
    }
}

// Rows first .. first + count - 1 of the block: one row block.
static void row_block_tile(const mh_attention_grad_job *job, const mh_sequence *sequence,
                           const mh_attention_grad_tile *tile, size_t first, size_t count,
                           size_t columns, bool of_bias, mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_gemm *gemm = job->forward.gemm;
    float *weights = scratch->weights + first * MH_KEY_TILE;
    float *scores = scratch->scores + first * MH_KEY_TILE;
    const mh_a_operand queries = mh_a_from_row(gemm, scratch->block.queries, first);
    const mh_a_operand douts = mh_a_from_row(gemm, scratch->block.douts, first);
    const mh_panels keys = {tile->keys_t, p->E, MH_KEY_TILE, MH_KEY_TILE};
    mh_attention_gemm_keys(&job->forward, tile->begin, count, columns, queries, &keys, weights);
    gemm->gemm(&(mh_gemm_args){.m = count,
                               .n = columns,
                               .k = p->Ev,
                               .a = douts.data,
                               .lda = douts.stride,
                               .b = tile->values_t,
                               .ldb = MH_KEY_TILE,
                               .c = scores,
                               .ldc = MH_KEY_TILE});
    if (job->forward.modified)
        attention_grad_tile_map_scores(job, sequence, tile, first, count, columns, scratch);
    map_gradients(job, sequence, tile, first, count, columns, scratch);
    for (size_t r = 0; r < count && p->options.softcap > 0 && !of_bias; r++)
        job->forward.kernels->elementwise.mul_row(columns, scratch->slope + r * MH_KEY_TILE,
                                                  scores + r * MH_KEY_TILE);
}

bool mh_attention_grad_block_tile(const mh_attention_grad_job *job, const mh_sequence *sequence,
                                  const mh_attention_grad_tile *tile, bool of_bias,
                                  mh_attention_grad_scratch *scratch)
{
    const mh_kernels *kernels = job->forward.kernels;
    const mh_attention_grad_block *block = &scratch->block;
    const size_t mr = job->forward.mr;
    const size_t columns = (tile->count + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
    scratch->any = 0, scratch->all = ~UINT64_C(0);
    for (size_t first = 0; first < block->count; first += mr) {
        size_t count = mh_smaller(block->count - first, mr);
        uint64_t any = mh_mask_tile(job->forward.desc, kernels, sequence, block->rows + first,
                                    count, tile->begin, scratch->live + first, scratch->bias);
        for (size_t r = first; r < first + count; r++)
            scratch->all &= scratch->live[r];
        scratch->any |= any;
        if (any) {
            row_block_tile(job, sequence, tile, first, count, columns, of_bias, scratch);
        } else {
            memset(scratch->weights + first * MH_KEY_TILE, 0, count * MH_KEY_TILE * sizeof(float));
            memset(scratch->scores + first * MH_KEY_TILE, 0, count * MH_KEY_TILE * sizeof(float));
        }
    }
    return scratch->any != 0;
}
