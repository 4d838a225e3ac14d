// SPDX-License-Identifier: MIT
// The memory of samples.
#include "audio/audio_internal.h"
#include "base/argument_check.h"
#include <math.h>

mh_status mh_audio_create(mh_context *context, size_t count, size_t rate, mh_audio *audio)
{
    *audio = (mh_audio){0};
    float *samples = mh_alloc(context, (count ? count : 1) * sizeof(float));
    if (!samples)
        return MH_ERROR_MEMORY;
    *audio = (mh_audio){count, rate, samples};
    return MH_OK;
}

void mh_audio_free(mh_context *context, mh_audio *audio)
{
    if (!audio || !audio->samples)
        return;
    mh_free(context, audio->samples, (audio->count ? audio->count : 1) * sizeof(float));
    *audio = (mh_audio){0};
}

mh_status mh_audio_check_finite(mh_context *context, const char *name, const float *samples,
                                size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(samples[i]))
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: sample %zu is NaN or infinite, expected a finite number", name, i);
    return MH_OK;
}
