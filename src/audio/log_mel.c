// SPDX-License-Identifier: MIT
// Whisper's log-mel spectrogram; audio.h has the formula. Frames are transformed MH_DFT_LANES at a
// time, and groups of them in parallel.
#include "audio/audio_internal.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/pow.h"
#include "base/trig.h"
#include <math.h>

enum { MOST_MELS = 256, FEWEST_SAMPLES = MH_DFT_SIZE / 2 + 1 };

// Constants of the spectrogram, and the call.
typedef struct mel_job {
    const float *samples;
    size_t count, mels, frames;
    float *features; // (mels, frames)
    mh_dft *dft;
    float window[MH_DFT_SIZE];
    float (*filters)[MH_DFT_BINS]; // (mels, bins)
    mh_lanes *scratch;             // SCRATCH_ROWS per worker
} mel_job;

enum { SCRATCH_ROWS = MH_DFT_SIZE + MH_DFT_BINS + 2 * MH_DFT_SIZE };

// ---- filters ------------------------------------------------------------------------------------

// Slaney's mel scale: linear to 1 kHz, then logarithmic.
static double mel_to_hertz(double mel)
{
    const double step = mh_natural_log(6.4) / 27;
    return mel < 15 ? mel * 200 / 3 : 1000 / mh_exp_below_0(-(mel - 15) * step);
}

// The filter of mel m is a triangle over three neighbouring frequencies of mels + 2 that are evenly
// spaced in mel, of area 1 in hertz.
static void make_filter(size_t m, size_t mels, float filter[MH_DFT_BINS])
{
    const double top = 15 + 27 * mh_natural_log(8) / mh_natural_log(6.4); // 8 kHz
    const double step = top / (double)(mels + 1);
    const double low = mel_to_hertz(step * (double)m), mid = mel_to_hertz(step * (double)(m + 1));
    const double high = mel_to_hertz(step * (double)(m + 2));
    for (size_t k = 0; k < MH_DFT_BINS; k++) {
        const double f = (double)k * MH_SPEECH_RATE / MH_DFT_SIZE;
        const double up = (f - low) / (mid - low), down = (high - f) / (high - mid);
        const double least = up < down ? up : down;
        filter[k] = (float)(least > 0 ? least * 2 / (high - low) : 0);
    }
}

// ---- frames -------------------------------------------------------------------------------------

// Sample i, reflected at both ends.
static float sample_at(const mel_job *job, ptrdiff_t i)
{
    const ptrdiff_t last = (ptrdiff_t)job->count - 1;
    i = i < 0 ? -i : i;
    return job->samples[i > last ? 2 * last - i : i];
}

static void load_frames(const mel_job *job, size_t first, size_t lanes, mh_lanes *x)
{
    for (size_t l = 0; l < MH_DFT_LANES; l++) {
        const ptrdiff_t begin = (ptrdiff_t)((first + l) * MH_SPEECH_HOP) - MH_DFT_SIZE / 2;
        for (size_t i = 0; i < MH_DFT_SIZE; i++)
            x[i][l] = l < lanes ? job->window[i] * sample_at(job, begin + (ptrdiff_t)i) : 0;
    }
}

// log10 x for x > 0.
static float decimal_log(float x)
{
    int e;
    const double m = frexp((double)x, &e);
    return (float)((mh_natural_log(m) + e * 0x1.62e42fefa39efp-1) * 0x1.bcb7b1526e50ep-2);
}

static void sum_mels(const mel_job *job, const mh_lanes *power, size_t first, size_t lanes)
{
    for (size_t m = 0; m < job->mels; m++) {
        mh_lanes sum = {0};
        for (size_t k = 0; k < MH_DFT_BINS; k++) {
            const float weight = job->filters[m][k];
            for (size_t l = 0; l < MH_DFT_LANES && weight != 0; l++)
                sum[l] += weight * power[k][l];
        }
        for (size_t l = 0; l < lanes; l++)
            job->features[m * job->frames + first + l] =
                decimal_log(sum[l] > 1e-10f ? sum[l] : 1e-10f);
    }
}

static void transform_frames(void *arg, size_t group, size_t worker)
{
    const mel_job *job = arg;
    const size_t first = group * MH_DFT_LANES, left = job->frames - first;
    const size_t lanes = left < MH_DFT_LANES ? left : MH_DFT_LANES;
    mh_lanes *x = job->scratch + worker * SCRATCH_ROWS, *power = x + MH_DFT_SIZE;
    load_frames(job, first, lanes, x);
    mh_dft_power(job->dft, x, power, power + MH_DFT_BINS);
    sum_mels(job, power, first, lanes);
}

// ---- all of it ----------------------------------------------------------------------------------

static void compress_range(float *features, size_t count)
{
    float largest = -INFINITY;
    for (size_t i = 0; i < count; i++)
        largest = features[i] > largest ? features[i] : largest;
    for (size_t i = 0; i < count; i++) {
        const float x = features[i] > largest - 8 ? features[i] : largest - 8;
        features[i] = (x + 4) / 4;
    }
}

static mh_status check_log_mel(mh_context *context, const float *samples, size_t count,
                               const mh_tensor *features)
{
    char found[128];
    const size_t frames = mh_log_mel_frames(count);
    if (count < FEWEST_SAMPLES || count > MH_AUDIO_SAMPLES_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "found %zu samples, expected %d to %d", count,
                       FEWEST_SAMPLES, MH_AUDIO_SAMPLES_MAX);
    if (features->rank != 2 || features->dtype != MH_F32 || features->shape[0] < 1 ||
        features->shape[0] > MOST_MELS || features->shape[1] != frames ||
        features->stride[1] != 1 || features->stride[0] != (ptrdiff_t)frames)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "features: found %s, expected f32 (mels, %zu), contiguous, of up to %d mels",
                       mh_tensor_describe(features, found, sizeof found), frames, MOST_MELS);
    return mh_audio_check_finite(context, "samples", samples, count);
}

static void run_log_mel(mh_context *context, mel_job *job)
{
    for (int i = 0; i < MH_DFT_SIZE; i++)
        job->window[i] = (float)(0.5 - 0.5 * mh_cos_turns(i / (double)MH_DFT_SIZE));
    for (size_t m = 0; m < job->mels; m++)
        make_filter(m, job->mels, job->filters[m]);
    mh_parallel_for(context, (job->frames + MH_DFT_LANES - 1) / MH_DFT_LANES, transform_frames,
                    job);
    compress_range(job->features, job->mels * job->frames);
}

mh_status mh_log_mel(mh_context *context, const float *samples, size_t count, mh_tensor *features)
{
    MH_TRY(MH_NEED(context, {"samples", samples}, {"features", features}));
    MH_TRY(check_log_mel(context, samples, count, features));
    mel_job job = {.samples = samples,
                   .count = count,
                   .mels = features->shape[0],
                   .frames = features->shape[1],
                   .features = features->data};
    const size_t filter_bytes = job.mels * sizeof *job.filters;
    const size_t scratch_bytes = mh_context_threads(context) * SCRATCH_ROWS * sizeof(mh_lanes);
    job.dft = mh_dft_create(context);
    job.filters = mh_alloc(context, filter_bytes);
    job.scratch = mh_alloc(context, scratch_bytes);
    const bool ready = job.dft && job.filters && job.scratch;
    if (ready)
        run_log_mel(context, &job);
    mh_dft_free(context, job.dft);
    mh_free(context, job.filters, filter_bytes);
    mh_free(context, job.scratch, scratch_bytes);
    return ready ? MH_OK : MH_ERROR_MEMORY;
}
