// SPDX-License-Identifier: MIT
// Attention, FMA path: one row block of queries against one key tile after the other.
//
//              64 keys                      Ev
//     6 rows [ scores ]  -> softmax step -> [ acc ]  += scores x values
#include "base/compiler.h"
#include "base/size_math.h"
#include "ops/attention/attention_internal.h"
#include "ops/row_io.h"
#include <string.h>

// Rows of keys or values of a tile that is read soon: of few queries the time is that of reading.
static void prefetch_rows(const mh_tensor *t, const mh_sequence *sequence, size_t group,
                          size_t begin, size_t count)
{
    enum { LINE = 64 };
    const size_t at[3] = {sequence->batch, group, mh_key_row(sequence, begin)};
    const size_t bytes = t->shape[3] * mh_dtype_size(t->dtype);
    const ptrdiff_t stride = t->stride[2] * (ptrdiff_t)mh_dtype_size(t->dtype);
    const char *row = mh_element(t, 3, at);
    for (size_t r = 0; r < count && t->stride[3] == 1; r++, row += stride)
        for (size_t i = 0; i < bytes; i += LINE)
            MH_PREFETCH_FAR(row + i);
}

static mh_kv_tile read_tile(const mh_attention_job *job, const mh_sequence *sequence,
                            mh_kv_reading reading, const mh_key_tile *tile, float *keys,
                            float *values, mh_attention_scratch *scratch)
{
    const mh_attention_desc *p = job->desc;
    if (p->cache)
        return mh_kv_cache_tile(p->cache, job->kernels, sequence->index, tile->group, tile->begin,
                                reading, keys, values);
    const size_t at[3] = {sequence->batch, tile->group, mh_key_row(sequence, tile->begin)};
    prefetch_rows(&p->v, sequence, tile->group, tile->begin, tile->count);
    mh_attention_load_keys(job, sequence, tile->group, tile->begin, tile->count, keys, scratch);
    const size_t next = tile->begin + tile->count;
    const size_t end = p->resumed ? job->piece.end : sequence->keys;
    if (next < end)
        prefetch_rows(&p->k, sequence, tile->group, next, mh_smaller(end - next, MH_KEY_TILE));
    ptrdiff_t stride;
    const float *rows = mh_rows_as_f32(job->kernels, &p->v, 2, mh_element(&p->v, 3, at),
                                       tile->count, p->Ev, scratch->staging, &stride);
    const size_t width = job->value_width;
    const bool finite =
        job->kernels->matrix.pack_rows(tile->count, p->Ev, rows, stride, values, width);
    return (mh_kv_tile){{keys, p->E, MH_KEY_TILE, MH_KEY_TILE},
                        {values, MH_KEY_TILE, width, width},
                        finite,
                        MH_ROW_F32};
}

void mh_attention_load_tile(const mh_attention_job *job, const mh_sequence *sequence,
                            mh_kv_reading reading, mh_key_tile *tile, float *keys, float *values,
                            mh_attention_scratch *scratch)
{
    const mh_kv_tile source = read_tile(job, sequence, reading, tile, keys, values, scratch);
    tile->keys = source.keys, tile->values = source.values;
    tile->rows = tile->count;
    tile->finite = source.finite, tile->type = source.type;
}

mh_a_operand mh_attention_queries_in_place(const mh_attention_job *job, const mh_sequence *sequence,
                                           mh_dtype dtype, const mh_attention_scratch *scratch)
{
    const mh_tensor *q = &job->desc->q;
    const mh_query_row *first = scratch->rows, *last = first + scratch->count - 1;
    if (q->dtype != dtype || q->stride[3] != 1 || first->head != last->head)
        return (mh_a_operand){NULL, 0};
    const size_t at[3] = {sequence->batch, first->head, sequence->query_begin + first->query};
    return (mh_a_operand){mh_element(q, 3, at), q->stride[2]};
}

mh_a_operand mh_attention_plain_queries(const mh_attention_job *job, const mh_sequence *sequence,
                                        mh_attention_scratch *scratch)
{
    if (scratch->plain_queries.data)
        return scratch->plain_queries;
    const size_t E = job->desc->E, count = scratch->count;
    mh_a_operand queries = mh_attention_queries_in_place(job, sequence, MH_F32, scratch);
    for (size_t r = 0, run; r < count && !queries.data; r += run) {
        const mh_query_row *row = &scratch->rows[r];
        run = mh_smaller(sequence->T - row->query, count - r);
        mh_attention_load_queries(job, sequence, row->head, row->query, run,
                                  scratch->staged + r * E);
    }
    if (!queries.data)
        queries = (mh_a_operand){scratch->staged, (ptrdiff_t)E};
    return scratch->plain_queries = queries;
}

// acc += scores x values where a dead key's value may be NaN or inf: row by row, with the dead
// rows of the values set to 0. The same operations in the same order as for the whole row block.
static void attention_fma_add_values_nonfinite(const mh_attention_job *job,
                                               const mh_row_block *block, const mh_key_tile *tile,
                                               const uint64_t *live, size_t keys,
                                               mh_attention_scratch *scratch)
{
    const size_t width = job->value_width;
    for (size_t r = 0; r < block->rows; r++) {
        mh_panels_read(&tile->values, keys, scratch->clean);
        for (size_t j = 0; j < keys; j++)
            if (!(live[r] >> j & 1))
                memset(scratch->clean + j * width, 0, width * sizeof(float));
        job->kernels->f32.gemm(&(mh_gemm_args){.m = 1,
                                               .n = width,
                                               .k = keys,
                                               .a = scratch->scores + r * MH_KEY_TILE,
                                               .lda = MH_KEY_TILE,
                                               .b = scratch->clean,
                                               .ldb = (ptrdiff_t)width,
                                               .c = block->state.acc + r * width,
                                               .ldc = (ptrdiff_t)width,
                                               .accumulate = true});
    }
}

// What to prefetch while the panel at column j is read: `next` during the last panel, otherwise the
// address SOON bytes ahead. Nothing for one row of f32: the hardware prefetcher keeps up with it.
static const void *find_prefetch(mh_row_type type, size_t m, size_t n, const mh_panels *b, size_t j,
                                 const char *panel, const void *next)
{
    enum { SOON = 2048 }; // bytes
    if (b->width < b->columns && type == MH_ROW_F32 && m == 1)
        return NULL;
    return j + b->width < n ? panel + SOON : next;
}

// The product `all` with b as its B operand, panel by panel, from column `first` on. `next`, unless
// NULL, is prefetched meanwhile. If it is NULL, there are many rows and the operand is f32: the
// first row group of a block has the most rows, so a tile that was loaded as MH_KV_STORED is never
// used with many.
static void attention_fma_gemm_panels(const mh_kernels *kernels, const mh_gemm_args *all,
                                      size_t first, const mh_panels *b, const void *next)
{
    const mh_row_type type = all->b_type;
    const size_t size = type == MH_ROW_F32 ? sizeof(float) : sizeof(uint16_t);
    mh_gemm_args args = *all;
    for (size_t j = first; j < all->n; j += args.n) {
        const mh_panel_part part = mh_panel_from(b, j, all->n, size);
        args.n = part.columns;
        args.b = part.data, args.ldb = (ptrdiff_t)part.stride;
        args.c = all->c + j;
        if (next)
            kernels->matrix.gemm_stream(&args,
                                        find_prefetch(type, all->m, all->n, b, j, part.data, next));
        else
            kernels->f32.gemm(&args);
    }
}

// Q K^T over the first `used` keys of a tile.
static void attention_fma_gemm_keys(const mh_attention_job *job, const mh_row_block *block,
                                    const mh_key_tile *tile, size_t used, const void *next,
                                    mh_attention_scratch *scratch)
{
    const mh_kernels *kernels = job->kernels;
    const mh_a_operand queries = mh_a_from_row(
        &kernels->f32, mh_attention_plain_queries(job, block->sequence, scratch), block->first);
    const mh_gemm_args args = {.m = block->rows,
                               .n = mh_round_up(used, kernels->lanes),
                               .k = job->desc->E,
                               .a = queries.data,
                               .lda = queries.stride,
                               .c = scratch->scores,
                               .ldc = MH_KEY_TILE,
                               .b_type = tile->type};
    const size_t interleaved = mh_attention_gemm_interleaved(job, tile->begin, args.m, args.n,
                                                             queries, &tile->keys, scratch->scores);
    attention_fma_gemm_panels(kernels, &args, interleaved, &tile->keys, next);
}

// acc += weights V over the first `used` keys of a tile.
static void gemm_values(const mh_attention_job *job, const mh_row_block *block,
                        const mh_key_tile *tile, size_t used, const void *next,
                        mh_attention_scratch *scratch)
{
    const size_t width = job->value_width;
    const mh_gemm_args args = {.m = block->rows,
                               .n = width,
                               .k = used,
                               .a = scratch->scores,
                               .lda = MH_KEY_TILE,
                               .c = block->state.acc,
                               .ldc = (ptrdiff_t)width,
                               .accumulate = true,
                               .b_type = tile->type};
    attention_fma_gemm_panels(job->kernels, &args, 0, &tile->values, next);
}

// Scores, mask, softmax step and weighted values of one row block. If `next` is not NULL, the
// values are prefetched while the keys are read, and `next` while the values are read.
static void attention_fma_attend_rows(const mh_attention_job *job, const mh_row_block *block,
                                      const mh_key_tile *tile, const uint64_t *live,
                                      const float *bias, const void *next,
                                      mh_attention_scratch *scratch)
{
    const mh_kernels *kernels = job->kernels;
    const size_t width = job->value_width, rows = block->rows;
    uint64_t any = 0, all = ~UINT64_C(0);
    for (size_t r = 0; r < rows; r++)
        any |= live[r], all &= live[r];
    if (!any)
        return;

    float *scores = scratch->scores;
    const size_t used = mh_tile_used(any);
    attention_fma_gemm_keys(job, block, tile, used, next ? tile->values.data : NULL, scratch);

    const bool full = mh_tile_full(all, any);
    float scale = job->desc->scale;
    if (job->modified || !full) {
        for (size_t r = 0; r < rows; r++) {
            mh_score_map map =
                mh_attention_score_map(job, block->sequence, &scratch->rows[block->first + r],
                                       tile->begin, live[r], bias + r * MH_KEY_TILE);
            kernels->attention.score_row(&map, used, scores + r * MH_KEY_TILE);
        }
        scale = 1;
    }
    kernels->attention.softmax_step(&(mh_softmax_step){.m = rows,
                                                       .n = used,
                                                       .scale = scale,
                                                       .s = scores,
                                                       .width = width,
                                                       .max = block->state.max,
                                                       .sum = block->state.sum,
                                                       .acc = block->state.acc,
                                                       .ldacc = width});
    for (size_t r = 0; r < rows && job->desc->options.dropout > 0; r++) {
        float *row = scores + r * MH_KEY_TILE;
        kernels->elementwise.dropout_row(
            mh_attention_keep(job, block->sequence, &scratch->rows[block->first + r], tile->begin),
            job->keep_scale, used, row, row);
    }
    if (!tile->finite && !full)
        attention_fma_add_values_nonfinite(job, block, tile, live, used, scratch);
    else
        gemm_values(job, block, tile, used, next, scratch);
}

void mh_attend_tile(const mh_attention_job *job, const mh_row_block *row_group,
                    const mh_key_tile *tile, const uint64_t *live, const float *bias,
                    mh_attention_scratch *scratch)
{
    const size_t most = job->kernels->f32.rows;
    for (size_t r = 0; r < row_group->rows; r += most) {
        const mh_row_block block = mh_row_block_from(job, row_group, r, most);
        attention_fma_attend_rows(job, &block, tile, live + r, bias + r * MH_KEY_TILE, NULL,
                                  scratch);
    }
}

// One query tile and one key tile. On an edge tile the rows are processed in smaller row blocks,
// which compute fewer dead scores.
static void attention_fma_attend_row_block(const mh_attention_job *job, const mh_row_block *block,
                                           mh_key_tile *tile, const void *next,
                                           mh_attention_scratch *scratch)
{
    uint64_t live[MH_MAX_ROW_BLOCK], any = 0, all = ~UINT64_C(0);
    if (!mh_mask_tile(job->desc, job->kernels, block->sequence, scratch->rows + block->first,
                      block->rows, tile->begin, live, scratch->bias))
        return;
    for (size_t r = 0; r < block->rows; r++) {
        scratch->seen[block->first + r] |= live[r] != 0;
        any |= live[r], all &= live[r];
    }
    // Interleaved partial sums need f32 keys.
    const bool stored = next && !mh_attention_is_interleaved(job->desc, tile->begin);
    if (!tile->keys.data)
        mh_attention_load_tile(job, block->sequence, stored ? MH_KV_STORED : MH_KV_F32, tile,
                               tile->keys_memory, tile->values_memory, scratch);
    if (next || mh_tile_full(all, any))
        attention_fma_attend_rows(job, block, tile, live, scratch->bias, next, scratch);
    else
        mh_attend_tile(job, block, tile, live, scratch->bias, scratch);
}

// The address in the cache of the tile after this one, or of this one if it is the last.
static const void *find_next(const mh_attention_job *job, const mh_row_block *row_group,
                             const mh_key_tile *tile, size_t left)
{
    tile += left > 1;
    return mh_kv_cache_at(job->desc->cache, row_group->sequence->index, tile->group, tile->begin);
}

// Few rows read a cache once and in place, except for the first tile of wide heads.
void mh_attend_fma(const mh_attention_job *job, const mh_row_block *row_group, mh_key_tile *tiles,
                   size_t count, mh_attention_scratch *scratch)
{
    const size_t fewest = job->kernels->f32.rows;
    const bool once = job->desc->cache && row_group->rows <= 2 * fewest;
    const size_t most = once ? fewest : job->query_rows;
    memset(row_group->state.acc, 0, row_group->rows * job->value_width * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const void *next = once ? find_next(job, row_group, &tiles[i], count - i) : NULL;
        for (size_t r = 0; r < row_group->rows; r += most) {
            const mh_row_block block = mh_row_block_from(job, row_group, r, most);
            attention_fma_attend_row_block(job, &block, &tiles[i], next, scratch);
        }
    }
}
