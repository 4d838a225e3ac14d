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
// (kv_layout.c), and nothing else.
#ifndef MH_OPS_KV_INTERNAL_H
#define MH_OPS_KV_INTERNAL_H

#include "base/size_math.h"
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

// Whether mh_kv_cache_truncate with these arguments would succeed; its error otherwise.
mh_status mh_kv_cache_check_truncate(mh_context *context, const mh_kv_cache *cache, size_t b,
                                     size_t length);

// Room for `sequences` sequences, so that mh_kv_cache_extend up to that number cannot fail. Error:
// MH_ERROR_MEMORY; the cache is then unchanged.
mh_status mh_kv_cache_reserve(mh_context *context, mh_kv_cache *cache, size_t sequences);

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

// ---- layout -------------------------------------------------------------------------------------

// The memory layout of a tile of cached keys and values. The cache manages
// tiles of 16, 32 or 64 slots; this module reads and writes their contents.

typedef struct mh_kv_layout {
    mh_dtype dtype;
    size_t key_width, value_width;
    size_t value_stride; // value_width rounded up to whole vectors of any level
    size_t key_rows;     // key_width, rounded up to whole steps if packed
    size_t panel;        // columns of a panel of keys and values, unless packed
    size_t element;      // bytes
    mh_gemm gemm;        // keys and values are packed as its B operands; or all 0
} mh_kv_layout;

mh_kv_layout mh_kv_layout_of(const mh_kernels *kernels, mh_dtype dtype, size_t key_width,
                             size_t value_width);

// The slots of the smallest tile.
size_t mh_kv_layout_min_slots(const mh_kv_layout *layout);

// The size of a tile.
size_t mh_kv_layout_bytes(const mh_kv_layout *layout, size_t slots);

// Writes tokens to the slots first .. first + count - 1, which follow the last one written: keys
// from row k of the tensor `keys` on, and values alike. Returns whether the values are finite as
// stored.
bool mh_kv_layout_write(const mh_kv_layout *layout, const mh_kernels *kernels, size_t first,
                        size_t count, const mh_tensor *keys, const void *k, const mh_tensor *values,
                        const void *v, size_t slots, void *tile);

// Copies the first `count` slots of a tile to another, which has as many or more.
void mh_kv_layout_copy(const mh_kv_layout *layout, size_t count, size_t from_slots,
                       const void *from, size_t to_slots, void *to);

// A tile's B operands, if it is packed for this GEMM; else both are NULL.
mh_kv_operands mh_kv_layout_operands(const mh_kv_layout *layout, const mh_gemm *gemm,
                                     const void *tile, bool finite);

// The first `count` slots: in place if they are stored as `reading` asks for, or read into keys and
// values.
mh_kv_tile mh_kv_layout_read(const mh_kv_layout *layout, const mh_kernels *kernels, size_t count,
                             size_t slots, const void *tile, bool finite, mh_kv_reading reading,
                             float *keys, float *values);

// ---- blocks -------------------------------------------------------------------------------------

// The KV blocks of a cache: allocation, sharing, copy on write, growth and release, as decided by
// kv_cache.c.
//
// A block is one tile of each head, and is copied when beams diverge. Sentences have few keys, so a
// sequence's first block starts with 16 slots and is replaced by one of 32, then of 64: 64 at once
// took 7 times the memory in use, and more time for address translation than for reading.
//
// Memory comes in slabs of several blocks, each a quarter of the total so far: those of 2 MB and
// more lie on huge pages, without which TLB misses take up to half the time of decoding.

enum { MH_KV_BLOCK = MH_KEY_TILE, MH_KV_BLOCK_SIZES = 3 };

typedef struct mh_kv_block {
    size_t references;
    struct mh_kv_block *next; // in the list of spare blocks
    size_t slots;             // capacity
    size_t used;              // slots that were ever written
    bool *finite;             // (heads); followed by the tiles of all heads
} mh_kv_block;

typedef struct mh_kv_slab {
    struct mh_kv_slab *next;
    size_t bytes;
} mh_kv_slab;

typedef struct mh_kv_sequence {
    mh_kv_block **blocks; // NULL where forgotten
    size_t count, capacity;
    size_t forgotten; // number of leading blocks that were released
} mh_kv_sequence;

struct mh_kv_cache {
    mh_kv_cache_options options;
    mh_allocator allocator;
    mh_kv_layout layout;
    size_t held;                           // bytes of all blocks in use
    mh_kv_block *spare[MH_KV_BLOCK_SIZES]; // released, for reuse: beams diverge and end at every
                                           // step
    mh_kv_slab *slabs;
    size_t slab_bytes;         // total
    mh_kv_sequence *sequences; // (capacity)
    int64_t *lengths;          // (capacity)
    size_t capacity;           // at least options.sequences
};

// Memory from the cache's own allocator, independent of the calling context.
void *mh_kv_allocate(const mh_kv_cache *cache, size_t bytes);
void mh_kv_release(const mh_kv_cache *cache, void *memory, size_t bytes); // NULL is fine

// The address of a head's tile in a block of `slots` slots; does not read the block.
void *mh_kv_tile_at(const mh_kv_cache *cache, const mh_kv_block *block, size_t slots, size_t head);

// Makes room for the next `count` tokens of sequence b in blocks that it does not share (copy on
// write). False if out of memory; the contents are unchanged then.
bool mh_kv_make_room(mh_kv_cache *cache, size_t b, size_t count);

// Releases the blocks of sequence b that lie before the window.
void mh_kv_forget(mh_kv_cache *cache, size_t b);

// Releases the blocks of a sequence from number `kept` on.
void mh_kv_cut(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t kept);

// Makes `to` a list of the same blocks, with one more reference each; false if out of memory.
bool mh_kv_share(mh_kv_cache *cache, const mh_kv_sequence *from, mh_kv_sequence *to);

// Releases all blocks and the list.
void mh_kv_empty(mh_kv_cache *cache, mh_kv_sequence *sequence);

// Frees the memory of all blocks.
void mh_kv_free_slabs(mh_kv_cache *cache);

#endif
