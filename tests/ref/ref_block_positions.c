// SPDX-License-Identifier: MIT
// Positions of ref_block.h: rotary frequencies with the published scaling rules, as Hugging Face
// transformers computes them, and T5's buckets.
#include "ref/ref_block.h"

#include <math.h>

static const double two_pi = 6.28318530717958647692;

// By wavelength: short ones are kept, long ones stretched, and a smooth transition between them.
static double llama3(const mh_rope_scaling *s, double frequency)
{
    const double wavelength = two_pi / frequency;
    if (wavelength < s->original_length / s->high_frequency)
        return frequency;
    if (wavelength > s->original_length / s->low_frequency)
        return frequency / s->factor;
    const double smooth = (s->original_length / wavelength - s->low_frequency) /
                          (s->high_frequency - s->low_frequency);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

// The dimension whose pair turns `rotations` times in the original length.
static double correction_dim(const mh_rope_scaling *s, double rotations, double width, double base)
{
    return width * log(s->original_length / (rotations * two_pi)) / (2 * log(base));
}

// By pair: a linear ramp from kept to stretched between two dimensions, rounded outwards.
static double yarn(const mh_rope_scaling *s, double width, double base, size_t pair,
                   double frequency)
{
    const double low = fmax(floor(correction_dim(s, s->beta_fast, width, base)), 0);
    double high = fmin(ceil(correction_dim(s, s->beta_slow, width, base)), width - 1);
    if (low == high)
        high += 0.001;
    const double ramp = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return frequency / s->factor * ramp + frequency * (1 - ramp);
}

double ref_rope_frequencies(const mh_block_config *c, double *frequencies)
{
    const mh_rope_scaling *s = c->rope_scaling;
    const double width = (double)(c->rope_width ? c->rope_width : ref_head_dim(c));
    for (size_t i = 0; 2 * i < (size_t)width; i++) {
        const double frequency = pow(c->rope_base, -2.0 * (double)i / width);
        frequencies[i] = !s                          ? frequency
                         : s->rule == MH_ROPE_LINEAR ? frequency / s->factor
                         : s->rule == MH_ROPE_LLAMA3 ? llama3(s, frequency)
                                                     : yarn(s, width, c->rope_base, i, frequency);
    }
    if (!s || s->rule != MH_ROPE_YARN)
        return 1;
    return s->attention_factor > 0 ? s->attention_factor : 0.1 * log(s->factor) + 1;
}

size_t ref_relative_bucket(const mh_block_config *c, int64_t key_minus_query)
{
    size_t buckets = c->relative_buckets, bucket = 0, distance;
    if (c->relative_bidirectional) {
        buckets /= 2;
        bucket = key_minus_query > 0 ? buckets : 0;
        distance = (size_t)(key_minus_query > 0 ? key_minus_query : -key_minus_query);
    } else {
        distance = (size_t)(key_minus_query > 0 ? 0 : -key_minus_query);
    }
    const size_t exact = buckets / 2;
    if (distance < exact)
        return bucket + distance;
    if (exact == 0)
        return bucket; // one bucket has no distances
    // A distance that is exactly the first of its bucket belongs to it, whatever log() rounds.
    const double part =
        log((double)distance / (double)exact) / log((double)c->relative_distance / (double)exact);
    const size_t large = exact + (size_t)(part * (double)(buckets - exact) + 1e-9);
    return bucket + (large < buckets ? large : buckets - 1);
}
