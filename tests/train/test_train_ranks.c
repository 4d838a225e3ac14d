// SPDX-License-Identifier: MIT
// Training on several ranks, one of which is out of memory at one allocation after the other: all
// ranks return that error, whichever message they would have waited for, and the directory then
// goes on to the bytes of one process. So does one that is moved while ranks train, or that
// any of them stops. Options that differ are an error of all. Ranks are threads.
#include "support.h"
#include "task_support.h"
#include "thread_ranks.h"

#include <math.h>

enum { RANKS = 3 };

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

typedef struct trial {
    const mh_train_options *options;
    size_t rank, fail_at; // of the rank that fails, after the first message; 0: none
    bool failed;          // that allocation was reached
    mh_status statuses[RANKS];
    bool agreed[RANKS];
    char messages[RANKS][200];
    size_t leaked[RANKS];
} trial;

static void train_rank(const mh_communicator *communicator, void *user)
{
    enum { BEFORE_MESSAGES = 2 }; // the run and its tables
    trial *t = user;
    const size_t rank = communicator->rank;
    const bool fails = t->fail_at && rank == t->rank;
    test_memory memory = {0};
    mh_context_options c = mh_context_options_default();
    mh_context *context;
    c.threads = 1;
    c.allocator = test_allocator(&memory);
    assert_int_equal(mh_context_create(&c, &context, NULL, 0), MH_OK);
    memory.fail_at = fails ? memory.calls + BEFORE_MESSAGES + t->fail_at : 0;
    mh_train_options o = *t->options;
    mh_train_result result = mh_train_result_default();
    o.communicator = communicator;
    t->statuses[rank] = mh_train(context, &o, &result);
    t->agreed[rank] = result.agreed;
    snprintf(t->messages[rank], sizeof *t->messages, "%s", mh_error_message(context));
    if (fails)
        t->failed = memory.calls >= memory.fail_at;
    mh_context_free(context);
    t->leaked[rank] = memory.live;
}

static void check_same_error(const trial *t)
{
    for (size_t r = 0; r < RANKS; r++) {
        const bool agreed = t->statuses[r] == MH_OK ||
                            (t->agreed[r] && strcmp(t->messages[r], t->messages[0]) == 0);
        if (t->statuses[r] != t->statuses[0] || !agreed)
            fail_msg("allocation %zu of rank %zu fails: rank %zu returns %s (%s), rank 0 %s (%s)",
                     t->fail_at, t->rank, r, mh_status_name(t->statuses[r]), t->messages[r],
                     mh_status_name(t->statuses[0]), t->messages[0]);
        if (t->leaked[r])
            fail_msg("allocation %zu of rank %zu fails: rank %zu does not free %zu bytes (%s)",
                     t->fail_at, t->rank, r, t->leaked[r], t->messages[r]);
    }
    // scratch memory that cannot grow by a quarter may still grow by what is needed
    assert_true(t->statuses[0] == MH_OK || t->statuses[0] == MH_ERROR_MEMORY);
}

static void fail_ranks(task_kind kind)
{
    char whole[128], directory[128];
    mh_translator_config model;
    mh_train_options o = task_options(&place, kind, &model);
    mh_train_result result = mh_train_result_default();
    o.after = (mh_duration){2, MH_UPDATES};
    o.save_every = o.valid_every = o.after;
    o.directory = task_path(&place, whole, "whole-%s", task_names[kind]);
    mh_context *context = test_context(NULL, 1);
    test_ok(context, mh_train(context, &o, &result));
    size_t reported = 0;
    for (size_t rank = 0; rank < RANKS; rank += RANKS - 1) {
        trial t = {.options = &o, .rank = rank, .failed = true};
        for (t.fail_at = 1; t.failed; t.fail_at += 1 + t.fail_at / 3) {
            o.directory =
                task_path(&place, directory, "%s-%zu-%zu", task_names[kind], rank, t.fail_at);
            thread_ranks_run(RANKS, train_rank, &t, NULL);
            check_same_error(&t);
            reported += t.statuses[0] != MH_OK;
            test_ok(context, mh_train(context, &o, &result));
            assert_true(task_runs_equal(directory, whole));
        }
    }
    assert_true(reported > 20);
    mh_context_free(context);
}

static void test_translation(void **state)
{
    (void)state;
    fail_ranks(TASK_TRANSLATION);
}

static void test_pictures(void **state)
{
    (void)state;
    fail_ranks(TASK_PICTURES);
}

static void test_texts(void **state)
{
    (void)state;
    fail_ranks(TASK_GPT2);
    fail_ranks(TASK_LABELS);
}

// ---- a directory that is moved ------------------------------------------------------------------

typedef struct moving {
    const mh_train_options *options;
    char to[128];
    mh_status statuses[THREAD_RANKS_MOST];
} moving;

// After the first save.
static bool move_directory(void *user, const mh_train_event *event)
{
    moving *m = user;
    if (event->kind == MH_TRAIN_SAVED)
        rename(m->options->directory, m->to);
    return true;
}

static void train_moved_rank(const mh_communicator *communicator, void *user)
{
    moving *m = user;
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = *m->options;
    mh_train_result result = mh_train_result_default();
    o.communicator = communicator;
    o.event = move_directory;
    o.user = m;
    m->statuses[communicator->rank] = mh_train(context, &o, &result);
    assert_non_null(strstr(mh_error_message(context), "was moved to"));
    assert_true(result.agreed == (communicator->ranks > 1));
    mh_context_free(context);
}

// The mean of snapshots, the model and the checkpoint are what notices it; the new directory is
// saved, and one process goes on there.
static void move_runs(size_t average, bool validates)
{
    char whole[128], directory[128];
    mh_translator_config model;
    mh_train_options o = task_options(&place, TASK_TRANSLATION, &model);
    mh_train_result result = mh_train_result_default();
    mh_context *context = test_context(NULL, 1);
    o.after = (mh_duration){6, MH_UPDATES};
    o.save_every = (mh_duration){2, MH_UPDATES};
    o.valid_every = (mh_duration){validates ? 4 : 100, MH_UPDATES};
    o.average = average;
    o.directory = task_path(&place, whole, "unmoved-%zu-%d", average, validates);
    test_ok(context, mh_train(context, &o, &result));
    for (size_t ranks = 1; ranks <= RANKS; ranks++) {
        moving m = {.options = &o};
        task_path(&place, m.to, "moved-%zu-%zu-%d", ranks, average, validates);
        o.directory = task_path(&place, directory, "moves-%zu-%zu-%d", ranks, average, validates);
        thread_ranks_run(ranks, train_moved_rank, &m, NULL);
        for (size_t r = 0; r < ranks; r++)
            assert_int_equal(m.statuses[r], MH_ERROR_FILE);
        o.directory = m.to;
        test_ok(context, mh_train(context, &o, &result));
        assert_true(result.resumed);
        if (!task_runs_equal(m.to, whole))
            fail_msg("%zu ranks, mean of %zu: other bytes after the directory was moved", ranks,
                     average);
    }
    mh_context_free(context);
}

static void test_moved(void **state)
{
    (void)state;
    move_runs(2, true);
    move_runs(1, true);
    move_runs(1, false);
}

// ---- stopped ------------------------------------------------------------------------------------

typedef struct stopping {
    const mh_train_options *options;
    size_t rank, told; // of the rank that stops the run, its updates so far
} stopping;

static bool stop_after_two(void *user, const mh_train_event *event)
{
    stopping *s = user;
    return event->kind != MH_TRAIN_UPDATED || ++s->told < 2;
}

static void train_stopped_rank(const mh_communicator *communicator, void *user)
{
    stopping *s = user;
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = *s->options;
    mh_train_result result = mh_train_result_default();
    o.communicator = communicator;
    if (communicator->rank == s->rank) {
        o.event = stop_after_two;
        o.user = s;
    }
    test_ok(context, mh_train(context, &o, &result));
    assert_true(result.stopped && result.update >= 2 && result.update <= 3);
    mh_context_free(context);
}

// By any rank: all end after its update or the next one, and one process goes on.
static void test_stopped(void **state)
{
    (void)state;
    char whole[128], directory[128];
    mh_translator_config model;
    mh_train_options o = task_options(&place, TASK_TRANSLATION, &model);
    mh_train_result result = mh_train_result_default();
    mh_context *context = test_context(NULL, 1);
    o.after = (mh_duration){5, MH_UPDATES};
    o.directory = task_path(&place, whole, "not-stopped");
    test_ok(context, mh_train(context, &o, &result));
    for (size_t rank = 0; rank < RANKS; rank++) {
        stopping s = {.options = &o, .rank = rank};
        o.directory = task_path(&place, directory, "stopped-%zu", rank);
        thread_ranks_run(RANKS, train_stopped_rank, &s, NULL);
        test_ok(context, mh_train(context, &o, &result));
        assert_true(result.resumed && task_runs_equal(directory, whole));
    }
    mh_context_free(context);
}

// ---- other options on one rank ------------------------------------------------------------------

typedef struct differing {
    const mh_train_options *options, *other; // the last rank's
    const char *expected;
} differing;

static void train_differing_rank(const mh_communicator *communicator, void *user)
{
    const differing *d = user;
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = communicator->rank + 1 == RANKS ? *d->other : *d->options;
    mh_train_result result = mh_train_result_default();
    o.communicator = communicator;
    assert_int_equal(mh_train(context, &o, &result), MH_ERROR_ARGUMENT);
    assert_true(result.agreed);
    if (!strstr(mh_error_message(context), d->expected))
        fail_msg("found \"%s\", expected \"%s\"", mh_error_message(context), d->expected);
    mh_context_free(context);
}

// Before anything is sent whose size or number depends on them.
static void test_differing(void **state)
{
    (void)state;
    char directory[128];
    mh_translator_config model, wide, of_task;
    mh_train_options o = task_options(&place, TASK_TRANSLATION, &model), other = o;
    o.directory = other.directory = task_path(&place, directory, "differing");
    wide = model;
    other.model = &wide;
    differing d = {&o, &other, "model: rank 2 has "};
    wide.d_model *= 2;
    thread_ranks_run(RANKS, train_differing_rank, &d, NULL);
    wide.d_model /= 4;
    thread_ranks_run(RANKS, train_differing_rank, &d, NULL);
    other = task_options(&place, TASK_GPT2, &of_task);
    other.directory = directory;
    d.expected = "task: rank 2 has lm, rank 0 translation";
    thread_ranks_run(RANKS, train_differing_rank, &d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moved),     cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_differing), cmocka_unit_test(test_translation),
        cmocka_unit_test(test_pictures),  cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
