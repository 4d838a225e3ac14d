// SPDX-License-Identifier: MIT
// The arguments of a sharded call. Options are checked by the function that checks those of one
// process, on placeholders with the shape of the whole sequence; then this rank's tensors.
#include "base/communicator_check.h"
#include "base/compiler.h"
#include "base/sized_struct.h"
#include "ops/overlap.h"
#include "ops/sharded/sharded_internal.h"
#include "ops/tensor_check.h"

static mh_status check_communicator(mh_context *context, const mh_communicator *given,
                                    bool plan_only, mh_communicator *c)
{
    return given ? mh_read_communicator(context, given, plan_only, c)
                 : mh_fail(context, MH_ERROR_ARGUMENT, "communicator: found NULL");
}

static mh_status check_sharding(mh_context *context, const mh_sharding *given,
                                mh_sharded_call *call)
{
    mh_sharding *s = &call->sharding;
    const size_t ranks = call->communicator.ranks, most = SIZE_MAX / 64 / sizeof(float);
    if (!given)
        return mh_fail(context, MH_ERROR_ARGUMENT, "sharding: found NULL");
    MH_TRY(MH_READ_STRUCT(context, mh_sharding, given, s));
    if ((unsigned)s->order > MH_SHARD_CONTIGUOUS || (unsigned)s->scheme > MH_SHARD_HEADS)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "sharding: found order %d and scheme %d, expected an mh_shard_order and an "
                       "mh_shard_scheme",
                       (int)s->order, (int)s->scheme);
    if (s->chunk % MH_SHARD_UNIT || (s->chunk && s->order == MH_SHARD_CONTIGUOUS))
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "sharding.chunk: found %zu, expected 0 or, in zigzag order, a multiple of %d", s->chunk,
            MH_SHARD_UNIT);
    if (s->queries > most || s->keys > most || s->chunk > most)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "sharding: found %zu queries and %zu keys in chunks of %zu, expected fewer",
                       s->queries, s->keys, s->chunk);
    call->queries = mh_shards_of(s, s->queries, ranks);
    call->keys = mh_shards_of(s, s->keys, ranks);
    return MH_OK;
}

static mh_status refuse_options(mh_context *context, const mh_attention_options *o)
{
    if (o->weights)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "weights: not available for sharded attention, expected NULL");
    if (o->sequences || o->query_starts || o->key_starts)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "sequences: found %zu packed ones, expected none in sharded attention; "
                       "document ids keep them apart",
                       o->sequences);
    return MH_OK;
}

// A tensor of the shape that the whole sequence would have; its data is never read.
static mh_tensor whole_tensor(const mh_tensor *t, size_t length)
{
    static float none;
    return mh_tensor_4d(&none, t->dtype, t->shape[0], t->shape[1], length, t->shape[3]);
}

static mh_status check_rows(mh_context *context, const mh_sharded_call *call, const char *name,
                            const mh_tensor *t, const mh_shards *shards)
{
    const size_t rank = call->communicator.rank, expected = mh_shards_rows(shards, rank);
    char text[128];
    if (t->shape[2] != expected)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %s, expected %zu in dimension 2 (rank %zu's of %zu positions)",
                       name, mh_tensor_describe(t, text, sizeof text), expected, rank,
                       shards->length);
    return MH_OK;
}

static mh_status check_tensors(mh_context *context, const mh_sharded_arguments *a,
                               mh_sharded_call *call)
{
    const mh_tensor *const tensors[4] = {a->q, a->k, a->v, a->out};
    const char *const names[4] = {"q", "k", "v", "out"};
    for (int i = 0; i < 4; i++) {
        MH_TRY(mh_check_float(context, names[i], tensors[i], 4));
        MH_TRY(check_rows(context, call, names[i], tensors[i],
                          i == 1 || i == 2 ? &call->keys : &call->queries));
    }
    return MH_OK;
}

static mh_status check_lse(mh_context *context, const mh_tensor *q, mh_tensor *lse)
{
    MH_TRY(mh_check_f32(context, "lse", lse, 3));
    const mh_tensor like = mh_tensor_3d(NULL, MH_F32, q->shape[0], q->shape[1], q->shape[2]);
    return mh_check_like(context, "lse", lse, "q without its last dimension", &like);
}

// The desc of this rank's rows.
static mh_status check_attention(mh_context *context, const mh_sharded_arguments *a,
                                 mh_sharded_call *call)
{
    mh_attention_options options = mh_attention_options_default();
    mh_attention_desc *desc = &call->desc;
    MH_TRY(MH_READ_STRUCT(context, mh_attention_options, a->options, &options));
    MH_TRY(refuse_options(context, &options));
    MH_TRY(check_tensors(context, a, call));
    if (options.lse) {
        call->lse = *options.lse;
        MH_TRY(check_lse(context, a->q, &call->lse));
    }
    const mh_sharding *s = &call->sharding;
    const mh_tensor q = whole_tensor(a->q, s->queries), k = whole_tensor(a->k, s->keys),
                    v = whole_tensor(a->v, s->keys), out = whole_tensor(a->out, s->queries);
    options.lse = NULL;
    MH_TRY(mh_attention_check(context, &options, &q, &k, &v, &out, desc));
    desc->whole_T = desc->T, desc->T = a->q->shape[2];
    desc->q = *a->q, desc->k = *a->k, desc->v = *a->v, desc->out = *a->out;
    desc->options.lse = call->lse.rank ? &call->lse : NULL;
    return MH_OK;
}

static mh_status check_gradients(mh_context *context, const mh_sharded_arguments *a,
                                 mh_sharded_call *call)
{
    mh_attention_gradients *g = &call->gradients;
    if (!call->lse.rank)
        return mh_fail(context, MH_ERROR_ARGUMENT, "lse: found NULL, expected what forward wrote");
    if (!a->dout || !a->gradients)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL",
                       a->dout ? "gradients" : "dout");
    MH_TRY(MH_READ_STRUCT(context, mh_attention_gradients, a->gradients, g));
    if (g->dmasks || g->dsinks)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "%s: not available for sharded attention, expected NULL",
                       g->dmasks ? "dmasks" : "dsinks");
    call->dout = *a->dout;
    const struct {
        const char *name;
        const mh_tensor *tensor;
        const char *like_name;
        const mh_tensor *like;
    } rules[] = {{"dout", a->dout, "out", a->out},
                 {"dq", g->dq, "q", a->q},
                 {"dk", g->dk, "k", a->k},
                 {"dv", g->dv, "v", a->v}};
    for (int i = 0; i < 4; i++)
        if (rules[i].tensor)
            MH_TRY(mh_check_like(context, rules[i].name, rules[i].tensor, rules[i].like_name,
                                 rules[i].like));
    return MH_OK;
}

// Planning: gradients and lse as if they were given.
static void assume_gradients(const mh_sharded_arguments *a, mh_sharded_call *call)
{
    call->gradients = mh_attention_gradients_default();
    call->gradients.dq = (mh_tensor *)a->q;
    call->gradients.dk = (mh_tensor *)a->k, call->gradients.dv = (mh_tensor *)a->v;
    call->dout = *a->out;
}

mh_status mh_sharded_check(mh_context *context, const mh_sharded_arguments *a, bool plan_only,
                           mh_sharded_call *call)
{
    memset(call, 0, sizeof *call);
    call->context = context;
    call->backward = a->backward;
    call->sharding = mh_sharding_default();
    call->gradients = mh_attention_gradients_default();
    MH_TRY(check_communicator(context, a->communicator, plan_only, &call->communicator));
    MH_TRY(check_sharding(context, a->sharding, call));
    MH_TRY(check_attention(context, a, call));
    if (a->backward && plan_only)
        assume_gradients(a, call);
    else if (a->backward)
        MH_TRY(check_gradients(context, a, call));
    if (plan_only)
        return MH_OK;
    return a->backward ? mh_attention_grad_check_overlap(context, &call->desc, &call->dout,
                                                         &call->gradients)
                       : mh_attention_check_outputs(context, &call->desc);
}
