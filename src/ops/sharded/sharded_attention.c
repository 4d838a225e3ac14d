// SPDX-License-Identifier: MIT
// The calls of multihead/sharded.h: arguments, then a scheme.
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/sized_struct.h"
#include "ops/sharded/sharded_internal.h"
#include <stdio.h>

static mh_status run_call(mh_context *context, const mh_sharded_arguments *arguments)
{
    mh_sharded_call call;
    mh_status status = mh_sharded_check(context, arguments, false, &call);
    if (status && !mh_sharded_can_agree(&call))
        return status;
    if (status)
        return mh_sharded_agree(&call, status);
    return call.sharding.scheme == MH_SHARD_RING ? mh_ring_attention(&call)
                                                 : mh_heads_attention(&call);
}

mh_status mh_sharded_attention_forward(mh_context *context, const mh_communicator *communicator,
                                       const mh_sharding *sharding,
                                       const mh_attention_options *options, const mh_tensor *q,
                                       const mh_tensor *k, const mh_tensor *v, mh_tensor *out)
{
    const mh_sharded_arguments arguments = {.communicator = communicator,
                                            .sharding = sharding,
                                            .options = options,
                                            .q = q,
                                            .k = k,
                                            .v = v,
                                            .out = out};
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = run_call(context, &arguments);
    mh_fpenv_leave(saved);
    return status;
}

mh_status mh_sharded_attention_backward(mh_context *context, const mh_communicator *communicator,
                                        const mh_sharding *sharding,
                                        const mh_attention_options *options, const mh_tensor *q,
                                        const mh_tensor *k, const mh_tensor *v,
                                        const mh_tensor *out, const mh_tensor *dout,
                                        const mh_attention_gradients *gradients)
{
    const mh_sharded_arguments arguments = {.communicator = communicator,
                                            .sharding = sharding,
                                            .options = options,
                                            .q = q,
                                            .k = k,
                                            .v = v,
                                            .out = out,
                                            .dout = dout,
                                            .gradients = gradients,
                                            .backward = true};
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = run_call(context, &arguments);
    mh_fpenv_leave(saved);
    return status;
}

// ---- explain ------------------------------------------------------------------------------------

// Query-key pairs in units that may see each other, of this rank, the busiest and all.
typedef struct pair_counts {
    double own, most, all;
} pair_counts;

static mh_status count_ring_pairs(const mh_sharded_call *call, pair_counts *counts)
{
    const size_t units = mh_shards_units(&call->queries), ranks = call->communicator.ranks;
    mh_arena arena = {0};
    mh_interval *spans = NULL;
    double *pairs = NULL;
    for (int pass = 0; pass < 2; pass++) {
        spans = mh_arena_take(&arena, units, sizeof *spans);
        pairs = mh_arena_take(&arena, ranks, sizeof *pairs);
        if (pass == 0)
            arena = (mh_arena){mh_context_scratch(call->context, arena.used), arena.used, 0, false};
        if (!arena.base)
            return MH_ERROR_MEMORY;
    }
    mh_sharded_spans(call, spans);
    memset(pairs, 0, ranks * sizeof *pairs);
    for (size_t unit = 0; unit < units; unit++)
        for (size_t key = 0; key < mh_shards_units(&call->keys); key++)
            if (mh_span_uses(spans[unit], key))
                pairs[mh_shards_owner(&call->queries, unit)] +=
                    (double)mh_shards_unit_rows(&call->queries, unit) *
                    (double)mh_shards_unit_rows(&call->keys, key);
    *counts = (pair_counts){.own = pairs[call->communicator.rank]};
    for (size_t rank = 0; rank < ranks; rank++) {
        counts->all += pairs[rank];
        counts->most = counts->most < pairs[rank] ? pairs[rank] : counts->most;
    }
    return MH_OK;
}

// All groups are the same work.
static void count_head_pairs(const mh_sharded_call *call, pair_counts *counts)
{
    const size_t G = call->desc.G, ranks = call->communicator.ranks, rank = call->communicator.rank;
    counts->own = (double)((rank + 1) * G / ranks - rank * G / ranks);
    counts->most = (double)((G + ranks - 1) / ranks);
    counts->all = (double)G;
}

static void say_why(const mh_sharded_call *call, const mh_sharded_plan *plan, char *why,
                    size_t size)
{
    const mh_attention_desc *p = &call->desc;
    if (call->sharding.scheme == MH_SHARD_HEADS)
        snprintf(why, size,
                 "all-to-all: %zu key/value heads, each with %zu query heads and all positions, on "
                 "%zu ranks in %zu steps; messages of a step travel while the one before computes",
                 p->G, p->heads_per_group, plan->ranks, (p->G + plan->ranks - 1) / plan->ranks);
    else
        snprintf(
            why, size,
            "ring: %s of %d positions per message, at most %d ahead of the computation; %s chunks "
            "of %zu",
            call->backward ? "k and v, then q and dout," : "k and v", MH_SHARD_UNIT, MH_RING_SLOTS,
            call->sharding.order == MH_SHARD_ZIGZAG ? "zigzag" : "contiguous", plan->chunk);
}

mh_status mh_sharded_attention_explain(mh_context *context, const mh_communicator *communicator,
                                       const mh_sharding *sharding,
                                       const mh_attention_options *options, const mh_tensor *q,
                                       const mh_tensor *k, const mh_tensor *v, const mh_tensor *out,
                                       bool backward, mh_sharded_plan *given)
{
    const mh_sharded_arguments arguments = {.communicator = communicator,
                                            .sharding = sharding,
                                            .options = options,
                                            .q = q,
                                            .k = k,
                                            .v = v,
                                            .out = out,
                                            .backward = backward};
    mh_sharded_call call;
    mh_sharded_plan plan = mh_sharded_plan_default();
    mh_traffic traffic = {0};
    pair_counts pairs;
    if (!given)
        return mh_fail(context, MH_ERROR_ARGUMENT, "plan: found NULL");
    MH_TRY(MH_CHECK_OUTPUT(context, mh_sharded_plan, given));
    MH_TRY(mh_sharded_check(context, &arguments, true, &call));
    const bool ring = call.sharding.scheme == MH_SHARD_RING;
    plan.rank = call.communicator.rank, plan.ranks = call.communicator.ranks;
    plan.query_rows = call.desc.q.shape[2], plan.key_rows = call.desc.k.shape[2];
    plan.chunk = call.queries.chunk;
    for (size_t i = 0; i < mh_agree_messages(plan.ranks) * (ring ? 1 : 2); i++) {
        mh_count_sent(&traffic, MH_AGREE_BYTES);
        mh_count_received(&traffic, MH_AGREE_BYTES);
    }
    MH_TRY(ring ? mh_ring_attention_count(&call, &traffic, &plan.workspace)
                : mh_heads_attention_count(&call, &traffic, &plan.workspace));
    if (ring)
        MH_TRY(count_ring_pairs(&call, &pairs));
    else
        count_head_pairs(&call, &pairs);
    plan.messages_sent = traffic.messages_sent, plan.bytes_sent = traffic.bytes_sent;
    plan.messages_received = traffic.messages_received;
    plan.bytes_received = traffic.bytes_received;
    plan.largest_message = traffic.largest;
    plan.work = pairs.most > 0 ? pairs.own / pairs.most : 0;
    plan.balance = pairs.most > 0 ? pairs.all / pairs.most / (double)plan.ranks : 1;
    say_why(&call, &plan, plan.why, sizeof plan.why);
    mh_write_struct(&plan, sizeof plan, given);
    return MH_OK;
}
