// SPDX-License-Identifier: MIT
// A stream of blocks that all ranks see in one order, over a ring of ranks. The owner of a block
// sends it to the next rank, which passes it on while it computes, up to the last one that uses it:
//
//     time     rank 0        rank 1        rank 2          blocks 0, 1 of rank 0, block 2 of rank 1
//      0       0 ->
//      1       1 ->          0 ->
//      2                     1 ->          0
//      3                     2 ->          1
//      4       2             <-            2 ->
//
// Every link carries every block at most once, and all links are busy at the same time: the bytes
// of a rotating ring, but in an order that is the same on all ranks, so that sums have one order,
// too. A rank has SLOTS message buffers: blocks arrive before they are needed, and a rank may lag
// behind its neighbours by as many. It never waits for a block later than the one it needs; the
// rank with the earliest block of all can therefore always go on.
#ifndef MH_OPS_RING_H
#define MH_OPS_RING_H

#include "base/arena.h"
#include <multihead/sharded.h>

enum { MH_RING_SLOTS = 4 };

// What a rank does with a block; blocks that it neither uses nor passes on are not in its list.
typedef struct mh_ring_visit {
    size_t block;
    bool receive, send; // from the rank before, to the one after; no receive: its own
    bool use;
} mh_ring_visit;

typedef struct mh_ring {
    const mh_communicator *communicator;
    size_t count;
    mh_ring_visit *visits;                            // (count)
    size_t slot_bytes;                                //
    char *slots;                                      // (SLOTS, slot_bytes)
    size_t (*bytes)(const void *user, size_t block);  // of a message
    void (*pack)(void *user, size_t block, void *to); // one of this rank's own blocks
    void *user;

    // Visits are admitted to a slot, arrive, are used and leave, each in order.
    size_t admitted, arrived, used, left;
    bool in_use; // visit `used` is
    mh_transfer receiving[MH_RING_SLOTS], sending[MH_RING_SLOTS];
    mh_status status; // the communicator's first error
} mh_ring;

// How far the block of `owner` travels and what `rank` does with it, if uses[r] says which ranks
// use it. False if it does not come by.
bool mh_ring_plan_visit(size_t ranks, size_t rank, size_t block, size_t owner, const bool *uses,
                        mh_ring_visit *visit);

// Starts or advances transfers as far as possible without waiting; its argument is an mh_ring.
void mh_ring_poll(void *ring);

// The next block that this rank uses, in *block, and its message; the one before may then be
// overwritten. NULL after the last one, when everything has been sent, and after an error.
const void *mh_ring_next(mh_ring *ring, size_t *block);

#endif
