// SPDX-License-Identifier: MIT
// Example 3: your own threads and allocator. A server or a game manages its own threads and memory;
// a context takes both as callbacks, and then starts no threads and never calls malloc. The result
// is bitwise identical either way.
#include <multihead/multihead.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 4, T = 64, E = 32, COUNT = B * H * T * E, THREADS = 3 };

// ---- your threads -------------------------------------------------------------------------------

typedef struct loop {
    mh_task_fn task;
    void *arg;
    size_t count;
    atomic_size_t next; // the next iteration that no worker has taken
} loop;

typedef struct worker {
    loop *loop;
    size_t number;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    size_t turn;
    while ((turn = atomic_fetch_add(&w->loop->next, 1)) < w->loop->count)
        w->loop->task(w->loop->arg, turn, w->number);
    return NULL;
}

// Runs task(arg, i, worker) for each i below count; a real program would use its pool here.
static void my_parallel_for(void *user, size_t threads, size_t count, mh_task_fn task, void *arg)
{
    size_t *calls = user;
    loop shared = {.task = task, .arg = arg, .count = count};
    worker workers[THREADS];
    pthread_t handles[THREADS];
    size_t started = 1; // the caller is worker 0
    for (; started < threads && started < THREADS; started++) {
        workers[started] = (worker){&shared, started};
        if (pthread_create(&handles[started], NULL, work, &workers[started]) != 0)
            break; // the others do its work
    }
    workers[0] = (worker){&shared, 0};
    work(&workers[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(handles[i], NULL);
    ++*calls;
}

// ---- your memory --------------------------------------------------------------------------------

typedef struct tally {
    size_t allocations, releases, bytes, most_bytes;
} tally;

static void *my_alloc(void *user, size_t size, size_t alignment)
{
    tally *t = user;
    size_t whole = (size + alignment - 1) / alignment * alignment; // as aligned_alloc requires
    void *memory = aligned_alloc(alignment, whole);
    if (!memory)
        return NULL;
    t->allocations++;
    t->bytes += size;
    t->most_bytes = t->bytes > t->most_bytes ? t->bytes : t->most_bytes;
    return memory;
}

static void my_release(void *user, void *memory, size_t size)
{
    tally *t = user;
    t->releases++;
    t->bytes -= size;
    free(memory);
}

// ---- the same attention, with built-in and own resources ----------------------------------------

static float q[COUNT], k[COUNT], v[COUNT], at_home[COUNT], as_guest[COUNT]; // (B, H, T, E)

static void attend(const mh_context_options *options, float *result)
{
    mh_context *context;
    char error[256];
    if (mh_context_create(options, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "03_own_threads_and_allocator: %s\n", error);
        exit(EXIT_FAILURE);
    }
    mh_tensor qt = mh_tensor_4d(q, MH_F32, B, H, T, E);
    mh_tensor kt = mh_tensor_4d(k, MH_F32, B, H, T, E);
    mh_tensor vt = mh_tensor_4d(v, MH_F32, B, H, T, E);
    mh_tensor ot = mh_tensor_4d(result, MH_F32, B, H, T, E);
    if (mh_attention_forward(context, NULL, &qt, &kt, &vt, &ot) != MH_OK) {
        fprintf(stderr, "03_own_threads_and_allocator: %s\n", mh_error_message(context));
        exit(EXIT_FAILURE);
    }
    mh_context_free(context);
}

static void check(bool holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "03_own_threads_and_allocator: not so: %s\n", claim);
    exit(EXIT_FAILURE);
}

int main(void)
{
    for (int i = 0; i < COUNT; i++) {
        q[i] = (float)(i * 7 % 23) / 23 - 0.5f;
        k[i] = (float)(i * 5 % 19) / 19 - 0.5f;
        v[i] = (float)(i * 3 % 29) / 29 - 0.5f;
    }

    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    attend(&options, at_home);

    size_t calls = 0;
    tally memory = {0};
    options.threads = THREADS;
    options.parallel_for = my_parallel_for;
    options.parallel_for_user = &calls;
    options.allocator = (mh_allocator){my_alloc, my_release, &memory, false};
    attend(&options, as_guest);

    printf("  parallel loops run on our own threads: %zu\n", calls);
    printf("  allocations: %zu, at most %zu bytes at a time, %zu bytes left over\n",
           memory.allocations, memory.most_bytes, memory.bytes);
    check(calls > 0, "the caller's threads were used");
    check(memory.allocations > 0, "the caller's memory was used");
    check(memory.allocations == memory.releases && memory.bytes == 0, "all memory came back");
    check(memcmp(at_home, as_guest, sizeof at_home) == 0, "the same bits on any threads");
    printf("  and every bit of the result is the same as with one thread\n");
    return EXIT_SUCCESS;
}
