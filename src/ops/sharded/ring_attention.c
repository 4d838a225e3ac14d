// SPDX-License-Identifier: MIT
// Ring attention. Forward and dq: keys and values pass all ranks in key order (ring.h), and every
// rank continues the softmax, or the sum, of its own queries, KV split by KV split, as one process
// does. dk and dv are sums over queries, of one head after the other: queries, output gradients,
// lse and delta pass all ranks in that order, and every rank continues the sums of its own keys. So
// every sum is computed by one rank, in the order in which one process computes it.
//
//     pass         message                                        each rank computes
//     forward      k, v of 512 positions                          out, lse of its queries
//     dq           the same                                       dq of its queries
//     dk, dv       q, dout, lse, delta of 512 positions and       dk, dv of its keys
//                  one head of each key/value head
//
// Scores are recomputed in both passes of backward: 7 products instead of 5.
#include "base/compiler.h"
#include "ops/row_io.h"
#include "ops/sharded/sharded_internal.h"

// One pass: a stream of messages, and what is computed from them.
typedef struct ring_pass {
    mh_sharded_call *call;
    bool of_queries; // messages are queries, and keys stay; otherwise the reverse
    mh_ring ring;
    mh_attention_desc desc;
    mh_interval *spans; // (units of queries)
    bool *uses;         // (ranks)
    size_t *positions;  // (T), of the queries that stay or of a message
    size_t *held;       // (units of this rank's keys), if they stay
    mh_tensor lse, delta;
    mh_attention_job forward;
    mh_attention_grad_job backward;
} ring_pass;

static const mh_shards *moving(const ring_pass *pass)
{
    return pass->of_queries ? &pass->call->queries : &pass->call->keys;
}

// ---- messages -----------------------------------------------------------------------------------

static size_t place_keys(const mh_sharded_call *call, size_t unit, const void *memory, mh_tensor *k,
                         mh_tensor *v)
{
    const mh_attention_desc *p = &call->desc;
    const size_t rows = mh_shards_unit_rows(&call->keys, unit);
    mh_arena message = mh_message_at(memory);
    *k = mh_message_tensor(&message, p->k.dtype, p->B, p->G, rows, p->E);
    *v = mh_message_tensor(&message, p->v.dtype, p->B, p->G, rows, p->Ev);
    return message.used;
}

typedef struct query_message {
    mh_tensor q, dout, lse, delta; // (B, G, rows, width): one query head of each group
} query_message;

static size_t place_queries(const mh_sharded_call *call, size_t unit, const void *memory,
                            query_message *m)
{
    const mh_attention_desc *p = &call->desc;
    const size_t rows = mh_shards_unit_rows(&call->queries, unit);
    mh_arena message = mh_message_at(memory);
    m->q = mh_message_tensor(&message, p->q.dtype, p->B, p->G, rows, p->E);
    m->dout = mh_message_tensor(&message, call->dout.dtype, p->B, p->G, rows, p->Ev);
    m->lse = mh_message_tensor(&message, MH_F32, p->B, p->G, rows, 1);
    m->delta = mh_message_tensor(&message, MH_F32, p->B, p->G, rows, 1);
    return message.used;
}

// Blocks of queries are numbered head by head, those of keys by position.
static size_t unit_of(const ring_pass *pass, size_t block)
{
    return block % mh_shards_units(moving(pass));
}
static size_t head_of(const ring_pass *pass, size_t block)
{
    return block / mh_shards_units(moving(pass));
}

static size_t message_bytes(const void *user, size_t block)
{
    const ring_pass *pass = user;
    mh_tensor k, v;
    query_message m;
    return pass->of_queries ? place_queries(pass->call, unit_of(pass, block), NULL, &m)
                            : place_keys(pass->call, unit_of(pass, block), NULL, &k, &v);
}

static void pack_keys(const ring_pass *pass, size_t unit, void *to)
{
    const mh_attention_desc *p = &pass->call->desc;
    mh_tensor k, v;
    place_keys(pass->call, unit, to, &k, &v);
    const size_t row = mh_shards_row(&pass->call->keys, unit);
    const mh_tensor keys = mh_tensor_slice(p->k, 2, row, k.shape[2]);
    const mh_tensor values = mh_tensor_slice(p->v, 2, row, v.shape[2]);
    mh_copy_rows(&keys, &k);
    mh_copy_rows(&values, &v);
}

// Query head `head` of each key/value head, and `count` rows from `row` on.
static mh_tensor slice_heads(const mh_sharded_call *call, mh_tensor t, size_t head, size_t row,
                             size_t count)
{
    t = mh_tensor_slice(mh_tensor_slice(t, 2, row, count), 1, head, call->desc.G);
    t.stride[1] *= (ptrdiff_t)call->desc.heads_per_group;
    return t;
}

static void pack_queries(const ring_pass *pass, size_t head, size_t unit, void *to)
{
    const mh_sharded_call *call = pass->call;
    query_message m;
    place_queries(call, unit, to, &m);
    const size_t row = mh_shards_row(&call->queries, unit), count = m.q.shape[2];
    const mh_tensor q = slice_heads(call, call->desc.q, head, row, count),
                    out = slice_heads(call, call->desc.out, head, row, count),
                    dout = slice_heads(call, call->dout, head, row, count),
                    lse = slice_heads(call, mh_as_rows(&call->lse), head, row, count);
    mh_copy_rows(&q, &m.q);
    mh_copy_rows(&dout, &m.dout);
    mh_copy_rows(&lse, &m.lse);
    mh_sharded_deltas(call->context, &out, &dout, &m.delta);
}

static void pack_block(void *user, size_t block, void *to)
{
    const ring_pass *pass = user;
    if (pass->of_queries)
        pack_queries(pass, head_of(pass, block), unit_of(pass, block), to);
    else
        pack_keys(pass, unit_of(pass, block), to);
}

// ---- which rank uses which message --------------------------------------------------------------

static void find_uses(const ring_pass *pass, size_t unit)
{
    const mh_sharded_call *call = pass->call;
    const mh_shards *staying = pass->of_queries ? &call->keys : &call->queries;
    memset(pass->uses, 0, call->communicator.ranks * sizeof(bool));
    for (size_t other = 0; other < mh_shards_units(staying); other++) {
        const size_t query_unit = pass->of_queries ? unit : other;
        const size_t key_unit = pass->of_queries ? other : unit;
        if (mh_span_uses(pass->spans[query_unit], key_unit))
            pass->uses[mh_shards_owner(staying, other)] = true;
    }
}

// The visits of this rank. Heads repeat what the first of them does.
static void plan_visits(ring_pass *pass)
{
    const mh_sharded_call *call = pass->call;
    const mh_attention_desc *p = &call->desc;
    const size_t units = mh_shards_units(moving(pass));
    mh_ring *ring = &pass->ring;
    mh_sharded_spans(call, pass->spans);
    ring->count = 0;
    for (size_t unit = 0; unit < units && p->B * p->G * p->H > 0; unit++) {
        find_uses(pass, unit);
        ring->count += mh_ring_plan_visit(call->communicator.ranks, call->communicator.rank, unit,
                                          mh_shards_owner(moving(pass), unit), pass->uses,
                                          &ring->visits[ring->count]);
    }
    const size_t once = ring->count, heads = pass->of_queries ? p->heads_per_group : 1;
    for (size_t i = once; i < once * heads; i++) {
        ring->visits[i] = ring->visits[i - once];
        ring->visits[i].block += units;
    }
    ring->count = once * heads;
}

// ---- memory -------------------------------------------------------------------------------------

static ring_pass plan_pass(mh_sharded_call *call, bool of_queries)
{
    ring_pass pass = {.call = call, .of_queries = of_queries, .desc = call->desc};
    pass.desc.resumed = true;
    if (of_queries) {
        pass.desc.T = MH_SHARD_UNIT;
        pass.desc.H = call->desc.G, pass.desc.heads_per_group = 1;
        pass.desc.head_stride = call->desc.heads_per_group;
    }
    return pass;
}

// The job refers to the pass, which must not move from here on.
static void plan_job(ring_pass *pass)
{
    const mh_sharded_call *call = pass->call;
    mh_attention_gradients wanted = call->gradients;
    if (!call->backward) {
        mh_attention_job_plan(call->context, &pass->desc, &pass->forward);
        return;
    }
    if (pass->of_queries)
        wanted.dq = NULL;
    else
        wanted.dk = wanted.dv = NULL;
    mh_attention_grad_plan(call->context, &pass->desc, &call->dout, &wanted, &pass->backward);
    if (pass->of_queries)
        pass->backward.held_count = mh_shards_held(&call->keys, call->communicator.rank);
}

// What plan_visits needs.
static void layout_visits(ring_pass *pass, mh_arena *arena)
{
    const mh_sharded_call *call = pass->call;
    const size_t heads = pass->of_queries ? call->desc.heads_per_group : 1;
    pass->spans = mh_arena_take(arena, mh_shards_units(&call->queries), sizeof *pass->spans);
    pass->uses = mh_arena_take(arena, call->communicator.ranks, sizeof(bool));
    pass->ring.visits =
        mh_arena_take(arena, mh_shards_units(moving(pass)) * heads, sizeof *pass->ring.visits);
}

static void layout_pass(ring_pass *pass, mh_arena *arena)
{
    const mh_sharded_call *call = pass->call;
    mh_ring *ring = &pass->ring;
    layout_visits(pass, arena);
    pass->positions = mh_arena_take(arena, pass->desc.T, sizeof *pass->positions);
    pass->held = mh_arena_take(arena, mh_shards_held(&call->keys, call->communicator.rank),
                               sizeof *pass->held);
    ring->slot_bytes = mh_shards_units(moving(pass)) ? message_bytes(pass, 0) : 0;
    ring->slots = mh_arena_take(arena, MH_RING_SLOTS, ring->slot_bytes);
    if (call->backward)
        mh_attention_grad_layout(&pass->backward, arena);
    else
        mh_attention_job_layout(&pass->forward, arena);
}

// Fills in what the layout has given memory to.
static void prepare_pass(ring_pass *pass)
{
    const mh_sharded_call *call = pass->call;
    const size_t rank = call->communicator.rank;
    mh_ring *ring = &pass->ring;
    ring->communicator = &call->communicator;
    ring->bytes = message_bytes, ring->pack = pack_block, ring->user = pass;
    plan_visits(pass);
    for (size_t i = 0; i < pass->desc.T && !pass->of_queries; i++)
        pass->positions[i] = mh_shards_position(&call->queries, rank, i);
    for (size_t i = 0; i < mh_shards_held(&call->keys, rank); i++)
        pass->held[i] = mh_shards_position(&call->keys, rank, i * MH_SHARD_UNIT) / MH_SHARD_UNIT;
    pass->desc.positions = pass->positions;
    pass->backward.held = pass->held;
    pass->desc.poll = mh_sharded_may_poll(call) ? mh_ring_poll : NULL;
    pass->desc.poll_user = ring;
}

// ---- the passes ---------------------------------------------------------------------------------

static void take_keys(ring_pass *pass, size_t unit, const void *message)
{
    mh_attention_job *job = pass->call->backward ? &pass->backward.forward : &pass->forward;
    place_keys(pass->call, unit, message, &pass->desc.k, &pass->desc.v);
    pass->desc.first_key = unit * MH_SHARD_UNIT;
    job->piece = (mh_interval){pass->desc.first_key, pass->desc.first_key + pass->desc.k.shape[2]};
}

static void take_queries(ring_pass *pass, size_t block, const void *message)
{
    const size_t unit = unit_of(pass, block);
    query_message m;
    place_queries(pass->call, unit, message, &m);
    pass->desc.q = m.q;
    pass->desc.T = m.q.shape[2];
    pass->desc.first_head = head_of(pass, block);
    pass->lse = m.lse, pass->delta = m.delta;
    pass->desc.options.lse = &pass->lse;
    pass->backward.delta = &pass->delta;
    pass->backward.dout = m.dout;
    for (size_t i = 0; i < pass->desc.T; i++)
        pass->positions[i] = unit * MH_SHARD_UNIT + i;
}

static void take_block(ring_pass *pass, size_t block, const void *message)
{
    mh_context *context = pass->call->context;
    if (pass->of_queries) {
        take_queries(pass, block, message);
        mh_attention_grad_resume_queries(context, &pass->backward);
        return;
    }
    take_keys(pass, unit_of(pass, block), message);
    if (pass->call->backward)
        mh_attention_grad_resume_keys(context, &pass->backward);
    else
        mh_attention_resume(context, &pass->forward);
}

static mh_status run_pass(ring_pass *pass)
{
    mh_sharded_call *call = pass->call;
    mh_context *context = call->context;
    const void *message;
    size_t block;
    if (call->backward)
        mh_attention_grad_begin(&pass->backward);
    else
        mh_attention_begin(&pass->forward);
    while ((message = mh_ring_next(&pass->ring, &block)))
        take_block(pass, block, message);
    if (pass->ring.status)
        return mh_fail(context, pass->ring.status, "communicator: rank %zu: %s",
                       call->communicator.rank, mh_status_name(pass->ring.status));
    if (call->backward)
        mh_attention_grad_finish(context, &pass->backward);
    else
        mh_attention_finish(context, &pass->forward);
    return MH_OK;
}

// ---- the calls ----------------------------------------------------------------------------------

// The passes of a call, one after the other in the same memory.
typedef struct ring_passes {
    size_t count;
    ring_pass pass[2];
} ring_passes;

static void plan_passes(mh_sharded_call *call, ring_passes *passes)
{
    passes->count = 0;
    if (!call->backward || call->gradients.dq)
        passes->pass[passes->count++] = plan_pass(call, false);
    if (call->backward && mh_wants_keys(call))
        passes->pass[passes->count++] = plan_pass(call, true);
    for (size_t i = 0; i < passes->count; i++)
        plan_job(&passes->pass[i]);
}

static void measure_passes(ring_passes *passes, mh_arena *arena)
{
    for (size_t i = 0; i < passes->count; i++) {
        mh_arena one = {0};
        layout_pass(&passes->pass[i], &one);
        arena->used = mh_larger(arena->used, one.used);
        arena->overflow |= one.overflow;
    }
}

mh_status mh_ring_attention(mh_sharded_call *call)
{
    ring_passes passes;
    mh_arena arena = {0};
    plan_passes(call, &passes);
    measure_passes(&passes, &arena);
    mh_status status = mh_attention_take_workspace(call->context, &call->desc.options, &arena);
    MH_TRY(mh_sharded_agree(call, status));
    for (size_t i = 0; i < passes.count && !status; i++) {
        mh_arena memory = arena;
        layout_pass(&passes.pass[i], &memory);
        prepare_pass(&passes.pass[i]);
        status = run_pass(&passes.pass[i]);
    }
    return status ? status : mh_check_cancelled(call->context);
}

static void count_pass(const ring_pass *pass, mh_traffic *traffic)
{
    for (size_t i = 0; i < pass->ring.count; i++) {
        const mh_ring_visit *visit = &pass->ring.visits[i];
        const size_t bytes = message_bytes(pass, visit->block);
        if (visit->send)
            mh_count_sent(traffic, bytes);
        if (visit->receive)
            mh_count_received(traffic, bytes);
    }
}

mh_status mh_ring_attention_count(mh_sharded_call *call, mh_traffic *traffic, size_t *workspace)
{
    ring_passes passes;
    mh_arena all = {0};
    plan_passes(call, &passes);
    measure_passes(&passes, &all);
    MH_TRY(mh_attention_workspace_bytes(call->context, &all, workspace));
    for (size_t i = 0; i < passes.count; i++) {
        mh_arena arena = {0};
        layout_visits(&passes.pass[i], &arena);
        arena = (mh_arena){mh_context_scratch(call->context, arena.used), arena.used, 0, false};
        if (!arena.base)
            return MH_ERROR_MEMORY;
        layout_visits(&passes.pass[i], &arena);
        plan_visits(&passes.pass[i]);
        count_pass(&passes.pass[i], traffic);
    }
    return MH_OK;
}
