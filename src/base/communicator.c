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

mh_status mh_communicator_gather(const mh_communicator *c, void *data, const size_t *starts)
{
    if (!c || !starts || (starts[c->ranks] > starts[0] && !data))
        return MH_ERROR_ARGUMENT;
    const size_t R = c->ranks, next = (c->rank + 1) % R, previous = (c->rank + R - 1) % R;
    for (size_t step = 0; step + 1 < R; step++) {
        const size_t sent = (c->rank + R - step) % R, received = (previous + R - step) % R;
        const size_t sizes[2] = {starts[sent + 1] - starts[sent],
                                 starts[received + 1] - starts[received]};
        mh_transfer transfers[2];
        size_t count = 0;
        mh_status status = MH_OK;
        if (sizes[1])
            status = c->receive(c->user, previous, (char *)data + starts[received], sizes[1],
                                &transfers[count++]);
        if (!status && sizes[0])
            status =
                c->send(c->user, next, (char *)data + starts[sent], sizes[0], &transfers[count++]);
        if (!status)
            status = mh_transfers_wait(c, transfers, count);
        if (status)
            return status;
    }
    return MH_OK;
}
