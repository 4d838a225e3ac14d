// SPDX-License-Identifier: MIT
// How cached keys and values are stored. A sequence is a list of KV blocks of 64 keys; a block
// holds all key/value heads, is reference-counted and may be shared by several sequences.
//
//     sequence b:  [block 0][block 1][block 2 ..      block:  head 0: tile
//                                                             head 1: tile
//     tile:  keys (E, 64), lanes run over keys | values (64, value_stride)
//
// The first block of a sequence that is still short has 16 or 32 slots instead of 64.
//
// mh_attention_forward packs its keys and values into the same layout, so f32 tiles are used in
// place, and bf16 or f16 tiles are widened one by one, or on the fly where few queries read them.
// Keys and values are stored in panels (mh_panels), whose width the kernel table chooses, so that
// memory is read in order. Where bf16 GEMMs have packed operands, keys and values of a bf16 cache
// are stored packed, and used in place as well. Quantised tiles would be another layout
// (kv_layout.h), and nothing else.
#ifndef MH_OPS_KV_TILES_H
#define MH_OPS_KV_TILES_H

#include "base/sizes.h"
#include "kernels/kernels.h"
#include <multihead/kv_cache.h>
#include <string.h>

// Keys whose online softmax is completed before it is merged; results depend on it bitwise.
enum { MH_KV_SPLIT = 512, MH_SPLIT_TILES = MH_KV_SPLIT / MH_KEY_TILE };

// A matrix (rows, columns) stored as panels of `width` columns, one after the other, each
// contiguous, the last one perhaps narrower. Row-major order is one panel.
//
//     | row 0: columns 0 .. 15 | row 1: 0 .. 15 | .. | row 0: columns 16 .. 31 | row 1: ..
typedef struct mh_panels {
    const void *data;
    size_t rows, columns, width;
} mh_panels;

// The panel that starts at a column: its address, for elements of `size` bytes, and its columns.
static inline const void *mh_panel_at(const mh_panels *p, size_t column, size_t size)
{
    return (const char *)p->data + column * p->rows * size;
}
static inline size_t mh_panel_columns(const mh_panels *p, size_t column)
{
    return mh_smaller(p->width, p->columns - column);
}

// The columns from `column` on, of the first n, that are in one panel: address, number and row
// stride.
typedef struct mh_panel_part {
    const void *data;
    size_t columns, stride;
} mh_panel_part;

static inline mh_panel_part mh_panel_from(const mh_panels *p, size_t column, size_t n, size_t size)
{
    const size_t start = column / p->width * p->width, stride = mh_panel_columns(p, start);
    return (mh_panel_part){(const char *)mh_panel_at(p, start, size) + (column - start) * size,
                           mh_smaller(start + stride, n) - column, stride};
}

// Copies the first rows of f32 panels to row-major order.
static inline void mh_panels_read(const mh_panels *p, size_t rows, float *to)
{
    for (size_t c = 0; c < p->columns; c += p->width) {
        const size_t columns = mh_panel_columns(p, c);
        const float *from = mh_panel_at(p, c, sizeof *from);
        for (size_t r = 0; r < rows; r++)
            memcpy(to + r * p->columns + c, from + r * columns, columns * sizeof *to);
    }
}

// How to read a tile: as row-major f32; as f32 panels; or as stored, if its values are finite.
typedef enum mh_kv_reading { MH_KV_ROWS, MH_KV_F32, MH_KV_STORED } mh_kv_reading;

typedef struct mh_kv_tile {
    mh_panels keys;   // (E, 16, 32 or 64)
    mh_panels values; // (64 or fewer, value_stride)
    bool finite;      // all values are
    mh_row_type type; // of both
} mh_kv_tile;

// The same as packed B operands of a GEMM.
typedef struct mh_kv_operands {
    const void *keys;   // (E, 64), or NULL: the cache has none for this GEMM
    const void *values; // (64, value_stride); after the last token they are 0 or stale
    bool finite;        // all 64 values are
} mh_kv_operands;

// The properties of a cache that attention uses.
typedef struct mh_kv_shape {
    size_t sequences, heads, key_width, value_width, value_stride, longest;
    const int64_t *lengths; // (sequences)
    mh_dtype dtype;
    int64_t window;
} mh_kv_shape;

mh_kv_shape mh_kv_cache_shape(const mh_kv_cache *cache);

// The first key of a sequence that is not forgotten.
size_t mh_kv_cache_first(const mh_kv_cache *cache, size_t b);

// The tile of 64 keys from `begin` on: in place, or read into keys (E, 64) and values (64,
// value_stride).
mh_kv_tile mh_kv_cache_tile(const mh_kv_cache *cache, const mh_kernels *kernels, size_t b,
                            size_t head, size_t begin, mh_kv_reading reading, float *keys,
                            float *values);

// The address of that tile, in whatever layout, for prefetching; wrong if its block has fewer than
// 64 slots. The block's header is prefetched and not read, as reading it would stall.
const void *mh_kv_cache_at(const mh_kv_cache *cache, size_t b, size_t head, size_t begin);

// The same tile as packed operands of a GEMM, if the cache stores them; nothing is packed here.
mh_kv_operands mh_kv_cache_operands(const mh_kv_cache *cache, const mh_gemm *gemm, size_t b,
                                    size_t head, size_t begin);

#endif
