// SPDX-License-Identifier: MIT
// A communicator that a caller gave, checked.
#ifndef MH_BASE_COMMUNICATOR_CHECK_H
#define MH_BASE_COMMUNICATOR_CHECK_H

#include "base/sized_struct.h"
#include <multihead/communicator.h>

// NULL leaves the default, one rank. Its functions are needed unless it is only to be `planned`
// for.
static inline mh_status mh_read_communicator(mh_context *context, const mh_communicator *given,
                                             bool planned, mh_communicator *c)
{
    *c = mh_communicator_default();
    const mh_status status = MH_READ_STRUCT(context, mh_communicator, given, c);
    if (status)
        return status;
    if (c->ranks < 1 || c->rank >= c->ranks || c->ranks > UINT32_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "communicator: found rank %zu of %zu", c->rank,
                       c->ranks);
    if (c->ranks > 1 && !planned && (!c->send || !c->receive || !c->test))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "communicator: found NULL, expected functions to send, receive and test");
    return MH_OK;
}

#endif
