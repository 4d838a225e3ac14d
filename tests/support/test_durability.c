// SPDX-License-Identifier: MIT
// What a power failure may not undo, and what another process may do to a run's directory. The C
// library's mkdir, fsync and renameat are replaced by ones that note their order.
#include "support.h"
#include "train_support.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- the recorder -------------------------------------------------------------------------------

typedef struct call {
    char kind; // 'm' mkdir, 's' fsync, 'r' rename
    char name[64];
} call;

static call calls[1000];
static size_t call_count;
static bool recording;

static void record(char kind, const char *path)
{
    if (!recording || call_count == sizeof calls / sizeof *calls)
        return;
    const char *slash = strrchr(path, '/');
    calls[call_count].kind = kind;
    snprintf(calls[call_count++].name, sizeof calls->name, "%.60s", slash ? slash + 1 : path);
}

int mkdir(const char *path, mode_t mode)
{
    record('m', path);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int fsync(int fd)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    record('s', path);
    return (int)syscall(SYS_fsync, fd);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    record('r', to);
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

// The first such call from number `i` on, or call_count.
static size_t next_call(size_t i, char kind, const char *name)
{
    while (i < call_count && (calls[i].kind != kind || strcmp(calls[i].name, name) != 0))
        i++;
    return i;
}

// ---- runs ---------------------------------------------------------------------------------------

static train_place place;
static char directory[96], moved[96], reference[96];

static int set_up(void **state)
{
    (void)state;
    const bool made = train_place_create(&place);
    snprintf(directory, sizeof directory, "%s/run", place.root);
    snprintf(moved, sizeof moved, "%s/moved", place.root);
    snprintf(reference, sizeof reference, "%s/reference", place.root);
    return made ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    train_place_remove(&place);
    return 0;
}

static mh_status train_in(mh_context *context, const char *where, mh_train_event_fn event,
                          void *user)
{
    mh_train_options options = train_place_options(&place, where);
    mh_train_result result = mh_train_result_default();
    options.event = event;
    options.user = user;
    return mh_train(context, &options, &result);
}

// The new directory is durable in its parent before anything is in it; every rename is followed by
// a sync of the directory; and log.jsonl is synced before each checkpoint that counts on its lines.
static void test_order_of_syncs(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    const char *root = strrchr(place.root, '/') + 1;
    call_count = 0;
    recording = true;
    mh_status status = train_in(context, directory, NULL, NULL);
    recording = false;
    test_ok(context, status);
    const size_t made = next_call(0, 'm', "run"), parent = next_call(made, 's', root);
    assert_true(parent < call_count);
    size_t renames = 0, checkpoints = 0;
    bool logged = false;
    for (size_t i = 0; i < call_count; i++) {
        logged |= calls[i].kind == 's' && !strcmp(calls[i].name, "log.jsonl");
        if (calls[i].kind != 'r')
            continue;
        assert_true(i > parent);
        assert_true(next_call(i, 's', "run") == i + 1);
        renames++;
        if (strcmp(calls[i].name, "checkpoint.safetensors") != 0)
            continue;
        assert_true(logged);
        logged = false;
        checkpoints++;
    }
    assert_true(renames > 10 && checkpoints > 3 && call_count < sizeof calls / sizeof *calls);
    mh_context_free(context);
}

// ---- a directory that is moved ------------------------------------------------------------------

typedef struct mover {
    size_t at;     // the event before which it is moved
    size_t events; // so far
    bool replaced; // another directory is made under its name
} mover;

static bool move_folder(void *user, const mh_train_event *event)
{
    mover *m = user;
    (void)event;
    if (++m->events != m->at)
        return true;
    assert_int_equal(rename(directory, moved), 0);
    assert_true(!m->replaced || mkdir(directory, 0777) == 0);
    return true;
}

// Moved at any moment, the run ends with an error that says where it is, nothing is written to
// the directory that has its name now, and nothing is lost: it resumes in the moved one.
static void test_moved(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    test_ok(context, train_in(context, reference, NULL, NULL));
    size_t moves = 0;
    for (size_t at = 1;; at += 3) {
        mover m = {.at = at, .replaced = at % 2 == 0};
        mh_status status = train_in(context, directory, move_folder, &m);
        if (m.events < at || !status) // it ended before, or with nothing left to save
            break;
        test_refused(context, status, MH_ERROR_FILE, moved);
        assert_non_null(strstr(mh_error_message(context), "run: was moved to "));
        assert_int_equal(rmdir(directory), m.replaced ? 0 : -1); // empty, or not there
        test_ok(context, train_in(context, moved, NULL, NULL));
        assert_true(train_runs_equal(moved, reference));
        char command[128];
        snprintf(command, sizeof command, "rm -r %s", moved);
        assert_int_equal(system(command), 0);
        moves++;
    }
    assert_true(moves > 5);
    mh_context_free(context);
}

static bool remove_folder(void *user, const mh_train_event *event)
{
    char command[128];
    (void)user;
    snprintf(command, sizeof command, "rm -r %s", directory);
    return event->update != 2 || event->kind != MH_TRAIN_UPDATED || system(command) == 0;
}

static void test_removed(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    test_refused(context, train_in(context, directory, remove_folder, NULL), MH_ERROR_FILE,
                 "run: was removed during training");
    assert_int_equal(access(directory, F_OK), -1);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_of_syncs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_removed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
