// SPDX-License-Identifier: MIT
#include "support/entropy.h"
#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t mh_entropy(void)
{
    static atomic_uint counter; // two calls in one clock tick, should getrandom() fail
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number)
        return number;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_nsec << 32 ^ (uint64_t)getpid() << 8 ^ atomic_fetch_add(&counter, 1);
}
