// SPDX-License-Identifier: MIT
// An attention call after its arguments were checked: sizes, defaults and broadcasts resolved.
// Everything downstream relies on it and checks nothing again.
#ifndef MH_OPS_ATTENTION_PROBLEM_H
#define MH_OPS_ATTENTION_PROBLEM_H

#include "ops/kv_tiles.h"
#include <multihead/attention.h>

enum { MH_MAX_MASKS = 8 };

typedef struct mh_attention_problem {
    mh_attention_options options; // complete, whatever the caller's struct_size was
    mh_tensor q, k, v, out;
    const mh_kv_cache *cache;    // source of keys and values instead of k and v, or NULL
    size_t value_stride;         // of the cache's tiles
    size_t B, H, G, T, S, E, Ev; // B sequences; T, S: the longest, if packed
    size_t heads_per_group;      // H / G
    float scale;
    mh_mask masks[MH_MAX_MASKS]; // each broadcast to (B, H, T, S)
    mh_tensor query_documents;   // (B, T), or packed (1, N); only if options has them
    mh_tensor key_documents;     // (B, S)
    bool bf16;                   // GEMMs may round their operands to bf16
    bool additive;               // some mask is MH_MASK_ADD
    bool elementwise;            // live keys depend on more than the row's interval
    size_t weight_heads;         // heads and rows of the weights output
    size_t weight_rows;
} mh_attention_problem;

// One sequence of the batch.
typedef struct mh_sequence {
    size_t index;          // b
    size_t batch;          // b, or 0 if packed
    size_t query_begin, T; // its rows of q and out
    size_t key_begin, S;   // its rows of k and v
    size_t keys;           // valid ones of these: S, or fewer by key_lengths
    int64_t offset;
    int64_t prefix;
} mh_sequence;

// The keys a query may see by causal rule, prefix, window and length: begin <= j < end.
typedef struct mh_interval {
    size_t begin, end;
} mh_interval;

mh_status mh_attention_check(mh_context *context, const mh_attention_options *options,
                             const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                             const mh_tensor *out, mh_attention_problem *problem);

// The same for cached keys and values.
mh_status mh_attention_check_cached(mh_context *context, const mh_attention_options *options,
                                    const mh_tensor *q, const mh_kv_cache *cache,
                                    const mh_tensor *out, mh_attention_problem *problem);

// Rejects out, lse and weights of a checked problem that overlap each other or an input.
mh_status mh_attention_check_outputs(mh_context *context, const mh_attention_problem *problem);

mh_sequence mh_attention_sequence(const mh_attention_problem *problem, size_t b);

void mh_attention_interval(const mh_attention_problem *problem, const mh_sequence *sequence,
                           size_t query, mh_interval *interval);

#endif
