// SPDX-License-Identifier: MIT
// Before anything is computed, the ranks agree that all can: an error on one of them would leave
// the others waiting for its messages, and different arguments would mix up what they contain.
//
// Round i sends what a rank knows so far to the rank 2^i after it; minima and maxima may be counted
// twice, so after ceil(log2(ranks)) rounds every rank knows those of all.
#include "base/compiler.h"
#include "ops/sharded/sharded_internal.h"

typedef struct knowledge {
    uint64_t lowest, highest; // hash of the arguments
    uint64_t failed;          // first rank with an error, or UINT64_MAX
    uint64_t status;          // of that rank
} knowledge;

_Static_assert(sizeof(knowledge) == MH_AGREE_BYTES, "the message that is counted");

// ---- what has to be equal -----------------------------------------------------------------------

// FNV-1a
static void add_bytes(uint64_t *hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
}

static void add_text(uint64_t *hash, const char *text) { add_bytes(hash, text, strlen(text) + 1); }

static void add_array(uint64_t *hash, const void *array, size_t bytes) // may be NULL
{
    const uint64_t given = array != NULL;
    add_bytes(hash, &given, sizeof given);
    if (array)
        add_bytes(hash, array, bytes);
}

// Not what they contain, which may be more than a rank reads otherwise.
static void add_masks(uint64_t *hash, const mh_attention_desc *p)
{
    for (size_t i = 0; i < p->options.mask_count; i++) {
        const mh_mask *mask = &p->given_masks[i];
        const mh_tensor *t = &mask->tensor;
        const uint64_t kind[] = {(uint64_t)mask->kind, (uint64_t)t->dtype, (uint64_t)t->rank};
        add_bytes(hash, kind, sizeof kind);
        add_bytes(hash, t->shape, (size_t)t->rank * sizeof *t->shape);
    }
}

static uint64_t hash_dtype(const mh_tensor *t) { return t ? 1 + (uint64_t)t->dtype : 0; }

static uint64_t hash_call(const mh_sharded_call *call)
{
    const mh_attention_desc *p = &call->desc;
    const mh_attention_options *o = &p->options;
    const mh_sharding *s = &call->sharding;
    const mh_attention_gradients *g = &call->gradients;
    const uint64_t integers[] = {p->B,
                                 p->H,
                                 p->G,
                                 p->E,
                                 p->Ev,
                                 s->queries,
                                 s->keys,
                                 s->chunk,
                                 (uint64_t)s->order,
                                 (uint64_t)s->scheme,
                                 call->communicator.ranks,
                                 (uint64_t)p->q.dtype,
                                 (uint64_t)p->k.dtype,
                                 (uint64_t)p->v.dtype,
                                 (uint64_t)p->bf16,
                                 (uint64_t)o->causal,
                                 (uint64_t)o->offset,
                                 (uint64_t)o->window_left,
                                 (uint64_t)o->window_right,
                                 o->mask_count,
                                 (uint64_t)o->alibi,
                                 o->query_documents != NULL,
                                 o->dropout_seed,
                                 o->dropout_sequence,
                                 (uint64_t)o->empty_row,
                                 call->backward,
                                 (uint64_t)p->out.dtype,
                                 (uint64_t)call->dout.dtype,
                                 hash_dtype(g->dq),
                                 hash_dtype(g->dk),
                                 hash_dtype(g->dv)};
    const float reals[] = {p->scale, o->softcap, o->dropout};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    add_text(&hash, mh_version());
    add_text(&hash, call->context->isa);
    add_bytes(&hash, integers, sizeof integers);
    add_bytes(&hash, reals, sizeof reals);
    add_array(&hash, o->key_lengths, p->B * sizeof *o->key_lengths);
    add_array(&hash, o->prefix_lengths, p->B * sizeof *o->prefix_lengths);
    add_array(&hash, o->alibi_slopes, p->H * sizeof *o->alibi_slopes);
    add_array(&hash, o->sinks, p->H * sizeof *o->sinks);
    add_masks(&hash, p);
    return hash;
}

// ---- messages -----------------------------------------------------------------------------------

static void combine(knowledge *own, const knowledge *other)
{
    own->lowest = other->lowest < own->lowest ? other->lowest : own->lowest;
    own->highest = other->highest > own->highest ? other->highest : own->highest;
    if (other->failed < own->failed)
        own->failed = other->failed, own->status = other->status;
}

static mh_status exchange(const mh_communicator *c, size_t distance, const knowledge *own,
                          knowledge *other)
{
    mh_transfer sending, receiving;
    bool done;
    MH_TRY(c->receive(c->user, (c->rank + c->ranks - distance) % c->ranks, other, sizeof *other,
                      &receiving));
    MH_TRY(c->send(c->user, (c->rank + distance) % c->ranks, own, sizeof *own, &sending));
    MH_TRY(c->test(c->user, &receiving, true, &done));
    return c->test(c->user, &sending, true, &done);
}

size_t mh_agree_messages(size_t ranks)
{
    size_t rounds = 0;
    while ((size_t)1 << rounds < ranks)
        rounds++;
    return rounds;
}

mh_status mh_sharded_agree(const mh_sharded_call *call, mh_status status)
{
    const mh_communicator *c = &call->communicator;
    const uint64_t hash = status ? 0 : hash_call(call);
    knowledge own = {status ? UINT64_MAX : hash, hash, status ? c->rank : UINT64_MAX,
                     (uint64_t)status};
    for (size_t round = 0; round < mh_agree_messages(c->ranks); round++) {
        knowledge other;
        mh_status sent = exchange(c, (size_t)1 << round, &own, &other);
        if (sent)
            return status ? status
                          : mh_fail(call->context, sent, "communicator: rank %zu: %s", c->rank,
                                    mh_status_name(sent));
        combine(&own, &other);
    }
    if (status)
        return status;
    if (own.failed != UINT64_MAX)
        return mh_fail(call->context, (mh_status)own.status,
                       "rank %zu: %s (its own message has the details)", (size_t)own.failed,
                       mh_status_name((mh_status)own.status));
    if (own.lowest != own.highest)
        return mh_fail(call->context, MH_ERROR_ARGUMENT,
                       "ranks: found different sizes, options, versions or instruction-set levels, "
                       "expected the same on all %zu ranks",
                       c->ranks);
    return MH_OK;
}
