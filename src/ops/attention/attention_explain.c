// SPDX-License-Identifier: MIT
// mh_attention_explain: the plan of a call, counted with the code that forward uses.
#include "base/compiler.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "ops/attention/attention_internal.h"
#include <stdio.h>

// A query tile against all key tiles of its sequence, each classified as dead, edge or full by the
// same rule as in forward.
static void count_query_tile(const mh_attention_job *job, const mh_attention_block *block,
                             size_t first, size_t count, mh_attention_plan *plan)
{
    mh_query_row rows[MH_MAX_ROW_BLOCK];
    float bias[MH_MAX_ROW_BLOCK * MH_KEY_TILE];
    const mh_sequence *sequence = &block->sequence;
    mh_attention_number_rows(job, sequence, block->group, first, count, rows);
    for (size_t tile = 0; tile < sequence->S; tile += MH_KEY_TILE) {
        uint64_t live[MH_MAX_ROW_BLOCK], all = ~UINT64_C(0);
        uint64_t any =
            mh_mask_tile(job->desc, job->kernels, sequence, rows, count, tile, live, bias);
        for (size_t r = 0; r < count; r++) {
            all &= live[r];
            plan->live_pairs += (uint64_t)__builtin_popcountll(live[r]);
        }
        plan->tiles++;
        plan->dead_tiles += !any;
        plan->edge_tiles += any && !mh_tile_full(all, any);
    }
}

// The rows of a task, divided into query tiles as in forward.
static void count_block(const mh_attention_job *job, size_t task, mh_attention_plan *plan)
{
    const mh_attention_block block = mh_attention_block_at(job, task);
    for (size_t r = 0; r < block.count; r += job->group_rows) {
        const size_t end = r + mh_smaller(block.count - r, job->group_rows);
        for (size_t i = r; i < end; i += job->query_rows)
            count_query_tile(job, &block, block.first + i, mh_smaller(end - i, job->query_rows),
                             plan);
    }
}

// Short-sequence path: every query sees all keys, and these are one tile.
static void count_short(const mh_attention_job *job, mh_attention_plan *plan)
{
    const mh_attention_desc *p = job->desc;
    for (size_t b = 0; b < p->B; b++) {
        const mh_sequence sequence = mh_attention_sequence(p, b);
        plan->tiles += p->H * mh_attention_short_tiles(sequence.T);
        plan->live_pairs += (uint64_t)p->H * sequence.T * sequence.keys;
    }
}

static void count_tiles(const mh_attention_job *job, mh_attention_plan *plan)
{
    if (job->short_path)
        count_short(job, plan);
    for (size_t task = 0; task < job->tasks && !job->short_path; task++)
        count_block(job, task, plan);
}

static void say_why(const mh_context *context, const mh_attention_job *job, mh_attention_plan *plan)
{
    const mh_attention_desc *p = job->desc;
    double dead = plan->tiles ? 100.0 * (double)plan->dead_tiles / (double)plan->tiles : 0;
    snprintf(plan->why, sizeof plan->why,
             "%s kernels (%s); %zu of %zu threads, because %s; %.1f %% of the tiles are skipped; "
             "%s; values are read as %s and summed in f32%s%s",
             plan->isa,
             context->isa == mh_isa_levels()[0] ? "the level every CPU has" : "the level in force",
             plan->threads, context->threads,
             plan->threads == context->threads ? "there is work for all of them"
             : plan->tasks <= 1                ? "there is one piece of work"
                                               : "more would cost more than they give",
             dead,
             job->modified      ? "scores pass a softcap, bias or ALiBi step in every tile"
             : plan->edge_tiles ? "only tiles on an edge are masked element by element"
                                : "no tile is masked element by element",
             mh_dtype_name(p->v.dtype),
             p->options.weights ? "; weights take a second pass over the scores" : "",
             job->short_path ? "; short sequences take the short-sequence path" : "");
}

mh_status mh_attention_explain(mh_context *context, const mh_attention_options *options,
                               const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                               const mh_tensor *out, mh_attention_plan *given)
{
    mh_attention_desc desc;
    mh_attention_plan own = mh_attention_plan_default(), *const plan = &own;
    if (!given)
        return mh_fail(context, MH_ERROR_ARGUMENT, "plan: found NULL");
    MH_TRY(MH_CHECK_OUTPUT(context, mh_attention_plan, given));
    MH_TRY(mh_attention_check(context, options, q, k, v, out, &desc));
    MH_TRY(mh_attention_workspace(context, options, q, k, v, out, &plan->workspace));

    mh_attention_job job;
    mh_attention_job_plan(context, &desc, &job);
    const size_t rows = desc.heads_per_group * desc.T;
    plan->isa = context->isa;
    plan->tasks = job.split_kv ? job.tasks * job.kv_splits : job.tasks;
    plan->threads = job.workers < plan->tasks ? job.workers : plan->tasks ? plan->tasks : 1;
    plan->query_rows = job.query_rows;
    plan->key_tile = job.short_path ? MH_SHORT_KEYS : MH_KEY_TILE;
    plan->kv_split = MH_KV_SPLIT;
    plan->block_rows = job.short_path ? rows : mh_smaller(rows, job.block_rows);
    count_tiles(&job, plan);
    plan->flops = 2.0 * (double)(desc.E + desc.Ev) * (double)plan->live_pairs;
    say_why(context, &job, plan);
    mh_write_struct(plan, sizeof *plan, given);
    return MH_OK;
}
