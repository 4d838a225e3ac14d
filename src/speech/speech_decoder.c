// SPDX-License-Identifier: MIT
// The decoder on several tokens at once: the language of a window, and the attention of a whole
// text.
#include "base/compiler.h"
#include "model/sampling.h"
#include "speech/speech_internal.h"

static mh_status embed_all(const mh_speech *s, const int32_t *ids, size_t count, mh_tensor *x)
{
    int64_t *positions = mh_alloc(s->context, count * sizeof *positions);
    if (!positions)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        positions[i] = (int64_t)i;
    const mh_status status = mh_model_embed_targets(s->context, s->model, ids, positions, x);
    mh_free(s->context, positions, count * sizeof *positions);
    return status;
}

// One step from the memory on; taps as in mh_decoding_step.
static mh_status decode_all(const mh_speech *s, const mh_tap *taps, size_t tap_count,
                            const mh_tensor *x, mh_tensor *y)
{
    mh_decoding *decoding;
    const mh_tensor memory = mh_tensor_3d(s->memory, MH_F32, 1, s->memory_rows, s->width);
    MH_TRY(mh_decoding_create(s->context, s->model->transformer, &memory, NULL, 1, &decoding));
    const mh_status status = mh_decoding_step(s->context, decoding, taps, tap_count, x, y);
    mh_decoding_free(decoding);
    return status;
}

// A tap per layer with chosen heads, whose weights follow those of the layers before; returns the
// number of taps.
static size_t make_taps(const mh_speech *s, const bool *heads, size_t count, float *weights,
                        size_t *numbers, mh_tap *taps)
{
    const mh_model_info *info = &s->model->info;
    size_t tap_count = 0;
    for (size_t l = 0; l < info->decoder_layers && weights; l++) {
        mh_tap tap = mh_tap_make(MH_TAP_CROSS, l);
        tap.heads = numbers;
        for (size_t h = 0; h < info->heads; h++)
            if (heads[l * info->heads + h])
                numbers[tap.head_count++] = h;
        if (tap.head_count == 0)
            continue;
        tap.weights = mh_tensor_4d(weights, MH_F32, 1, tap.head_count, count, s->memory_rows);
        weights += mh_tensor_count(&tap.weights);
        numbers += tap.head_count;
        taps[tap_count++] = tap;
    }
    return tap_count;
}

mh_status mh_speech_run_decoder(const mh_speech *s, const int32_t *ids, size_t count, float *hidden,
                                const bool *heads, float *weights)
{
    const size_t L = s->model->info.decoder_layers, all = L * s->model->info.heads;
    mh_tap *taps = mh_alloc(s->context, L * sizeof *taps);
    size_t *numbers = mh_alloc(s->context, all * sizeof *numbers);
    mh_tensor rows = mh_tensor_2d(hidden, MH_F32, count, s->width);
    mh_tensor x = mh_tensor_3d(hidden, MH_F32, 1, count, s->width);
    mh_status status = taps && numbers ? embed_all(s, ids, count, &rows) : MH_ERROR_MEMORY;
    if (!status)
        status = decode_all(s, taps, make_taps(s, heads, count, weights, numbers, taps), &x, &x);
    mh_free(s->context, numbers, all * sizeof *numbers);
    mh_free(s->context, taps, L * sizeof *taps);
    return status;
}

mh_status mh_speech_detect_language(const mh_speech *s, size_t *language)
{
    const size_t floats = s->width + s->vocabulary;
    float *hidden = mh_alloc(s->context, floats * sizeof *hidden), *logits = hidden + s->width;
    if (!hidden)
        return MH_ERROR_MEMORY;
    mh_status status = mh_speech_run_decoder(s, &s->tokens.start, 1, hidden, NULL, NULL);
    const mh_tensor x = mh_tensor_2d(hidden, MH_F32, 1, s->width);
    mh_tensor y = mh_tensor_2d(logits, MH_F32, 1, s->vocabulary);
    if (!status)
        status = mh_model_logits(s->context, s->model, &x, &y);
    *language = 0;
    for (size_t i = 1; i < s->tokens.languages && !status; i++)
        if (logits[(size_t)s->tokens.language + i] > logits[(size_t)s->tokens.language + *language])
            *language = i;
    mh_free(s->context, hidden, floats * sizeof *hidden);
    return status;
}
