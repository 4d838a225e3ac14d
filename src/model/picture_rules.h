// SPDX-License-Identifier: MIT
// From a picture to the numbers that a vision model reads, as its preprocessor_config.json says:
//
//     channels -> resize -> centre crop -> rescale -> normalise
//
// with the results of Hugging Face's image processors for ViT, DeiT, CLIP and BiT (DINOv2's) in
// their Pillow form.
#ifndef MH_MODEL_PICTURE_RULES_H
#define MH_MODEL_PICTURE_RULES_H

#include "families/family.h"

#include <multihead/image.h>

enum { MH_PICTURE_CHANNELS = 3 };

typedef struct mh_picture_rules {
    bool resizes, crops, rescales, normalises;
    size_t height, width; // to resize to; 0: by the shortest edge
    size_t shortest;
    mh_resample filter;
    size_t crop_height, crop_width;
    double factor; // of rescaling
    float mean[MH_PICTURE_CHANNELS], std[MH_PICTURE_CHANNELS];
} mh_picture_rules;

// preprocessor_config.json or processor_config.json; without them, or where they are silent, what
// the processor of this model type has. Errors: MH_ERROR_FORMAT, MH_ERROR_UNSUPPORTED.
mh_status mh_picture_rules_load(mh_context *context, const char *directory, const char *model_type,
                                const mh_vision *vision, mh_picture_rules *rules);

// The size of the numbers of a picture. Error: MH_ERROR_ARGUMENT if it would be too large.
mh_status mh_picture_size(mh_context *context, const mh_picture_rules *rules, const mh_image *image,
                          size_t *height, size_t *width);

// values (channels, height, width).
mh_status mh_picture_prepare(mh_context *context, const mh_picture_rules *rules,
                             const mh_image *image, size_t channels, float *values);

// The inverse of the last two steps: bytes (height, width, 3) from the first rows and columns of
// values (channels, ...), what a model sees.
void mh_picture_restore(const mh_picture_rules *rules, const mh_tensor *values, size_t height,
                        size_t width, unsigned char *pixels);

#endif
