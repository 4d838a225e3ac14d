// SPDX-License-Identifier: MIT
// How cached keys and values are stored. A sequence is a list of chunks of 64 keys; a chunk holds
// all key/value heads and may be shared by several sequences, which count themselves in.
//
//     sequence b:  [chunk 0][chunk 1][chunk 2 ..      chunk:  head 0: tile
//                                                             head 1: tile
//     tile:  keys (E, 64), lanes run over keys | values (64, value_stride)
//
// The first chunk of a sequence that is still short has 16 or 32 places instead of 64.
//
// That is what mh_attention_forward packs its keys and values into, so f32 tiles are used where
// they are, and bf16 or f16 tiles are widened one by one, or number by number where few queries
// read them. Where bf16 products have operands of a
// form of their own, keys and values of a bf16 cache are kept in that form, and used where they
// are as well. Quantised tiles would be another form (kv_form.h), and nothing else.
#ifndef MH_OPS_KV_TILES_H
#define MH_OPS_KV_TILES_H

#include "kernels/kernels.h"
#include <multihead/kv_cache.h>

// Keys whose softmax is summed up before a merge; part of the bits of attention.
enum { MH_KEY_CHUNK = 512, MH_CHUNK_TILES = MH_KEY_CHUNK / MH_KEY_TILE };

typedef struct mh_kv_tile {
    const void *keys;   // (E, columns), of which up to 64 are of use
    size_t columns;     // 16, 32 or 64
    const void *values; // (64, value_stride)
    bool finite;        // the values
    mh_row_type type;   // of both
} mh_kv_tile;

// The same as right operands of a product.
typedef struct mh_kv_operands {
    const void *keys;   // (E, 64), or NULL: the cache has none for this product
    const void *values; // (64, value_stride); those after the last token are 0 or forgotten ones
    bool finite;        // all 64
} mh_kv_operands;

// What attention needs to know of a cache.
typedef struct mh_kv_shape {
    size_t sequences, heads, key_width, value_width, value_stride, longest;
    const int64_t *lengths; // (sequences)
    mh_dtype dtype;
    int64_t window;
} mh_kv_shape;

mh_kv_shape mh_kv_cache_shape(const mh_kv_cache *cache);

// The first key of a sequence that is not forgotten.
size_t mh_kv_cache_first(const mh_kv_cache *cache, size_t b);

// The tile of 64 keys from `begin` on; widened into keys and values (as in mh_kv_tile) if the cache
// is not f32, unless rows `as_stored` will do and all values are finite.
mh_kv_tile mh_kv_cache_tile(const mh_kv_cache *cache, const mh_kernels *kernels, size_t b,
                            size_t head, size_t begin, bool as_stored, float *keys, float *values);

// Where that tile lies, in whatever form, so that it can be sent for.
const void *mh_kv_cache_at(const mh_kv_cache *cache, size_t b, size_t head, size_t begin);

// The same tile as operands of a product; only those that a cache keeps, nothing is packed.
mh_kv_operands mh_kv_cache_operands(const mh_kv_cache *cache, const mh_product *product, size_t b,
                                    size_t head, size_t begin);

#endif
