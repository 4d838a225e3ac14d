// SPDX-License-Identifier: MIT
// The embeddings of sound: a log-mel spectrogram (mels, frames) to rows of the encoder,
//
//     y = GELU(conv1(features))       (frames, D), kernel 3, stride 1
//     x = GELU(conv2(y)) + position   (frames / 2, D), kernel 3, stride 2
//
// Both convolutions have one frame of zeros at each end, and are matrix products: row t of the
// operand has the three frames around t stride of every channel.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/model_internal.h"

enum { KERNEL = 3 };

mh_status mh_model_check_features(mh_context *context, const mh_model *model,
                                  const mh_model_input *input)
{
    const mh_sound *s = &model->description.sound;
    char found[128];
    for (size_t b = 0; b < input->sequences; b++) {
        const mh_tensor *t = &input->features[b];
        const size_t rows = (size_t)(input->starts[b + 1] - input->starts[b]);
        if (t->rank != 2 || t->dtype != MH_F32 || !t->data || t->shape[0] != s->mels ||
            t->shape[1] != 2 * rows)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "features[%zu]: found %s, expected f32 (%zu, %zu) for %zu rows", b,
                           mh_tensor_describe(t, found, sizeof found), s->mels, 2 * rows, rows);
    }
    return MH_OK;
}

// patches (rows, channels * KERNEL) of x (channels, frames).
static void gather_frames(const mh_tensor *x, size_t stride, size_t rows, float *patches)
{
    const size_t channels = x->shape[0], frames = x->shape[1];
    for (size_t t = 0; t < rows; t++)
        for (size_t c = 0; c < channels; c++)
            for (size_t k = 0; k < KERNEL; k++) {
                const size_t at = t * stride + k; // one frame behind: the first is zeros
                const float *from = (const float *)x->data + (ptrdiff_t)c * x->stride[0];
                *patches++ = at >= 1 && at <= frames ? from[(ptrdiff_t)(at - 1) * x->stride[1]] : 0;
            }
}

static mh_status convolve(mh_context *context, const mh_model *model, mh_end weight, mh_end bias,
                          const mh_tensor *x, size_t stride, float *patches, mh_tensor *y)
{
    const mh_activation gelu = MH_GELU;
    const size_t K = x->shape[0] * KERNEL;
    gather_frames(x, stride, y->shape[0], patches);
    const mh_tensor operand = mh_tensor_2d(patches, MH_F32, y->shape[0], K);
    return mh_model_apply(context, model, weight, bias, &gelu, &operand, y);
}

static mh_status embed_features(mh_context *context, const mh_model *model,
                                const mh_tensor *features, float *memory, mh_tensor *x)
{
    const size_t frames = features->shape[1], rows = x->shape[0], D = x->shape[1];
    mh_tensor y = mh_tensor_2d(memory, MH_F32, frames, D);
    float *patches = memory + frames * D;
    MH_TRY(convolve(context, model, MH_END_CONV1, MH_END_CONV1_BIAS, features, 1, patches, &y));
    const mh_tensor channels = mh_tensor_swap(y, 0, 1);
    MH_TRY(convolve(context, model, MH_END_CONV2, MH_END_CONV2_BIAS, &channels, 2, patches, x));
    mh_tensor positions = mh_tensor_slice(model->ends[MH_END_POSITION], 0, 0, rows);
    if (positions.dtype == MH_F32)
        return mh_add(context, x, &positions, x);
    mh_tensor wide = mh_tensor_2d(memory, MH_F32, rows, D);
    MH_TRY(mh_tensor_copy(context, &positions, &wide));
    return mh_add(context, x, &wide, x);
}

mh_status mh_model_embed_sound(mh_context *context, const mh_model *model,
                               const mh_model_input *input, mh_tensor *x)
{
    const size_t D = x->shape[1], mels = model->description.sound.mels;
    size_t rows = 0;
    for (size_t b = 0; b < input->sequences; b++)
        rows = mh_larger(rows, (size_t)(input->starts[b + 1] - input->starts[b]));
    const size_t floats = 2 * rows * D + rows * KERNEL * mh_larger(2 * mels, D);
    float *memory = mh_alloc(context, floats * sizeof *memory);
    mh_status status = memory ? MH_OK : MH_ERROR_MEMORY;
    for (size_t b = 0; b < input->sequences && !status; b++) {
        const size_t first = (size_t)input->starts[b];
        mh_tensor part = mh_tensor_slice(*x, 0, first, (size_t)input->starts[b + 1] - first);
        if (part.shape[0] > 0)
            status = embed_features(context, model, &input->features[b], memory, &part);
    }
    mh_free(context, memory, floats * sizeof *memory);
    return status;
}
