// SPDX-License-Identifier: MIT
// Dimensions that are contiguous in all operands are merged, so that contiguous tensors become one
// long row. Rows are split into parts of 1024 elements, small enough that copies of all operands
// stay in L1; an iteration of the parallel loop has 16 of them, or as many elements in shorter
// rows.
#include "base/context.h"
#include "base/size_math.h"
#include "ops/layers/layers_internal.h"
#include "ops/row_io.h"

typedef struct elementwise_job {
    const mh_kernels *kernels;
    mh_elementwise_fn part;
    const void *arg;
    int inputs, operands;
    mh_tensor t[MH_MOST_OPERANDS]; // merged
    size_t row_length, parts_per_row, parts, parts_per_task;
} elementwise_job;

// Whether dimension d + 1 continues d in memory.
static bool continues(const mh_tensor *t, int d)
{
    return t->stride[d] == t->stride[d + 1] * (ptrdiff_t)t->shape[d + 1];
}

static void remove_dimension(mh_tensor *t, int d)
{
    t->rank--;
    for (; d < t->rank; d++) {
        t->shape[d] = t->shape[d + 1];
        t->stride[d] = t->stride[d + 1];
    }
}

// Merges dimension d into d + 1 in all operands.
static void merge(elementwise_job *job, int d)
{
    for (int i = 0; i < job->operands; i++) {
        mh_tensor *t = &job->t[i];
        if (t->shape[d + 1] == 1)
            t->stride[d + 1] = t->stride[d];
        t->shape[d + 1] *= t->shape[d];
        remove_dimension(t, d);
    }
}

static void merge_dimensions(elementwise_job *job)
{
    for (int d = job->t[0].rank - 2; d >= 0; d--) {
        bool all = true;
        for (int i = 0; i < job->operands; i++)
            all &=
                job->t[i].shape[d] == 1 || job->t[i].shape[d + 1] == 1 || continues(&job->t[i], d);
        if (all)
            merge(job, d);
    }
}

static void do_part(const elementwise_job *job, size_t index)
{
    float copies[MH_MOST_OPERANDS][MH_ELEMENTWISE_PART], *operands[MH_MOST_OPERANDS];
    void *address[MH_MOST_OPERANDS];
    const size_t row = index / job->parts_per_row;
    const size_t begin = index % job->parts_per_row * MH_ELEMENTWISE_PART;
    const size_t n = mh_smaller(MH_ELEMENTWISE_PART, job->row_length - begin);
    for (int i = 0; i < job->operands; i++) {
        const mh_tensor *t = &job->t[i];
        const int last = t->rank - 1;
        address[i] =
            (void *)mh_row_offset(t, mh_row_address(t, row), (ptrdiff_t)begin * t->stride[last]);
        const bool direct = t->dtype == MH_F32 && (t->stride[last] == 1 || n == 1);
        operands[i] = direct ? address[i] : copies[i];
        if (!direct && i < job->inputs)
            mh_row_read(job->kernels, t->dtype, address[i], t->stride[last], n, copies[i]);
    }
    job->part(job->kernels, job->arg, row * job->row_length + begin, n, operands);
    for (int i = job->inputs; i < job->operands; i++)
        if (operands[i] == copies[i])
            mh_row_write(job->kernels, job->t[i].dtype, address[i],
                         job->t[i].stride[job->t[i].rank - 1], n, copies[i]);
}

static void do_parts(void *arg, size_t index, size_t worker)
{
    const elementwise_job *job = arg;
    (void)worker;
    const size_t first = index * job->parts_per_task;
    for (size_t i = first; i < mh_smaller(first + job->parts_per_task, job->parts); i++)
        do_part(job, i);
}

void mh_elementwise(mh_context *context, mh_elementwise_fn part, const void *arg, int inputs,
                    int outputs, const mh_tensor *const *operands)
{
    elementwise_job job = {.kernels = context->kernels,
                           .part = part,
                           .arg = arg,
                           .inputs = inputs,
                           .operands = inputs + outputs};
    const size_t count = mh_tensor_count(operands[0]);
    if (count == 0)
        return;
    for (int i = 0; i < job.operands; i++) {
        job.t[i] = *operands[i];
        if (job.t[i].rank == 0) { // a scalar
            job.t[i].rank = 1;
            job.t[i].shape[0] = 1;
            job.t[i].stride[0] = 1;
        }
    }
    merge_dimensions(&job);
    job.row_length = job.t[0].shape[job.t[0].rank - 1];
    job.parts_per_row = (job.row_length + MH_ELEMENTWISE_PART - 1) / MH_ELEMENTWISE_PART;
    job.parts = count / job.row_length * job.parts_per_row;
    const size_t part_length = mh_smaller(job.row_length, MH_ELEMENTWISE_PART);
    job.parts_per_task = 16 * MH_ELEMENTWISE_PART / part_length;
    mh_parallel_for(context, (job.parts + job.parts_per_task - 1) / job.parts_per_task, do_parts,
                    &job);
}
