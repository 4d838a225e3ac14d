// SPDX-License-Identifier: MIT
#include "ops/sharded/ring.h"

bool mh_ring_plan_visit(size_t ranks, size_t rank, size_t block, size_t owner, const bool *uses,
                        mh_ring_visit *visit)
{
    size_t last = 0; // hops
    for (size_t hops = 1; hops < ranks; hops++)
        if (uses[(owner + hops) % ranks])
            last = hops;
    const size_t hops = (rank + ranks - owner) % ranks;
    *visit = (mh_ring_visit){block, hops > 0, hops < last, uses[rank]};
    return hops <= last && (visit->send || visit->use || visit->receive);
}

// ---- transfers ----------------------------------------------------------------------------------

static char *slot_of(const mh_ring *ring, size_t i)
{
    return ring->slots + i % MH_RING_SLOTS * ring->slot_bytes;
}

// Whether a transfer is done; with `wait`, when it is.
static bool is_done(mh_ring *ring, mh_transfer *transfer, bool wait)
{
    bool done = false;
    if (!ring->status)
        ring->status = ring->communicator->test(ring->communicator->user, transfer, wait, &done);
    return done && !ring->status;
}

static void start_send(mh_ring *ring, size_t i)
{
    const mh_communicator *c = ring->communicator;
    const size_t block = ring->visits[i].block;
    ring->status = c->send(c->user, (c->rank + 1) % c->ranks, slot_of(ring, i),
                           ring->bytes(ring->user, block), &ring->sending[i % MH_RING_SLOTS]);
}

static void admit(mh_ring *ring)
{
    const mh_communicator *c = ring->communicator;
    const size_t i = ring->admitted++, block = ring->visits[i].block;
    if (ring->visits[i].receive)
        ring->status =
            c->receive(c->user, (c->rank + c->ranks - 1) % c->ranks, slot_of(ring, i),
                       ring->bytes(ring->user, block), &ring->receiving[i % MH_RING_SLOTS]);
    else
        ring->pack(ring->user, block, slot_of(ring, i));
}

static bool has_arrived(mh_ring *ring, size_t i, bool wait)
{
    return !ring->visits[i].receive || is_done(ring, &ring->receiving[i % MH_RING_SLOTS], wait);
}

static bool has_left(mh_ring *ring, size_t i, bool wait)
{
    return !ring->visits[i].send || is_done(ring, &ring->sending[i % MH_RING_SLOTS], wait);
}

void mh_ring_poll(void *arg)
{
    mh_ring *ring = arg;
    while (ring->left < ring->used && has_left(ring, ring->left, false))
        ring->left++;
    while (!ring->status && ring->admitted < ring->count &&
           ring->admitted - ring->left < MH_RING_SLOTS)
        admit(ring);
    while (!ring->status && ring->arrived < ring->admitted &&
           has_arrived(ring, ring->arrived, false)) {
        if (ring->visits[ring->arrived].send)
            start_send(ring, ring->arrived);
        ring->arrived++;
    }
}

// ---- blocks in order ----------------------------------------------------------------------------

// Waits for what the next visit needs: its message, or a slot to receive it in.
static void wait_for_next(mh_ring *ring)
{
    mh_ring_poll(ring);
    if (ring->status || ring->arrived > ring->used)
        return;
    if (ring->arrived < ring->admitted)
        has_arrived(ring, ring->arrived, true);
    else
        has_left(ring, ring->left, true);
}

const void *mh_ring_next(mh_ring *ring, size_t *block)
{
    ring->used += ring->in_use;
    ring->in_use = false;
    while (!ring->status && ring->used < ring->count) {
        const size_t i = ring->used;
        if (ring->arrived <= i) {
            wait_for_next(ring);
        } else if (ring->visits[i].use) {
            ring->in_use = true;
            *block = ring->visits[i].block;
            return slot_of(ring, i);
        } else {
            ring->used++;
        }
    }
    for (; !ring->status && ring->left < ring->count; ring->left++)
        has_left(ring, ring->left, true);
    return NULL;
}
