// SPDX-License-Identifier: MIT
// Preprocessing of pictures; see picture_rules.h.
#include "model/picture_rules.h"
#include "base/compiler.h"
#include "image/image_internal.h"
#include "model/json_file.h"
#include "model/model_config.h"
#include <math.h>
#include <string.h>

// ---- defaults -----------------------------------------------------------------------------------

// What a processor does unless its file says otherwise.
typedef struct processor {
    const char *name;       // before "ImageProcessor" or "FeatureExtractor"
    const char *model_type; // whose processor it is
    bool square;            // one number as size means both sides, else the shortest edge
    size_t size, crop;      // 0: none
    mh_resample filter;
    float mean[MH_PICTURE_CHANNELS], std[MH_PICTURE_CHANNELS];
} processor;

#define HALVES                                                                                     \
    {0.5f, 0.5f, 0.5f}, { 0.5f, 0.5f, 0.5f }
#define OPENAI                                                                                     \
    {0.48145466f, 0.4578275f, 0.40821073f}, { 0.26862954f, 0.26130258f, 0.27577711f }
#define IMAGENET                                                                                   \
    {0.485f, 0.456f, 0.406f}, { 0.229f, 0.224f, 0.225f }

static const processor processors[] = {
    {"ViT", "vit", true, 224, 0, MH_RESAMPLE_BILINEAR, HALVES},
    {"DeiT", "deit", true, 256, 224, MH_RESAMPLE_BICUBIC, HALVES},
    {"CLIP", "clip", false, 224, 224, MH_RESAMPLE_BICUBIC, OPENAI},
    {"CLIP", "clip_vision_model", false, 224, 224, MH_RESAMPLE_BICUBIC, OPENAI},
    {"Bit", "", false, 224, 224, MH_RESAMPLE_BICUBIC, OPENAI},
};
// DINOv2's file says so; without one:
static const processor dinov2_processor = {"Bit",   "dinov2", false, 256, 224, MH_RESAMPLE_BICUBIC,
                                           IMAGENET};

static const processor *processor_of_model(const char *model_type)
{
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++)
        if (strcmp(processors[i].model_type, model_type) == 0)
            return &processors[i];
    return &dinov2_processor;
}

static const processor *find_processor(const char *type)
{
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++) {
        const size_t size = strlen(processors[i].name);
        if (strncmp(type, processors[i].name, size) == 0 &&
            (strncmp(type + size, "ImageProcessor", 14) == 0 ||
             strcmp(type + size, "FeatureExtractor") == 0))
            return &processors[i];
    }
    return NULL;
}

// Without a file the size is the model's.
static void set_rules(const processor *p, mh_picture_rules *rules)
{
    *rules = (mh_picture_rules){.resizes = true,
                                .crops = p->crop > 0,
                                .rescales = true,
                                .normalises = true,
                                .height = p->square ? p->size : 0,
                                .width = p->square ? p->size : 0,
                                .shortest = p->square ? 0 : p->size,
                                .filter = p->filter,
                                .crop_height = p->crop,
                                .crop_width = p->crop,
                                .factor = 1.0 / 255};
    memcpy(rules->mean, p->mean, sizeof rules->mean);
    memcpy(rules->std, p->std, sizeof rules->std);
}

// ---- the file -----------------------------------------------------------------------------------

static mh_status read_flag(const mh_source *source, const json_t *root, const char *name, bool *to)
{
    const json_t *value = json_object_get(root, name);
    if (!value || json_is_null(value))
        return MH_OK;
    if (!json_is_boolean(value))
        return mh_config_bad_value(source, name, value, "true or false");
    *to = json_is_true(value);
    return MH_OK;
}

static mh_status read_side(const mh_source *source, const char *name, const json_t *value,
                           size_t *to)
{
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > MH_IMAGE_SIDE_MAX)
        return mh_config_bad_value(source, name, value, "an integer from 1 to 65535");
    *to = (size_t)number;
    return MH_OK;
}

// A number, a pair, {"height", "width"}, or, unless `shortest` is NULL, {"shortest_edge"}.
static mh_status read_sides(const mh_source *source, const json_t *root, const char *name,
                            bool square, size_t *height, size_t *width, size_t *shortest)
{
    const json_t *value = json_object_get(root, name);
    if (!value || json_is_null(value))
        return MH_OK;
    const json_t *edge = json_object_get(value, "shortest_edge");
    const json_t *h =
        json_is_array(value) ? json_array_get(value, 0) : json_object_get(value, "height");
    const json_t *w =
        json_is_array(value) ? json_array_get(value, 1) : json_object_get(value, "width");
    *height = *width = 0;
    if (shortest)
        *shortest = 0;
    if (json_is_number(value) && (square || !shortest))
        h = w = value;
    else if (json_is_number(value))
        edge = value;
    if (h && w) {
        MH_TRY(read_side(source, name, h, height));
        return read_side(source, name, w, width);
    }
    if (!edge || !shortest || json_object_get(value, "longest_edge"))
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "\"%s\": expected \"height\" and \"width\"%s", name,
                              shortest ? ", or \"shortest_edge\" alone" : "");
    return read_side(source, name, edge, shortest);
}

static mh_status read_channels(const mh_source *source, const json_t *root, const char *name,
                               size_t channels, bool positive, float *to)
{
    const json_t *value = json_object_get(root, name);
    if (!value || json_is_null(value))
        return MH_OK;
    for (size_t i = 0; i < channels; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        const double number = json_number_value(one);
        if (!json_is_number(one) || !isfinite(number) || (positive && number <= 0) ||
            (json_is_array(value) && json_array_size(value) != channels))
            return mh_config_bad_value(
                source, name, value, channels == 1 ? "a list of 1 number" : "a list of 3 numbers");
        to[i] = (float)number;
    }
    return MH_OK;
}

static mh_status read_filter(const mh_source *source, const json_t *root, mh_resample *to)
{
    const json_t *value = json_object_get(root, "resample");
    const json_int_t number = json_integer_value(value);
    if (!value || json_is_null(value))
        return MH_OK;
    if (!json_is_integer(value) || number < MH_RESAMPLE_NEAREST || number > MH_RESAMPLE_HAMMING)
        return mh_config_bad_value(source, "resample", value, "one of Pillow's filters, 0 to 5");
    *to = (mh_resample)number;
    return MH_OK;
}

static mh_status read_factor(const mh_source *source, const json_t *root, double *to)
{
    const json_t *value = json_object_get(root, "rescale_factor");
    if (!value || json_is_null(value))
        return MH_OK;
    if (!json_is_number(value) || !isfinite(json_number_value(value)))
        return mh_config_bad_value(source, "rescale_factor", value, "a number");
    *to = json_number_value(value);
    return MH_OK;
}

static mh_status read_rules(const mh_source *source, const json_t *root, const char *model_type,
                            size_t channels, mh_picture_rules *rules)
{
    const json_t *type = json_object_get(root, "image_processor_type");
    if (!type)
        type = json_object_get(root, "feature_extractor_type");
    const processor *p = json_is_string(type) ? find_processor(json_string_value(type))
                                              : processor_of_model(model_type);
    if (!p)
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "\"image_processor_type\": found %s, and only those of ViT, DeiT, "
                              "CLIP and Bit are supported",
                              mh_quote_string(json_string_value(type)).text);
    set_rules(p, rules);
    MH_TRY(read_flag(source, root, "do_resize", &rules->resizes));
    MH_TRY(read_flag(source, root, "do_center_crop", &rules->crops));
    MH_TRY(read_flag(source, root, "do_rescale", &rules->rescales));
    MH_TRY(read_flag(source, root, "do_normalize", &rules->normalises));
    MH_TRY(read_sides(source, root, "size", p->square, &rules->height, &rules->width,
                      &rules->shortest));
    MH_TRY(
        read_sides(source, root, "crop_size", true, &rules->crop_height, &rules->crop_width, NULL));
    MH_TRY(read_filter(source, root, &rules->filter));
    MH_TRY(read_factor(source, root, &rules->factor));
    MH_TRY(read_channels(source, root, "image_mean", channels, false, rules->mean));
    MH_TRY(read_channels(source, root, "image_std", channels, true, rules->std));
    if (rules->crops && !rules->crop_height)
        return mh_source_fail(source, MH_ERROR_FORMAT, "\"crop_size\" is missing");
    if (rules->crops && !mh_image_size_fits(rules->crop_width, rules->crop_height))
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "\"crop_size\": found %zu x %zu, expected at most %d pixels",
                              rules->crop_width, rules->crop_height, MH_IMAGE_PIXELS_MAX);
    return MH_OK;
}

// Resized to what the model was trained for.
static void set_model_rules(const char *model_type, const mh_vision *vision,
                            mh_picture_rules *rules)
{
    const processor *p = processor_of_model(model_type);
    set_rules(p, rules);
    if (p->square && !p->crop)
        rules->height = rules->width = vision->image;
    else if (p->crop && vision->image != p->crop) {
        rules->crop_height = rules->crop_width = vision->image;
        const size_t size = vision->image * p->size / p->crop;
        rules->shortest = p->square ? 0 : size;
        rules->height = rules->width = p->square ? size : 0;
    }
}

mh_status mh_picture_rules_load(mh_context *context, const char *directory, const char *model_type,
                                const mh_vision *vision, mh_picture_rules *rules)
{
    static const char *const names[] = {"preprocessor_config.json", "processor_config.json"};
    const size_t channels = vision->channels < MH_PICTURE_CHANNELS ? 1 : MH_PICTURE_CHANNELS;
    set_model_rules(model_type, vision, rules);
    for (size_t i = 0; i < 2; i++) {
        char path[MH_PATH_BYTES];
        mh_json_file file;
        MH_TRY(mh_json_file_open_optional(context, directory, names[i], path, &file));
        const json_t *root = i == 0 ? file.root : json_object_get(file.root, "image_processor");
        const bool found = json_is_object(root);
        mh_status status =
            found ? read_rules(&file.source, root, model_type, channels, rules) : MH_OK;
        mh_json_file_close(&file);
        if (status || found)
            return status;
    }
    return MH_OK;
}

// ---- a picture ----------------------------------------------------------------------------------

// The size that a picture is resized to.
static mh_status resized_size(mh_context *context, const mh_picture_rules *r, const mh_image *image,
                              size_t *height, size_t *width)
{
    const size_t h = image->height, w = image->width;
    *height = r->resizes && r->height ? r->height : h;
    *width = r->resizes && r->width ? r->width : w;
    if (r->resizes && r->shortest) { // the division is Python's, in double
        const double ratio = (double)(r->shortest * (w > h ? w : h)) / (double)(w > h ? h : w);
        *width = w <= h ? r->shortest : (size_t)ratio;
        *height = w <= h ? (size_t)ratio : r->shortest;
    }
    if (mh_image_size_fits(*width, *height) && mh_image_size_fits(*width, h))
        return MH_OK;
    return mh_fail(
        context, MH_ERROR_ARGUMENT,
        "a picture of %zu x %zu would be resized to %zu x %zu, expected sides of at most "
        "%d and at most %d pixels",
        w, h, *width, *height, MH_IMAGE_SIDE_MAX, MH_IMAGE_PIXELS_MAX);
}

mh_status mh_picture_size(mh_context *context, const mh_picture_rules *rules, const mh_image *image,
                          size_t *height, size_t *width)
{
    MH_TRY(resized_size(context, rules, image, height, width));
    if (rules->crops) {
        *height = rules->crop_height;
        *width = rules->crop_width;
    }
    return MH_OK;
}

// The 256 values of a channel, with the roundings of NumPy's arrays.
static void fill_values(const mh_picture_rules *r, size_t channel, float values[256])
{
    for (int i = 0; i < 256; i++) {
        values[i] = r->rescales ? (float)(i * r->factor) : (float)i;
        if (r->normalises)
            values[i] = (values[i] - r->mean[channel]) / r->std[channel];
    }
}

// Channel c, cropped around the centre; beyond the picture pixels are 0.
static void crop_channel(const mh_image *image, size_t c, size_t height, size_t width,
                         const float values[256], float *to)
{
    const ptrdiff_t spare_y = (ptrdiff_t)image->height - (ptrdiff_t)height;
    const ptrdiff_t spare_x = (ptrdiff_t)image->width - (ptrdiff_t)width;
    const ptrdiff_t top = (spare_y - (spare_y < 0)) / 2, left = (spare_x - (spare_x < 0)) / 2;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) {
            const ptrdiff_t row = (ptrdiff_t)y + top, column = (ptrdiff_t)x + left;
            const bool inside = row >= 0 && row < (ptrdiff_t)image->height && column >= 0 &&
                                column < (ptrdiff_t)image->width;
            const size_t at = inside ? (size_t)row * image->width + (size_t)column : 0;
            to[y * width + x] = values[inside ? image->pixels[at * image->channels + c] : 0];
        }
}

static mh_status prepare_resized(mh_context *context, const mh_picture_rules *rules,
                                 const mh_image *image, size_t height, size_t width, float *values)
{
    mh_image resized;
    size_t h, w;
    float table[256];
    MH_TRY(resized_size(context, rules, image, &h, &w));
    MH_TRY(mh_image_resize(context, image, rules->filter, w, h, &resized));
    for (size_t c = 0; c < image->channels; c++) {
        fill_values(rules, c, table);
        crop_channel(&resized, c, height, width, table, values + c * height * width);
    }
    mh_image_free(context, &resized);
    return MH_OK;
}

mh_status mh_picture_prepare(mh_context *context, const mh_picture_rules *rules,
                             const mh_image *image, size_t channels, float *values)
{
    mh_image converted;
    size_t height, width;
    MH_TRY(mh_picture_size(context, rules, image, &height, &width));
    if (image->channels == channels)
        return prepare_resized(context, rules, image, height, width, values);
    MH_TRY(mh_image_convert(context, image, channels, &converted));
    mh_status status = prepare_resized(context, rules, &converted, height, width, values);
    mh_image_free(context, &converted);
    return status;
}

void mh_picture_restore(const mh_picture_rules *r, const mh_tensor *values, size_t height,
                        size_t width, unsigned char *pixels)
{
    const size_t channels = values->shape[0], rows = values->shape[1], columns = values->shape[2];
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t i = 0; i < MH_PICTURE_CHANNELS; i++) {
                const size_t c = i < channels ? i : 0;
                double v = (double)((const float *)values->data)[(c * rows + y) * columns + x];
                if (r->normalises)
                    v = v * (double)r->std[c] + (double)r->mean[c];
                if (r->rescales && r->factor != 0)
                    v /= r->factor;
                *pixels++ = (unsigned char)(v > 255 ? 255 : v > 0 ? v + 0.5 : 0);
            }
}
