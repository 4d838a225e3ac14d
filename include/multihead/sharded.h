// SPDX-License-Identifier: MIT
// multihead/sharded.h: attention over a sequence that is spread over processes (ranks), forward and
// backward, with the bits that one process computes.
//
//     mh_sharding sharding = mh_sharding_default();          // which rank holds which positions
//     sharding.queries = sharding.keys = length;             // of the whole sequence
//     size_t rows = mh_shard_length(&sharding, length, ranks, rank);
//     // fill q, k, v: row i is position mh_shard_position(&sharding, length, ranks, rank, i)
//     mh_sharded_attention_forward(context, &communicator, &sharding, &options, &q, &k, &v, &out);
//
// Every rank passes its own rows of q, k, v and out, and the same options, which are those of the
// whole sequence: lengths, masks (B, H, T, S) and document ids count its positions. No rank ever
// holds all keys (ring), or all heads (all-to-all).
//
// Messages go through a communicator (communicator.h); libmultihead-mpi makes one from MPI.
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_SHARDED_H
#define MULTIHEAD_SHARDED_H

#include <multihead/attention.h>
#include <multihead/communicator.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- which rank holds which positions -----------------------------------------------------------

// A sequence is divided at multiples of this many positions, the KV split of attention.
enum { MH_SHARD_UNIT = 512 };

typedef enum mh_shard_order {
    // Chunks are dealt to ranks 0, 1, .. n-1, n-1, .. 1, 0, 0, 1, ..: for causal attention, in
    // which later positions see more keys.
    MH_SHARD_ZIGZAG = 0,
    // One chunk per rank: for attention without a causal rule, and for windows, whose keys are then
    // on the same rank or its neighbours.
    MH_SHARD_CONTIGUOUS = 1,
} mh_shard_order;

typedef enum mh_shard_scheme {
    // Keys and values travel around a ring of ranks, a KV split per message, while every rank
    // computes its own queries. Backward sends queries and output gradients around, too.
    MH_SHARD_RING = 0,
    // All-to-all: every rank gets all positions of some key/value heads and of the query heads that
    // use them. Fewer bytes for many heads; no more ranks compute than there are key/value heads.
    MH_SHARD_HEADS = 1,
} mh_shard_scheme;

typedef struct mh_sharding {
    size_t struct_size;     // sizeof(mh_sharding)
    size_t queries, keys;   // T and S of the whole sequence: no default
    mh_shard_order order;   // MH_SHARD_ZIGZAG
    size_t chunk;           // 0: chosen by length; positions of a zigzag chunk, a multiple of
                            // MH_SHARD_UNIT. Smaller chunks balance better.
    mh_shard_scheme scheme; // MH_SHARD_RING
} mh_sharding;

static inline mh_sharding mh_sharding_default(void)
{
    mh_sharding sharding;
    memset(&sharding, 0, sizeof sharding);
    sharding.struct_size = sizeof sharding;
    return sharding;
}

// How many of a sequence's `length` positions a rank holds; 0 for a rank that there is not, or an
// invalid sharding.
MH_API size_t mh_shard_length(const mh_sharding *sharding, size_t length, size_t ranks,
                              size_t rank);

// The position of a rank's row; rows are in the order of positions. `length` if there is no such
// row.
MH_API size_t mh_shard_position(const mh_sharding *sharding, size_t length, size_t ranks,
                                size_t rank, size_t row);

// ---- attention ----------------------------------------------------------------------------------

// mh_attention_forward over a whole sequence of which each rank holds a part:
//
//     q (B, H, t, E)   k (B, G, s, E)   v (B, G, s, Ev)   out (B, H, t, Ev)   lse (B, H, t)
//
// t and s are what mh_shard_length says of sharding->queries and sharding->keys. All ranks call it,
// with equal shardings, options and dtypes at one instruction-set level. Every row has the bits
// that mh_attention_forward computes for the whole sequence, for any number of ranks and threads.
//
// All options but packed sequences and `weights` are supported. Errors: as mh_attention_forward,
// MH_ERROR_UNSUPPORTED for those two, and what the communicator returns. If one rank finds an
// error in its arguments, lacks memory, or differs from the others (but for what masks and document
// ids contain), all ranks return an error before anything is computed; `out` is then unmodified.
MH_API MH_MUST_CHECK mh_status mh_sharded_attention_forward(mh_context *context,
                                                            const mh_communicator *communicator,
                                                            const mh_sharding *sharding,
                                                            const mh_attention_options *options,
                                                            const mh_tensor *q, const mh_tensor *k,
                                                            const mh_tensor *v, mh_tensor *out);

// mh_attention_backward, likewise: dq, dk and dv are the gradients of the rank's own rows, and the
// bits those of one process. All ranks want the same gradients. dmasks and dsinks are not
// supported.
MH_API MH_MUST_CHECK mh_status mh_sharded_attention_backward(
    mh_context *context, const mh_communicator *communicator, const mh_sharding *sharding,
    const mh_attention_options *options, const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
    const mh_tensor *out, const mh_tensor *dout, const mh_attention_gradients *gradients);

// What a call will do on one rank.
typedef struct mh_sharded_plan {
    size_t struct_size; // sizeof(mh_sharded_plan)
    size_t rank, ranks;
    size_t query_rows, key_rows;        // t and s
    size_t chunk;                       // positions of a chunk of queries
    uint64_t messages_sent, bytes_sent; // by this rank
    uint64_t messages_received, bytes_received;
    size_t largest_message; // in bytes
    size_t workspace;       // bytes of scratch, message buffers included
    double work;            // multiplications of this rank, to those of the busiest
    double balance;         // of all ranks together, to ranks times the busiest
    char why[512];          // in words
} mh_sharded_plan;

static inline mh_sharded_plan mh_sharded_plan_default(void)
{
    mh_sharded_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.struct_size = sizeof plan;
    return plan;
}

// Fills `plan`, which begins as mh_sharded_plan_default(), for forward, or for backward with all of
// dq, dk and dv, of the dtypes of q, k and v, and a dout like out, without computing or sending
// anything: of the communicator only rank and ranks are read, so any number of ranks can be planned
// for. Neither q, k, v nor out are read. Errors: as forward; `plan` is then unmodified.
MH_API MH_MUST_CHECK mh_status mh_sharded_attention_explain(
    mh_context *context, const mh_communicator *communicator, const mh_sharding *sharding,
    const mh_attention_options *options, const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
    const mh_tensor *out, bool backward, mh_sharded_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
