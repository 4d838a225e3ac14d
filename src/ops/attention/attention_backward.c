// SPDX-License-Identifier: MIT
// mh_attention_backward: argument checks, planning and workspace layout. The computation is in
// attention_grad*.c and attention_short_backward.c.
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "ops/attention/attention_grad.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"

// ---- checks -------------------------------------------------------------------------------------

static mh_status check_f32_like(mh_context *context, const char *name, const mh_tensor *t,
                                const char *like_name, const mh_tensor *like)
{
    MH_TRY(mh_check_f32(context, name, t, -1));
    return mh_check_like(context, name, t, like_name, like);
}

static mh_status check_sums(mh_context *context, const mh_attention_desc *p,
                            const mh_attention_gradients *g)
{
    mh_status status = MH_OK;
    for (size_t i = 0; g->dmasks && i < p->options.mask_count && !status; i++) {
        if (g->dmasks[i] && p->options.masks[i].kind != MH_MASK_ADD)
            status = mh_fail(context, MH_ERROR_ARGUMENT,
                             "dmasks[%zu]: only an MH_MASK_ADD has a gradient", i);
        else if (g->dmasks[i])
            status = check_f32_like(context, "dmasks", g->dmasks[i], "the mask",
                                    &p->options.masks[i].tensor);
    }
    if (status || !g->dsinks)
        return status;
    if (!p->options.sinks)
        return mh_fail(context, MH_ERROR_ARGUMENT, "dsinks: there are no sinks");
    mh_tensor sinks = mh_tensor_1d(NULL, MH_F32, p->H);
    return check_f32_like(context, "dsinks", g->dsinks, "the sinks", &sinks);
}

static mh_status attention_backward_check(
    mh_context *context, const mh_attention_options *options, const mh_tensor *q,
    const mh_tensor *k, const mh_tensor *v, const mh_tensor *out, const mh_tensor *dout,
    const mh_attention_gradients *given, mh_attention_desc *desc, mh_attention_gradients *gradients)
{
    *gradients = mh_attention_gradients_default();
    mh_status status = mh_attention_check(context, options, q, k, v, out, desc);
    if (status)
        return status;
    desc->options.weights = NULL;
    if (!desc->options.lse)
        return mh_fail(context, MH_ERROR_ARGUMENT, "lse: found NULL, expected what forward wrote");
    if (!dout || !given)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL", dout ? "gradients" : "dout");
    status = MH_READ_STRUCT(context, mh_attention_gradients, given, gradients);
    if (!status)
        status = mh_check_like(context, "dout", dout, "out", out);
    if (!status && gradients->dq)
        status = mh_check_like(context, "dq", gradients->dq, "q", q);
    if (!status && gradients->dk)
        status = mh_check_like(context, "dk", gradients->dk, "k", k);
    if (!status && gradients->dv)
        status = mh_check_like(context, "dv", gradients->dv, "v", v);
    return status ? status : check_sums(context, desc, gradients);
}

mh_status mh_attention_grad_check_overlap(mh_context *context, const mh_attention_desc *p,
                                          const mh_tensor *dout, const mh_attention_gradients *g)
{
    const size_t masks = p->options.mask_count;
    mh_operand operands[12 + 2 * MH_MAX_MASKS] = {{.name = "dq", .tensor = g->dq},
                                                  {.name = "dk", .tensor = g->dk},
                                                  {.name = "dv", .tensor = g->dv},
                                                  {.name = "dsinks", .tensor = g->dsinks}};
    size_t outputs = 4;
    for (size_t i = 0; g->dmasks && i < masks; i++)
        operands[outputs++] = (mh_operand){.name = "dmasks", .tensor = g->dmasks[i]};
    const mh_operand inputs[] = {{.name = "q", .tensor = &p->q},
                                 {.name = "k", .tensor = &p->k},
                                 {.name = "v", .tensor = &p->v},
                                 {.name = "out", .tensor = &p->out},
                                 {.name = "dout", .tensor = dout},
                                 {.name = "lse", .tensor = p->options.lse},
                                 {.name = "query_documents", .tensor = p->options.query_documents},
                                 {.name = "key_documents", .tensor = p->options.key_documents}};
    size_t count = outputs;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        operands[count++] = inputs[i];
    for (size_t i = 0; i < masks; i++)
        operands[count++] = (mh_operand){.name = "masks", .tensor = &p->options.masks[i].tensor};
    return mh_check_overlap(context, outputs, count, operands);
}

void mh_attention_grad_plan(const mh_context *context, const mh_attention_desc *p,
                            const mh_tensor *dout, const mh_attention_gradients *gradients,
                            mh_attention_grad_job *job)
{
    *job = (mh_attention_grad_job){.gradients = *gradients, .dout = *dout};
    mh_attention_job_plan(context, p, &job->forward);
    const size_t lanes = job->forward.kernels->lanes;
    job->key_width = (p->E + lanes - 1) / lanes * lanes;
    job->workers = job->forward.workers;
    job->short_path = job->forward.short_path && !job->forward.gemm->pack_a;
    job->rows = p->heads_per_group * p->T;
    bool waves = p->B * p->G < job->workers && p->S > MH_KV_SPLIT;
    job->shares = waves ? job->workers + 1 : job->workers;
    if (p->resumed)
        job->shares = gradients->dq ? p->B * p->G : 0;
}

static void attention_backward_layout_scratch(const mh_attention_grad_job *job, mh_arena *arena,
                                              mh_attention_grad_scratch *to)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_gemm *gemm = job->forward.gemm;
    const size_t width = job->key_width, value_width = job->forward.value_width;
    const size_t widest = mh_larger(width, value_width), tile = MH_KEY_TILE;
    const size_t elements = job->forward.mr * tile;
    const size_t keys = job->forward.split_tiles * tile;
    mh_attention_grad_scratch s;
    memset(&s, 0, sizeof s);
    s.queries = mh_arena_take(arena, MH_GRAD_ROWS * width, sizeof(float));
    s.douts = mh_arena_take(arena, MH_GRAD_ROWS * value_width, sizeof(float));
    s.weights = mh_arena_take(arena, MH_GRAD_ROWS * tile, sizeof(float));
    s.scores = mh_arena_take(arena, MH_GRAD_ROWS * tile, sizeof(float));
    s.transposed = mh_arena_take(arena, MH_GRAD_ROWS * tile, sizeof(float));
    s.slope = mh_arena_take(arena, elements, sizeof(float));
    s.bias = mh_arena_take(arena, elements, sizeof(float));
    s.dq = mh_arena_take(arena, MH_GRAD_ROWS * width, sizeof(float));
    s.a_queries = mh_a_take(gemm, arena, MH_GRAD_ROWS, p->E);
    s.a_douts = mh_a_take(gemm, arena, MH_GRAD_ROWS, p->Ev);
    s.b_queries = mh_b_take_packed(gemm, arena, MH_GRAD_ROWS, width);
    s.b_douts = mh_b_take_packed(gemm, arena, MH_GRAD_ROWS, value_width);
    s.packed_a = mh_a_take(gemm, arena, MH_GRAD_ROWS, tile);
    s.clean_b = mh_b_take_packed(gemm, arena, tile, widest);
    s.sums = mh_arena_take(arena, gemm->rows * widest, sizeof(float));
    s.unpacked = mh_arena_take(arena, mh_larger(p->E, p->Ev) * tile, sizeof(float));
    s.clean = mh_arena_take(arena, tile * widest, sizeof(float));
    s.staging = mh_arena_take(arena, tile * widest, sizeof(float));
    s.dk = mh_arena_take(arena, keys * width, sizeof(float));
    s.dv = mh_arena_take(arena, keys * value_width, sizeof(float));
    for (size_t i = 0; i < job->forward.split_tiles; i++) {
        s.tiles[i].rows = mh_arena_take(arena, tile * width, sizeof(float));
        s.tiles[i].packed = mh_b_take_packed(gemm, arena, tile, width);
        s.tiles[i].keys_t = mh_b_take(gemm, arena, p->E, tile);
        s.tiles[i].values_t = mh_b_take(gemm, arena, p->Ev, tile);
    }
    if (to)
        *to = s;
}

void mh_attention_grad_layout(mh_attention_grad_job *job, mh_arena *arena)
{
    job->scratch = mh_arena_take(arena, job->workers, sizeof *job->scratch);
    for (size_t i = 0; i < job->workers; i++)
        attention_backward_layout_scratch(job, arena, job->scratch ? &job->scratch[i] : NULL);
    job->dq_shares = mh_arena_take(arena, job->shares * job->rows, job->key_width * sizeof(float));
    const mh_attention_desc *p = job->forward.desc;
    const size_t held = p->B * p->G * job->held_count * MH_KV_SPLIT;
    job->dk = mh_arena_take(arena, held, job->key_width * sizeof(float));
    job->dv = mh_arena_take(arena, held, job->forward.value_width * sizeof(float));
}

// ---- the calls ----------------------------------------------------------------------------------

static void attention_backward_backward(mh_context *context, const mh_attention_grad_job *job)
{
    const mh_attention_gradients *g = &job->gradients;
    if (job->short_path)
        mh_attention_run(context, job->workers, job->forward.tasks, mh_attention_short_backward,
                         (void *)job);
    else if (g->dq || g->dk || g->dv)
        mh_attention_grad_splits(context, job);
    if (g->dmasks)
        mh_attention_grad_masks(context, job);
    if (g->dsinks)
        mh_attention_grad_sinks(context, job);
}

void mh_attention_backward_measure(const mh_context *context, const mh_attention_desc *desc,
                                   const mh_tensor *dout, const mh_attention_gradients *gradients,
                                   mh_arena *arena)
{
    mh_attention_grad_job job;
    mh_attention_grad_plan(context, desc, dout, gradients, &job);
    mh_attention_grad_layout(&job, arena);
}

mh_status mh_attention_backward_desc(mh_context *context, const mh_attention_desc *desc,
                                     const mh_tensor *dout, const mh_tensor *delta,
                                     const mh_attention_gradients *gradients)
{
    mh_attention_grad_job job;
    mh_arena arena = {0};
    mh_attention_grad_plan(context, desc, dout, gradients, &job);
    job.delta = delta;
    mh_attention_grad_layout(&job, &arena);
    MH_TRY(mh_attention_take_workspace(context, &desc->options, &arena));
    mh_attention_grad_layout(&job, &arena);
    attention_backward_backward(context, &job);
    return mh_check_cancelled(context);
}

mh_status mh_attention_backward(mh_context *context, const mh_attention_options *options,
                                const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                                const mh_tensor *out, const mh_tensor *dout,
                                const mh_attention_gradients *gradients)
{
    mh_attention_desc desc;
    mh_attention_gradients own;
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status =
        attention_backward_check(context, options, q, k, v, out, dout, gradients, &desc, &own);
    if (!status)
        status = mh_attention_grad_check_overlap(context, &desc, dout, &own);
    if (!status)
        status = mh_attention_backward_desc(context, &desc, dout, NULL, &own);
    mh_fpenv_leave(saved);
    return status;
}

mh_status mh_attention_backward_workspace(mh_context *context, const mh_attention_options *options,
                                          const mh_tensor *q, const mh_tensor *k,
                                          const mh_tensor *v, const mh_tensor *out,
                                          const mh_tensor *dout,
                                          const mh_attention_gradients *gradients, size_t *bytes)
{
    mh_attention_desc desc;
    mh_attention_gradients own;
    mh_arena arena = {0};
    MH_TRY(attention_backward_check(context, options, q, k, v, out, dout, gradients, &desc, &own));
    mh_attention_backward_measure(context, &desc, dout, &own, &arena);
    return mh_attention_workspace_bytes(context, &arena, bytes);
}
