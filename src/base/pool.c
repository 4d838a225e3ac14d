// SPDX-License-Identifier: MIT
// Workers join a loop if they arrive in time; nobody waits for one that does not. The shared state
// is one word:
//
//     state   | loop number (15 bits) | open (1) | workers inside (16) |
//
//     caller   writes the loop, then open + number + 1;   runs iterations;   clears open;
//              waits until no worker is inside
//     worker   sees open and a new number: adds itself;   runs iterations;   subtracts itself
//
// A worker can add itself only while the loop is open, so the loop's description may change once
// it is closed and empty. A sleeping or preempted worker does not delay the loop, which makes more
// threads than CPUs acceptable. The loop number may wrap around: a worker that slept through 32768
// loops at worst misses one more.
//
// Waiting threads spin for 100 us, then sleep on a futex: sleep and wake-up cost about 30 us, and
// loops of a module follow each other within 100 us, which makes a small encoder layer 4 to 10 %
// faster than spinning for 30 us. After 3 us a spinning thread yields its CPU, possibly to the
// thread it waits for: on a machine with other work (load 5, 2 CPUs) this reduced the 90th
// percentile of a loop of two iterations of 5 us from 43 to 10 us. With more threads than CPUs
// there is no spinning.
#include "base/pool.h"

#include "base/compiler.h"
#include "base/context.h"
#include "base/fpenv.h"

#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { INSIDE = 0xFFFF, OPEN = 0x10000, NEXT_LOOP = 0x20000 };
enum { SPIN_NANOSECONDS = 100000, YIELD_NANOSECONDS = 3000, PAUSES_PER_LOOK = 8 };
enum { LEAST_STACK = 1 << 20 };

typedef struct worker {
    mh_pool *pool;
    size_t number; // the caller is 0, and has no thread here
    pthread_t thread;
    _Alignas(64) atomic_size_t taken; // iterations taken of this worker's share
} worker;

struct mh_pool {
    mh_context *context;
    size_t bytes;   // of this block
    size_t wanted;  // workers requested
    size_t started; // workers running
    unsigned forks; // value when they were started
    bool spin;

    mh_task_fn task; // the loop; written only while it is closed and empty
    void *arg;
    size_t count;
    size_t shares; // as many as workers, or iterations if there are fewer

    // Each of these is written by many threads and has its own cache line.
    _Alignas(64) atomic_uint state;
    _Alignas(64) atomic_uint sleepers;
    _Alignas(64) atomic_uint caller_sleeps;
    atomic_bool stop;

    worker workers[]; // wanted + 1, the caller first
};

// ---- fork ---------------------------------------------------------------------------------------

static atomic_uint forks; // forks between the first process and this one
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_error;

static void count_fork(void) { atomic_fetch_add(&forks, 1); }

static void watch_forks(void) { fork_error = pthread_atfork(NULL, NULL, count_fork); }

// ---- waiting ------------------------------------------------------------------------------------

// Returns at once if the word has changed; may wake up spuriously.
static void sleep_on(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void wake(atomic_uint *word, unsigned count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

typedef bool (*condition_fn)(mh_pool *pool, unsigned *seen);

// Spins until a condition holds or the time limit is reached.
static bool spin_for(mh_pool *pool, condition_fn condition, unsigned *seen)
{
    if (condition(pool, seen))
        return true;
    if (!pool->spin)
        return false;
    uint64_t start = now();
    for (uint64_t passed = 0; passed < SPIN_NANOSECONDS; passed = now() - start) {
        if (passed > YIELD_NANOSECONDS)
            sched_yield();
        for (int i = 0; i < PAUSES_PER_LOOK; i++)
            MH_PAUSE();
        if (condition(pool, seen))
            return true;
    }
    return false;
}

// ---- workers ------------------------------------------------------------------------------------

static bool is_new_loop(unsigned state, unsigned seen)
{
    return (state & OPEN) && state / NEXT_LOOP != seen;
}

// Joins a loop that is open and that this worker has not seen yet; true also for stop.
static bool join_loop(mh_pool *pool, unsigned *seen)
{
    unsigned state = atomic_load(&pool->state);
    while (is_new_loop(state, *seen)) {
        if (atomic_compare_exchange_weak(&pool->state, &state, state + 1)) {
            *seen = state / NEXT_LOOP;
            return true;
        }
    }
    return atomic_load(&pool->stop);
}

// The sleeper registers itself and then checks the state again; open_loop() writes the state and
// then checks for sleepers. At least one of the two sees the other.
static void sleep_until_loop(mh_pool *pool, unsigned seen)
{
    atomic_fetch_add(&pool->sleepers, 1);
    unsigned state = atomic_load(&pool->state);
    if (!is_new_loop(state, seen) && !atomic_load(&pool->stop))
        sleep_on(&pool->state, state);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void leave_loop(mh_pool *pool)
{
    unsigned state = atomic_fetch_sub(&pool->state, 1) - 1;
    if (!(state & (OPEN | INSIDE)) && atomic_exchange(&pool->caller_sleeps, 0))
        wake(&pool->caller_sleeps, 1);
}

// Of n shares of the iterations, share i is i, i + n, i + 2 n, ... A plain load precedes the atomic
// add, as the shares of others are mostly exhausted.
static bool next_index(mh_pool *pool, size_t share, size_t *index)
{
    atomic_size_t *taken = &pool->workers[share].taken;
    if (share + atomic_load_explicit(taken, memory_order_relaxed) * pool->shares >= pool->count)
        return false;
    *index = share + atomic_fetch_add_explicit(taken, 1, memory_order_relaxed) * pool->shares;
    return *index < pool->count;
}

// The worker's own share first, then what is left of the others'. When a loop is repeated, each
// worker has the same iterations, whose data is likely in its own caches; and workers of equal
// speed run neighbouring iterations, which often share data.
static void run_iterations(mh_pool *pool, size_t number)
{
    mh_fpenv saved = mh_fpenv_enter();
    for (size_t i = 0, index; i < pool->shares; i++)
        while (next_index(pool, (number + i) % pool->shares, &index))
            pool->task(pool->arg, index, number);
    mh_fpenv_leave(saved);
}

static void *work(void *arg)
{
    worker *self = arg;
    mh_pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        while (!spin_for(pool, join_loop, &seen))
            sleep_until_loop(pool, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        run_iterations(pool, self->number);
        leave_loop(pool);
    }
}

// ---- starting and stopping ----------------------------------------------------------------------

// The program's signal handlers run on its own threads, not on ours. Faults and the profiler's
// signal are handled by the thread that raises them.
static void block_signals(sigset_t *before)
{
    static const int ours[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        sigdelset(&blocked, ours[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

// Our tasks need less than 64 KiB; those of mh_parallel_for's callers may need more than musl's
// threads have by default.
static int pool_start(worker *w)
{
    pthread_attr_t attributes;
    size_t stack;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    if (!pthread_attr_getstacksize(&attributes, &stack) && stack < LEAST_STACK)
        pthread_attr_setstacksize(&attributes, LEAST_STACK);
    error = pthread_create(&w->thread, &attributes, work, w);
    pthread_attr_destroy(&attributes);
    return error;
}

// Starts workers until all run or one cannot be started, whose error is returned.
static int start_workers(mh_pool *pool)
{
    sigset_t before;
    block_signals(&before);
    int error = 0;
    pool->forks = atomic_load(&forks);
    for (pool->started = 0; pool->started < pool->wanted; pool->started++) {
        worker *w = &pool->workers[pool->started + 1];
        *w = (worker){.pool = pool, .number = pool->started + 1};
        error = pool_start(w);
        if (error)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void stop_workers(mh_pool *pool)
{
    if (pool->forks != atomic_load(&forks))
        return; // they are in the parent
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->state, NEXT_LOOP); // workers about to sleep on it will not
    wake(&pool->state, MH_MAX_THREADS);
    for (size_t i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

// In the child of a fork. With fewer workers than wanted, even none, loops still work.
static void restart(mh_pool *pool)
{
    atomic_store(&pool->state, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->caller_sleeps, 0);
    start_workers(pool);
}

mh_status mh_pool_create(mh_context *context, size_t threads, mh_pool **pool)
{
    assert(threads >= 2 && threads <= MH_MAX_THREADS);
    *pool = NULL;
    pthread_once(&fork_once, watch_forks);
    if (fork_error)
        return mh_fail(context, MH_ERROR_MEMORY, "out of memory: pthread_atfork failed");
    size_t bytes = sizeof(mh_pool) + threads * sizeof(worker);
    mh_pool *made = mh_alloc(context, bytes);
    if (!made)
        return MH_ERROR_MEMORY;
    memset(made, 0, bytes);
    made->context = context;
    made->bytes = bytes;
    made->wanted = threads - 1;
    made->spin = threads <= mh_usable_cpus();
    int error = start_workers(made);
    if (error) {
        mh_fail(context, MH_ERROR_THREAD,
                "threads: requested %zu, thread %zu cannot be started: %s", threads,
                made->started + 2, strerror(error));
        mh_pool_free(made);
        return MH_ERROR_THREAD;
    }
    *pool = made;
    return MH_OK;
}

void mh_pool_free(mh_pool *pool)
{
    if (!pool)
        return;
    stop_workers(pool);
    mh_free(pool->context, pool, pool->bytes);
}

// ---- the caller's side --------------------------------------------------------------------------

// Wakes no more workers than the iterations can use, less those that are awake. An exchange, not a
// store, precedes the load: qemu 7 lets a later load overtake a sequentially consistent store.
static void open_loop(mh_pool *pool)
{
    unsigned closed = atomic_load(&pool->state);
    atomic_exchange(&pool->state, (closed + NEXT_LOOP) | OPEN);
    size_t asleep = atomic_load(&pool->sleepers);
    size_t awake = asleep < pool->started ? pool->started - asleep : 0;
    size_t useful = pool->shares - 1;
    if (useful > awake)
        wake(&pool->state, (unsigned)(useful - awake));
}

static bool is_empty(mh_pool *pool, unsigned *seen)
{
    (void)seen;
    return (atomic_load(&pool->state) & INSIDE) == 0;
}

static void close_loop(mh_pool *pool)
{
    atomic_fetch_and(&pool->state, ~(unsigned)OPEN);
    while (!spin_for(pool, is_empty, NULL)) {
        atomic_exchange(&pool->caller_sleeps, 1); // as in open_loop()
        if (!is_empty(pool, NULL)) // else leave_loop() may have checked before the store
            sleep_on(&pool->caller_sleeps, 1);
        atomic_store(&pool->caller_sleeps, 0);
    }
}

void mh_pool_run(mh_pool *pool, size_t count, mh_task_fn task, void *arg)
{
    if (pool->forks != atomic_load(&forks))
        restart(pool);
    pool->task = task;
    pool->arg = arg;
    pool->count = count;
    pool->shares = count <= pool->started ? count : pool->started + 1;
    for (size_t i = 0; i < pool->shares; i++)
        atomic_store_explicit(&pool->workers[i].taken, 0, memory_order_relaxed);
    const bool alone = pool->shares < 2;
    if (!alone)
        open_loop(pool);
    run_iterations(pool, 0);
    if (!alone)
        close_loop(pool);
}
