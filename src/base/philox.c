// SPDX-License-Identifier: MIT
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// 2011): ten rounds of two 32x32-bit multiplications, keyed by a Weyl sequence.
//
// Element i of (seed, stream) is word i % 4 of philox(counter, key) with
//
//     counter  { i/4 low, i/4 high, stream low, stream high }      key { seed low, seed high }
//
// so that it does not depend on how a buffer is split or which thread fills it.
#include "base/philox.h"

#include "base/fpenv.h"

#include <math.h>

void mh_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// In double, because high - low may overflow in float. Rounding to float may reach `high`, which
// is outside the interval.
static float scale_to(uint32_t word, float low, float high)
{
    double unit = (double)(word >> 8) * 0x1p-24;
    float value = (float)((double)low + ((double)high - (double)low) * unit);
    return value >= high && low < high ? nextafterf(high, low) : value;
}

void mh_random_uniform(uint64_t seed, uint64_t stream, float low, float high, size_t n, float *out)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    mh_fpenv saved = mh_fpenv_enter();
    for (size_t i = 0; i < n; i += 4) {
        uint64_t block = i / 4;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                                     (uint32_t)(stream >> 32)};
        uint32_t words[4];
        mh_philox(counter, key, words);
        for (size_t lane = 0; lane < 4 && i + lane < n; lane++)
            out[i + lane] = scale_to(words[lane], low, high);
    }
    mh_fpenv_leave(saved);
}
