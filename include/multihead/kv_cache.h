// SPDX-License-Identifier: MIT
// multihead/kv_cache.h: a KV cache for autoregressive decoding: keys and values that grow by a few
// tokens at a time, stored in KV blocks in the kernels' layout.
//
//     mh_kv_cache_append(context, cache, NULL, &k, &v);          // the prompt, or one token
//     options.causal = MH_CAUSAL_BOTTOM_RIGHT;                   // the last query sees all keys
//     mh_attention_cached(context, &options, &q, cache, &out);
//
// Results are bitwise identical to mh_attention_forward over all keys and values, whether the
// prompt is prefilled at once, in segments or token by token.
//
// Stability: stable (base.h).
#ifndef MULTIHEAD_KV_CACHE_H
#define MULTIHEAD_KV_CACHE_H

#include <multihead/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

// The keys and values of some sequences. Belongs to one thread at a time, like a context.
typedef struct mh_kv_cache mh_kv_cache;

typedef struct mh_kv_cache_options {
    size_t struct_size; // sizeof(mh_kv_cache_options)
    size_t sequences;   // B: no default; 0: none yet
    size_t heads;       // G: no default
    size_t key_width;   // E, 1 to MH_MAX_HEAD_DIM: no default
    size_t value_width; // Ev: 0 means key_width
    mh_dtype dtype;     // MH_F32; or MH_BF16, MH_F16: half the memory, rounded when stored
    int64_t window;     // -1: keep everything; else keys more than this before the next token may
                        // be evicted
} mh_kv_cache_options;

static inline mh_kv_cache_options mh_kv_cache_options_default(void)
{
    mh_kv_cache_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.window = -1;
    return options;
}

// Creates an empty cache. Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (dtype), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_kv_cache_create(mh_context *context,
                                                  const mh_kv_cache_options *options,
                                                  mh_kv_cache **cache);
MH_API void mh_kv_cache_free(mh_kv_cache *cache); // NULL is allowed

// Appends keys k (B, G, T, E) and values v (B, G, T, Ev), f32, bf16 or f16: T tokens per sequence,
// or the first counts[b] of them (counts may be NULL). Existing entries are not moved, except the
// first 32 tokens of a short sequence, which are copied when its KV block grows. Errors:
// MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (dtype), MH_ERROR_MEMORY; the contents are then
// unchanged.
MH_API MH_MUST_CHECK mh_status mh_kv_cache_append(mh_context *context, mh_kv_cache *cache,
                                                  const int64_t *counts, const mh_tensor *k,
                                                  const mh_tensor *v);

// The same for packed keys and values, k (1, G, rows, E) and v (1, G, rows, Ev): sequence b gets
// rows starts[b] to starts[b + 1] - 1, perhaps none; starts (B + 1).
MH_API MH_MUST_CHECK mh_status mh_kv_cache_append_packed(mh_context *context, mh_kv_cache *cache,
                                                         const int64_t *starts, const mh_tensor *k,
                                                         const mh_tensor *v);

// Adds `count` empty sequences after those of the cache. Errors: MH_ERROR_ARGUMENT,
// MH_ERROR_MEMORY; the cache is then unchanged.
MH_API MH_MUST_CHECK mh_status mh_kv_cache_extend(mh_context *context, mh_kv_cache *cache,
                                                  size_t count);

// Sequence b continues from the current state of sequence parents[b], for beam search; parents (B).
// Sequences share the KV blocks of their common prefix; only the last, partial block is copied on
// write, when one of them is appended to. Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY; the cache is
// then unchanged.
MH_API MH_MUST_CHECK mh_status mh_kv_cache_reorder(mh_context *context, mh_kv_cache *cache,
                                                   const size_t *parents);

// The same, but changes the number of sequences to `count`, fewer or more than before; parents
// (count). If parents ascend, so that sequences are only dropped, nothing is allocated, and
// MH_ERROR_MEMORY is impossible. Errors: the same.
MH_API MH_MUST_CHECK mh_status mh_kv_cache_select(mh_context *context, mh_kv_cache *cache,
                                                  const size_t *parents, size_t count);

// Drops the tokens of sequence b from `length` on. The keys that the next token attends to must
// still be in the cache: all earlier ones, or those within the cache's window. Errors:
// MH_ERROR_ARGUMENT.
MH_API MH_MUST_CHECK mh_status mh_kv_cache_truncate(mh_context *context, mh_kv_cache *cache,
                                                    size_t b, size_t length);

MH_API size_t mh_kv_cache_length(const mh_kv_cache *cache, size_t b); // evicted keys included
MH_API size_t mh_kv_cache_bytes(const mh_kv_cache *cache);            // of the keys and values held

// out = attention of q (B, H, T, E) over the cached keys and values, as mh_attention_forward
// computes it for k, v of each sequence's length; S is the longest. Or q is packed, (1, H, rows,
// E): options->sequences is then B and options->query_starts (B + 1) divides the rows, some
// sequences perhaps having none. options->key_lengths and key_starts must not be set, nor documents
// with packed queries. A cache with a window needs MH_CAUSAL_BOTTOM_RIGHT, options->window_left
// within it, and no more queries than tokens were appended last. Errors: as mh_attention_forward.
MH_API MH_MUST_CHECK mh_status mh_attention_cached(mh_context *context,
                                                   const mh_attention_options *options,
                                                   const mh_tensor *q, const mh_kv_cache *cache,
                                                   mh_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
