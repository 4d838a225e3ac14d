// SPDX-License-Identifier: MIT
// What the schemes of sharded attention share: a checked call, the agreement of the ranks, and
// messages as tensors.
#ifndef MH_OPS_SHARDED_INTERNAL_H
#define MH_OPS_SHARDED_INTERNAL_H

#include "ops/attention/attention_grad.h"
#include "ops/sharded/ring.h"
#include "ops/sharded/sharding.h"

// A call after its arguments were checked.
typedef struct mh_sharded_call {
    mh_context *context;
    mh_communicator communicator;
    mh_sharding sharding;
    mh_shards queries, keys;
    bool backward;
    mh_attention_desc desc; // of this rank's rows; S and options are those of the whole sequence
    mh_tensor lse;          // its rank is 0 if there is none
    mh_tensor dout;
    mh_attention_gradients gradients; // which are wanted is the same on all ranks
} mh_sharded_call;

static inline bool mh_wants_keys(const mh_sharded_call *call)
{
    return call->gradients.dk || call->gradients.dv;
}

// Whether transfers may be advanced by worker 0: only the calling thread may do so, and with a
// caller's loop that worker may be another.
static inline bool mh_sharded_may_poll(const mh_sharded_call *call)
{
    return call->communicator.ranks > 1 && !call->context->parallel_for;
}

// The arguments of a call; the last two are NULL in forward.
typedef struct mh_sharded_arguments {
    const mh_communicator *communicator;
    const mh_sharding *sharding;
    const mh_attention_options *options;
    const mh_tensor *q, *k, *v, *out, *dout;
    const mh_attention_gradients *gradients;
    bool backward;
} mh_sharded_arguments;

// Checks the arguments of one rank. `plan_only`: of the communicator only rank and ranks are used,
// and gradients are not given but all wanted.
mh_status mh_sharded_check(mh_context *context, const mh_sharded_arguments *arguments,
                           bool plan_only, mh_sharded_call *call);

// Every rank's status and arguments, but for the addresses, become known to all: returns `status`
// if it is an error, and an error if another rank has one or differs. ceil(log2(ranks)) messages of
// MH_AGREE_BYTES in each direction. `call` has at least its communicator.
enum { MH_AGREE_BYTES = 32 };
mh_status mh_sharded_agree(const mh_sharded_call *call, mh_status status);
size_t mh_agree_messages(size_t ranks);

// Whether a call that was refused has a communicator to tell the others with.
static inline bool mh_sharded_can_agree(const mh_sharded_call *call)
{
    const mh_communicator *c = &call->communicator;
    return c->rank < c->ranks && c->send && c->receive && c->test;
}

// ---- which units see which ----------------------------------------------------------------------

// For each unit of queries, the keys that some of its queries may see, over all sequences.
void mh_sharded_spans(const mh_sharded_call *call, mh_interval *spans);

// Whether queries with such a span use keys of this unit.
static inline bool mh_span_uses(mh_interval span, size_t key_unit)
{
    return span.begin < (key_unit + 1) * MH_SHARD_UNIT && span.end > key_unit * MH_SHARD_UNIT;
}

// ---- messages -----------------------------------------------------------------------------------

// The next part of a message, contiguous (B, heads, rows, width); see arena.h for measuring.
mh_tensor mh_message_tensor(mh_arena *message, mh_dtype dtype, size_t B, size_t heads, size_t rows,
                            size_t width);
static inline mh_arena mh_message_at(const void *memory)
{
    return (mh_arena){.base = (char *)memory, .size = SIZE_MAX};
}

// Copies between views (B, heads, rows, width) of one shape and dtype.
void mh_copy_rows(const mh_tensor *from, const mh_tensor *to);

// delta = out . dout of each row, into contiguous (B, heads, rows, 1).
void mh_sharded_deltas(mh_context *context, const mh_tensor *out, const mh_tensor *dout,
                       const mh_tensor *delta);

// (B, H, T) as (B, H, T, 1).
mh_tensor mh_as_rows(const mh_tensor *t);

// ---- the schemes --------------------------------------------------------------------------------

// Messages and bytes of a call on one rank.
typedef struct mh_traffic {
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    size_t largest;
} mh_traffic;

void mh_count_sent(mh_traffic *traffic, size_t bytes);
void mh_count_received(mh_traffic *traffic, size_t bytes);

// A scheme takes its memory, lets the ranks agree, and runs. Counting tells what it would send and
// receive, and the memory.
mh_status mh_ring_attention(mh_sharded_call *call);
mh_status mh_ring_attention_count(mh_sharded_call *call, mh_traffic *traffic, size_t *workspace);
mh_status mh_heads_attention(mh_sharded_call *call);
mh_status mh_heads_attention_count(mh_sharded_call *call, mh_traffic *traffic, size_t *workspace);

#endif
