// SPDX-License-Identifier: MIT
// Pictures for a vision model: preprocessed one by one, as one input.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "image/image_internal.h"
#include "model/model_internal.h"
#include "model/result_arena.h"
#include <stdio.h>
#include <string.h>

struct mh_model_pictures {
    mh_result_arena store; // everything below is in it
    int64_t *starts;       // (count + 1)
    mh_tensor *pixels;     // (count) of (channels, height, width)
    mh_model_input input;
};

void mh_model_pictures_free(mh_model_pictures *p)
{
    if (!p)
        return;
    const mh_allocator allocator = p->store.allocator;
    mh_result_free(&p->store);
    allocator.release(allocator.user, p, sizeof *p);
}

const mh_model_input *mh_model_pictures_input(const mh_model_pictures *pictures)
{
    return &pictures->input;
}

static mh_status prepare_picture(mh_context *context, const mh_model *model, const mh_image *image,
                                 mh_result_arena *store, mh_tensor *pixels)
{
    const mh_vision *v = &model->description.vision;
    size_t height, width, count;
    MH_TRY(mh_image_check(context, "images", image));
    MH_TRY(mh_picture_size(context, &model->pictures, image, &height, &width));
    if (height < v->patch || width < v->patch)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "found a picture of %zu x %zu, expected at least one patch of %zu", width,
                       height, v->patch);
    if (!mh_multiply_all(3, (const size_t[]){v->channels, height, width}, &count))
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for a picture");
    float *values = mh_result_take(context, store, count, sizeof *values);
    if (!values)
        return MH_ERROR_MEMORY;
    *pixels = mh_tensor_3d(values, MH_F32, v->channels, height, width);
    return mh_picture_prepare(context, &model->pictures, image, v->channels, values);
}

static mh_status prepare_all(mh_context *context, const mh_model *model, const mh_image *images,
                             size_t count, mh_model_pictures *p)
{
    p->starts = mh_result_take(context, &p->store, count + 1, sizeof *p->starts);
    p->pixels = mh_result_take(context, &p->store, count + 1, sizeof *p->pixels);
    if (!p->starts || !p->pixels)
        return MH_ERROR_MEMORY;
    p->starts[0] = 0;
    for (size_t i = 0; i < count; i++) {
        mh_status status = prepare_picture(context, model, &images[i], &p->store, &p->pixels[i]);
        if (status) {
            char message[512];
            snprintf(message, sizeof message, "%s", mh_error_message(context));
            return mh_fail(context, status, "picture %zu: %s", i + 1, message);
        }
        p->starts[i + 1] = p->starts[i] + (int64_t)mh_model_picture_rows(&model->description.vision,
                                                                         &p->pixels[i]);
    }
    p->input = mh_model_input_default();
    p->input.sequences = count;
    p->input.starts = p->starts;
    p->input.pixels = p->pixels;
    return MH_OK;
}

static mh_status need_pictures(mh_context *context, const mh_model *model)
{
    const size_t channels = model->description.vision.channels;
    if (!model->description.vision.image)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "this model (%s) reads texts, and has no use for pictures",
                       model->info.family);
    return channels == 1 || channels == 3
               ? MH_OK
               : mh_fail(
                     context, MH_ERROR_UNSUPPORTED,
                     "this model reads pictures of %zu channels, and only 1 and 3 are supported",
                     channels);
}

mh_status mh_model_encode_pictures(mh_context *context, const mh_model *model,
                                   const mh_image *images, size_t count,
                                   mh_model_pictures **encoded)
{
    MH_TRY(MH_NEED(context, {"encoded", encoded}));
    *encoded = NULL;
    MH_TRY(MH_NEED(context, {"model", model}, {"images", mh_array(images, count)}));
    MH_TRY(need_pictures(context, model));
    mh_model_pictures *p = mh_alloc(context, sizeof *p);
    if (!p)
        return MH_ERROR_MEMORY;
    *p = (mh_model_pictures){.store.allocator = mh_context_allocator(context)};
    mh_status status = prepare_all(context, model, images, count, p);
    if (status)
        mh_model_pictures_free(p);
    else
        *encoded = p;
    return status;
}

// ---- results of pictures ------------------------------------------------------------------------

static mh_status classify_encoded(mh_context *context, const mh_model *model,
                                  const mh_model_input *input, mh_tensor *logits)
{
    const size_t rows = mh_model_rows(input), D = model->description.block.d_model;
    const size_t bytes = rows * D * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_tensor hidden = mh_tensor_2d(memory, MH_F32, rows, D);
    mh_status status = mh_model_hidden(context, model, input, &hidden);
    if (!status)
        status = mh_model_classify(context, model, input, &hidden, logits);
    mh_free(context, memory, bytes);
    return status;
}

mh_status mh_model_classify_pictures(mh_context *context, const mh_model *model,
                                     const mh_image *images, size_t count, mh_tensor *logits)
{
    mh_model_pictures *encoded;
    MH_TRY(MH_NEED(context, {"model", model}, {"logits", logits}));
    MH_TRY(mh_model_encode_pictures(context, model, images, count, &encoded));
    mh_status status = classify_encoded(context, model, &encoded->input, logits);
    mh_model_pictures_free(encoded);
    return status;
}

mh_status mh_model_embed_pictures(mh_context *context, const mh_model *model, mh_pooling pooling,
                                  bool normalize, const mh_image *images, size_t count,
                                  mh_tensor *embeddings)
{
    mh_model_pictures *encoded;
    MH_TRY(MH_NEED(context, {"model", model}, {"embeddings", embeddings}));
    MH_TRY(mh_model_encode_pictures(context, model, images, count, &encoded));
    mh_status status =
        mh_model_embed(context, model, pooling, normalize, &encoded->input, embeddings);
    mh_model_pictures_free(encoded);
    return status;
}
