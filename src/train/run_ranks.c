// SPDX-License-Identifier: MIT
// Steps of a run on several ranks, and sums over them; see run_ranks.h.
//
// The sum of gradients: every rank has the nodes of its grains (gradient_tree.h), and owns a slice
// of the parameters. It sends each owner that slice of its nodes, and adds up all nodes of its own
// slice in the order of the tree. Then it updates the slice, with the moments of the slice alone,
// and all get all parameters. With one node per rank, which is so for a power of two of them, a
// rank sends and receives 2 (ranks - 1) / ranks of the parameters' bytes, the least there can be.
#include "train/run_ranks.h"

#include "base/compiler.h"
#include "base/size_math.h"
#include "support/grow.h"
#include <stdio.h>

enum { MESSAGE = 480 };

// ---- tables -------------------------------------------------------------------------------------

static size_t table_bytes(const mh_run *run)
{
    const size_t R = run->ranks.ranks;
    return 2 * (R + 1) * sizeof(size_t) + R * sizeof(int32_t);
}

mh_status mh_run_tables_create(mh_run *run)
{
    run->owned = mh_alloc(run->context, table_bytes(run));
    if (!run->owned)
        return MH_ERROR_MEMORY;
    run->starts = run->owned + run->ranks.ranks + 1;
    run->statuses = (int32_t *)(run->starts + run->ranks.ranks + 1);
    return MH_OK;
}

mh_status mh_run_divide(mh_run *run)
{
    const size_t R = run->ranks.ranks, rank = run->ranks.rank, floats = run->arrays.floats;
    const size_t segments = (floats + MH_SEGMENT - 1) / MH_SEGMENT;
    if (!mh_grow(run->context, &run->norms, &run->segments, segments, sizeof *run->norms))
        return MH_ERROR_MEMORY;
    for (size_t r = 0; r <= R; r++)
        run->owned[r] = mh_smaller(segments * r / R * MH_SEGMENT, floats);
    run->slice = (mh_gradient_tree){.context = run->context,
                                    .floats = run->owned[rank + 1] - run->owned[rank]};
    return MH_OK;
}

void mh_run_tables_free(mh_run *run)
{
    mh_shrink(run->context, &run->norms, &run->segments, sizeof *run->norms);
    if (run->owned)
        mh_free(run->context, run->owned, table_bytes(run));
}

// ---- steps --------------------------------------------------------------------------------------

typedef struct announcement {
    int32_t step, status;
    char message[MESSAGE];
} announcement;

static mh_status lost(mh_run *run, mh_status status)
{
    return status ? mh_fail(run->context, status,
                            "rank %zu: a message to or from another rank failed", run->ranks.rank)
                  : MH_OK;
}

// All have the announcement of the rank that it is of.
static mh_status follow(mh_run *run, const announcement *a)
{
    run->agreed = a->status != MH_OK;
    return a->status ? mh_fail(run->context, (mh_status)a->status, "%s", a->message) : MH_OK;
}

static void describe(const mh_run *run, mh_status status, announcement *a)
{
    a->status = (int32_t)status;
    snprintf(a->message, sizeof a->message, "%s", status ? mh_error_message(run->context) : "");
}

mh_status mh_run_next(mh_run *run, mh_run_step *step, mh_status status)
{
    announcement a = {.step = (int32_t)*step};
    if (run->ranks.ranks == 1)
        return status;
    describe(run, status, &a);
    MH_TRY(lost(run, mh_communicator_broadcast(&run->ranks, &a, sizeof a)));
    *step = (mh_run_step)a.step;
    return follow(run, &a);
}

mh_status mh_run_agree(mh_run *run, mh_status status)
{
    const size_t R = run->ranks.ranks;
    if (R == 1)
        return status;
    for (size_t r = 0; r <= R; r++)
        run->starts[r] = r * sizeof *run->statuses;
    run->statuses[run->ranks.rank] = (int32_t)status;
    MH_TRY(lost(run, mh_communicator_gather(&run->ranks, run->statuses, run->starts)));
    size_t first = 0;
    while (first < R && !run->statuses[first])
        first++;
    if (first == R)
        return MH_OK;
    for (size_t r = 0; r <= R; r++)
        run->starts[r] = r <= first ? 0 : sizeof(announcement);
    announcement a = {0};
    if (first == run->ranks.rank)
        describe(run, status, &a);
    MH_TRY(lost(run, mh_communicator_gather(&run->ranks, &a, run->starts)));
    return follow(run, &a);
}

// ---- sums ---------------------------------------------------------------------------------------

static size_t slice_floats(const mh_run *run, size_t rank)
{
    return run->owned[rank + 1] - run->owned[rank];
}

static mh_status add_transfer(mh_run *run, mh_transfer **transfer)
{
    if (!mh_grow(run->context, &run->transfers, &run->transfers_capacity, run->transfer_count + 1,
                 sizeof *run->transfers))
        return MH_ERROR_MEMORY;
    *transfer = &run->transfers[run->transfer_count++];
    return MH_OK;
}

// Starts to send the others their slices of the own nodes.
static mh_status send_nodes(mh_run *run)
{
    const mh_communicator *c = &run->ranks;
    const mh_gradient_tree *tree = &run->gradients;
    // from the next rank on, so that not all send to rank 0 first
    for (size_t i = 1; i < c->ranks; i++) {
        const size_t to = (c->rank + i) % c->ranks, floats = slice_floats(run, to);
        for (size_t k = 0; k < tree->count && floats; k++) {
            mh_transfer *transfer;
            MH_TRY(add_transfer(run, &transfer));
            MH_TRY(lost(run, c->send(c->user, to, tree->nodes[k].sum + run->owned[to],
                                     floats * sizeof(float), transfer)));
            run->bytes_sent += floats * sizeof(float);
        }
    }
    return MH_OK;
}

// Takes arrays for the slice of every rank's nodes, in order, and starts to receive into them.
static mh_status receive_nodes(mh_run *run, mh_tree_node *nodes, size_t *count)
{
    const mh_communicator *c = &run->ranks;
    const size_t floats = slice_floats(run, c->rank);
    for (size_t r = 0; r < c->ranks && floats; r++) {
        const size_t n = mh_tree_nodes_of(mh_run_first_grain(run, r),
                                          mh_run_first_grain(run, r + 1), nodes + *count);
        for (size_t k = 0; k < n; k++) {
            mh_tree_node *node = &nodes[(*count)++];
            mh_transfer *transfer;
            node->sum = mh_gradient_tree_take(&run->slice);
            if (!node->sum)
                return MH_ERROR_MEMORY;
            if (r == c->rank) {
                memcpy(node->sum, run->gradients.nodes[k].sum + run->owned[r],
                       floats * sizeof(float));
                continue;
            }
            MH_TRY(add_transfer(run, &transfer));
            MH_TRY(lost(run, c->receive(c->user, r, node->sum, floats * sizeof(float), transfer)));
        }
    }
    return MH_OK;
}

mh_status mh_run_reduce(mh_run *run, float **gradients)
{
    if (run->ranks.ranks == 1) {
        mh_gradient_tree_sum(&run->gradients);
        *gradients = run->gradients.nodes[0].sum;
        return MH_OK;
    }
    const size_t bytes = (run->grains.count + MH_TREE_NODES_MOST) * sizeof(mh_tree_node);
    size_t count = 0;
    mh_tree_node *nodes = mh_alloc(run->context, bytes);
    if (!nodes)
        return MH_ERROR_MEMORY;
    run->transfer_count = 0;
    mh_gradient_tree_clear(&run->slice);
    mh_status status = receive_nodes(run, nodes, &count);
    if (!status)
        status = send_nodes(run);
    if (!status)
        status = lost(run, mh_transfers_wait(&run->ranks, run->transfers, run->transfer_count));
    for (size_t i = 0; i < count; i++)
        mh_gradient_tree_add(&run->slice, nodes[i]);
    mh_free(run->context, nodes, bytes);
    mh_gradient_tree_sum(&run->slice);
    *gradients = count ? run->slice.nodes[0].sum : NULL;
    return status;
}

mh_status mh_run_gather(mh_run *run, float *array)
{
    if (run->ranks.ranks == 1)
        return MH_OK;
    for (size_t r = 0; r <= run->ranks.ranks; r++)
        run->starts[r] = run->owned[r] * sizeof(float);
    return lost(run, mh_communicator_gather(&run->ranks, array, run->starts));
}
