// SPDX-License-Identifier: MIT
// Parallel loops: every turn exactly once whatever the numbers of turns, threads and CPUs; the
// floating-point environment; fork; threads that cannot be started; a caller's own loop.
#include "base/context.h"
#include "base/fpenv.h"
#include "base/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h> // wants the headers above

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#elif __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#endif

static mh_context *make_context(size_t threads)
{
    mh_context_options options = mh_context_options_default();
    options.threads = threads;
    options.isa = "scalar";
    mh_context *context;
    char error[200];
    if (mh_context_create(&options, &context, error, sizeof error) != MH_OK)
        fail_msg("%s", error);
    return context;
}

// ---- turns --------------------------------------------------------------------------------------

enum { MOST_TURNS = 2000, MOST_WORKERS = 16 };

typedef struct tally {
    size_t threads;
    atomic_int turns[MOST_TURNS];
    atomic_int busy[MOST_WORKERS]; // turns that run right now under this worker's number
    atomic_int wrong;
} tally;

static void count_turn(void *arg, size_t index, size_t worker)
{
    tally *t = arg;
    if (worker >= t->threads || atomic_fetch_add(&t->busy[worker], 1) != 0)
        atomic_fetch_add(&t->wrong, 1);
    atomic_fetch_add(&t->turns[index], 1);
    atomic_fetch_sub(&t->busy[worker], 1);
}

static bool run_and_check(mh_context *context, size_t count)
{
    static tally t;
    memset(&t, 0, sizeof t);
    t.threads = mh_context_threads(context);
    mh_parallel_for(context, count, count_turn, &t);
    for (size_t i = 0; i < MOST_TURNS; i++)
        if (atomic_load(&t.turns[i]) != (i < count))
            return false;
    return atomic_load(&t.wrong) == 0;
}

static void each_turn_once(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 4, 7, 15, 16, 17, 100, MOST_TURNS};
    static const size_t threads[] = {1, 2, 3, 4, MOST_WORKERS};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        mh_context *context = make_context(threads[t]);
        for (size_t repeat = 0; repeat < 20; repeat++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                assert_true(run_and_check(context, counts[c]));
        mh_context_free(context);
    }
}

static void add_one(void *arg, size_t index, size_t worker)
{
    (void)index;
    (void)worker;
    atomic_fetch_add_explicit((atomic_size_t *)arg, 1, memory_order_relaxed);
}

// The loop number in the pool's state wraps around after 32768 loops.
static void many_tiny_loops(void **state)
{
    (void)state;
    for (size_t threads = 2; threads <= 5; threads += 3) {
        mh_context *context = make_context(threads);
        atomic_size_t sum = 0;
        for (size_t i = 0; i < 70000; i++)
            mh_parallel_for(context, 3, add_one, &sum);
        assert_int_equal(atomic_load(&sum), 3 * 70000);
        mh_context_free(context);
    }
}

static void sleep_us(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

// Pauses around the spinning time: workers are caught awake, asleep and in between.
static void loops_with_pauses(void **state)
{
    (void)state;
    mh_context *context = make_context(2), *many = make_context(4);
    for (long i = 0; i < 300; i++) {
        sleep_us(i % 200);
        assert_true(run_and_check(context, 5));
        assert_true(run_and_check(many, 9));
    }
    mh_context_free(context);
    mh_context_free(many);
}

static void slow_turn(void *arg, size_t index, size_t worker)
{
    if (worker > 0 || index == 1)
        sleep_us(300);
    add_one(arg, index, worker);
}

// The caller is done first and has to sleep until the workers are.
static void caller_waits(void **state)
{
    (void)state;
    mh_context *context = make_context(3);
    atomic_size_t sum = 0;
    for (size_t i = 0; i < 100; i++)
        mh_parallel_for(context, 4, slow_turn, &sum);
    assert_int_equal(atomic_load(&sum), 400);
    mh_context_free(context);
}

// ---- loops in loops -----------------------------------------------------------------------------

typedef struct nest {
    mh_context *context;
    atomic_int inner, wrong;
} nest;

typedef struct inner_loop {
    nest *outer;
    pthread_t thread;
    size_t expected;
} inner_loop;

static void inner_turn(void *arg, size_t index, size_t worker)
{
    inner_loop *loop = arg;
    if (worker != 0 || index != loop->expected++ || !pthread_equal(loop->thread, pthread_self()))
        atomic_fetch_add(&loop->outer->wrong, 1);
    atomic_fetch_add(&loop->outer->inner, 1);
}

static void outer_turn(void *arg, size_t index, size_t worker)
{
    (void)index;
    (void)worker;
    nest *n = arg;
    inner_loop loop = {.outer = n, .thread = pthread_self()};
    mh_parallel_for(n->context, 10, inner_turn, &loop);
}

static void inner_loop_is_serial(void **state)
{
    (void)state;
    mh_context *context = make_context(4);
    nest n = {.context = context};
    mh_parallel_for(context, 50, outer_turn, &n);
    mh_parallel_for(context, 1, outer_turn, &n); // in a loop of one turn as well
    assert_int_equal(atomic_load(&n.inner), 510);
    assert_int_equal(atomic_load(&n.wrong), 0);
    assert_true(run_and_check(context, 100)); // and afterwards loops are parallel again
    mh_context_free(context);
}

// ---- floating-point environment -----------------------------------------------------------------

#if defined(__x86_64__)
static uint32_t mxcsr(void)
{
    uint32_t value;
    __asm__ volatile("stmxcsr %0" : "=m"(value));
    return value;
}

static void set_mxcsr(uint32_t value) { __asm__ volatile("ldmxcsr %0" : : "m"(value)); }

enum { FLUSH_AND_ROUND_DOWN = 0x1F80 | 0x8000 | 0x0040 | 0x2000 };

static void check_mxcsr(void *arg, size_t index, size_t worker)
{
    (void)index;
    (void)worker;
    if ((mxcsr() & ~0x3Fu) != MH_MXCSR_DEFAULT) // but for the exceptions that have occurred
        atomic_fetch_add((atomic_int *)arg, 1);
}

typedef struct own_loop {
    size_t count, worker;
    mh_task_fn task;
    void *arg;
    atomic_size_t *next;
} own_loop;

static void *start_turns(void *arg)
{
    own_loop *loop = arg;
    set_mxcsr(FLUSH_AND_ROUND_DOWN);
    for (size_t i; (i = atomic_fetch_add(loop->next, 1)) < loop->count;)
        loop->task(loop->arg, i, loop->worker);
    return NULL;
}

// A caller's own loop, on threads with a floating-point environment of their own.
static void own_parallel_for(void *user, size_t threads, size_t count, mh_task_fn task, void *arg)
{
    ++*(size_t *)user;
    atomic_size_t next = 0;
    pthread_t thread[MOST_WORKERS];
    own_loop loops[MOST_WORKERS];
    for (size_t i = 0; i < threads; i++) {
        loops[i] = (own_loop){count, i, task, arg, &next};
        assert_int_equal(pthread_create(&thread[i], NULL, start_turns, &loops[i]), 0);
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

static void environment_is_plain(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= 4; threads++) {
        mh_context *context = make_context(threads);
        atomic_int wrong = 0;
        set_mxcsr(FLUSH_AND_ROUND_DOWN);
        for (size_t count = 0; count < 100; count += 1 + count / 2)
            mh_parallel_for(context, count, check_mxcsr, &wrong);
        uint32_t after = mxcsr();
        set_mxcsr(MH_MXCSR_DEFAULT);
        assert_int_equal(atomic_load(&wrong), 0);
        assert_int_equal(after & ~0x3Fu, FLUSH_AND_ROUND_DOWN);
        mh_context_free(context);
    }
}

static void own_loop_is_used(void **state)
{
    (void)state;
    size_t calls = 0;
    mh_context_options options = mh_context_options_default();
    options.threads = 3;
    options.isa = "scalar";
    options.parallel_for = own_parallel_for;
    options.parallel_for_user = &calls;
    mh_context *context;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    assert_null(context->pool);
    assert_true(run_and_check(context, 100));
    assert_true(run_and_check(context, 1)); // not worth a call
    assert_true(run_and_check(context, 0));
    assert_int_equal(calls, 1);
    atomic_int wrong = 0;
    mh_parallel_for(context, 50, check_mxcsr, &wrong);
    assert_int_equal(atomic_load(&wrong), 0);
    mh_context_free(context);
}
#endif

// ---- processes ----------------------------------------------------------------------------------

// Runs `body` in a child process and returns whether it said true.
static bool in_child(bool (*body)(void *), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body(arg) ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool loops_work(void *arg)
{
    bool good = true;
    for (size_t i = 0; i < 50; i++)
        good = good && run_and_check(arg, 100);
    return good;
}

static bool child_and_grandchild(void *arg)
{
    bool good = loops_work(arg) && in_child(loops_work, arg) && loops_work(arg);
    mh_context_free(arg);
    return good;
}

static bool free_only(void *arg)
{
    mh_context_free(arg);
    return true;
}

static void fork_is_survived(void **state)
{
    (void)state;
#if defined(UNDER_TSAN)
    skip(); // it forbids threads in the child of a process that had some
#endif
    mh_context *context = make_context(4);
    assert_true(in_child(loops_work, context)); // before the first loop
    assert_true(loops_work(context));
    assert_true(in_child(child_and_grandchild, context));
    assert_true(in_child(free_only, context));
    assert_true(loops_work(context));
    mh_context_free(context);
}

// A thread with a stack larger than any memory cannot be started.
static void set_default_stack(size_t size)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

static size_t default_stack(void)
{
    pthread_attr_t attributes;
    size_t size;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    return size;
}

static bool loops_work_without_threads(void *arg)
{
    set_default_stack((size_t)1 << 46);
    return loops_work(arg);
}

static void thread_failure_is_reported(void **state)
{
    (void)state;
#if defined(UNDER_TSAN) || defined(UNDER_ASAN)
    skip(); // they abort when a thread cannot be started
#endif
    size_t usual = default_stack();
    set_default_stack((size_t)1 << 46);
    mh_context_options options = mh_context_options_default();
    options.threads = 4;
    mh_context *context;
    char error[200];
    mh_status status = mh_context_create(&options, &context, error, sizeof error);
    set_default_stack(usual);
    assert_int_equal(status, MH_ERROR_THREAD);
    assert_null(context);
    assert_non_null(strstr(error, "thread 2 cannot be started"));

    context = make_context(4);
    assert_true(in_child(loops_work_without_threads, context)); // the child does it alone
    mh_context_free(context);
}

// Room for some of the stacks but not for all.
static bool some_threads_start(void *arg)
{
    (void)arg;
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!file || fscanf(file, "%lu", &pages) != 1)
        return false;
    fclose(file);
    rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)200 << 20);
    setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
    set_default_stack((size_t)64 << 20);
    mh_context_options options = mh_context_options_default();
    options.threads = 16;
    mh_context *context;
    char error[200] = "";
    bool good = mh_context_create(&options, &context, error, sizeof error) == MH_ERROR_THREAD &&
                !context && !strstr(error, "thread 2 ");
    options.threads = 2; // the stacks of those that had started are free again
    good = good && mh_context_create(&options, &context, error, sizeof error) == MH_OK &&
           loops_work(context);
    if (!good)
        fprintf(stderr, "%s\n", error);
    mh_context_free(context);
    return good;
}

static void later_thread_failure(void **state)
{
    (void)state;
#if defined(UNDER_TSAN) || defined(UNDER_ASAN)
    skip(); // they need the address space themselves
#endif
    assert_true(in_child(some_threads_start, NULL));
}

// Turns that need 512 KiB of stack, and time, so that all threads take some.
static void deep_turn(void *arg, size_t index, size_t worker)
{
    volatile char block[512 << 10];
    (void)worker;
    for (size_t i = 0; i < sizeof block; i += 1024)
        block[i] = (char)index;
    sleep_us(1000);
    atomic_fetch_add((atomic_int *)arg, block[0] == (char)index);
}

static bool deep_turns_work(void *arg)
{
    set_default_stack((size_t)128 << 10); // musl's
    (void)arg;
    mh_context *context = make_context(4);
    atomic_int good = 0;
    mh_parallel_for(context, 64, deep_turn, &good);
    mh_context_free(context);
    return good == 64;
}

// Tasks of attention have some 100 KiB on the stack, whatever a thread has by default.
static void stacks_suffice(void **state)
{
    (void)state;
#if defined(UNDER_TSAN)
    skip(); // it forbids threads in the child of a process that had some
#endif
    assert_true(in_child(deep_turns_work, NULL));
}

// ---- manners ------------------------------------------------------------------------------------

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void idle_costs_nothing(void **state)
{
    (void)state;
    mh_context *context = make_context(2);
    run_and_check(context, 10);
    double before = cpu_seconds();
    sleep_us(200000);
    assert_true(cpu_seconds() - before < 0.05);
    mh_context_free(context);
}

static void check_signals(void *arg, size_t index, size_t worker)
{
    (void)index;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if ((worker > 0) != sigismember(&mask, SIGINT) || sigismember(&mask, SIGSEGV))
        atomic_fetch_add((atomic_int *)arg, 1);
    sleep_us(100); // so that others get a turn
}

static void signals_are_the_callers(void **state)
{
    (void)state;
    mh_context *context = make_context(3);
    atomic_int wrong = 0;
    mh_parallel_for(context, 30, check_signals, &wrong);
    assert_int_equal(atomic_load(&wrong), 0);
    mh_context_free(context);
}

static void *use_own_context(void *arg)
{
    (void)arg;
    atomic_size_t sum = 0;
    mh_context_options options = mh_context_options_default();
    options.threads = 3;
    mh_context *context;
    if (mh_context_create(&options, &context, NULL, 0) != MH_OK)
        return "create";
    for (size_t i = 0; i < 2000; i++)
        mh_parallel_for(context, 8, add_one, &sum);
    mh_context_free(context);
    return atomic_load(&sum) == 16000 ? NULL : "sum";
}

static void contexts_do_not_interfere(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_own_context, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        assert_null(problem);
    }
}

typedef struct poll_record {
    pthread_t caller;
    size_t polls, wrong;
} poll_record;

static void record_poll(void *user)
{
    poll_record *record = user;
    record->polls++;
    record->wrong += !pthread_equal(record->caller, pthread_self());
}

static void poll_is_called(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= 3; threads++) {
        mh_context *context = make_context(threads);
        poll_record record = {.caller = pthread_self()};
        atomic_size_t sum = 0;
        mh_context_set_poll(context, record_poll, &record);
        for (size_t i = 0; i < 100; i++)
            mh_parallel_for(context, 8, add_one, &sum);
        assert_int_equal(atomic_load(&sum), 800);
        assert_true(threads == 1 ? record.polls == 800 : record.polls > 0);
        assert_int_equal(record.wrong, 0);
        const size_t before = record.polls;
        mh_context_set_poll(context, NULL, NULL);
        mh_parallel_for(context, 8, add_one, &sum);
        assert_int_equal(record.polls, before);
        mh_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_turn_once),
        cmocka_unit_test(many_tiny_loops),
        cmocka_unit_test(loops_with_pauses),
        cmocka_unit_test(caller_waits),
        cmocka_unit_test(inner_loop_is_serial),
#if defined(__x86_64__)
        cmocka_unit_test(environment_is_plain),
        cmocka_unit_test(own_loop_is_used),
#endif
        cmocka_unit_test(poll_is_called),
        cmocka_unit_test(fork_is_survived),
        cmocka_unit_test(thread_failure_is_reported),
        cmocka_unit_test(later_thread_failure),
        cmocka_unit_test(stacks_suffice),
        cmocka_unit_test(idle_costs_nothing),
        cmocka_unit_test(signals_are_the_callers),
        cmocka_unit_test(contexts_do_not_interfere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
