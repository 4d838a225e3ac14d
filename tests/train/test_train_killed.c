// SPDX-License-Identifier: MIT
// A training that is killed with SIGKILL at random moments, again and again, and each time started
// anew with another number of threads, ends with the bytes of an uninterrupted one: every task, and
// from every kind of model. $MH_TEST_KILLS: how often each is killed (translation 20, the others
// 3).
#include "support.h"
#include "task_support.h"

#include "base/clock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static task_place place;

static int set_up(void **state)
{
    (void)state;
    return task_place_create(&place) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    task_place_remove(&place);
    return 0;
}

// In a process of its own, which does nothing else.
static void train_in_child(const mh_train_options *options, size_t threads)
{
    mh_context_options c = mh_context_options_default();
    mh_context *context;
    mh_train_result result = mh_train_result_default();
    c.threads = threads;
    const bool done = mh_context_create(&c, &context, NULL, 0) == MH_OK &&
                      mh_train(context, options, &result) == MH_OK;
    _exit(done ? EXIT_SUCCESS : EXIT_FAILURE);
}

static pid_t start(const mh_train_options *options, size_t threads)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        train_in_child(options, threads);
    return child;
}

static void finish(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
}

// A run from nothing to its end; how long it takes.
static double time_whole(const mh_train_options *options)
{
    const double begun = mh_clock_seconds();
    finish(start(options, 1));
    return mh_clock_seconds() - begun;
}

static void kill_after(pid_t child, double seconds)
{
    int status;
    usleep((useconds_t)(seconds * 1e6));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void kill_runs(task_kind kind, size_t kills)
{
    enum { KILLS_OF_A_RUN = 5 };
    const char *wanted = getenv("MH_TEST_KILLS");
    test_rng rng = {test_seed()};
    char whole[128], directory[128];
    mh_translator_config model;
    mh_train_options options = task_options(&place, kind, &model);
    kills = wanted ? strtoull(wanted, NULL, 10) : kills;
    options.directory = task_path(&place, whole, "whole-%s", task_names[kind]);
    const double seconds = time_whole(&options);
    for (size_t done = 0; done < kills;) {
        options.directory = task_path(&place, directory, "%s-%zu", task_names[kind], done);
        for (size_t i = 0; i < KILLS_OF_A_RUN && done < kills; i++, done++)
            kill_after(start(&options, 1 + i % 2), test_uniform(&rng, 0, 0.7 * seconds));
        finish(start(&options, 2));
        assert_true(task_runs_equal(directory, whole));
    }
    print_message("%s: %zu kills, runs of %.2f s\n", task_names[kind], kills, seconds);
}

static void test_killed_translation(void **state)
{
    (void)state;
    kill_runs(TASK_TRANSLATION, 20);
}

static void test_killed_tasks(void **state)
{
    (void)state;
    for (int kind = TASK_TRANSLATION + 1; kind < TASK_KINDS; kind++)
        kill_runs((task_kind)kind, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_translation),
        cmocka_unit_test(test_killed_tasks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
