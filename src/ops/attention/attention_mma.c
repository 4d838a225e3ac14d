// SPDX-License-Identifier: MIT
// Attention, MMA path: a row block of queries against all tiles of a KV split, and only then the
// values, so that their sums stay in tile registers from the first key to the last. The softmax of
// a tile overlaps with the matrix engine's Q K^T of the next one.
//
//                tile 0    tile 1         tile 7                 Ev
//     32 rows  [ scores ][ scores ] ..  [ scores ]
//                 |         |               |  softmax
//              [ weights | weights  ..  | weights ]  x  values = [ acc ]
//
// A row that sees only the first MH_SHORT_KEYS keys of one tile takes the FMA path, as packing
// would not pay off; in short sequences all rows do. The choice depends on the row and its keys
// only, so the result does not depend on the other rows.
#include "base/half.h"
#include "base/size_math.h"
#include "ops/attention/attention_internal.h"
#include "ops/row_io.h"
#include <string.h>

// A row block and a KV split: the state of one pass.
typedef struct mma_pass {
    const mh_attention_job *job;
    const mh_row_block *block;
    mh_key_tile *tiles;
    size_t count;
    mh_attention_scratch *scratch;
    uint64_t live[MH_SPLIT_TILES][MH_MAX_ROW_BLOCK];
    uint64_t any[MH_SPLIT_TILES], all[MH_SPLIT_TILES]; // OR and AND of `live` over the rows
} mma_pass;

static float *bias_of(const mma_pass *p, size_t tile)
{
    const mh_attention_job *job = p->job;
    return p->scratch->bias + (job->desc->additive ? tile * job->mr * MH_KEY_TILE : 0);
}

// ---- which keys ---------------------------------------------------------------------------------

static void combine_rows(mma_pass *p, size_t tile)
{
    p->any[tile] = 0, p->all[tile] = ~UINT64_C(0);
    for (size_t r = 0; r < p->block->rows; r++)
        p->any[tile] |= p->live[tile][r], p->all[tile] &= p->live[tile][r];
}

// The keys that all rows of the row block see, mask tensors and documents aside.
static mh_interval shared_keys(const mma_pass *p)
{
    const mh_query_row *rows = p->scratch->rows + p->block->first;
    mh_interval shared = rows->interval;
    for (size_t r = 1; r < p->block->rows; r++) {
        shared.begin = mh_larger(shared.begin, rows[r].interval.begin);
        shared.end = mh_smaller(shared.end, rows[r].interval.end);
    }
    return shared;
}

static void mask_tile(mma_pass *p, size_t tile)
{
    const mh_attention_job *job = p->job;
    const mh_row_block *block = p->block;
    bool *seen = p->scratch->seen + block->first;
    mh_mask_tile(job->desc, job->kernels, block->sequence, p->scratch->rows + block->first,
                 block->rows, p->tiles[tile].begin, p->live[tile], bias_of(p, tile));
    combine_rows(p, tile);
    for (size_t r = 0; r < block->rows; r++)
        seen[r] |= p->live[tile][r] != 0;
}

// Most tiles lie within the keys that all rows see and need no mask per row.
static void find_live(mma_pass *p)
{
    const size_t rows = p->block->rows;
    const mh_interval shared = shared_keys(p);
    for (size_t i = 0; i < p->count; i++) {
        const size_t begin = p->tiles[i].begin;
        if (p->job->desc->elementwise || begin < shared.begin || begin + MH_KEY_TILE > shared.end) {
            mask_tile(p, i);
            continue;
        }
        memset(p->live[i], 0xFF, rows * sizeof p->live[i][0]);
        p->any[i] = p->all[i] = ~UINT64_C(0);
        memset(p->scratch->seen + p->block->first, true, rows * sizeof(bool));
    }
}

// The only tile in which row r sees keys, if these are among its first MH_SHORT_KEYS; else
// p->count.
static size_t find_few(const mma_pass *p, size_t r)
{
    size_t found = p->count;
    for (size_t i = 0; i < p->count; i++) {
        const uint64_t live = p->live[i][r];
        if (live == 0)
            continue;
        if (found < p->count || live >> MH_SHORT_KEYS)
            return p->count;
        found = i;
    }
    return found;
}

// Moves the rows with few keys from p->live to `few`. Returns whether there are any.
static bool part_few(mma_pass *p, uint64_t few[MH_SPLIT_TILES][MH_MAX_ROW_BLOCK])
{
    bool found = false;
    for (size_t i = 0; i < p->count; i++)
        if (p->all[i] >> MH_SHORT_KEYS) // every row sees more keys
            return false;
    for (size_t r = 0; r < p->block->rows; r++) {
        const size_t tile = find_few(p, r);
        if (tile == p->count)
            continue;
        if (!found)
            memset(few, 0, p->count * sizeof *few);
        found = true;
        few[tile][r] = p->live[tile][r];
        p->live[tile][r] = 0;
    }
    for (size_t i = 0; i < p->count && found; i++)
        combine_rows(p, i);
    return found;
}

static void attend_few(const mma_pass *p, uint64_t few[MH_SPLIT_TILES][MH_MAX_ROW_BLOCK])
{
    mh_attention_scratch *scratch = p->scratch;
    for (size_t i = 0; i < p->count; i++) {
        uint64_t any = 0;
        for (size_t r = 0; r < p->block->rows; r++)
            any |= few[i][r];
        if (!any)
            continue;
        mh_key_tile tile = p->tiles[i];
        mh_attention_load_tile(p->job, p->block->sequence, MH_KV_F32, &tile, scratch->keys_f32,
                               scratch->values_f32, scratch);
        mh_attend_tile(p->job, p->block, &tile, few[i], bias_of(p, i), scratch);
    }
}

// ---- operands -----------------------------------------------------------------------------------

static void pack_queries(const mma_pass *p)
{
    const mh_gemm *gemm = p->job->gemm;
    const size_t E = p->job->desc->E;
    mh_attention_scratch *scratch = p->scratch;
    mh_a_operand rows = mh_attention_queries_in_place(p->job, p->block->sequence, MH_BF16, scratch);
    const mh_row_type type = rows.data ? MH_ROW_BF16 : MH_ROW_F32;
    mh_gemm_enter(gemm);
    if (!rows.data)
        rows = mh_attention_plain_queries(p->job, p->block->sequence, scratch);
    gemm->pack_a(scratch->count, E,
                 &(mh_pack_source){.data = rows.data, .stride = rows.stride, .type = type},
                 scratch->packed_queries);
    scratch->queries =
        (mh_a_operand){scratch->packed_queries, (ptrdiff_t)mh_round_up(E, gemm->step)};
    scratch->packed = true;
}

// The operands of a tile in place, if the cache stores them packed.
static void find_packed(const mma_pass *p, mh_key_tile *tile)
{
    const mh_kv_operands packed = mh_kv_cache_operands(
        p->job->desc->cache, p->job->gemm, p->block->sequence->index, tile->group, tile->begin);
    tile->keys.data = packed.keys, tile->rows = MH_KEY_TILE;
    tile->values.data = packed.values, tile->finite = packed.finite;
}

// Packs directly from keys and values with contiguous rows; false if they are not.
static bool attention_mma_pack_rows(const mma_pass *p, mh_key_tile *tile)
{
    const mh_attention_desc *desc = p->job->desc;
    const mh_gemm *gemm = p->job->gemm;
    const mh_sequence *sequence = p->block->sequence;
    const mh_tensor *k = &desc->k, *v = &desc->v;
    const size_t width = p->job->value_width;
    if (desc->cache || k->stride[3] != 1 || v->stride[3] != 1 || k->dtype != v->dtype ||
        (k->dtype != MH_F32 && k->dtype != MH_BF16) || v->stride[2] < 0)
        return false;
    const size_t at[3] = {sequence->batch, tile->group, mh_key_row(sequence, tile->begin)};
    const mh_pack_source keys = {.data = mh_element(k, 3, at),
                                 .stride = k->stride[2],
                                 .type = mh_row_type_of(k->dtype),
                                 .transposed = true};
    const mh_pack_source values = {
        .data = mh_element(v, 3, at), .stride = v->stride[2], .type = mh_row_type_of(v->dtype)};
    gemm->pack_b(desc->E, tile->count, &keys, tile->keys_memory, MH_KEY_TILE);
    gemm->pack_b(tile->count, desc->Ev, &values, tile->values_memory, width);
    return true;
}

// Packs from any tensor or cache, converted to f32 first.
static void pack_read(const mma_pass *p, mh_key_tile *tile)
{
    const mh_gemm *gemm = p->job->gemm;
    const size_t columns = mh_round_up(tile->count, p->job->kernels->lanes);
    const size_t width = p->job->value_width;
    mh_attention_load_tile(p->job, p->block->sequence, MH_KV_ROWS, tile, p->scratch->keys_f32,
                           p->scratch->values_f32, p->scratch);
    const mh_pack_source keys = {.data = tile->keys.data, .stride = (ptrdiff_t)tile->keys.columns};
    gemm->pack_b(p->job->desc->E, columns, &keys, tile->keys_memory, MH_KEY_TILE);
    mh_b_pack(gemm, tile->count, width, tile->values.data, width, tile->values_memory);
}

static void pack_tile(const mma_pass *p, mh_key_tile *tile)
{
    if (p->job->desc->cache)
        find_packed(p, tile);
    if (tile->keys.data)
        return;
    if (!attention_mma_pack_rows(p, tile))
        pack_read(p, tile);
    const size_t numbers = mh_round_up(tile->count, p->job->gemm->step) * p->job->value_width;
    tile->keys.data = tile->keys_memory, tile->values.data = tile->values_memory;
    tile->rows = tile->count;
    tile->finite =
        p->job->kernels->elementwise.all_finite_16bit(numbers, MH_BF16_EXPONENT, tile->values.data);
}

// ---- scores and softmax -------------------------------------------------------------------------

// The weights as an A operand, from a tile's columns on.
static mh_a_operand weights_from(const mma_pass *p, size_t tile)
{
    const mh_a_operand weights = {p->scratch->weights,
                                  (ptrdiff_t)(p->job->split_tiles * MH_KEY_TILE)};
    return mh_a_from_k(p->job->gemm, weights, tile * MH_KEY_TILE);
}

// Tiles of a cache are read once by few rows, which wait for memory.
static bool reads_once(const mma_pass *p)
{
    enum { FEW_ROWS = 6 };
    return p->job->desc->cache && p->block->rows <= FEW_ROWS;
}

// The operand that is read AHEAD operands after number i: the keys of all tiles, then their values.
static mh_gemm_prefetch operand_ahead(const mma_pass *p, size_t i)
{
    enum { AHEAD = 1 };
    const size_t next = i + AHEAD;
    if (!reads_once(p) || next >= 2 * p->count)
        return (mh_gemm_prefetch){0};
    return (mh_gemm_prefetch){.next = next < p->count ? p->tiles[next].keys.data
                                                      : p->tiles[next - p->count].values.data,
                              .whole = true};
}

// Q K^T of a tile, overlapped with the softmax of the tile before, if there is one.
static void attention_mma_gemm_keys(const mma_pass *p, size_t tile, float *scores,
                                    const mh_softmax_tile *before)
{
    const mh_attention_job *job = p->job;
    const size_t used = mh_round_up(mh_tile_used(p->any[tile]), job->kernels->lanes);
    const mh_a_operand queries = mh_a_from_row(job->gemm, p->scratch->queries, p->block->first);
    const mh_gemm_prefetch prefetch = operand_ahead(p, tile);
    const mh_gemm_args args = {.m = p->block->rows,
                               .n = used,
                               .k = job->desc->E,
                               .a = queries.data,
                               .lda = queries.stride,
                               .b = p->tiles[tile].keys.data,
                               .ldb = MH_KEY_TILE,
                               .c = scores,
                               .ldc = MH_KEY_TILE,
                               .prefetch = prefetch.next ? &prefetch : NULL};
    if (before)
        job->kernels->attention.gemm_softmax(&args, before);
    else
        job->gemm->gemm(&args);
}

// Q K^T to scores. With only_mask, the scale is left to the softmax, and scores are only masked.
static void attention_mma_map_scores(const mma_pass *p, size_t tile, float *scores, bool only_mask)
{
    const mh_row_block *block = p->block;
    for (size_t r = 0; r < block->rows; r++) {
        mh_score_map map = mh_attention_score_map(
            p->job, block->sequence, &p->scratch->rows[block->first + r], p->tiles[tile].begin,
            p->live[tile][r], bias_of(p, tile) + r * MH_KEY_TILE);
        map.scale = only_mask ? 1 : map.scale;
        p->job->kernels->attention.score_row(&map, mh_tile_used(p->any[tile]),
                                             scores + r * MH_KEY_TILE);
    }
}

// The pending softmax of a tile; keep is memory for its dropout mask.
static mh_softmax_tile weight_step(const mma_pass *p, size_t tile, float *scores,
                                   uint64_t keep[MH_MAX_ROW_BLOCK])
{
    const mh_attention_job *job = p->job;
    const mh_row_block *block = p->block;
    const bool mapped = job->modified || !(job->desc->scale > 0);
    if (mapped || !mh_tile_full(p->all[tile], p->any[tile]))
        attention_mma_map_scores(p, tile, scores, !mapped);
    const bool dropout = job->desc->options.dropout > 0;
    for (size_t r = 0; r < block->rows && dropout; r++)
        keep[r] = mh_attention_keep(job, block->sequence, &p->scratch->rows[block->first + r],
                                    p->tiles[tile].begin);
    const mh_a_operand weights = weights_from(p, tile);
    return (mh_softmax_tile){.m = block->rows,
                             .n = mh_tile_used(p->any[tile]),
                             .scale = mapped ? 1 : job->desc->scale,
                             .scores = scores,
                             .max = block->state.max,
                             .sum = block->state.sum,
                             .weights = (void *)weights.data,
                             .columns = (size_t)weights.stride,
                             .before = tile * MH_KEY_TILE,
                             .keep = dropout ? keep : NULL,
                             .keep_scale = job->keep_scale};
}

// Scores and softmax of all live tiles. The softmax of a tile overlaps with Q K^T of the next: the
// matrix engine does not power down, and the scores of two tiles stay in L1. Returns whether there
// are any.
static bool weigh_tiles(const mma_pass *p)
{
    float *scores[2] = {p->scratch->scores, p->scratch->scores + p->job->mr * MH_KEY_TILE};
    uint64_t keep[MH_MAX_ROW_BLOCK];
    mh_softmax_tile step;
    size_t found = 0;
    for (size_t i = 0; reads_once(p) && i < p->count; i++)
        if (p->any[i] && !p->tiles[i].keys.data)
            find_packed(p, &p->tiles[i]);
    for (size_t i = 0; i < p->count; i++) {
        if (!p->any[i])
            continue;
        if (!p->scratch->packed)
            pack_queries(p);
        if (!p->tiles[i].keys.data)
            pack_tile(p, &p->tiles[i]);
        attention_mma_gemm_keys(p, i, scores[found % 2], found > 0 ? &step : NULL);
        step = weight_step(p, i, scores[found % 2], keep);
        found++;
    }
    if (found > 0)
        p->job->kernels->attention.softmax_tile(&step);
    return found > 0;
}

// ---- values -------------------------------------------------------------------------------------

// Whether the value of a key that is dead for some row could make that row NaN.
static bool values_need_care(const mma_pass *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const mh_key_tile *tile = &p->tiles[i];
        if (p->any[i] && !tile->finite &&
            !(mh_tile_full(p->all[i], p->any[i]) &&
              mh_gemm_exact(p->job->gemm, mh_tile_used(p->any[i]), tile->rows)))
            return true;
    }
    return false;
}

// acc = weights x values, one GEMM per run of tiles whose values are adjacent in memory.
static void add_values(const mma_pass *p)
{
    const mh_gemm *gemm = p->job->gemm;
    const size_t width = p->job->value_width;
    const ptrdiff_t tile_bytes = (ptrdiff_t)(MH_KEY_TILE * width * gemm->b_size);
    bool more = false;
    for (size_t i = 0, end; i < p->count; i = end) {
        end = i + 1;
        if (!p->any[i])
            continue;
        while (end < p->count && p->any[end] &&
               (const char *)p->tiles[end].values.data ==
                   (const char *)p->tiles[end - 1].values.data + tile_bytes)
            end++;
        const mh_a_operand weights = weights_from(p, i);
        const size_t keys = (end - 1 - i) * MH_KEY_TILE + mh_tile_used(p->any[end - 1]);
        const mh_gemm_prefetch prefetch = operand_ahead(p, p->count + i);
        gemm->gemm(&(mh_gemm_args){.m = p->block->rows,
                                   .n = width,
                                   .k = keys,
                                   .a = weights.data,
                                   .lda = weights.stride,
                                   .b = p->tiles[i].values.data,
                                   .ldb = (ptrdiff_t)width,
                                   .c = p->block->state.acc,
                                   .ldc = (ptrdiff_t)width,
                                   .accumulate = more,
                                   .prefetch = prefetch.next ? &prefetch : NULL});
        more = true;
    }
}

// The same sums where a dead key's value may be NaN or inf: row by row, with the dead rows of the
// values set to 0.
static void add_tile_nonfinite(const mma_pass *p, size_t tile)
{
    const mh_gemm *gemm = p->job->gemm;
    mh_attention_scratch *scratch = p->scratch;
    const size_t width = p->job->value_width, keys = mh_tile_used(p->any[tile]);
    mh_key_tile source = p->tiles[tile];
    mh_attention_load_tile(p->job, p->block->sequence, MH_KV_ROWS, &source, scratch->keys_f32,
                           scratch->values_f32, scratch);
    for (size_t r = 0; r < p->block->rows; r++) {
        memcpy(scratch->clean, source.values.data, keys * width * sizeof(float));
        for (size_t j = 0; j < keys; j++)
            if (!(p->live[tile][r] >> j & 1))
                memset(scratch->clean + j * width, 0, width * sizeof(float));
        const void *values = mh_b_pack(gemm, keys, width, scratch->clean, width, scratch->clean_b);
        const size_t row = r % gemm->micro_panel;
        const mh_a_operand weights = mh_a_from_row(gemm, weights_from(p, tile), r - row);
        float *acc = p->block->state.acc + r * width, *sums = scratch->sums + row * width;
        memcpy(sums, acc, width * sizeof(float)); // as a GEMM writes whole micro-panels
        gemm->gemm(&(mh_gemm_args){.m = gemm->micro_panel,
                                   .n = width,
                                   .k = keys,
                                   .a = weights.data,
                                   .lda = weights.stride,
                                   .b = values,
                                   .ldb = (ptrdiff_t)width,
                                   .c = scratch->sums,
                                   .ldc = (ptrdiff_t)width,
                                   .accumulate = true});
        memcpy(acc, sums, width * sizeof(float));
    }
}

static void attention_mma_add_values_nonfinite(const mma_pass *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->any[i])
            add_tile_nonfinite(p, i);
}

// ---- row blocks ---------------------------------------------------------------------------------

static void attention_mma_attend_row_block(const mh_attention_job *job, const mh_row_block *block,
                                           mh_key_tile *tiles, size_t count,
                                           mh_attention_scratch *scratch)
{
    mma_pass p = {job, block, tiles, count, scratch, .any = {0}};
    uint64_t few[MH_SPLIT_TILES][MH_MAX_ROW_BLOCK];
    find_live(&p);
    const bool any_few = part_few(&p, few), any_many = weigh_tiles(&p);
    if (any_many && !values_need_care(&p)) {
        add_values(&p);
    } else {
        memset(block->state.acc, 0, block->rows * job->value_width * sizeof(float));
        if (any_many)
            attention_mma_add_values_nonfinite(&p);
    }
    if (any_few)
        attend_few(&p, few);
}

void mh_attend_mma(const mh_attention_job *job, const mh_row_block *row_group, mh_key_tile *tiles,
                   size_t count, mh_attention_scratch *scratch)
{
    for (size_t r = 0; r < row_group->rows; r += job->mr) {
        const mh_row_block block = mh_row_block_from(job, row_group, r, job->mr);
        attention_mma_attend_row_block(job, &block, tiles, count, scratch);
    }
}
