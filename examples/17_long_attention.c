// SPDX-License-Identifier: MIT
// Attention over a sequence that is too long for one process. Each process may use 16 MB for it,
// and q, k, v and out alone take 24; so it is spread over several:
//
//     mpirun -n 4 build/examples/example_17_long_attention [POSITIONS]
//
// The checksum is the same for any number of processes, and so is every bit of the result.
#include <multihead/mpi.h>
#include <multihead/sharded.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HEADS = 2, GROUPS = 1, WIDTH = 64, MEMORY_MB = 16 };

// From now on, malloc gives no more than this.
static void limit_memory(size_t megabytes)
{
    unsigned long data = 0; // in pages
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%*u %*u %*u %*u %*u %lu", &data) != 1)
        data = 0;
    if (statm)
        fclose(statm);
    const rlim_t page = (rlim_t)sysconf(_SC_PAGESIZE);
    const rlim_t bytes = data * page + ((rlim_t)megabytes << 20);
    setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes});
}

// Numbers in -1 .. 1 that depend on the position alone, not on the process that holds it.
static float number(size_t tensor, size_t position, size_t element)
{
    uint64_t z = (tensor << 56 ^ position << 16 ^ element) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    return (float)(z >> 40) * 0x1p-23f - 1;
}

// (1, heads, rows, WIDTH), of the positions that this process holds; no data if there is no memory.
static mh_tensor make_tensor(size_t heads, const size_t *positions, size_t rows, size_t tensor)
{
    float *data = malloc((heads * rows * WIDTH + 1) * sizeof *data);
    for (size_t h = 0; data && h < heads; h++)
        for (size_t i = 0; i < rows * WIDTH; i++)
            data[h * rows * WIDTH + i] =
                number(tensor, positions[i / WIDTH], h * WIDTH + i % WIDTH);
    return mh_tensor_4d(data, MH_F32, 1, heads, rows, WIDTH);
}

// A sum over positions, in whatever order.
static uint64_t checksum(const mh_tensor *out, const size_t *positions)
{
    uint64_t sum = 0;
    const uint32_t *bits = out->data;
    for (size_t i = 0; i < HEADS * out->shape[2] * WIDTH; i++)
        sum += (bits[i] ^ positions[i / WIDTH % out->shape[2]]) * 0x9E3779B97F4A7C15u;
    return sum;
}

// All processes' sums, at process 0.
static mh_status add_up(const mh_communicator *c, uint64_t *sum)
{
    mh_transfer transfer;
    bool done;
    mh_status status = MH_OK;
    if (c->rank > 0) {
        status = c->send(c->user, 0, sum, sizeof *sum, &transfer);
        return status ? status : c->test(c->user, &transfer, true, &done);
    }
    for (size_t from = 1; from < c->ranks && !status; from++) {
        uint64_t other = 0;
        status = c->receive(c->user, from, &other, sizeof other, &transfer);
        if (!status)
            status = c->test(c->user, &transfer, true, &done);
        *sum += other;
    }
    return status;
}

static mh_status attend(mh_context *context, const mh_communicator *c, size_t length)
{
    mh_sharding sharding = mh_sharding_default();
    sharding.queries = sharding.keys = length;
    const size_t rows = mh_shard_length(&sharding, length, c->ranks, c->rank);
    size_t *positions = malloc((rows + 1) * sizeof *positions);
    for (size_t i = 0; positions && i < rows; i++)
        positions[i] = mh_shard_position(&sharding, length, c->ranks, c->rank, i);
    mh_tensor q = make_tensor(HEADS, positions, rows, 1),
              k = make_tensor(GROUPS, positions, rows, 2),
              v = make_tensor(GROUPS, positions, rows, 3),
              out = make_tensor(HEADS, positions, rows, 4);

    mh_attention_options options = mh_attention_options_default();
    options.causal = MH_CAUSAL;
    options.scale = 1;
    mh_sharded_plan plan = mh_sharded_plan_default();
    // A tensor without memory is refused, by all processes.
    mh_status status =
        mh_sharded_attention_forward(context, c, &sharding, &options, &q, &k, &v, &out);
    if (!status)
        status = mh_sharded_attention_explain(context, c, &sharding, &options, &q, &k, &v, &out,
                                              false, &plan);
    uint64_t sum = status ? 0 : checksum(&out, positions);
    if (!status)
        status = add_up(c, &sum);
    if (!status && c->rank == 0)
        printf("%zu positions over %zu processes of %d MB\n"
               "process 0: %zu positions, %llu messages sent, %.1f MB, workspace %.1f MB\n"
               "%s\n"
               "checksum %016llx\n",
               length, c->ranks, MEMORY_MB, plan.query_rows, (unsigned long long)plan.messages_sent,
               (double)plan.bytes_sent / 1e6, (double)plan.workspace / 1e6, plan.why,
               (unsigned long long)sum);
    free(positions);
    free(q.data), free(k.data), free(v.data), free(out.data);
    return status;
}

int main(int argc, char **argv)
{
    const size_t length = argc > 1 ? strtoul(argv[1], NULL, 10) : 16384;
    mh_communicator communicator = mh_communicator_default();
    mh_context_options options = mh_context_options_default();
    mh_context *context;
    char error[256];
    options.threads = 1; // a process per core
    if (mh_mpi_open(&communicator, error, sizeof error) ||
        mh_context_create(&options, &context, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    limit_memory(MEMORY_MB);
    const mh_status status = attend(context, &communicator, length);
    if (status && communicator.rank == 0)
        fprintf(stderr,
                "%zu x %d MB are not enough for %zu positions (%s)\n"
                "more processes: mpirun -n 4 build/examples/example_17_long_attention\n",
                communicator.ranks, MEMORY_MB, length, mh_error_message(context));
    mh_context_free(context);
    mh_mpi_close(&communicator);
    return status != MH_OK;
}
