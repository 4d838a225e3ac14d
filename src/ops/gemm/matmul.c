// SPDX-License-Identifier: MIT
// mh_matmul and prepacked matrices; gemm_internal.h describes the algorithm.
#include "base/compiler.h"
#include "ops/gemm/gemm_internal.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"

mh_status mh_gemm_check(mh_context *context, const mh_tensor *a, size_t K, size_t N,
                        const mh_tensor *c)
{
    char text_a[128], text_c[128];
    MH_TRY(mh_check_float(context, "a", a, 2));
    MH_TRY(mh_check_float(context, "c", c, 2));
    if ((a->shape[1] != K || c->shape[0] != a->shape[0] || c->shape[1] != N))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "shapes: found a %s, b (%zu, %zu), c %s, expected (M, K), (K, N), (M, N)",
                       mh_tensor_describe(a, text_a, sizeof text_a), K, N,
                       mh_tensor_describe(c, text_c, sizeof text_c));
    return MH_OK;
}

static const mh_gemm *choose_gemm(const mh_context *context, bool bf16)
{
    return bf16 ? &context->kernels->bf16 : &context->kernels->f32;
}

mh_status mh_matmul(mh_context *context, const mh_tensor *a, const mh_tensor *b, mh_tensor *c)
{
    MH_TRY(mh_check_float(context, "b", b, 2));
    MH_TRY(mh_gemm_check(context, a, b->shape[0], b->shape[1], c));
    MH_TRY(MH_CHECK_OVERLAP(context, 1, MH_OPERAND(c), MH_OPERAND(a), MH_OPERAND(b)));
    mh_gemm_job job = {.kernels = context->kernels,
                       .gemm = choose_gemm(context, b->dtype == MH_BF16),
                       .a = *a,
                       .b = *b,
                       .c = *c};
    return mh_gemm_run(context, &job);
}

mh_status mh_matmul_packed(mh_context *context, const mh_tensor *a, const mh_packed_matrix *b,
                           mh_tensor *c)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!b)
        return mh_fail(context, MH_ERROR_ARGUMENT, "b: found NULL, expected a packed matrix");
    if (b->isa != context->isa)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "b: found a matrix packed at level %s, expected this context's, %s", b->isa,
                       context->isa);
    MH_TRY(mh_gemm_check(context, a, b->K, b->N, c));
    MH_TRY(MH_CHECK_OVERLAP(context, 1, MH_OPERAND(c), MH_OPERAND(a)));
    mh_gemm_job job = {.kernels = context->kernels,
                       .gemm = choose_gemm(context, b->bf16),
                       .a = *a,
                       .packed = b,
                       .c = *c};
    return mh_gemm_run(context, &job);
}

// ---- packing ------------------------------------------------------------------------------------

static void layout_staging(mh_gemm_job *job, mh_arena *arena)
{
    const size_t depth = mh_smaller(job->b.shape[0], MH_GEMM_DEPTH);
    job->scratch = mh_arena_take(arena, job->workers, sizeof *job->scratch);
    for (size_t i = 0; i < job->workers; i++) {
        float *transposed = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
        float *staging = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
        if (job->scratch)
            job->scratch[i] = (mh_gemm_scratch){.transposed = transposed, .staging = staging};
    }
}

// The matrix and its panels in one allocation.
static mh_packed_matrix *layout_matrix(mh_arena *arena, const mh_gemm_job *job, mh_row_type type,
                                       char **panels)
{
    mh_packed_matrix *matrix = mh_arena_take(arena, 1, sizeof *matrix);
    *panels = mh_arena_take(arena, mh_panels_of(job->b.shape[1]),
                            mh_packed_panel_bytes(job->gemm, type, job->b.shape[0]));
    return matrix;
}

static mh_status matmul_pack(mh_context *context, const mh_tensor *b, bool bf16,
                             mh_packed_matrix **packed)
{
    mh_gemm_job job = {.kernels = context->kernels,
                       .gemm = choose_gemm(context, bf16),
                       .b = *b,
                       .workers = context->threads};
    const bool rows = mh_packs_bf16_rows(job.gemm, b);
    const mh_row_type type = rows ? MH_ROW_BF16 : MH_ROW_F32;
    mh_arena size = {0}, staging_size = {0};
    layout_matrix(&size, &job, type, &job.packed_b);
    layout_staging(&job, &staging_size);
    if (size.overflow || staging_size.overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "b: its packed size does not fit in memory");
    void *staging = mh_context_scratch(context, staging_size.used);
    void *memory = staging ? mh_alloc(context, size.used) : NULL;
    if (!memory)
        return MH_ERROR_MEMORY;

    mh_arena arena = {.base = staging, .size = staging_size.used};
    layout_staging(&job, &arena);
    arena = (mh_arena){.base = memory, .size = size.used};
    mh_packed_matrix *matrix = layout_matrix(&arena, &job, type, &job.packed_b);
    *matrix = (mh_packed_matrix){.allocator = context->allocator,
                                 .bytes = size.used,
                                 .isa = context->isa,
                                 .bf16 = bf16,
                                 .K = b->shape[0],
                                 .N = b->shape[1],
                                 .panels = job.packed_b,
                                 .type = type};
    mh_parallel_for(context, mh_panels_of(matrix->N),
                    rows ? mh_gemm_pack_panel_bf16 : mh_gemm_pack_panel, &job);
    *packed = matrix;
    return MH_OK;
}

mh_status mh_matrix_pack(mh_context *context, mh_precision precision, const mh_tensor *b,
                         mh_packed_matrix **packed)
{
    if (!packed)
        return mh_fail(context, MH_ERROR_ARGUMENT, "packed: found NULL");
    *packed = NULL;
    if ((unsigned)precision > MH_PRECISION_WEIGHTS)
        return mh_fail(context, MH_ERROR_ARGUMENT, "precision: found %d, expected 0 to %d",
                       (int)precision, MH_PRECISION_WEIGHTS);
    MH_TRY(mh_check_float(context, "b", b, 2));
    const bool bf16 = precision == MH_PRECISION_AUTO || precision == MH_PRECISION_WEIGHTS
                          ? b->dtype == MH_BF16
                          : precision == MH_PRECISION_BF16;
    return matmul_pack(context, b, bf16, packed);
}

void mh_packed_matrix_free(mh_packed_matrix *packed)
{
    if (packed)
        packed->allocator.release(packed->allocator.user, packed, packed->bytes);
}

size_t mh_packed_matrix_bytes(const mh_packed_matrix *packed) { return packed ? packed->bytes : 0; }

size_t mh_packed_matrix_bytes_bf16(const mh_context *context, const mh_packed_matrix *packed)
{
    if (!packed)
        return 0;
    const mh_gemm_job job = {.gemm = choose_gemm(context, true),
                             .b = mh_tensor_2d(NULL, MH_BF16, packed->K, packed->N)};
    mh_arena size = {0};
    char *panels;
    layout_matrix(&size, &job, mh_packs_bf16_rows(job.gemm, &job.b) ? MH_ROW_BF16 : MH_ROW_F32,
                  &panels);
    return size.used;
}
