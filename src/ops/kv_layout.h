// SPDX-License-Identifier: MIT
// The memory layout of a tile of cached keys and values; kv_tiles.h draws it. The cache manages
// tiles of 16, 32 or 64 slots; this module reads and writes their contents.
#ifndef MH_OPS_KV_LAYOUT_H
#define MH_OPS_KV_LAYOUT_H

#include "ops/kv_tiles.h"

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

#endif
