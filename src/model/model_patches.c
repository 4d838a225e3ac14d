// SPDX-License-Identifier: MIT
// Pictures as rows: the embeddings of a Vision Transformer.
//
//     pixels (C, height, width) -> patches (n, C P P) -> x = W patch + b + position
//
// in one matrix product per picture, whose epilogue adds the positions; the rows of the class token
// and of DeiT's distillation token come first. Positions are learnt for one size of pictures. For
// another their grid is interpolated, as PyTorch's bicubic interpolate() does without antialias.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "base/size_math.h"
#include "model/model_internal.h"
#include <math.h>
#include <string.h>

// ---- checks -------------------------------------------------------------------------------------

size_t mh_model_picture_rows(const mh_vision *v, const mh_tensor *pixels)
{
    return v->first + (pixels->shape[1] / v->patch) * (pixels->shape[2] / v->patch);
}

mh_status mh_model_check_pixels(mh_context *context, const mh_model *model,
                                const mh_model_input *input)
{
    const mh_vision *v = &model->description.vision;
    char found[128];
    for (size_t b = 0; b < input->sequences; b++) {
        const mh_tensor *t = &input->pixels[b];
        if (!t->data || t->dtype != MH_F32 || t->rank != 3 || t->shape[0] != v->channels ||
            t->shape[1] < v->patch || t->shape[2] < v->patch || t->shape[1] > MH_IMAGE_SIDE_MAX ||
            t->shape[2] > MH_IMAGE_SIDE_MAX)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "pixels[%zu]: found %s, expected f32 (%zu, height, width) with sides "
                           "from %zu to %d",
                           b, mh_tensor_describe(t, found, sizeof found), v->channels, v->patch,
                           MH_IMAGE_SIDE_MAX);
        const size_t rows = mh_model_picture_rows(v, t);
        if (input->starts[b] < 0 || input->starts[b + 1] - input->starts[b] != (int64_t)rows ||
            input->starts[0] != 0)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "starts[%zu]: found %lld rows of the picture, expected %zu", b,
                           (long long)(input->starts[b + 1] - input->starts[b]), rows);
    }
    return MH_OK;
}

// ---- positions ----------------------------------------------------------------------------------

// The four weights of cubic convolution with a = -0.75 at a distance t from the second point.
static void cubic_weights(float t, float w[4])
{
    const float a = -0.75f, u = 1 - t;
    const float far0 = t + 1, far1 = u + 1;
    w[0] = ((a * far0 - 5 * a) * far0 + 8 * a) * far0 - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
    w[3] = ((a * far1 - 5 * a) * far1 + 8 * a) * far1 - 4 * a;
}

// The points around pixel i of `count`, in a row of `size`: their numbers, and weights.
static void cubic_points(size_t i, size_t size, size_t count, size_t points[4], float w[4])
{
    const float scale = (float)size / (float)count;
    const float at = scale * ((float)i + 0.5f) - 0.5f, low = floorf(at);
    cubic_weights(at - low, w);
    for (int k = 0; k < 4; k++) {
        const double point = (double)low - 1 + k;
        points[k] = point < 0 ? 0 : mh_smaller((size_t)point, size - 1);
    }
}

// to (rows * columns, D) = the grid (side * side, D) in another size.
static void interpolate_grid(const float *grid, size_t side, size_t rows, size_t columns, size_t D,
                             float *to)
{
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < columns; x++) {
            size_t py[4], px[4];
            float wy[4], wx[4];
            cubic_points(y, side, rows, py, wy);
            cubic_points(x, side, columns, px, wx);
            for (size_t d = 0; d < D; d++) {
                float sum = 0;
                for (int i = 0; i < 4; i++) {
                    const float *row = grid + py[i] * side * D + d;
                    sum += wy[i] * (wx[0] * row[px[0] * D] + wx[1] * row[px[1] * D] +
                                    wx[2] * row[px[2] * D] + wx[3] * row[px[3] * D]);
                }
                to[(y * columns + x) * D + d] = sum;
            }
        }
}

// ---- one picture --------------------------------------------------------------------------------

// Rows and columns of patches, and memory for a picture of the largest size.
typedef struct patch_run {
    mh_context *context;
    const mh_model *model;
    size_t K;         // values of a patch
    float *patches;   // (n, K)
    float *positions; // (n, D), interpolated
    float *grid;      // (positions, D) f32
} patch_run;

// patches (rows * columns, K), each with its channels' P x P pixels.
static void cut_patches(const patch_run *r, const mh_tensor *pixels, size_t rows, size_t columns)
{
    const mh_vision *v = &r->model->description.vision;
    const size_t P = v->patch;
    float *to = r->patches;
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < columns; x++)
            for (size_t c = 0; c < v->channels; c++)
                for (size_t i = 0; i < P; i++, to += P) {
                    const float *from = (const float *)pixels->data +
                                        (ptrdiff_t)c * pixels->stride[0] +
                                        (ptrdiff_t)(y * P + i) * pixels->stride[1] +
                                        (ptrdiff_t)(x * P) * pixels->stride[2];
                    for (size_t j = 0; j < P; j++)
                        to[j] = from[(ptrdiff_t)j * pixels->stride[2]];
                }
}

// The positions of a picture's patches (n, D): the model's, or made for its size.
static mh_tensor picture_positions(const patch_run *r, size_t rows, size_t columns)
{
    const mh_vision *v = &r->model->description.vision;
    const mh_tensor *table = &r->model->ends[MH_END_POSITION];
    const size_t side = v->image / v->patch, D = table->shape[1];
    if (rows == side && columns == side)
        return mh_tensor_slice(*table, 0, v->first, side * side);
    interpolate_grid(r->grid + v->first * D, side, rows, columns, D, r->positions);
    return mh_tensor_2d(r->positions, MH_F32, rows * columns, D);
}

// The first rows: tokens that are learnt, with their positions.
static mh_status put_first_tokens(const patch_run *r, mh_tensor *x)
{
    static const mh_end tokens[] = {MH_END_CLASS, MH_END_DISTILLATION};
    const mh_model *m = r->model;
    for (size_t i = 0; i < m->description.vision.first; i++) {
        const mh_tensor token = mh_tensor_split(m->ends[tokens[i]], 0, 1);
        const mh_tensor position = mh_tensor_slice(m->ends[MH_END_POSITION], 0, i, 1);
        mh_tensor row = mh_tensor_slice(*x, 0, i, 1);
        MH_TRY(mh_tensor_copy(r->context, &position, &row));
        MH_TRY(mh_add(r->context, &row, &token, &row));
    }
    return MH_OK;
}

// x (first + patches, D) of one picture.
static mh_status embed_picture(const patch_run *r, const mh_tensor *pixels, mh_tensor *x)
{
    const mh_model *m = r->model;
    const mh_vision *v = &m->description.vision;
    const size_t rows = pixels->shape[1] / v->patch, columns = pixels->shape[2] / v->patch;
    const mh_tensor patches = mh_tensor_2d(r->patches, MH_F32, rows * columns, r->K);
    const mh_tensor positions = picture_positions(r, rows, columns);
    mh_tensor y = mh_tensor_slice(*x, 0, v->first, rows * columns);
    mh_linear_options o = mh_linear_options_default();
    cut_patches(r, pixels, rows, columns);
    o.precision = m->precision;
    o.packed = m->packed[MH_END_PATCH];
    o.bias = m->ends[MH_END_PATCH_BIAS].rank ? &m->ends[MH_END_PATCH_BIAS] : NULL;
    o.residual = &positions;
    MH_TRY(mh_linear(r->context, &o, &patches, o.packed ? NULL : &m->ends[MH_END_PATCH], &y));
    return put_first_tokens(r, x);
}

// ---- all of them --------------------------------------------------------------------------------

// The positions as floats, whatever the file has, if a picture needs others.
static mh_status widen_positions(const patch_run *r)
{
    const mh_tensor *table = &r->model->ends[MH_END_POSITION];
    mh_tensor grid = mh_tensor_2d(r->grid, MH_F32, table->shape[0], table->shape[1]);
    return mh_tensor_copy(r->context, table, &grid);
}

static mh_status embed_pictures(const patch_run *r, const mh_model_input *input, mh_tensor *x)
{
    MH_TRY(widen_positions(r));
    for (size_t b = 0; b < input->sequences; b++) {
        const size_t begin = (size_t)input->starts[b], end = (size_t)input->starts[b + 1];
        mh_tensor rows = mh_tensor_slice(*x, 0, begin, end - begin);
        MH_TRY(embed_picture(r, &input->pixels[b], &rows));
    }
    if (!r->model->description.embedding_norm)
        return MH_OK;
    return mh_layer_norm(r->context, x, &r->model->ends[MH_END_NORM],
                         &r->model->ends[MH_END_NORM_BIAS], r->model->description.block.norm_eps, x,
                         NULL, NULL);
}

mh_status mh_model_embed_patches(mh_context *context, const mh_model *model,
                                 const mh_model_input *input, mh_tensor *x)
{
    const mh_description *d = &model->description;
    const size_t D = d->block.d_model, K = d->vision.channels * d->vision.patch * d->vision.patch;
    size_t most = 0, floats, grid = d->positions * D, bytes;
    for (size_t b = 0; b < input->sequences; b++)
        most = mh_larger(most, (size_t)(input->starts[b + 1] - input->starts[b]));
    if (!mh_multiply_sizes(most, K + D, &floats) || !mh_add_sizes(floats, grid, &floats) ||
        !mh_multiply_sizes(floats, sizeof(float), &bytes))
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory for %zu patches", most);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    const patch_run run = {.context = context,
                           .model = model,
                           .K = K,
                           .patches = memory,
                           .positions = memory + most * K,
                           .grid = memory + most * (K + D)};
    mh_status status = embed_pictures(&run, input, x);
    mh_free(context, memory, bytes);
    return status;
}

// ---- gradients ----------------------------------------------------------------------------------

// The patches of all pictures (n, K), their gradients (n, D), and those of class tokens (B, D).
typedef struct patch_gradients {
    size_t n, patches; // of all pictures, of one
    float *values, *dy, *dfirst;
    int32_t *zeros, *positions; // (B), (rows)
} patch_gradients;

static mh_status positions_backward(mh_context *context, const mh_model *model,
                                    const mh_model_gradients *gradients, const patch_gradients *g,
                                    size_t B, const mh_tensor *dx)
{
    const size_t D = dx->shape[1];
    mh_tensor dtable = mh_model_end_gradient(model, gradients, MH_END_POSITION);
    mh_tensor dclass = mh_model_end_gradient(model, gradients, MH_END_CLASS);
    const mh_tensor ids = mh_tensor_1d(g->positions, MH_I32, dx->shape[0]);
    const mh_tensor zeros = mh_tensor_1d(g->zeros, MH_I32, B);
    const mh_tensor first = mh_tensor_2d(g->dfirst, MH_F32, B, D);
    if (!dtable.data)
        return MH_OK;
    MH_TRY(mh_embedding_backward(context, &ids, 1, -1, dx, &dtable));
    dclass = mh_tensor_2d(dclass.data, MH_F32, 1, D);
    return mh_embedding_backward(context, &zeros, 1, -1, &first, &dclass);
}

static mh_status projection_backward(mh_context *context, const mh_model *model,
                                     const mh_model_gradients *gradients, const patch_gradients *g)
{
    const mh_tensor *weight = &model->ends[MH_END_PATCH];
    mh_tensor dw = mh_model_end_gradient(model, gradients, MH_END_PATCH);
    mh_tensor db = mh_model_end_gradient(model, gradients, MH_END_PATCH_BIAS);
    const mh_tensor x = mh_tensor_2d(g->values, MH_F32, g->n, weight->shape[1]);
    const mh_tensor dy = mh_tensor_2d(g->dy, MH_F32, g->n, weight->shape[0]);
    mh_linear_options o = mh_linear_options_default();
    o.precision = model->precision;
    o.accumulate = true;
    return mh_linear_backward(context, &o, &x, weight, &dy, NULL, dw.data ? &dw : NULL,
                              db.data ? &db : NULL);
}

// Cuts the pictures again, and separates the rows of class tokens from those of patches.
static void split_rows(const mh_model *model, const mh_model_input *input, const mh_tensor *dx,
                       const patch_gradients *g)
{
    const mh_vision *v = &model->description.vision;
    const size_t D = dx->shape[1], K = v->channels * v->patch * v->patch,
                 side = v->image / v->patch;
    for (size_t b = 0; b < input->sequences; b++) {
        const float *from = (const float *)dx->data + (size_t)input->starts[b] * D;
        const patch_run run = {.model = model, .K = K, .patches = g->values + b * g->patches * K};
        cut_patches(&run, &input->pixels[b], side, side);
        memcpy(g->dfirst + b * D, from, D * sizeof *from);
        memcpy(g->dy + b * g->patches * D, from + D, g->patches * D * sizeof *from);
        g->zeros[b] = 0;
        for (size_t i = 0; i <= g->patches; i++)
            g->positions[b * (g->patches + 1) + i] = (int32_t)i;
    }
}

mh_status mh_model_patches_backward(mh_context *context, const mh_model *model,
                                    const mh_model_input *input, const mh_tensor *dx,
                                    const mh_model_gradients *gradients)
{
    const mh_vision *v = &model->description.vision;
    const size_t D = dx->shape[1], K = v->channels * v->patch * v->patch, B = input->sequences;
    const size_t side = v->image / v->patch, rows = dx->shape[0];
    patch_gradients g = {.patches = side * side, .n = B * side * side};
    for (size_t b = 0; b < B; b++)
        if (input->pixels[b].shape[1] / v->patch != side ||
            input->pixels[b].shape[2] / v->patch != side)
            return mh_fail(
                context, MH_ERROR_UNSUPPORTED,
                "pixels[%zu]: found %zu x %zu, expected %zu x %zu: gradients are for the "
                "size that positions are for",
                b, input->pixels[b].shape[1], input->pixels[b].shape[2], v->image, v->image);
    const size_t floats = g.n * (K + D) + B * D, bytes = (floats + B + rows) * sizeof(float);
    float *memory = mh_alloc(context, bytes); // rows of all sizes are already in memory
    if (!memory)
        return MH_ERROR_MEMORY;
    g.values = memory;
    g.dy = g.values + g.n * K;
    g.dfirst = g.dy + g.n * D;
    g.zeros = (int32_t *)(g.dfirst + B * D);
    g.positions = g.zeros + B;
    split_rows(model, input, dx, &g);
    mh_status status = projection_backward(context, model, gradients, &g);
    if (!status)
        status = positions_backward(context, model, gradients, &g, B, dx);
    mh_free(context, memory, bytes);
    return status;
}
