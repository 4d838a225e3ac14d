// SPDX-License-Identifier: MIT
// Collectives of point-to-point messages; see multihead/communicator.h.
#include <multihead/communicator.h>

#include "base/compiler.h"

mh_status mh_transfers_wait(const mh_communicator *c, mh_transfer *transfers, size_t count)
{
    mh_status found = MH_OK;
    if (!c || (count && !transfers))
        return MH_ERROR_ARGUMENT;
    for (size_t i = 0; i < count; i++) {
        bool done;
        const mh_status status = c->test(c->user, &transfers[i], true, &done);
        found = found ? found : status;
    }
    return found;
}

//     rank   0 -> 4      then   0 -> 2, 4 -> 6      then   0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7
mh_status mh_communicator_broadcast(const mh_communicator *c, void *data, size_t bytes)
{
    mh_transfer transfer;
    size_t distance = 1;
    if (!c || (bytes && !data))
        return MH_ERROR_ARGUMENT;
    if (bytes == 0)
        return MH_OK;
    while (distance < c->ranks && !(c->rank & distance))
        distance *= 2;
    if (c->rank > 0) {
        MH_TRY(c->receive(c->user, c->rank - distance, data, bytes, &transfer));
        MH_TRY(mh_transfers_wait(c, &transfer, 1));
    }
    while ((distance /= 2) > 0)
        if (c->rank + distance < c->ranks) {
            MH_TRY(c->send(c->user, c->rank + distance, data, bytes, &transfer));
            MH_TRY(mh_transfers_wait(c, &transfer, 1));
        }
    return MH_OK;
}

typedef mh_status (*start_fn)(const mh_communicator *c, size_t peer, char *data, size_t bytes,
                              mh_transfer *transfer);

static mh_status start_send(const mh_communicator *c, size_t peer, char *data, size_t bytes,
                            mh_transfer *transfer)
{
    return c->send(c->user, peer, data, bytes, transfer);
}

static mh_status start_receive(const mh_communicator *c, size_t peer, char *data, size_t bytes,
                               mh_transfer *transfer)
{
    return c->receive(c->user, peer, data, bytes, transfer);
}

// Sends or receives parts first to first + count - 1 of `data`, modulo ranks: one message or two.
static mh_status start_parts(const mh_communicator *c, start_fn start, size_t peer, char *data,
                             const size_t *starts, size_t first, size_t count,
                             mh_transfer *transfers, size_t *started)
{
    const size_t R = c->ranks, wrapped = first + count > R ? first + count - R : 0;
    const size_t ends[2][2] = {{first, first + count - wrapped}, {0, wrapped}};
    for (int i = 0; i < 2; i++) {
        const size_t from = starts[ends[i][0]], bytes = starts[ends[i][1]] - from;
        if (bytes) {
            MH_TRY(start(c, peer, data + from, bytes, &transfers[*started]));
            ++*started;
        }
    }
    return MH_OK;
}

// Rank r has the parts of ranks r to r + have - 1, sends them to r - have, and gets as many more
// from r + have:
//
//     rank 0 of 5   0     0 1     0 1 2 3     0 1 2 3 4
mh_status mh_communicator_gather(const mh_communicator *c, void *data, const size_t *starts)
{
    if (!c || !starts || (starts[c->ranks] > starts[0] && !data))
        return MH_ERROR_ARGUMENT;
    const size_t R = c->ranks;
    for (size_t have = 1; have < R; have *= 2) {
        const size_t count = have < R - have ? have : R - have;
        const size_t to = (c->rank + R - have) % R, from = (c->rank + have) % R;
        mh_transfer transfers[4];
        size_t started = 0;
        mh_status status =
            start_parts(c, start_receive, from, data, starts, from, count, transfers, &started);
        if (!status)
            status =
                start_parts(c, start_send, to, data, starts, c->rank, count, transfers, &started);
        if (!status)
            status = mh_transfers_wait(c, transfers, started);
        if (status)
            return status;
    }
    return MH_OK;
}
