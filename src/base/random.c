// SPDX-License-Identifier: MIT
// Element i of (seed, stream) is word i % 4 of philox(counter, key) with
//
//     counter  { i/4 low, i/4 high, stream low, stream high }      key { seed low, seed high }
//
// so that it does not depend on how a buffer is split or which thread fills it.
#include "base/random.h"

#include "base/fpenv.h"
#include "base/philox.h"

#include <math.h>

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
