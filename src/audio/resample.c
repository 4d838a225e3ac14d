// SPDX-License-Identifier: MIT
// Resampling by a rational factor L / M with a polyphase filter.
//
// The new sample n lies at n M / L of the old ones: between them at one of L phases, each of which
// has its taps of the same continuous filter, a sinc with a Kaiser window,
//
//     h(x) = c sinc(c x) I0(beta sqrt(1 - (x / half)^2)) / I0(beta),   |x| < half = WIDTH / c
//
// with the cutoff c = CUTOFF min(1, L / M) of the old Nyquist frequency. Taps of a phase are scaled
// so that their sum is 1. A tap is computed in double and stored in f32, a new sample summed in
// double.
//
// Rates without a common divisor have many phases, 16000 of 1612 taps from 191,999 Hz to 16 kHz,
// which took 6 s for a sound of one sample. New samples n and n + L have the same phase, so row
// n mod L of the taps is theirs, and a sound of fewer than L new samples has that many rows.
#include "audio/audio_internal.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "base/size_math.h"
#include "base/trig.h"
#include <math.h>
#include <string.h>

// 0.955: the transition band of 64 zero crossings is 9 % wide, and ends where aliases would begin.
#define CUTOFF 0.955
enum { WIDTH = 64, CHUNK = 4096 };
static const double kaiser_beta = 10.06; // 100 dB

typedef struct resampler {
    const float *x;
    size_t count, L, M;
    size_t half; // taps on each side
    size_t rows; // of taps: min(L, made)
    float *taps; // (rows, 2 half)
    double *row; // (threads, 2 half): taps before they are scaled
    float *y;    // (made)
    size_t made;
} resampler;

static size_t greatest_common_divisor(size_t a, size_t b)
{
    while (b > 0) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// The modified Bessel function of order 0. Terms fall from the first one that does not change the
// sum on: while they rise, each is more than the mean of those before it.
static double bessel_i0(double x)
{
    double sum = 1, term = 1, before = 0;
    for (int k = 1; k < 40 && sum != before; k++) {
        term *= (x / (2 * k)) * (x / (2 * k));
        before = sum;
        sum += term;
    }
    return sum;
}

static double filter_at(double x, double cutoff)
{
    const double u = x * cutoff, z = u / WIDTH, pi = 0x1.921fb54442d18p1;
    if (z * z >= 1)
        return 0;
    const double sinc = u == 0 ? 1 : mh_sin_turns(u / 2) / (pi * u);
    return sinc * bessel_i0(kaiser_beta * sqrt(1 - z * z));
}

// ---- taps ---------------------------------------------------------------------------------------

static double cutoff_of(const resampler *r)
{
    return CUTOFF * (r->L < r->M ? (double)r->L / (double)r->M : 1);
}

// Those of new sample `row`.
static void make_taps(void *arg, size_t row, size_t worker)
{
    const resampler *r = arg;
    const size_t count = 2 * r->half, phase = row * r->M % r->L;
    const double shift = (double)phase / (double)r->L, cutoff = cutoff_of(r);
    float *taps = r->taps + row * count;
    double *values = r->row + worker * count, sum = 0;
    for (size_t k = 0; k < count; k++) {
        values[k] = filter_at((double)k + 1 - (double)r->half - shift, cutoff);
        sum += values[k];
    }
    for (size_t k = 0; k < count; k++)
        taps[k] = (float)(values[k] / sum);
}

// ---- samples ------------------------------------------------------------------------------------

// Sample n, behind old sample `at`: old samples at - half + 1 to at + half, 0 outside.
static float resample_at(const resampler *r, size_t n)
{
    const size_t at = (size_t)((unsigned long long)n * r->M / r->L);
    const float *taps = r->taps + n % r->L * 2 * r->half;
    const size_t first = at + 1 < r->half ? r->half - at - 1 : 0;
    size_t end = 2 * r->half;
    if (at + r->half >= r->count)
        end = at + 1 - r->half + end > r->count ? r->count + r->half - at - 1 : end;
    double sum = 0;
    for (size_t k = first; k < end; k++)
        sum += (double)taps[k] * (double)r->x[at + 1 + k - r->half];
    return (float)sum;
}

static void resample_chunk(void *arg, size_t chunk, size_t worker)
{
    const resampler *r = arg;
    const size_t begin = chunk * CHUNK, end = begin + CHUNK < r->made ? begin + CHUNK : r->made;
    (void)worker;
    for (size_t n = begin; n < end; n++)
        r->y[n] = resample_at(r, n);
}

static mh_status check_resample(mh_context *context, const mh_audio *audio, size_t rate)
{
    const size_t rates[] = {audio->rate, rate};
    for (size_t i = 0; i < 2; i++)
        if (rates[i] < MH_AUDIO_RATE_MIN || rates[i] > MH_AUDIO_RATE_MAX)
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %zu, expected %d to %d",
                           i ? "rate" : "audio: rate", rates[i], MH_AUDIO_RATE_MIN,
                           MH_AUDIO_RATE_MAX);
    if (audio->count > MH_AUDIO_SAMPLES_MAX || (audio->count && !audio->samples))
        return mh_fail(context, MH_ERROR_ARGUMENT, "audio: found %zu samples, expected at most %d",
                       audio->count, MH_AUDIO_SAMPLES_MAX);
    return mh_audio_check_finite(context, "audio", audio->samples, audio->count);
}

static mh_status run_resampler(mh_context *context, resampler *r)
{
    r->half = (size_t)(WIDTH / cutoff_of(r)) + 1;
    r->rows = mh_smaller(r->L, r->made);
    const size_t bytes = r->rows * 2 * r->half * sizeof *r->taps;
    const size_t row_bytes = mh_context_threads(context) * 2 * r->half * sizeof *r->row;
    r->taps = mh_alloc(context, bytes);
    r->row = mh_alloc(context, row_bytes);
    const bool ready = r->taps && r->row;
    if (ready) {
        mh_parallel_for(context, r->rows, make_taps, r);
        mh_parallel_for(context, (r->made + CHUNK - 1) / CHUNK, resample_chunk, r);
    }
    mh_free(context, r->taps, bytes);
    mh_free(context, r->row, row_bytes);
    return ready ? MH_OK : MH_ERROR_MEMORY;
}

mh_status mh_audio_resample(mh_context *context, const mh_audio *audio, size_t rate,
                            mh_audio *resampled)
{
    MH_TRY(MH_NEED(context, {"audio", audio}, {"resampled", resampled}));
    *resampled = (mh_audio){0};
    MH_TRY(check_resample(context, audio, rate));
    const size_t divisor = greatest_common_divisor(audio->rate, rate);
    resampler r = {.x = audio->samples,
                   .count = audio->count,
                   .L = rate / divisor,
                   .M = audio->rate / divisor};
    r.made = (audio->count * r.L + r.M - 1) / r.M;
    MH_TRY(mh_audio_create(context, r.made, rate, resampled));
    r.y = resampled->samples;
    if (r.L == r.M) {
        memcpy(r.y, r.x, r.made * sizeof *r.y);
        return MH_OK;
    }
    const mh_status status = r.made ? run_resampler(context, &r) : MH_OK;
    if (status)
        mh_audio_free(context, resampled);
    return status;
}
