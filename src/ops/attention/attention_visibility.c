// SPDX-License-Identifier: MIT
// Positions: the rows of a sequence in a packed batch, the keys that a query may see, and ALiBi
// slopes.
#include "ops/attention/attention_internal.h"

#include "base/fpenv.h"

#include <math.h>

float mh_alibi_slope(size_t head, size_t heads)
{
    if (head >= heads)
        return 0;
    size_t power = 1; // the largest power of two up to `heads`
    while (power <= heads / 2)
        power *= 2;
    // 2^(-8 n / power): powers of two exactly, the rest by repeated square roots, so that no other
    // libm function is involved.
    size_t n = head < power ? head + 1 : 2 * (head - power) + 1;
    size_t steps = head < power ? power : 2 * power;
    mh_fpenv saved = mh_fpenv_enter();
    volatile double slope = 1;  // volatile: computed between mh_fpenv_enter and _leave
    double factor = 0.00390625; // 2^-8
    for (size_t step = steps; n > 0; step /= 2, factor = sqrt(factor)) {
        if (n >= step) {
            n -= step;
            slope *= factor;
        }
    }
    const volatile float result = (float)slope;
    mh_fpenv_leave(saved);
    return result;
}

mh_sequence mh_attention_sequence(const mh_attention_desc *p, size_t b)
{
    const mh_attention_options *o = &p->options;
    mh_sequence s = {.index = b, .batch = b, .T = p->T, .S = p->S};
    if (o->sequences) {
        s.batch = 0;
        s.query_begin = (size_t)o->query_starts[b];
        s.T = (size_t)(o->query_starts[b + 1] - o->query_starts[b]);
    }
    if (o->sequences && !p->cache) {
        s.key_begin = (size_t)o->key_starts[b];
        s.S = (size_t)(o->key_starts[b + 1] - o->key_starts[b]);
    }
    s.first_key = p->first_key;
    s.keys = o->key_lengths ? (size_t)o->key_lengths[b] : s.S;
    s.prefix = o->prefix_lengths ? o->prefix_lengths[b] : 0;
    if (o->causal == MH_CAUSAL_BOTTOM_RIGHT)
        s.offset = (int64_t)s.keys - (int64_t)(p->positions ? p->whole_T : s.T);
    else if (o->causal == MH_CAUSAL_OFFSET || o->causal == MH_CAUSAL_NONE)
        s.offset = o->offset;
    return s;
}

void mh_attention_interval(const mh_attention_desc *p, const mh_sequence *sequence, size_t query,
                           mh_interval *interval)
{
    const mh_attention_options *o = &p->options;
    int64_t position = (int64_t)mh_whole_position(p, query) + sequence->offset;
    int64_t begin = 0, end = (int64_t)sequence->keys;
    if (o->causal != MH_CAUSAL_NONE) {
        int64_t seen = position + 1 > sequence->prefix ? position + 1 : sequence->prefix;
        end = seen < end ? seen : end;
    }
    if (o->window_left >= 0 && position - o->window_left > begin)
        begin = position - o->window_left;
    if (o->window_right >= 0 && position + o->window_right + 1 < end)
        end = position + o->window_right + 1;
    bool empty = end <= begin;
    interval->begin = empty ? 0 : (size_t)begin;
    interval->end = empty ? 0 : (size_t)end;
}
