// SPDX-License-Identifier: MIT
// A training that is killed with SIGKILL at random moments, again and again, and each time started
// anew, ends with the bytes of one that was left in peace. $MH_TEST_KILLS: how often (20).
#include "support.h"
#include "train_support.h"

#include "base/clock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static train_place place;

static int set_up(void **state)
{
    (void)state;
    return train_place_create(&place) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    train_place_remove(&place);
    return 0;
}

static mh_train_options options_for(const char *directory)
{
    mh_train_options options = train_place_options(&place, directory);
    options.after.count = 40;
    return options;
}

// In a process of its own, which does nothing else.
static void train_in_child(const char *directory, size_t threads)
{
    mh_context_options c = mh_context_options_default();
    mh_context *context;
    mh_train_result result = mh_train_result_default();
    c.threads = threads;
    const mh_train_options options = options_for(directory);
    const bool done = mh_context_create(&c, &context, NULL, 0) == MH_OK &&
                      mh_train(context, &options, &result) == MH_OK;
    _exit(done ? EXIT_SUCCESS : EXIT_FAILURE);
}

static pid_t start(const char *directory, size_t threads)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        train_in_child(directory, threads);
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
static double time_whole(const char *directory)
{
    const double begun = mh_clock_seconds();
    finish(start(directory, 1));
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

static void test_killed_runs(void **state)
{
    (void)state;
    enum { KILLS_OF_A_RUN = 5 };
    const char *wanted = getenv("MH_TEST_KILLS");
    const size_t kills = wanted ? strtoull(wanted, NULL, 10) : 20;
    test_rng rng = {test_seed()};
    char whole[96], directory[96];
    snprintf(whole, sizeof whole, "%s/whole", place.root);
    const double seconds = time_whole(whole);
    for (size_t done = 0; done < kills; done += KILLS_OF_A_RUN) {
        snprintf(directory, sizeof directory, "%s/killed%zu", place.root, done);
        for (size_t i = 0; i < KILLS_OF_A_RUN; i++)
            kill_after(start(directory, 1 + i % 2), test_uniform(&rng, 0, 0.7 * seconds));
        finish(start(directory, 1));
        assert_true(train_runs_equal(directory, whole));
    }
    print_message("%zu kills, runs of %.2f s\n", kills, seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_runs)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
