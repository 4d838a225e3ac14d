// SPDX-License-Identifier: MIT
// What a model that reads pictures makes of one, and its attention. A small file may describe a
// large picture, and a narrow one becomes large when its shorter side is resized to the model's:
// both are refused before memory is allocated for them.
#include "messages.h"
#include "picture_base64.h"
#include "server.h"

#include <stdlib.h>

enum { PICTURE_PIXELS_MAX = 1 << 22, PICTURE_RATIO_MAX = 8, PICTURE_PATCHES_MAX = 1024 };

// The file in the request, as a picture. The answer has code 0 if it is one.
static answer read_picture(mh_context *context, const request *r, mh_image *image)
{
    unsigned char *bytes;
    size_t size, position;
    const int decoded = base64_decode(r->picture.bytes, r->picture.size, &bytes, &size, &position);
    if (decoded == BASE64_MEMORY)
        return answer_error(503, "out of memory");
    if (decoded == BASE64_INVALID)
        return answer_error(400, "picture: character %zu is not base64 with padding", position + 1);
    const mh_status status =
        mh_image_parse_within(context, "picture", bytes, size, PICTURE_PIXELS_MAX, image);
    free(bytes);
    if (status == MH_ERROR_FORMAT || status == MH_ERROR_UNSUPPORTED)
        return answer_error(422, "%s", mh_error_message(context));
    return status ? answer_status(context, status) : (answer){0};
}

static answer refuse_ratio(const mh_image *image)
{
    const size_t w = image->width, h = image->height;
    if (w <= PICTURE_RATIO_MAX * h && h <= PICTURE_RATIO_MAX * w)
        return (answer){0};
    return answer_error(422,
                        "picture: found %zu x %zu, expected sides of which one is at most %d times "
                        "the other",
                        w, h, PICTURE_RATIO_MAX);
}

static answer answer_encoded(const served_model *s, mh_context *context, const request *r,
                             const mh_image *image, const mh_model_input *encoded)
{
    mh_model_input input = *encoded;
    mh_model_trace *trace = NULL;
    json_t *head = NULL;
    input.disabled_heads = r->disabled;
    mh_status status =
        mh_model_trace_picture(context, s->model, r->disabled, r->name, image, &trace);
    if (!status) {
        const mh_trace *made = mh_model_trace_view(trace);
        head =
            predict(s, context, &input, made->groups[MH_TRACE_ENCODER].weights.shape[2], &status);
    }
    const answer result =
        status ? answer_status(context, status) : answer_named(s, context, head, trace);
    mh_model_trace_free(trace);
    return result;
}

static answer answer_image(const served_model *s, mh_context *context, const request *r,
                           const mh_image *image, job *j)
{
    const mh_model_info *info = mh_model_describe(s->model);
    mh_model_pictures *encoded;
    const mh_status status = mh_model_encode_pictures(context, s->model, image, 1, &encoded);
    if (status == MH_ERROR_ARGUMENT)
        return answer_error(422, "%s", mh_error_message(context));
    if (status)
        return answer_status(context, status);
    const mh_model_input *input = mh_model_pictures_input(encoded);
    const size_t patches =
        input->pixels->shape[1] / info->patch_size * (input->pixels->shape[2] / info->patch_size);
    answer result = {0}; // discarded if it was cancelled
    if (patches > PICTURE_PATCHES_MAX)
        result = answer_error(422,
                              "the model makes %zu patches of this picture, and at most %d are "
                              "shown",
                              patches, PICTURE_PATCHES_MAX);
    else if (!atomic_load(&j->cancelled))
        result = answer_encoded(s, context, r, image, input);
    mh_model_pictures_free(encoded);
    return result;
}

answer answer_picture(const served_model *s, mh_context *context, const request *r, job *j)
{
    mh_image image = {0};
    answer result = read_picture(context, r, &image);
    if (!result.code)
        result = refuse_ratio(&image);
    if (!result.code)
        result = answer_image(s, context, r, &image, j);
    mh_image_free(context, &image);
    return result;
}
