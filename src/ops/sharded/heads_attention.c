// SPDX-License-Identifier: MIT
// Attention with heads spread over ranks by all-to-all messages. Key/value heads, each with the
// query heads that use it (a group), are divided among the ranks; in step i every rank gets all
// positions of its i-th group, computes it as one process does, and returns everybody's rows:
//
//     step 0: inputs        ->  attention  ->  outputs
//     step 1:      inputs (while 0 computes)   ->  attention  ->  outputs
//
// The bits are those of one process because heads never mix.
#include "base/compiler.h"
#include "ops/row_io.h"
#include "ops/sharded/sharded_internal.h"

enum { FIELDS = 6 };

// A tensor whose rows travel: all heads of this rank's rows, and all rows of the current group.
typedef struct field {
    bool of_keys;    // one head per group and rows of keys; otherwise the group's query heads
    mh_tensor local; // (B, H or G, rows of this rank, width); no data: not wanted here
    mh_tensor whole; // (B, heads of a group, T or S, width)
} field;

// Messages between this rank and all others.
typedef struct exchange {
    char *send, *receive;             // (ranks, slot)
    mh_transfer *sending, *receiving; // (ranks)
    bool *sends, *receives;           // (ranks): which are under way
} exchange;

typedef struct direction {
    size_t count, slot; // fields; bytes of the largest message
    field fields[FIELDS];
    exchange exchanges[2]; // in turns
} direction;

typedef struct heads_run {
    mh_sharded_call *call;
    direction in, out;
    mh_attention_desc desc; // of one group
    mh_tensor lse, delta;   // (B, heads of a group, T)
    mh_tensor local_delta;  // (B, H, t)
    mh_attention_gradients gradients;
    mh_tensor dq, dk, dv;
    void *workspace; // of the group's computation
    size_t workspace_size;
    mh_status status; // the communicator's first error
} heads_run;

// ---- groups and ranks ---------------------------------------------------------------------------

static size_t first_group(const mh_sharded_call *call, size_t rank)
{
    return rank * call->desc.G / call->communicator.ranks;
}

static bool is_active(const mh_sharded_call *call, size_t rank, size_t step)
{
    return first_group(call, rank) + step < first_group(call, rank + 1);
}

static size_t steps_of(const mh_sharded_call *call)
{
    return (call->desc.G + call->communicator.ranks - 1) / call->communicator.ranks;
}

// ---- messages -----------------------------------------------------------------------------------

static const mh_shards *shards_of(const mh_sharded_call *call, const field *f)
{
    return f->of_keys ? &call->keys : &call->queries;
}

static size_t heads_of(const mh_sharded_call *call, const field *f)
{
    return f->of_keys ? 1 : call->desc.heads_per_group;
}

// Field i in a message with the rows of `rank`.
static mh_tensor place_field(const mh_sharded_call *call, const field *f, size_t rank,
                             mh_arena *message)
{
    return mh_message_tensor(message, f->local.dtype, call->desc.B, heads_of(call, f),
                             mh_shards_rows(shards_of(call, f), rank), f->local.shape[3]);
}

static size_t message_bytes(const mh_sharded_call *call, const direction *d, size_t rank)
{
    mh_arena message = mh_message_at(NULL);
    for (size_t i = 0; i < d->count; i++)
        place_field(call, &d->fields[i], rank, &message);
    return message.used;
}

// The heads of a group in this rank's rows.
static mh_tensor local_group(const mh_sharded_call *call, const field *f, size_t group)
{
    const size_t heads = heads_of(call, f);
    return mh_tensor_slice(f->local, 1, group * heads, heads);
}

// Copies the rows of a rank between its tensor and that of all rows.
static void copy_units(const mh_shards *shards, size_t rank, const mh_tensor *part,
                       const mh_tensor *whole, bool to_whole)
{
    for (size_t row = 0; row < part->shape[2]; row += MH_SHARD_UNIT) {
        const size_t count = mh_smaller(part->shape[2] - row, MH_SHARD_UNIT);
        const mh_tensor a = mh_tensor_slice(*part, 2, row, count);
        const mh_tensor b =
            mh_tensor_slice(*whole, 2, mh_shards_position(shards, rank, row), count);
        mh_copy_rows(to_whole ? &a : &b, to_whole ? &b : &a);
    }
}

// Between this rank's rows of a group and a message (`pack`: into it).
static void copy_local(const mh_sharded_call *call, const direction *d, size_t group, char *memory,
                       bool pack)
{
    mh_arena message = mh_message_at(memory);
    for (size_t i = 0; i < d->count; i++) {
        const field *f = &d->fields[i];
        const mh_tensor m = place_field(call, f, call->communicator.rank, &message);
        if (!f->local.data)
            continue;
        const mh_tensor local = local_group(call, f, group);
        mh_copy_rows(pack ? &local : &m, pack ? &m : &local);
    }
}

// Between a rank's rows of the current group and a message.
static void copy_whole(const mh_sharded_call *call, const direction *d, size_t rank, char *memory,
                       bool pack)
{
    mh_arena message = mh_message_at(memory);
    for (size_t i = 0; i < d->count; i++) {
        const field *f = &d->fields[i];
        const mh_tensor m = place_field(call, f, rank, &message);
        copy_units(shards_of(call, f), rank, &m, &f->whole, !pack);
    }
}

// This rank's own rows need no message.
static void copy_own(const mh_sharded_call *call, const direction *d, size_t group, bool to_whole)
{
    const size_t rank = call->communicator.rank;
    for (size_t i = 0; i < d->count; i++) {
        const field *f = &d->fields[i];
        const mh_tensor local = local_group(call, f, group);
        if (f->local.data)
            copy_units(shards_of(call, f), rank, &local, &f->whole, to_whole);
    }
}

// ---- exchanges ----------------------------------------------------------------------------------

// What this rank sends to and receives from `peer` in a step. Inputs go to the rank that computes
// and have the sender's rows; outputs come from it and have the receiver's.
typedef struct peer_bytes {
    size_t send, receive;
} peer_bytes;

static peer_bytes bytes_with(const heads_run *run, const direction *d, size_t step, size_t peer)
{
    const mh_sharded_call *call = run->call;
    const size_t rank = call->communicator.rank;
    const bool inputs = d == &run->in;
    peer_bytes bytes = {0, 0};
    if (peer == rank)
        return bytes;
    if (is_active(call, peer, step)) // its computation, this rank's rows
        *(inputs ? &bytes.send : &bytes.receive) = message_bytes(call, d, rank);
    if (is_active(call, rank, step))
        *(inputs ? &bytes.receive : &bytes.send) = message_bytes(call, d, peer);
    return bytes;
}

static void note(heads_run *run, mh_status status)
{
    if (!run->status)
        run->status = status;
}

static void pack_for(const heads_run *run, const direction *d, size_t step, size_t peer, char *to)
{
    if (d == &run->in)
        copy_local(run->call, d, first_group(run->call, peer) + step, to, true);
    else
        copy_whole(run->call, d, peer, to, true);
}

static void start_exchange(heads_run *run, direction *d, size_t step)
{
    const mh_communicator *c = &run->call->communicator;
    exchange *x = &d->exchanges[step % 2];
    for (size_t i = 1; i < c->ranks && !run->status; i++) {
        const size_t to = (c->rank + i) % c->ranks, from = (c->rank + c->ranks - i) % c->ranks;
        const size_t receive = bytes_with(run, d, step, from).receive;
        const size_t send = bytes_with(run, d, step, to).send;
        x->receives[from] = receive > 0, x->sends[to] = send > 0;
        if (receive)
            note(run, c->receive(c->user, from, x->receive + from * d->slot, receive,
                                 &x->receiving[from]));
        if (!send || run->status)
            continue;
        pack_for(run, d, step, to, x->send + to * d->slot);
        note(run, c->send(c->user, to, x->send + to * d->slot, send, &x->sending[to]));
    }
}

// Lets transfers advance; false as soon as one is not done, unless it is to wait for it.
static bool test_exchange(heads_run *run, exchange *x, bool wait)
{
    const mh_communicator *c = &run->call->communicator;
    for (size_t peer = 0; peer < c->ranks && !run->status; peer++) {
        bool received = true, sent = true;
        if (x->receives[peer])
            note(run, c->test(c->user, &x->receiving[peer], wait, &received));
        if (x->sends[peer])
            note(run, c->test(c->user, &x->sending[peer], wait, &sent));
        if (!received || !sent)
            return false;
    }
    return true;
}

// Waits for the messages of a step, and takes what has been received.
static void finish_exchange(heads_run *run, direction *d, size_t step)
{
    const mh_sharded_call *call = run->call;
    exchange *x = &d->exchanges[step % 2];
    test_exchange(run, x, true);
    for (size_t peer = 0; peer < call->communicator.ranks && !run->status; peer++) {
        if (!x->receives[peer])
            continue;
        char *message = x->receive + peer * d->slot;
        if (d == &run->in)
            copy_whole(call, d, peer, message, false);
        else
            copy_local(call, d, first_group(call, peer) + step, message, false);
    }
}

static void poll_exchanges(void *user)
{
    heads_run *run = user;
    for (int i = 0; i < 2; i++) {
        test_exchange(run, &run->in.exchanges[i], false);
        test_exchange(run, &run->out.exchanges[i], false);
    }
}

// ---- memory -------------------------------------------------------------------------------------

static void add_field(direction *d, const mh_tensor *local, bool of_keys)
{
    d->fields[d->count++] = (field){.of_keys = of_keys, .local = *local};
}

// lse or delta; the memory of lse is not wanted in forward if the caller does not ask for it.
static void add_scalars(const mh_sharded_call *call, direction *d, const mh_tensor *t)
{
    const mh_attention_desc *p = &call->desc;
    const mh_tensor none = mh_tensor_4d(NULL, MH_F32, p->B, p->H, p->T, 1);
    const mh_tensor local = t->rank ? mh_as_rows(t) : none;
    add_field(d, &local, false);
}

static void list_fields(heads_run *run)
{
    const mh_sharded_call *call = run->call;
    const mh_attention_desc *p = &call->desc;
    const mh_attention_gradients *g = &call->gradients;
    run->in.count = run->out.count = 0;
    add_field(&run->in, &p->q, false);
    add_field(&run->in, &p->k, true);
    add_field(&run->in, &p->v, true);
    if (!call->backward) {
        add_field(&run->out, &p->out, false);
        add_scalars(call, &run->out, &call->lse);
        return;
    }
    add_field(&run->in, &call->dout, false);
    add_scalars(call, &run->in, &call->lse);
    add_scalars(call, &run->in, &run->local_delta);
    if (g->dq)
        add_field(&run->out, g->dq, false);
    if (g->dk)
        add_field(&run->out, g->dk, true);
    if (g->dv)
        add_field(&run->out, g->dv, true);
}

static void layout_direction(const mh_sharded_call *call, direction *d, mh_arena *arena)
{
    const mh_attention_desc *p = &call->desc;
    const size_t ranks = call->communicator.ranks;
    d->slot = 0;
    for (size_t rank = 0; rank < ranks; rank++)
        d->slot = mh_larger(d->slot, message_bytes(call, d, rank));
    for (size_t i = 0; i < d->count; i++) {
        field *f = &d->fields[i];
        f->whole = mh_message_tensor(arena, f->local.dtype, p->B, heads_of(call, f),
                                     shards_of(call, f)->length, f->local.shape[3]);
    }
    for (int i = 0; i < 2; i++) {
        exchange *x = &d->exchanges[i];
        const size_t slots = ranks > 1 && (size_t)i < steps_of(call) ? ranks : 0;
        x->send = mh_arena_take(arena, slots, d->slot);
        x->receive = mh_arena_take(arena, slots, d->slot);
        x->sending = mh_arena_take(arena, ranks, sizeof *x->sending);
        x->receiving = mh_arena_take(arena, ranks, sizeof *x->receiving);
        x->sends = mh_arena_take(arena, ranks, sizeof(bool));
        x->receives = mh_arena_take(arena, ranks, sizeof(bool));
    }
}

// The group's desc, once its tensors have memory.
static void describe_group(heads_run *run)
{
    const mh_sharded_call *call = run->call;
    const field *in = run->in.fields, *out = run->out.fields;
    mh_attention_desc *p = &run->desc;
    const size_t heads = call->desc.heads_per_group;
    *p = call->desc;
    p->H = heads, p->G = 1, p->T = p->whole_T;
    p->q = in[0].whole, p->k = in[1].whole, p->v = in[2].whole;
    if (!call->backward) {
        p->out = out[0].whole;
        run->lse = out[1].whole;
    } else {
        run->lse = in[4].whole, run->delta = in[5].whole;
        size_t i = 0;
        run->gradients = mh_attention_gradients_default();
        if (call->gradients.dq)
            run->dq = out[i++].whole, run->gradients.dq = &run->dq;
        if (call->gradients.dk)
            run->dk = out[i++].whole, run->gradients.dk = &run->dk;
        if (call->gradients.dv)
            run->dv = out[i++].whole, run->gradients.dv = &run->dv;
    }
    p->options.lse = &run->lse;
}

static mh_status measure_group(heads_run *run)
{
    mh_arena arena = {0};
    describe_group(run);
    if (run->call->backward)
        mh_attention_backward_measure(run->call->context, &run->desc, &run->in.fields[3].whole,
                                      &run->gradients, &arena);
    else
        mh_attention_forward_measure(run->call->context, &run->desc, &arena);
    return mh_attention_workspace_bytes(run->call->context, &arena, &run->workspace_size);
}

static void layout_run(heads_run *run, mh_arena *arena)
{
    const mh_sharded_call *call = run->call;
    const mh_attention_desc *p = &call->desc;
    const size_t rows = call->backward ? p->B * p->H * p->T : 0;
    float *delta = mh_arena_take(arena, rows, sizeof(float));
    run->local_delta = mh_tensor_3d(delta, MH_F32, p->B, p->H, p->T);
    list_fields(run);
    layout_direction(call, &run->in, arena);
    layout_direction(call, &run->out, arena);
    describe_group(run);
    run->workspace = mh_arena_take(arena, run->workspace_size, 1);
}

static mh_status measure_run(heads_run *run, mh_arena *arena)
{
    layout_run(run, arena);
    MH_TRY(measure_group(run));
    *arena = (mh_arena){0};
    layout_run(run, arena);
    return MH_OK;
}

// ---- the steps ----------------------------------------------------------------------------------

static mh_status attend_group(heads_run *run, size_t group)
{
    const mh_sharded_call *call = run->call;
    mh_attention_desc *p = &run->desc;
    p->first_head = group * call->desc.heads_per_group;
    p->options.workspace = run->workspace, p->options.workspace_size = run->workspace_size;
    p->poll = mh_sharded_may_poll(call) ? poll_exchanges : NULL;
    p->poll_user = run;
    if (call->backward)
        return mh_attention_backward_desc(call->context, p, &run->in.fields[3].whole, &run->delta,
                                          &run->gradients);
    return mh_attention_forward_desc(call->context, p);
}

static mh_status run_steps(heads_run *run)
{
    const mh_sharded_call *call = run->call;
    const size_t rank = call->communicator.rank, steps = steps_of(call);
    mh_status status = MH_OK;
    if (steps > 0)
        start_exchange(run, &run->in, 0);
    for (size_t step = 0; step < steps; step++) {
        const size_t group = first_group(call, rank) + step;
        const bool active = is_active(call, rank, step);
        finish_exchange(run, &run->in, step);
        if (active)
            copy_own(call, &run->in, group, true);
        if (step + 1 < steps)
            start_exchange(run, &run->in, step + 1);
        if (active && !status && !run->status)
            status = attend_group(run, group); // cancelled: messages go on, for the others
        if (step > 0)
            finish_exchange(run, &run->out, step - 1);
        if (active && !status)
            copy_own(call, &run->out, group, false);
        start_exchange(run, &run->out, step);
    }
    if (steps > 0)
        finish_exchange(run, &run->out, steps - 1);
    return status;
}

static void prepare_run(heads_run *run)
{
    const mh_sharded_call *call = run->call;
    direction *const directions[2] = {&run->in, &run->out};
    for (int i = 0; i < 4; i++) {
        exchange *x = &directions[i / 2]->exchanges[i % 2];
        memset(x->sends, 0, call->communicator.ranks * sizeof(bool));
        memset(x->receives, 0, call->communicator.ranks * sizeof(bool));
    }
    const mh_tensor delta = mh_as_rows(&run->local_delta);
    if (call->backward)
        mh_sharded_deltas(call->context, &call->desc.out, &call->dout, &delta);
}

mh_status mh_heads_attention(mh_sharded_call *call)
{
    heads_run run = {.call = call};
    mh_arena arena = {0};
    mh_status status = measure_run(&run, &arena);
    if (!status)
        status = mh_attention_take_workspace(call->context, &call->desc.options, &arena);
    MH_TRY(mh_sharded_agree(call, status));
    layout_run(&run, &arena);
    prepare_run(&run);
    status = run_steps(&run);
    if (run.status)
        return mh_fail(call->context, run.status, "communicator: rank %zu: %s",
                       call->communicator.rank, mh_status_name(run.status));
    return mh_sharded_agree(call, status); // whose outputs may be a cancelled rank's
}

mh_status mh_heads_attention_count(mh_sharded_call *call, mh_traffic *traffic, size_t *workspace)
{
    heads_run run = {.call = call};
    mh_arena arena = {0};
    MH_TRY(measure_run(&run, &arena));
    const direction *const directions[2] = {&run.in, &run.out};
    for (size_t step = 0; step < steps_of(call); step++)
        for (size_t i = 0; i < 2 * call->communicator.ranks; i++) {
            const peer_bytes bytes = bytes_with(&run, directions[i % 2], step, i / 2);
            if (bytes.send)
                mh_count_sent(traffic, bytes.send);
            if (bytes.receive)
                mh_count_received(traffic, bytes.receive);
        }
    return mh_attention_workspace_bytes(call->context, &arena, workspace);
}
