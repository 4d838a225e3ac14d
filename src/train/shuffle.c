// SPDX-License-Identifier: MIT
// Fisher-Yates shuffle. Element i draws 64 bits of Philox (base/philox.h), so that the bias of the
// remainder is at most n / 2^64.
#include "train/shuffle.h"

#include "base/philox.h"

static uint64_t random_at(uint64_t seed, uint64_t stream, uint64_t i)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), (uint32_t)stream,
                                 (uint32_t)(stream >> 32)};
    uint32_t words[4];
    mh_philox(counter, key, words);
    return (uint64_t)words[1] << 32 | words[0];
}

void mh_shuffle(uint64_t seed, uint64_t stream, uint32_t *elements, size_t n, size_t picked)
{
    for (size_t i = 0; i < picked && i + 1 < n; i++) {
        size_t other = i + (size_t)(random_at(seed, stream, i) % (n - i));
        uint32_t element = elements[i];
        elements[i] = elements[other];
        elements[other] = element;
    }
}
