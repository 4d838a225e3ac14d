// SPDX-License-Identifier: MIT
// The sum of gradients over ranks, and parameters to all of them; see run_ranks.h.
//
// Every rank has the nodes of its grains (gradient_tree.h), and owns a slice of every stripe of the
// parameters:
//
//     stripe     0           1           2
//     rank       0   1   2   0   1   2   0   1   2
//
// It sends each owner that slice of its nodes (a reduce-scatter), adds up all nodes of its own
// slices in the order of the tree, and updates them with the moments of these slices alone; then
// all get all parameters (an all-gather). With one node per rank, which is so if the grains are a
// power of two per rank, or up to that many fewer of the last rank, a rank sends 2 (ranks - 1) /
// ranks of the parameters' bytes, the least there can be. Other numbers of grains have more nodes
// per rank, about two (mh_tree_cut).
//
// A node that is finished before the last grain of a rank is sent then. The backward pass finishes
// layers from the last to the first. In the last grain, the sums of a stripe are final as soon as
// its layers are, and are sent while earlier layers are computed; as each stripe has slices of all
// ranks, all send and receive at the same time. Messages advance between the tasks of the
// computation (mh_context_set_poll).
#include "train/run_ranks.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "support/grow.h"

enum { STRIPES = 16, TESTS = 8 };
static const double poll_seconds = 1e-4;

// ---- slices -------------------------------------------------------------------------------------

static size_t segments_of(const mh_run *run)
{
    return (run->arrays.floats + MH_SEGMENT - 1) / MH_SEGMENT;
}

// Messages are started only when all ranks have memory for all of them: a rank that could not start
// one would leave others waiting for it.
static mh_status reserve_transfers(mh_run *run, size_t count)
{
    mh_exchange *x = &run->exchange;
    return mh_grow(run->context, &x->transfers, &x->capacity, count, sizeof *x->transfers)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

mh_status mh_run_divide(mh_run *run)
{
    const size_t R = run->ranks.ranks, segments = segments_of(run);
    const size_t each = (segments + STRIPES * R - 1) / (STRIPES * R); // segments of a slice
    if (!mh_grow(run->context, &run->norms, &run->segments, segments, sizeof *run->norms))
        return MH_ERROR_MEMORY;
    run->stripe = R == 1 ? segments : each * R;
    run->stripes = (segments + run->stripe - 1) / run->stripe;
    const size_t last = run->stripes - 1;
    run->slice = (mh_gradient_tree){.context = run->context,
                                    .floats = mh_run_slice_offset(run, last) +
                                              mh_run_slice(run, last, run->ranks.rank).count};
    return reserve_transfers(run, 2 * run->stripes * (R - 1)); // of mh_run_all_gather
}

mh_slice mh_run_slice(const mh_run *run, size_t stripe, size_t rank)
{
    const size_t R = run->ranks.ranks, first = stripe * run->stripe;
    const size_t n = mh_smaller(run->stripe, segments_of(run) - first);
    const size_t begin = (first + n * rank / R) * MH_SEGMENT;
    const size_t end = mh_smaller((first + n * (rank + 1) / R) * MH_SEGMENT, run->arrays.floats);
    return (mh_slice){begin, end > begin ? end - begin : 0};
}

// ---- messages -----------------------------------------------------------------------------------

static mh_status start_to_send(mh_run *run, size_t to, const float *values, size_t count)
{
    const mh_communicator *c = &run->ranks;
    mh_exchange *x = &run->exchange;
    mh_transfer *transfer = &x->transfers[x->count];
    MH_TRY(mh_run_lost(run, c->send(c->user, to, values, count * sizeof *values, transfer)));
    x->count++;
    run->bytes_sent += count * sizeof *values;
    return MH_OK;
}

static mh_status start_to_receive(mh_run *run, size_t from, float *values, size_t count)
{
    const mh_communicator *c = &run->ranks;
    mh_exchange *x = &run->exchange;
    mh_transfer *transfer = &x->transfers[x->count];
    MH_TRY(mh_run_lost(run, c->receive(c->user, from, values, count * sizeof *values, transfer)));
    x->count++;
    return MH_OK;
}

// Tests some of the transfers, in turn; those that are done leave the list.
void mh_run_poll(void *user)
{
    mh_run *run = user;
    mh_exchange *x = &run->exchange;
    const mh_communicator *c = &run->ranks;
    const double now = x->count ? mh_clock_seconds() : 0;
    if (!x->count || now < x->next_poll)
        return;
    x->next_poll = now + poll_seconds;
    for (size_t i = 0; i < TESTS && x->count > 0; i++) {
        bool done = false;
        x->tested = (x->tested + 1) % x->count;
        const mh_status status = c->test(c->user, &x->transfers[x->tested], false, &done);
        x->status = x->status ? x->status : status;
        if (done || status)
            x->transfers[x->tested] = x->transfers[--x->count];
    }
}

static mh_status wait_for_transfers(mh_run *run)
{
    mh_exchange *x = &run->exchange;
    const mh_status status = mh_transfers_wait(&run->ranks, x->transfers, x->count);
    x->count = 0;
    return mh_run_lost(run, x->status ? x->status : status);
}

// ---- gradients ----------------------------------------------------------------------------------

// Stripes in the order in which they are sent: those of layers from the last to the first, then
// the others, which are final when the grain is.
static size_t early_stripes(const mh_run *run)
{
    const size_t stripe = run->stripe * MH_SEGMENT;
    return run->layered == run->arrays.floats ? run->stripes : run->layered / stripe;
}
static size_t stripe_in_order(const mh_run *run, size_t i)
{
    const size_t early = early_stripes(run);
    return i < early ? early - 1 - i : i;
}

static size_t nodes_of_rank(const mh_run *run, size_t rank, mh_tree_node *nodes)
{
    return mh_tree_nodes_of(run->first_grains[rank], run->first_grains[rank + 1], run->grains.count,
                            nodes);
}

// The nodes of all ranks, in order, with arrays for the own slices.
static mh_status take_nodes(mh_run *run)
{
    mh_exchange *x = &run->exchange;
    if (!mh_grow(run->context, &x->nodes, &x->nodes_capacity,
                 run->grains.count + MH_TREE_NODES_MOST, sizeof *x->nodes))
        return MH_ERROR_MEMORY;
    for (size_t r = 0; r < run->ranks.ranks; r++) {
        const size_t end = x->node_count + nodes_of_rank(run, r, x->nodes + x->node_count);
        for (; x->node_count < end; x->node_count++) {
            float *sum = mh_gradient_tree_take(&run->slice);
            if (!sum)
                return MH_ERROR_MEMORY;
            x->nodes[x->node_count].sum = sum;
        }
    }
    return MH_OK;
}

static mh_status receive_slice(mh_run *run, size_t from, const mh_tree_node *node, size_t stripe)
{
    const mh_slice slice = mh_run_slice(run, stripe, run->ranks.rank);
    return slice.count ? start_to_receive(run, from, node->sum + mh_run_slice_offset(run, stripe),
                                          slice.count)
                       : MH_OK;
}

// What a rank sends, in its order: whole nodes, then the last one by stripes.
static mh_status receive_nodes(mh_run *run, size_t from, const mh_tree_node *nodes, size_t count)
{
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < run->stripes; i++)
            MH_TRY(
                receive_slice(run, from, &nodes[k], k + 1 < count ? i : stripe_in_order(run, i)));
    return MH_OK;
}

// From the next rank on, so that not all send to rank 0 first.
static mh_status send_stripe(mh_run *run, const float *sum, size_t stripe)
{
    const size_t R = run->ranks.ranks, rank = run->ranks.rank;
    for (size_t i = 1; i < R; i++) {
        const mh_slice slice = mh_run_slice(run, stripe, (rank + i) % R);
        if (slice.count)
            MH_TRY(start_to_send(run, (rank + i) % R, sum + slice.first, slice.count));
    }
    return MH_OK;
}

static mh_status send_node(mh_run *run, const float *sum)
{
    mh_status status = MH_OK;
    for (size_t s = 0; s < run->stripes && !status; s++)
        status = send_stripe(run, sum, s);
    run->exchange.sent_nodes++;
    return status;
}

mh_status mh_run_reduce_scatter_prepare(mh_run *run)
{
    const size_t R = run->ranks.ranks;
    mh_tree_node own[MH_TREE_NODES_MOST];
    mh_exchange *x = &run->exchange;
    mh_tree_cut(run->grains.count, R, run->first_grains);
    mh_gradient_tree_clear(&run->gradients);
    mh_gradient_tree_clear(&run->slice);
    x->count = x->node_count = x->sent_nodes = x->sent = 0;
    x->own_nodes = nodes_of_rank(run, run->ranks.rank, own);
    x->status = MH_OK;
    if (R == 1)
        return MH_OK;
    MH_TRY(take_nodes(run));
    return reserve_transfers(run, run->stripes * (x->node_count + (R - 1) * x->own_nodes));
}

mh_status mh_run_reduce_scatter_begin(mh_run *run)
{
    mh_tree_node ignored[MH_TREE_NODES_MOST];
    const mh_tree_node *node = run->exchange.nodes;
    for (size_t r = 0; r < run->ranks.ranks && run->ranks.ranks > 1; r++) {
        const size_t count = nodes_of_rank(run, r, ignored);
        if (r != run->ranks.rank)
            MH_TRY(receive_nodes(run, r, node, count));
        node += count;
    }
    return MH_OK;
}

static bool is_last_grain(const mh_run *run, size_t grain)
{
    return grain + 1 == run->first_grains[run->ranks.rank + 1];
}

float *mh_run_reduce_scatter_take(mh_run *run, size_t grain)
{
    mh_gradient_tree *tree = &run->gradients;
    float *gradients = mh_gradient_tree_take(tree);
    if (!gradients)
        return NULL;
    mh_gradient_tree_begin(tree, (mh_tree_node){0, grain, gradients});
    if (is_last_grain(run, grain))
        mh_gradient_tree_fold(tree, run->exchange.own_nodes);
    run->exchange.unjoined = run->layered;
    return gradients;
}

void mh_run_reduce_scatter_ready(void *user, size_t first)
{
    mh_run *run = user;
    mh_exchange *x = &run->exchange;
    const uint64_t before = run->bytes_sent;
    mh_gradient_tree_join(&run->gradients, first, x->unjoined);
    x->unjoined = first;
    for (; x->sent < early_stripes(run) && !x->status; x->sent++) {
        const size_t stripe = stripe_in_order(run, x->sent);
        if (stripe * run->stripe * MH_SEGMENT < first)
            break;
        x->status = send_stripe(run, run->gradients.nodes[x->own_nodes - 1].sum, stripe);
    }
    run->bytes_early += run->bytes_sent - before;
}

// Sends a node that is finished before the last grain.
static void send_finished(mh_run *run, size_t grain)
{
    mh_exchange *x = &run->exchange;
    const mh_tree_node *node = &run->gradients.nodes[x->sent_nodes];
    const uint64_t before = run->bytes_sent;
    mh_tree_node own[MH_TREE_NODES_MOST];
    nodes_of_rank(run, run->ranks.rank, own);
    const mh_tree_node *whole = &own[x->sent_nodes];
    if (x->status || x->sent_nodes + 1 >= x->own_nodes ||
        (whole->index + 1) << whole->level != grain + 1)
        return;
    x->status = send_node(run, node->sum);
    run->bytes_early += run->bytes_sent - before;
}

void mh_run_reduce_scatter_add(mh_run *run, size_t grain)
{
    mh_gradient_tree *tree = &run->gradients;
    mh_gradient_tree_join(tree, 0, run->exchange.unjoined);
    mh_gradient_tree_join(tree, run->layered, tree->floats);
    mh_gradient_tree_end(tree);
    if (run->ranks.ranks > 1 && !is_last_grain(run, grain))
        send_finished(run, grain);
}

// The array that a node is sent from; after an error another one, as the sum is not there.
static const float *sum_to_send(const mh_run *run, size_t node, mh_status status)
{
    return status ? run->arrays.parameters : run->gradients.nodes[node].sum;
}

mh_status mh_run_reduce_scatter_exchange(mh_run *run, mh_status status)
{
    mh_exchange *x = &run->exchange;
    if (run->ranks.ranks == 1)
        return MH_OK;
    while (x->sent_nodes + 1 < x->own_nodes && !x->status)
        x->status = send_node(run, sum_to_send(run, x->sent_nodes, status));
    for (; x->sent < run->stripes && x->own_nodes > 0 && !x->status; x->sent++)
        x->status = send_stripe(run, sum_to_send(run, x->own_nodes - 1, status),
                                stripe_in_order(run, x->sent));
    return x->status ? x->status : wait_for_transfers(run);
}

// The own slices of the own nodes, among those of all.
static void copy_own_nodes(mh_run *run)
{
    mh_tree_node ignored[MH_TREE_NODES_MOST];
    const mh_tree_node *node = run->exchange.nodes;
    for (size_t r = 0; r < run->ranks.rank; r++)
        node += nodes_of_rank(run, r, ignored);
    for (size_t k = 0; k < run->gradients.count; k++)
        for (size_t s = 0; s < run->stripes; s++) {
            const mh_slice slice = mh_run_slice(run, s, run->ranks.rank);
            memcpy(node[k].sum + mh_run_slice_offset(run, s),
                   run->gradients.nodes[k].sum + slice.first, slice.count * sizeof(float));
        }
}

void mh_run_reduce_scatter_end(mh_run *run, const float **gradients)
{
    mh_exchange *x = &run->exchange;
    mh_gradient_tree *sums = run->ranks.ranks == 1 ? &run->gradients : &run->slice;
    if (run->ranks.ranks > 1) {
        copy_own_nodes(run);
        for (size_t i = 0; i < x->node_count; i++)
            mh_gradient_tree_add(&run->slice, x->nodes[i]);
        x->node_count = 0;
    }
    mh_gradient_tree_sum(sums);
    *gradients = sums->nodes[0].sum;
}

// ---- arrays -------------------------------------------------------------------------------------

mh_status mh_run_all_gather_begin(mh_run *run, float *array)
{
    for (size_t s = 0; s < run->stripes; s++)
        for (size_t r = 0; r < run->ranks.ranks; r++) {
            const mh_slice slice = mh_run_slice(run, s, r);
            if (r != run->ranks.rank && slice.count)
                MH_TRY(start_to_receive(run, r, array + slice.first, slice.count));
        }
    return MH_OK;
}

mh_status mh_run_all_gather_send(mh_run *run, const float *array, size_t stripe)
{
    const size_t R = run->ranks.ranks, rank = run->ranks.rank;
    const mh_slice slice = mh_run_slice(run, stripe, rank);
    for (size_t i = 1; i < R && slice.count; i++)
        MH_TRY(start_to_send(run, (rank + i) % R, array + slice.first, slice.count));
    return MH_OK;
}

mh_status mh_run_all_gather_end(mh_run *run) { return wait_for_transfers(run); }

mh_status mh_run_all_gather(mh_run *run, float *array)
{
    const uint64_t sent = run->bytes_sent; // counts updates alone
    MH_TRY(mh_run_all_gather_begin(run, array));
    for (size_t s = 0; s < run->stripes; s++)
        MH_TRY(mh_run_all_gather_send(run, array, s));
    run->bytes_sent = sent;
    return mh_run_all_gather_end(run);
}

void mh_run_exchange_free(mh_run *run)
{
    mh_exchange *x = &run->exchange;
    for (size_t i = 0; i < x->node_count; i++)
        mh_gradient_tree_give(&run->slice, x->nodes[i].sum);
    x->node_count = 0;
    mh_shrink(run->context, &x->nodes, &x->nodes_capacity, sizeof *x->nodes);
    mh_shrink(run->context, &x->transfers, &x->capacity, sizeof *x->transfers);
}
