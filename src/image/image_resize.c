// SPDX-License-Identifier: MIT
// Resizing with the arithmetic of Pillow, on which the preprocessing of published models rests: the
// same bytes come out.
//
//     (H, W) --each row by the filter--> (H, width) --each column--> (height, width)
//
// or columns first, where that is Pillow's order.
//
// A pixel of the result is a weighted sum of those in reach of the filter, which is widened by
// the ratio of the sizes where that shrinks (antialias). Weights are computed in double, and
// rounded to integers with 22 bits behind the point; each pass rounds to 8 bits, and clips.
// The nearest pixel is found by adding up the ratio, rounding errors included.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "image/image_internal.h"
#include <math.h>

enum { WEIGHT_BITS = 22 };

// ---- filters ------------------------------------------------------------------------------------

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

static double bilinear(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static const double pi = 3.14159265358979323846;

static double hamming(double x)
{
    x = fabs(x);
    if (x >= 1)
        return 0;
    return x == 0 ? 1 : sin(x * pi) / (x * pi) * ((double)0.54f + (double)0.46f * cos(x * pi));
}

static double sinc(double x) { return x == 0 ? 1 : sin(x * pi) / (x * pi); }

static double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const struct {
    double (*weight)(double x);
    double reach;
} filters[] = {
    [MH_RESAMPLE_LANCZOS] = {lanczos, 3}, [MH_RESAMPLE_BILINEAR] = {bilinear, 1},
    [MH_RESAMPLE_BICUBIC] = {bicubic, 2}, [MH_RESAMPLE_BOX] = {box, 0.5},
    [MH_RESAMPLE_HAMMING] = {hamming, 1},
};

// ---- weights ------------------------------------------------------------------------------------

// Of every pixel of a row or column of the result.
typedef struct weight_table {
    size_t count, most; // pixels, and weights of each
    int32_t *weights;   // (count, most)
    size_t *first;      // (count): the first pixel that is weighted
    size_t *number;     // (count): how many are
    void *memory;
    size_t bytes;
} weight_table;

static mh_status table_allocate(mh_context *context, size_t count, size_t most, weight_table *t)
{
    size_t weights;
    *t = (weight_table){.count = count, .most = most};
    if (!mh_multiply_sizes(count, most * sizeof *t->weights, &weights) ||
        !mh_add_sizes(weights, (2 * count + most + 1) * sizeof(double), &t->bytes))
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for the weights of a picture");
    t->memory = mh_alloc(context, t->bytes);
    if (!t->memory)
        return MH_ERROR_MEMORY;
    t->first = t->memory;
    t->number = t->first + count;
    t->weights = (int32_t *)(void *)((char *)t->memory + (2 * count + most) * sizeof(double));
    return MH_OK;
}

static int32_t round_weight(double weight)
{
    const double scaled = weight * (1 << WEIGHT_BITS);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

// The weights of pixel i, in `exact` first.
static void fill_weights(const weight_table *t, mh_resample filter, size_t size, size_t i,
                         double *exact)
{
    const double scale = (double)size / (double)t->count, widening = scale < 1 ? 1 : scale;
    const double reach = filters[filter].reach * widening;
    const double centre = ((double)i + 0.5) * scale;
    const double low = centre - reach + 0.5, high = centre + reach + 0.5;
    const size_t begin = low < 0 ? 0 : (size_t)low;
    const size_t end = high > (double)size ? size : (size_t)high;
    double sum = 0;
    for (size_t x = begin; x < end; x++) {
        exact[x - begin] = filters[filter].weight(((double)x - centre + 0.5) * (1 / widening));
        sum += exact[x - begin];
    }
    t->first[i] = begin;
    t->number[i] = end - begin;
    for (size_t k = 0; k < end - begin; k++)
        t->weights[i * t->most + k] = round_weight(sum != 0 ? exact[k] / sum : exact[k]);
}

static mh_status table_create(mh_context *context, mh_resample filter, size_t size, size_t count,
                              weight_table *t)
{
    const double scale = (double)size / (double)count, widening = scale < 1 ? 1 : scale;
    const size_t most = (size_t)ceil(filters[filter].reach * widening) * 2 + 1;
    MH_TRY(table_allocate(context, count, most, t));
    double *exact = (double *)(void *)(t->number + count);
    for (size_t i = 0; i < count; i++)
        fill_weights(t, filter, size, i, exact);
    return MH_OK;
}

// ---- passes -------------------------------------------------------------------------------------

typedef struct resize_pass {
    const mh_image *from;
    const weight_table *table;
    mh_image *to;
} resize_pass;

static unsigned char clip_sum(int32_t sum)
{
    const int32_t value = sum >> WEIGHT_BITS;
    return (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
}

// Row y of the result: each pixel from those around it in the same row.
static void resize_row(void *arg, size_t y, size_t worker)
{
    const resize_pass *p = arg;
    const weight_table *t = p->table;
    const size_t C = p->from->channels;
    const unsigned char *from = p->from->pixels + y * p->from->width * C;
    unsigned char *to = p->to->pixels + y * p->to->width * C;
    (void)worker;
    for (size_t x = 0; x < p->to->width; x++)
        for (size_t c = 0; c < C; c++) {
            const int32_t *weights = t->weights + x * t->most;
            const unsigned char *at = from + t->first[x] * C + c;
            int32_t sum = 1 << (WEIGHT_BITS - 1);
            for (size_t k = 0; k < t->number[x]; k++)
                sum += at[k * C] * weights[k];
            to[x * C + c] = clip_sum(sum);
        }
}

// Row y of the result from whole rows, a block of columns at a time.
static void resize_column(void *arg, size_t y, size_t worker)
{
    enum { BLOCK = 256 };
    const resize_pass *p = arg;
    const weight_table *t = p->table;
    const size_t row = p->from->width * p->from->channels;
    unsigned char *to = p->to->pixels + y * row;
    int32_t sums[BLOCK];
    (void)worker;
    for (size_t begin = 0; begin < row; begin += BLOCK) {
        const size_t count = row - begin < BLOCK ? row - begin : BLOCK;
        for (size_t i = 0; i < count; i++)
            sums[i] = 1 << (WEIGHT_BITS - 1);
        for (size_t k = 0; k < t->number[y]; k++) {
            const unsigned char *from = p->from->pixels + (t->first[y] + k) * row + begin;
            const int32_t weight = t->weights[y * t->most + k];
            for (size_t i = 0; i < count; i++)
                sums[i] += from[i] * weight;
        }
        for (size_t i = 0; i < count; i++)
            to[begin + i] = clip_sum(sums[i]);
    }
}

// One pass over rows if the width changes, else over columns; `to` is a new picture.
static mh_status resize_run(mh_context *context, mh_resample filter, const mh_image *from,
                            size_t width, size_t height, mh_image *to)
{
    const bool rows = width != from->width;
    weight_table table;
    MH_TRY(table_create(context, filter, rows ? from->width : from->height, rows ? width : height,
                        &table));
    mh_status status = mh_image_create(context, width, height, from->channels, to);
    resize_pass pass = {from, &table, to};
    if (!status)
        mh_parallel_for(context, height, rows ? resize_row : resize_column, &pass);
    mh_free(context, table.memory, table.bytes);
    return status;
}

// Columns first where the height shrinks by more than twice what the width does, as in Pillow 13;
// older versions begin with the rows always, and differ by 1 in such a picture.
static bool begins_with_columns(const mh_image *from, size_t width, size_t height)
{
    const ptrdiff_t narrower = (ptrdiff_t)from->width - (ptrdiff_t)width;
    return height < from->height && (ptrdiff_t)(from->height - height) > 2 * narrower;
}

static mh_status resize_smooth(mh_context *context, mh_resample filter, const mh_image *from,
                               size_t width, size_t height, mh_image *to)
{
    mh_image between;
    const bool columns = begins_with_columns(from, width, height);
    if (width == from->width || height == from->height)
        return resize_run(context, filter, from, width, height, to);
    MH_TRY(resize_run(context, filter, from, columns ? from->width : width,
                      columns ? height : from->height, &between));
    mh_status status = resize_run(context, filter, &between, width, height, to);
    mh_image_free(context, &between);
    return status;
}

static mh_status resize_nearest(mh_context *context, const mh_image *from, size_t width,
                                size_t height, mh_image *to)
{
    const size_t C = from->channels, bytes = width * sizeof(size_t);
    const double across = (double)from->width / (double)width;
    const double down = (double)from->height / (double)height;
    size_t *columns = mh_alloc(context, bytes);
    mh_status status = columns ? mh_image_create(context, width, height, C, to) : MH_ERROR_MEMORY;
    double at = across * 0.5;
    for (size_t x = 0; x < width && !status; x++, at += across)
        columns[x] = at < (double)from->width ? (size_t)at : from->width - 1;
    at = down * 0.5;
    for (size_t y = 0; y < height && !status; y++, at += down) {
        const size_t row = at < (double)from->height ? (size_t)at : from->height - 1;
        for (size_t x = 0; x < width; x++)
            memcpy(to->pixels + (y * width + x) * C,
                   from->pixels + (row * from->width + columns[x]) * C, C);
    }
    mh_free(context, columns, bytes);
    return status;
}

mh_status mh_image_resize(mh_context *context, const mh_image *image, mh_resample filter,
                          size_t width, size_t height, mh_image *resized)
{
    MH_TRY(MH_NEED(context, {"resized", resized}));
    *resized = (mh_image){0};
    MH_TRY(mh_image_check(context, "image", image));
    if (filter < MH_RESAMPLE_NEAREST || filter > MH_RESAMPLE_HAMMING)
        return mh_fail(context, MH_ERROR_ARGUMENT, "filter: found %d, expected an mh_resample",
                       (int)filter);
    if (!mh_image_size_fits(width, height) || !mh_image_size_fits(width, image->height))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "from %zu x %zu to %zu x %zu: expected sides from 1 to %d, and at most %d "
                       "pixels on the way",
                       image->width, image->height, width, height, MH_IMAGE_SIDE_MAX,
                       MH_IMAGE_PIXELS_MAX);
    if (width == image->width && height == image->height)
        return mh_image_convert(context, image, image->channels, resized);
    return filter == MH_RESAMPLE_NEAREST
               ? resize_nearest(context, image, width, height, resized)
               : resize_smooth(context, filter, image, width, height, resized);
}
