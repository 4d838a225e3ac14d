// SPDX-License-Identifier: MIT
// What forward, weights and backward share about a tile: loading queries and keys, Q K^T, and the
// map from there to scores.
#include "base/size_math.h"
#include "ops/attention/attention_internal.h"
#include "ops/row_io.h"
#include <math.h>

void mh_attention_sums(const mh_attention_job *job, size_t rows, const float *lanes, float *sums,
                       float *logs)
{
    for (size_t r = 0; r < rows; r++)
        sums[r] = job->kernels->attention.sum_lanes(lanes + r * job->kernels->lanes);
    if (job->desc->options.lse)
        job->kernels->elementwise.log(rows, sums, logs);
}

void mh_attention_load_queries(const mh_attention_job *job, const mh_sequence *sequence,
                               size_t head, size_t query, size_t count, float *to)
{
    const mh_tensor *q = &job->desc->q;
    const size_t at[3] = {sequence->batch, head, sequence->query_begin + query};
    mh_rows_read(job->kernels, q, 2, mh_element(q, 3, at), count, job->desc->E, to);
}

void mh_attention_load_keys(const mh_attention_job *job, const mh_sequence *sequence, size_t group,
                            size_t tile, size_t count, float *to, mh_attention_scratch *scratch)
{
    const mh_attention_desc *p = job->desc;
    const size_t at[3] = {sequence->batch, group, mh_key_row(sequence, tile)};
    ptrdiff_t stride;
    const float *rows = mh_rows_as_f32(job->kernels, &p->k, 2, mh_element(&p->k, 3, at), count,
                                       p->E, scratch->staging, &stride);
    job->kernels->matrix.transpose(count, p->E, rows, stride, to, MH_KEY_TILE);
}

size_t mh_attention_gemm_interleaved(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                                     mh_a_operand queries, const mh_panels *keys, float *scores)
{
    const mh_gemm *gemm = &job->kernels->f32;
    if (!mh_attention_is_interleaved(job->desc, begin))
        return 0;
    const mh_panel_part part = mh_panel_from(keys, 0, mh_smaller(n, MH_SHORT_KEYS), sizeof(float));
    for (size_t r = 0; r < m; r += gemm->rows) {
        const mh_a_operand rows = mh_a_from_row(gemm, queries, r);
        job->kernels->matrix.gemm_interleaved(&(mh_gemm_args){.m = mh_smaller(m - r, gemm->rows),
                                                              .n = part.columns,
                                                              .k = job->desc->E,
                                                              .a = rows.data,
                                                              .lda = rows.stride,
                                                              .b = part.data,
                                                              .ldb = (ptrdiff_t)part.stride,
                                                              .c = scores + r * MH_KEY_TILE,
                                                              .ldc = MH_KEY_TILE});
    }
    return part.columns;
}

// The same from column j on with the products of `gemm`.
static void gemm_key_panels(const mh_gemm *gemm, size_t E, size_t j, size_t m, size_t n,
                            mh_a_operand queries, const mh_panels *keys, float *scores)
{
    mh_panel_part part;
    for (; j < n; j += part.columns) {
        part = mh_panel_from(keys, j, n, sizeof(float));
        gemm->gemm(&(mh_gemm_args){.m = m,
                                   .n = part.columns,
                                   .k = E,
                                   .a = queries.data,
                                   .lda = queries.stride,
                                   .b = part.data,
                                   .ldb = (ptrdiff_t)part.stride,
                                   .c = scores + j,
                                   .ldc = MH_KEY_TILE});
    }
}

void mh_attention_gemm_keys_f32(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                                mh_a_operand queries, const mh_panels *keys, float *scores)
{
    const size_t j = mh_attention_gemm_interleaved(job, begin, m, n, queries, keys, scores);
    gemm_key_panels(&job->kernels->f32, job->desc->E, j, m, n, queries, keys, scores);
}

void mh_attention_gemm_keys(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                            mh_a_operand queries, const mh_panels *keys, float *scores)
{
    if (job->gemm->pack_b)
        gemm_key_panels(job->gemm, job->desc->E, 0, m, n, queries, keys, scores);
    else
        mh_attention_gemm_keys_f32(job, begin, m, n, queries, keys, scores);
}

mh_score_map mh_attention_score_map(const mh_attention_job *job, const mh_sequence *sequence,
                                    const mh_query_row *row, size_t tile, uint64_t live,
                                    const float *bias)
{
    const mh_attention_desc *p = job->desc;
    const mh_attention_options *o = &p->options;
    mh_score_map map = {
        .scale = p->scale, .cap = o->softcap, .bias = p->additive ? bias : NULL, .live = live};
    if (o->alibi) {
        const size_t head = mh_whole_head(p, row->head), query = mh_whole_position(p, row->query);
        map.slope = o->alibi_slopes ? o->alibi_slopes[head] : mh_alibi_slope(head, p->whole_H);
        map.distance = (float)((int64_t)query + sequence->offset - (int64_t)tile);
    }
    return map;
}

uint64_t mh_attention_keep(const mh_attention_job *job, const mh_sequence *sequence,
                           const mh_query_row *row, size_t tile)
{
    const mh_attention_desc *p = job->desc;
    const mh_attention_options *o = &p->options;
    const uint32_t key[2] = {(uint32_t)o->dropout_seed, (uint32_t)(o->dropout_seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)(tile / 8), (uint32_t)mh_whole_position(p, row->query),
                                 (uint32_t)mh_whole_head(p, row->head),
                                 (uint32_t)(o->dropout_sequence + sequence->index)};
    return job->kernels->elementwise.dropout_mask((uint16_t)(o->dropout * 0x1p16f), key, counter);
}
