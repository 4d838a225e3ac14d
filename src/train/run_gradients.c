// SPDX-License-Identifier: MIT
// The sum of gradients over ranks, and parameters to all of them; see run_ranks.h.
//
// Every rank has the nodes of its grains (gradient_tree.h), and owns a slice of every stripe of the
// parameters:
//
//     stripe     0           1           2
//     rank       0   1   2   0   1   2   0   1   2
//
// It sends each owner that slice of its nodes, adds up all nodes of its own slices in the order of
// the tree, and updates them with the moments of these slices alone; then all get all parameters.
// With one node per rank, which is so for a power of two of them, a rank sends and receives
// 2 (ranks - 1) / ranks of the parameters' bytes, the least there can be.
//
// The backward pass finishes layers from the last to the first. In the last grain of a rank, the
// sums of a stripe are final as soon as its layers are, and are sent while earlier layers are
// computed; as each stripe has slices of all ranks, all send and receive at the same time. Messages
// advance between the tasks of the computation (mh_context_set_poll).
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
    return mh_tree_nodes_of(mh_run_first_grain(run, rank), mh_run_first_grain(run, rank + 1),
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

static mh_status receive_stripe(mh_run *run, size_t stripe)
{
    mh_tree_node ignored[MH_TREE_NODES_MOST];
    const mh_slice slice = mh_run_slice(run, stripe, run->ranks.rank);
    const mh_tree_node *node = run->exchange.nodes;
    for (size_t r = 0; r < run->ranks.ranks && slice.count; r++)
        for (size_t n = nodes_of_rank(run, r, ignored); n > 0; n--, node++)
            if (r != run->ranks.rank)
                MH_TRY(start_to_receive(run, r, node->sum + mh_run_slice_offset(run, stripe),
                                        slice.count));
    return MH_OK;
}

// From the next rank on, so that not all send to rank 0 first.
static mh_status send_stripe(mh_run *run, size_t stripe, mh_status status)
{
    const size_t R = run->ranks.ranks, rank = run->ranks.rank;
    mh_tree_node own[MH_TREE_NODES_MOST];
    const size_t count = nodes_of_rank(run, rank, own);
    for (size_t i = 1; i < R; i++) {
        const mh_slice slice = mh_run_slice(run, stripe, (rank + i) % R);
        for (size_t k = 0; k < count && slice.count; k++) {
            const float *sum = status ? run->arrays.parameters : run->gradients.nodes[k].sum;
            MH_TRY(start_to_send(run, (rank + i) % R, sum + slice.first, slice.count));
        }
    }
    return MH_OK;
}

mh_status mh_run_reduce_scatter_prepare(mh_run *run)
{
    const size_t R = run->ranks.ranks;
    mh_tree_node own[MH_TREE_NODES_MOST];
    mh_exchange *x = &run->exchange;
    mh_gradient_tree_clear(&run->gradients);
    mh_gradient_tree_clear(&run->slice);
    x->count = x->node_count = x->sent = 0;
    x->status = MH_OK;
    if (R == 1)
        return MH_OK;
    MH_TRY(take_nodes(run));
    const size_t sends = (R - 1) * nodes_of_rank(run, run->ranks.rank, own);
    return reserve_transfers(run, run->stripes * (x->node_count + sends));
}

mh_status mh_run_reduce_scatter_begin(mh_run *run)
{
    for (size_t i = 0; i < run->stripes && run->ranks.ranks > 1; i++)
        MH_TRY(receive_stripe(run, stripe_in_order(run, i)));
    return MH_OK;
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
        x->status = send_stripe(run, stripe, MH_OK);
    }
    run->bytes_early += run->bytes_sent - before;
}

mh_status mh_run_reduce_scatter_exchange(mh_run *run, mh_status status)
{
    mh_exchange *x = &run->exchange;
    if (run->ranks.ranks == 1)
        return MH_OK;
    for (; x->sent < run->stripes && !x->status; x->sent++)
        x->status = send_stripe(run, stripe_in_order(run, x->sent), status);
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
