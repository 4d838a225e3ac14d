// SPDX-License-Identifier: MIT
// multihead/communicator.h: messages between processes (ranks) that work on one thing together, as
// a struct of functions. libmultihead-mpi makes one from MPI (mpi.h); any other transport that can
// send and receive is as good.
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_COMMUNICATOR_H
#define MULTIHEAD_COMMUNICATOR_H

#include <multihead/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// A transfer under way; what it contains is the communicator's business.
typedef struct mh_transfer {
    uint64_t word[2]; // may be copied
} mh_transfer;

// Point-to-point messages between ranks. All functions are called by the thread that called the
// operation, and return MH_OK or an error, which ends the operation on this rank. Messages from one
// rank to another arrive in the order in which they were sent.
typedef struct mh_communicator {
    size_t struct_size; // sizeof(mh_communicator)
    void *user;
    size_t rank, ranks;

    // Starts to send `bytes` bytes, more than 0, which stay unmodified until the transfer is done.
    mh_status (*send)(void *user, size_t to, const void *data, size_t bytes, mh_transfer *transfer);

    // Starts to receive exactly `bytes` bytes.
    mh_status (*receive)(void *user, size_t from, void *data, size_t bytes, mh_transfer *transfer);

    // Whether a transfer is done, in *done; with `wait`, returns only then. Called often, without
    // `wait`, during computation, so that transfers advance meanwhile, of one of several in turn:
    // each call is to let all advance. Also called again for a transfer that is done.
    mh_status (*test)(void *user, mh_transfer *transfer, bool wait, bool *done);
} mh_communicator;

static inline mh_communicator mh_communicator_default(void) // one rank, no messages
{
    mh_communicator communicator;
    memset(&communicator, 0, sizeof communicator);
    communicator.struct_size = sizeof communicator;
    communicator.ranks = 1;
    return communicator;
}

// ---- collectives, which all ranks call with equal sizes -----------------------------------------

// Waits for `count` transfers; after an error for the others, too. Returns the first error.
MH_API mh_status mh_transfers_wait(const mh_communicator *communicator, mh_transfer *transfers,
                                   size_t count);

// Copies rank 0's bytes to all others, along a binomial tree.
MH_API MH_MUST_CHECK mh_status mh_communicator_broadcast(const mh_communicator *communicator,
                                                         void *data, size_t bytes);

// Rank r has bytes [starts[r], starts[r + 1]) of `data`; afterwards all have all of them. In
// log2(ranks) steps; every rank receives every byte once, and sends as much if parts are equal.
MH_API MH_MUST_CHECK mh_status mh_communicator_gather(const mh_communicator *communicator,
                                                      void *data, const size_t *starts);

#ifdef __cplusplus
}
#endif
#endif
