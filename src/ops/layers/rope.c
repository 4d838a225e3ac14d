// SPDX-License-Identifier: MIT
// Rotary position embedding. Cosines and sines cost far more than the rotation, and rows share
// them: first a table of all given positions, (P, 2, width/2), then the rows, which look theirs up.
// With cosines and sines from the caller there is no table.
//
//     positions (B, 1, T)  ->  table (B*T, 2, width/2)  ->  x (B, H, T, E): row (b, h, t) takes
//     b*T+t
#include "base/arena.h"
#include "base/compiler.h"
#include "base/context.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "ops/indices.h"
#include "ops/layers/layers_internal.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <multihead/layers.h>

enum { ROWS = 64 }; // per task

typedef struct rope_job {
    const mh_kernels *kernels;
    mh_rope_options o; // width is not 0
    const mh_tensor *x, *y;
    size_t rows, E, pairs;
    size_t positions; // rows of the table
    mh_tensor index;  // (..., T) without data: strides from a row's indices to its position's index
    mh_tensor cosine; // the caller's, (..., T, pairs) broadcast, if there are no positions
    mh_tensor sine;
    double *frequency; // (pairs)
    float *table;      // (positions, 2, pairs), NULL: the caller's
    float *staging;    // (workers, 2 E + 2 pairs)
} rope_job;

// Cosines and sines of position number p.
static void fill_angles(const rope_job *job, size_t p, float *cosine, float *sine)
{
    const int64_t position =
        job->o.positions ? mh_index_get(job->o.positions, p) : job->o.first + (int64_t)p;
    job->kernels->rowwise.sin_cos(job->pairs, (double)position, job->frequency, sine, cosine);
    if (job->o.amplitude == 1)
        return;
    job->kernels->elementwise.scale_row(job->pairs, cosine, job->o.amplitude, cosine);
    job->kernels->elementwise.scale_row(job->pairs, sine, job->o.amplitude, sine);
}

static void fill_table(void *arg, size_t index, size_t worker)
{
    const rope_job *job = arg;
    (void)worker;
    for (size_t p = index * ROWS; p < mh_smaller((index + 1) * ROWS, job->positions); p++) {
        float *row = job->table + p * 2 * job->pairs;
        fill_angles(job, p, row, row + job->pairs);
    }
}

// A row of `pairs` values as f32, in place or copied.
static const float *read_pairs(const rope_job *job, const mh_tensor *t, const void *address,
                               float *copy)
{
    const ptrdiff_t stride = t->stride[t->rank - 1];
    if (t->dtype == MH_F32 && (stride == 1 || job->pairs == 1))
        return address;
    mh_row_read(job->kernels, t->dtype, address, stride, job->pairs, copy);
    return copy;
}

// The index of the position (the row of the table) of row `row` of x.
static size_t position_index(const rope_job *job, size_t row)
{
    size_t index = 0;
    for (int d = job->index.rank - 1; d >= 0; d--) {
        index += row % job->index.shape[d] * (size_t)job->index.stride[d];
        row /= job->index.shape[d];
    }
    return index;
}

static void angles_of_row(const rope_job *job, size_t row, float *copies, const float **cosine,
                          const float **sine)
{
    const mh_rope_options *o = &job->o;
    if (job->table) {
        *cosine = job->table + position_index(job, row) * 2 * job->pairs;
        *sine = *cosine + job->pairs;
        return;
    }
    const mh_tensor *c = o->positions ? o->cosine : &job->cosine;
    const mh_tensor *s = o->positions ? o->sine : &job->sine;
    if (o->positions)
        row = (size_t)mh_index_get(o->positions, position_index(job, row));
    *cosine = read_pairs(job, c, mh_row_address(c, row), copies);
    *sine = read_pairs(job, s, mh_row_address(s, row), copies + job->pairs);
}

static void rotate_rows(void *arg, size_t index, size_t worker)
{
    const rope_job *job = arg;
    const mh_kernels *k = job->kernels;
    const size_t width = 2 * job->pairs;
    const float sign = job->o.inverse ? -1.0f : 1.0f;
    float *from = job->staging + worker * (2 * job->E + width), *to = from + job->E;
    for (size_t row = index * ROWS; row < mh_smaller((index + 1) * ROWS, job->rows); row++) {
        const float *cosine, *sine, *x = mh_row_input(k, job->x, row, from);
        float *y = mh_row_output(job->y, row, to);
        angles_of_row(job, row, to + job->E, &cosine, &sine);
        if (job->o.interleaved)
            k->rowwise.rope_interleaved(job->pairs, cosine, sine, sign, x, y);
        else
            k->rowwise.rope_half(job->pairs, cosine, sine, sign, x, y);
        memmove(y + width, x + width, (job->E - width) * sizeof *y);
        mh_row_written(k, job->y, row, y, to);
    }
}

// ---- checks -------------------------------------------------------------------------------------

static mh_status rope_check_options(mh_context *context, rope_job *job)
{
    mh_rope_options *o = &job->o;
    const size_t E = job->x->shape[job->x->rank - 1];
    if (o->width == 0)
        o->width = E;
    if (o->width > E || o->width % 2 != 0)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "width: found %zu, expected an even number up to the last dimension, %zu",
                       o->width, E);
    if (!(o->base >= 1 && o->base <= 1e300))
        return mh_fail(context, MH_ERROR_ARGUMENT, "base: found %g, expected 1 to 1e300", o->base);
    if (!(o->amplitude > 0 && o->amplitude <= 1e6f))
        return mh_fail(context, MH_ERROR_ARGUMENT, "amplitude: found %g, expected more than 0",
                       (double)o->amplitude);
    if (!o->cosine != !o->sine)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL, expected both cosine and sine",
                       o->cosine ? "sine" : "cosine");
    if (o->first != 0 && (o->positions || o->cosine))
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "first: found %lld, expected 0 where positions, or cosine and sine, are given",
            (long long)o->first);
    return MH_OK;
}

// mh_tensor_broadcast with a message that names the tensor.
static mh_status broadcast(mh_context *context, const char *name, const mh_tensor *t, int rank,
                           const size_t *shape, mh_tensor *wide)
{
    char found[128], text[128];
    const mh_tensor expected = mh_tensor_view(NULL, t->dtype, rank, shape);
    mh_status status = mh_tensor_broadcast(context, t, rank, shape, wide);
    if (status)
        status = mh_fail(context, status, "%s: found %s, expected what broadcasts to %s", name,
                         mh_tensor_describe(t, found, sizeof found),
                         mh_tensor_describe(&expected, text, sizeof text));
    return status;
}

// The strides from indices of x's rows to the index of a position.
static mh_status index_positions(mh_context *context, rope_job *job)
{
    const mh_tensor *x = job->x;
    const int64_t limit = INT64_C(1) << 31;
    const int rank = x->rank - 1;
    mh_tensor dense;
    mh_status status = MH_OK;
    if (job->o.positions) {
        status = mh_check_indices(context, "positions", job->o.positions, -1);
        if (!status && job->o.cosine)
            status = mh_check_float(context, "cosine", job->o.cosine, 2);
        if (!status)
            status = mh_check_index_range(
                context, "positions", job->o.positions, job->o.cosine ? 0 : 1 - limit,
                job->o.cosine ? (int64_t)job->o.cosine->shape[0] : limit, NULL);
        if (status)
            return status;
        job->positions = mh_tensor_count(job->o.positions);
        dense = mh_tensor_view(NULL, MH_I64, job->o.positions->rank, job->o.positions->shape);
    } else {
        job->positions = x->shape[x->rank - 2];
        dense = mh_tensor_1d(NULL, MH_I64, job->positions);
        if (job->o.first <= -limit || job->o.first >= limit || job->positions > (size_t)limit ||
            job->o.first + (int64_t)job->positions > limit)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "first: found %lld and %zu positions, expected all within 2^31",
                           (long long)job->o.first, job->positions);
    }
    return broadcast(context, "positions", &dense, rank, x->shape, &job->index);
}

static mh_status check_caches(mh_context *context, rope_job *job)
{
    const mh_tensor *given[2] = {job->o.cosine, job->o.sine};
    mh_tensor *wide[2] = {&job->cosine, &job->sine};
    size_t shape[MH_MAX_RANK];
    char text[128];
    memcpy(shape, job->x->shape, sizeof shape);
    shape[job->x->rank - 1] = job->pairs;
    mh_status status = MH_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const char *name = i ? "sine" : "cosine";
        status = mh_check_float(context, name, given[i], job->o.positions ? 2 : -1);
        if (!status && (given[i]->rank < 1 || given[i]->shape[given[i]->rank - 1] != job->pairs ||
                        (i && !mh_tensor_same_shape(given[0], given[1]))))
            status = mh_fail(context, MH_ERROR_ARGUMENT,
                             "%s: found %s, expected width/2 = %zu elements per row in both", name,
                             mh_tensor_describe(given[i], text, sizeof text), job->pairs);
        if (!status && !job->o.positions)
            status = broadcast(context, name, given[i], job->x->rank, shape, wide[i]);
    }
    return status;
}

static mh_status rope_check(mh_context *context, const mh_rope_options *options, rope_job *job)
{
    mh_status status = mh_check_float(context, "x", job->x, -1);
    if (!status && job->x->rank < 2)
        status = mh_fail(context, MH_ERROR_ARGUMENT, "x: found rank %d, expected 2 to %d",
                         job->x->rank, MH_MAX_RANK);
    if (!status)
        status = mh_check_like(context, "y", job->y, "x", job->x);
    if (!status)
        status = MH_READ_STRUCT(context, mh_rope_options, options, &job->o);
    if (!status)
        status = rope_check_options(context, job);
    if (status)
        return status;
    job->E = job->x->shape[job->x->rank - 1];
    job->pairs = job->o.width / 2;
    if (job->o.positions || !job->o.cosine)
        status = index_positions(context, job);
    if (!status && job->o.cosine)
        status = check_caches(context, job);
    return status ? status
                  : MH_CHECK_OVERLAP(context, 1, {.name = "y", .tensor = job->y},
                                     {.name = "x", .tensor = job->x, .may_be = 1},
                                     {.name = "positions", .tensor = job->o.positions},
                                     {.name = "cosine", .tensor = job->o.cosine},
                                     {.name = "sine", .tensor = job->o.sine});
}

static void rope_layout(rope_job *job, mh_arena *arena, size_t threads)
{
    const bool own = !job->o.cosine;
    job->frequency = own ? mh_arena_take(arena, job->pairs, sizeof(double)) : NULL;
    job->table = own ? mh_arena_take(arena, job->positions, 2 * job->pairs * sizeof(float)) : NULL;
    job->staging = mh_arena_take(arena, 2 * job->E + 2 * job->pairs, threads * sizeof(float));
}

// Into job->frequency: the caller's, or those of the base.
static void set_frequencies(rope_job *job)
{
    mh_fpenv saved = mh_fpenv_enter();
    if (job->o.frequencies)
        memcpy(job->frequency, job->o.frequencies, job->pairs * sizeof *job->frequency);
    else
        mh_frequencies(job->o.base, job->o.width, job->pairs, job->frequency);
    mh_fpenv_leave(saved);
}

mh_status mh_rope(mh_context *context, const mh_rope_options *options, const mh_tensor *x,
                  mh_tensor *y)
{
    rope_job job = {.o = mh_rope_options_default(), .x = x, .y = y};
    mh_status status = rope_check(context, options, &job);
    const size_t count = status ? 0 : mh_tensor_count(x);
    if (status || count == 0)
        return status;
    job.kernels = context->kernels;
    job.rows = count / job.E;
    mh_arena arena = {0};
    rope_layout(&job, &arena, context->threads);
    void *memory = arena.overflow ? NULL : mh_context_scratch(context, arena.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "x: out of memory for %zu positions",
                       job.positions);
    arena = (mh_arena){memory, arena.used, 0, false};
    rope_layout(&job, &arena, context->threads);
    if (job.table) {
        set_frequencies(&job);
        mh_parallel_for(context, (job.positions + ROWS - 1) / ROWS, fill_table, &job);
    }
    mh_parallel_for(context, (job.rows + ROWS - 1) / ROWS, rotate_rows, &job);
    return MH_OK;
}

// ---- tables -------------------------------------------------------------------------------------

static void fill_rows(void *arg, size_t index, size_t worker)
{
    const rope_job *job = arg;
    (void)worker;
    for (size_t p = index * ROWS; p < mh_smaller((index + 1) * ROWS, job->positions); p++)
        fill_angles(job, p, (float *)mh_row_address(&job->cosine, p),
                    (float *)mh_row_address(&job->sine, p));
}

static mh_status check_table(mh_context *context, const char *name, const mh_tensor *t)
{
    char text[128];
    MH_TRY(mh_check_f32(context, name, t, 2));
    if (t->shape[1] > 1 && t->stride[1] != 1)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected contiguous rows", name,
                       mh_tensor_describe(t, text, sizeof text));
    return MH_OK;
}

static mh_status check_tables(mh_context *context, rope_job *job, const mh_tensor *cosine,
                              const mh_tensor *sine)
{
    MH_TRY(check_table(context, "cosine", cosine));
    MH_TRY(check_table(context, "sine", sine));
    MH_TRY(mh_check_like(context, "sine", sine, "cosine", cosine));
    if (job->o.positions)
        MH_TRY(mh_check_indices(context, "positions", job->o.positions, 1));
    if (job->o.cosine || job->o.sine)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "options: found cosine or sine, expected them as outputs only");
    if (job->o.width != 2 * cosine->shape[1])
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "width: found %zu, expected twice the columns of cosine, %zu", job->o.width,
                       2 * cosine->shape[1]);
    if (job->o.positions && job->o.positions->shape[0] != cosine->shape[0])
        return mh_fail(context, MH_ERROR_ARGUMENT, "positions: expected (%zu), one per row",
                       cosine->shape[0]);
    return MH_CHECK_OVERLAP(context, 2, MH_OPERAND(cosine), MH_OPERAND(sine),
                            {.name = "positions", .tensor = job->o.positions});
}

mh_status mh_rope_tables(mh_context *context, const mh_rope_options *options, mh_tensor *cosine,
                         mh_tensor *sine)
{
    rope_job job = {.o = mh_rope_options_default()};
    mh_status status = MH_READ_STRUCT(context, mh_rope_options, options, &job.o);
    if (!status)
        status = check_tables(context, &job, cosine, sine);
    if (status)
        return status;
    // Rows of `width` values, one per position, stand for what is rotated.
    const mh_tensor x = mh_tensor_2d(NULL, MH_F32, cosine->shape[0], job.o.width);
    job.x = &x;
    job.pairs = cosine->shape[1];
    status = rope_check_options(context, &job);
    if (!status)
        status = index_positions(context, &job);
    if (status || !job.positions || !job.pairs)
        return status;
    job.kernels = context->kernels;
    job.cosine = *cosine;
    job.sine = *sine;
    job.frequency = mh_context_scratch(context, job.pairs * sizeof *job.frequency);
    if (!job.frequency)
        return MH_ERROR_MEMORY;
    set_frequencies(&job);
    mh_parallel_for(context, (job.positions + ROWS - 1) / ROWS, fill_rows, &job);
    return MH_OK;
}
