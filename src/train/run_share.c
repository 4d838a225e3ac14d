// SPDX-License-Identifier: MIT
// Sharing a prepared run; see run_ranks.h. Only the leader reads files: the others get its data,
// tokenizer and state. Their options must be its options, which is checked.
#include "train/run_ranks.h"

#include "base/compiler.h"
#include "support/file.h"
#include <inttypes.h>
#include <stdio.h>

// What must be equal everywhere, and what else is sent first.
typedef struct shared_head {
    char version[16], level[16], task[32];
    int32_t precision;
    uint64_t warmup, updates, decay, batch_tokens;
    uint64_t pairs, valid_pairs, model_bytes;
    uint64_t resumed; // moments follow
    mh_translator_config sizes;
    mh_progress progress;
} shared_head;

// ---- what is sent -------------------------------------------------------------------------------

static mh_status share_dataset(mh_run *run, size_t count, mh_dataset *e)
{
    const bool leads = mh_run_leads(run);
    MH_TRY(mh_run_agree_memory(run, leads || mh_grow(run->context, &e->starts, &e->starts_capacity,
                                                     2 * count + 1, sizeof *e->starts)));
    MH_TRY(mh_run_broadcast(run, e->starts, (2 * count + 1) * sizeof *e->starts));
    const size_t ids = e->starts[2 * count];
    MH_TRY(mh_run_agree_memory(
        run, leads || mh_grow(run->context, &e->ids, &e->ids_capacity, ids, sizeof *e->ids)));
    e->count = count;
    return mh_run_broadcast(run, e->ids, ids * sizeof *e->ids);
}

// The validation data's ids, and its batches.
static mh_status share_validation(mh_run *run, const shared_head *head)
{
    if (head->valid_pairs == 0)
        return MH_OK;
    MH_TRY(share_dataset(run, head->valid_pairs, &run->valid.examples));
    const mh_batch_options all = {.tokens = run->batch_tokens};
    mh_status status = MH_OK;
    if (!mh_run_leads(run))
        status = mh_batches_plan(run->context, &run->valid.examples, &all, 0, &run->valid.batches);
    return mh_run_agree(run, status);
}

// Followers create the model from the file that they receive.
static mh_status share_model(mh_run *run, const shared_head *head, const mh_mapping *file)
{
    const bool leads = mh_run_leads(run);
    char *bytes = leads ? (char *)file->data : mh_alloc(run->context, head->model_bytes);
    mh_status status = mh_run_agree_memory(run, bytes);
    if (!status)
        status = mh_run_broadcast(run, bytes, head->model_bytes);
    if (leads)
        return status ? status : mh_run_agree(run, MH_OK);
    mh_status created = status ? status : run->task->receive(run, bytes, head->model_bytes);
    mh_free(run->context, bytes, head->model_bytes);
    if (!created)
        created = mh_run_allocate(run);
    return status ? status : mh_run_agree(run, created);
}

static mh_status share_arrays(mh_run *run, const shared_head *head)
{
    const mh_run_arrays *a = &run->arrays;
    MH_TRY(mh_run_broadcast(run, a->parameters, a->floats * sizeof(float)));
    if (!head->resumed)
        return MH_OK;
    MH_TRY(mh_run_broadcast(run, a->m, a->floats * sizeof(float)));
    return mh_run_broadcast(run, a->v, a->floats * sizeof(float));
}

// ---- what must be equal -------------------------------------------------------------------------

static mh_status check_program(mh_run *run, const shared_head *head)
{
    const char *level = mh_context_isa(run->context);
    const bool other = strcmp(head->version, mh_version()) != 0;
    if (!other && !strcmp(head->level, level))
        return MH_OK;
    return mh_fail(run->context, MH_ERROR_ARGUMENT,
                   "rank %zu has %s %s, rank 0 %s: all ranks need the same%s", run->ranks.rank,
                   other ? "version" : "instruction-set level", other ? mh_version() : level,
                   other ? head->version : head->level, other ? "" : " (MH_ISA sets it)");
}

static mh_status refuse_setting(mh_run *run, const char *name, const char *own, const char *leader)
{
    return mh_fail(run->context, MH_ERROR_ARGUMENT,
                   "%s: rank %zu has %s, rank 0 %s: all ranks need the same options", name,
                   run->ranks.rank, own, leader);
}

// Before anything of a task is sent: messages differ by task.
static mh_status check_task(mh_run *run, const shared_head *head)
{
    return strcmp(head->task, run->task->name) == 0
               ? MH_OK
               : refuse_setting(run, "task", run->task->name, head->task);
}

static mh_status check_head(mh_run *run, const shared_head *head)
{
    MH_TRY(check_program(run, head));
    return check_task(run, head);
}

static mh_status check_settings(mh_run *run, const mh_settings *leader)
{
    for (size_t i = 0; i < leader->count; i++) {
        const mh_setting *own = &run->settings.list[i], *their = &leader->list[i];
        if (strcmp(own->value, their->value) != 0)
            return refuse_setting(run, own->name, own->value, their->value);
    }
    return MH_OK;
}

static mh_status share_settings(mh_run *run)
{
    mh_settings leader = run->settings;
    MH_TRY(mh_run_broadcast(run, &leader, sizeof leader));
    if (mh_run_leads(run))
        return MH_OK;
    mh_run_collect_settings(run);
    return check_settings(run, &leader); // the leader's names are pointers: unused
}

// ---- all of it ----------------------------------------------------------------------------------

static void fill_head(const mh_run *run, size_t model_bytes, shared_head *head)
{
    snprintf(head->version, sizeof head->version, "%s", mh_version());
    snprintf(head->level, sizeof head->level, "%s", mh_context_isa(run->context));
    snprintf(head->task, sizeof head->task, "%s", run->task->name);
    head->precision = (int32_t)run->precision;
    head->warmup = run->warmup;
    head->updates = run->updates;
    head->decay = run->decay;
    head->batch_tokens = run->batch_tokens;
    head->pairs = run->examples.count;
    head->valid_pairs = run->valid.examples.count;
    head->model_bytes = model_bytes;
    head->resumed = run->resumed;
    head->sizes = *run->sizes;
    head->progress = run->progress;
}

static void take_head(mh_run *run, const shared_head *head)
{
    run->precision = (mh_precision)head->precision;
    run->warmup = head->warmup;
    run->updates = head->updates;
    run->decay = head->decay;
    run->batch_tokens = head->batch_tokens;
    run->resumed = head->resumed;
    run->progress = head->progress;
    if (run->options->init) // which the leader has read
        *run->sizes = head->sizes;
}

static mh_status share_contents(mh_run *run, const shared_head *head, const mh_mapping *model)
{
    MH_TRY(share_dataset(run, head->pairs, &run->examples));
    MH_TRY(share_validation(run, head));
    MH_TRY(share_model(run, head, model));
    if (run->task->share)
        MH_TRY(run->task->share(run));
    MH_TRY(mh_run_agree(run, share_settings(run)));
    return share_arrays(run, head); // of equal sizes
}

static mh_status map_model(const mh_run *run, mh_mapping *mapping)
{
    char path[MH_PATH_BYTES];
    MH_TRY(mh_path_join(run->context, run->options->directory, run->task->model_file, path));
    return mh_file_map(run->context, path, mapping);
}

mh_status mh_run_share(mh_run *run, mh_status status)
{
    mh_run_step step = MH_STEP_UPDATE;
    mh_mapping model = {0};
    shared_head head = {0};
    if (run->ranks.ranks == 1)
        return status;
    if (!status && mh_run_leads(run))
        status = map_model(run, &model);
    status = mh_run_next(run, &step, status); // whether the leader is prepared
    if (!status && mh_run_leads(run))
        fill_head(run, model.size, &head);
    if (!status)
        status = mh_run_broadcast(run, &head, sizeof head);
    if (!status)
        status = mh_run_agree(run, check_head(run, &head));
    if (!status && !mh_run_leads(run))
        take_head(run, &head);
    if (!status)
        status = share_contents(run, &head, &model);
    mh_file_unmap(&model);
    return status;
}
