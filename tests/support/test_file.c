// SPDX-License-Identifier: MIT
// Files: mappings of what can and cannot be mapped; writing that is all or nothing, with old
// files, links and permissions kept, and every failure reported by name without leaving a
// temporary behind.
#include "support/directory.h"
#include "support/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h> // wants the headers above

static mh_context *context;
static char directory[64]; // the working directory of each test, empty at its start

static int enter_folder(void **state)
{
    (void)state;
    umask(022);
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.isa = "scalar";
    strcpy(directory, "/tmp/mh-test-file-XXXXXX");
    return mh_context_create(&options, &context, NULL, 0) != MH_OK || !mkdtemp(directory) ||
           chmod(directory, 0755) != 0 || chdir(directory) != 0;
}

static int leave_folder(void **state)
{
    (void)state;
    mh_context_free(context);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return chdir("/") != 0 || system(command) != 0;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_text(const char *path, const char *expected)
{
    char text[100];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode;
}

static void expect_entries(const char *path, size_t expected)
{
    DIR *entries = opendir(path);
    assert_non_null(entries);
    size_t found = 0;
    for (struct dirent *entry; (entry = readdir(entries));)
        found += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(entries);
    assert_int_equal(found, expected);
}

static size_t open_descriptors(void)
{
    size_t found = 0;
    for (int fd = 0; fd < 256; fd++)
        found += fcntl(fd, F_GETFD) >= 0;
    return found;
}

static mh_status write_text(const char *path, const char *text)
{
    mh_file_writer *writer;
    mh_status status = mh_file_begin(context, path, &writer);
    if (status) {
        assert_null(writer);
        return status;
    }
    status = mh_file_write(writer, text, strlen(text));
    if (!status)
        return mh_file_commit(writer);
    mh_file_abandon(writer);
    return status;
}

static void expect_failure(mh_status status, const char *path, const char *reason)
{
    assert_int_equal(status, MH_ERROR_FILE);
    const char *message = mh_error_message(context);
    if (strncmp(message, path, strlen(path)) != 0 || !strstr(message, reason))
        fail_msg("found \"%s\", expected \"%s\" and \"%s\"", message, path, reason);
}

// Takes the place of the C library's: the first `interruptions` calls fail.
static int interruptions;

int fsync(int fd)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

// Takes the place of the C library's: a file system without O_TMPFILE.
static bool without_tmpfile;

int openat(int at, const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & (O_CREAT | __O_TMPFILE)) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    if (without_tmpfile && (flags & __O_TMPFILE)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

// ---- reading ------------------------------------------------------------------------------------

static void mapping_reads(void **state)
{
    (void)state;
    put("text", "hello");
    put("empty", "");
    mh_mapping mapping;
    assert_int_equal(mh_file_map(context, "text", &mapping), MH_OK);
    assert_int_equal(mapping.size, 5);
    assert_memory_equal(mapping.data, "hello", 5);
    mh_file_unmap(&mapping);
    assert_null(mapping.data);
    mh_file_unmap(&mapping);
    assert_int_equal(mh_file_map(context, "empty", &mapping), MH_OK);
    assert_null(mapping.data);
    assert_int_equal(mapping.size, 0);
    mh_file_unmap(&mapping);
}

static void mapping_refuses(void **state)
{
    (void)state;
    mh_mapping mapping = {&mapping, 1};
    size_t before = open_descriptors();
    expect_failure(mh_file_map(context, "missing", &mapping), "missing", strerror(ENOENT));
    assert_null(mapping.data);
    expect_failure(mh_file_map(context, ".", &mapping), ".", "a directory");
    expect_failure(mh_file_map(context, "/dev/null", &mapping), "/dev/null", "a device");
    assert_int_equal(mkfifo("pipe", 0600), 0); // nobody writes to it: must not wait
    expect_failure(mh_file_map(context, "pipe", &mapping), "pipe", "a pipe");
    expect_failure(mh_file_map(context, "", &mapping), "", strerror(ENOENT));
    assert_int_equal(open_descriptors(), before);
}

static void reading_refuses_devices(void **state)
{
    (void)state;
    mh_file_reader reader;
    char byte;
    size_t got, before = open_descriptors();
    expect_failure(mh_file_open(context, "/dev/zero", &reader), "/dev/zero", "a device");
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(mh_file_open(context, "/dev/null", &reader), MH_OK);
    assert_int_equal(mh_file_read(&reader, &byte, 1, &got), MH_OK);
    assert_int_equal(got, 0);
    mh_file_close(&reader);
    mh_file_close(&reader);
}

// ---- writing ------------------------------------------------------------------------------------

static void new_file_appears_at_commit(void **state)
{
    (void)state;
    mh_file_writer *writer;
    size_t before = open_descriptors();
    assert_int_equal(mh_file_begin(context, "new", &writer), MH_OK);
    assert_int_equal(mh_file_write(writer, "hel", 3), MH_OK);
    assert_int_equal(mh_file_write(writer, NULL, 0), MH_OK);
    assert_int_equal(access("new", F_OK), -1);
    assert_int_equal(mh_file_write(writer, "lo", 2), MH_OK);
    assert_int_equal(chdir("/"), 0); // the program may go elsewhere meanwhile
    assert_int_equal(mh_file_commit(writer), MH_OK);
    assert_int_equal(chdir(directory), 0);
    expect_text("new", "hello");
    assert_int_equal(mode_of("new") & 0777, 0644);
    expect_entries(".", 1);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(write_text("empty", ""), MH_OK);
    expect_text("empty", "");
}

static void large_and_small_pieces(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    unsigned char *bytes = malloc(N);
    for (size_t i = 0; i < N; i++)
        bytes[i] = (unsigned char)(i * 31 >> 3);
    static const size_t pieces[] = {1, 7, 65535, 65536, 65537, 200000};
    mh_file_writer *writer;
    assert_int_equal(mh_file_begin(context, "pieces", &writer), MH_OK);
    for (size_t done = 0, turn = 0; done < N; turn++) {
        size_t size = pieces[turn % 6] < N - done ? pieces[turn % 6] : N - done;
        assert_int_equal(mh_file_write(writer, bytes + done, size), MH_OK);
        done += size;
    }
    assert_int_equal(mh_file_commit(writer), MH_OK);
    mh_mapping mapping;
    assert_int_equal(mh_file_map(context, "pieces", &mapping), MH_OK);
    assert_int_equal(mapping.size, N);
    assert_memory_equal(mapping.data, bytes, N);
    mh_file_unmap(&mapping);
    free(bytes);
}

static void abandoned_leaves_the_old(void **state)
{
    (void)state;
    put("file", "old");
    mh_file_writer *writer;
    assert_int_equal(mh_file_begin(context, "file", &writer), MH_OK);
    assert_int_equal(mh_file_write(writer, "new", 3), MH_OK);
    mh_file_abandon(writer);
    expect_text("file", "old");
    expect_entries(".", 1);
    mh_file_abandon(NULL);
}

static void abandoned_leaves_nothing(size_t entries)
{
    mh_file_writer *writer;
    assert_int_equal(mh_file_begin(context, "other", &writer), MH_OK);
    assert_int_equal(mh_file_write(writer, "new", 3), MH_OK);
    expect_entries(".", entries + without_tmpfile);
    mh_file_abandon(writer);
    expect_entries(".", entries);
}

static void interrupted_sync(void **state)
{
    (void)state;
    interruptions = 2;
    assert_int_equal(write_text("new", "text"), MH_OK);
    assert_int_equal(interruptions, 0);
    expect_text("new", "text");
}

// Without a descriptor for it, a new directory cannot be locked, and is not left behind.
static void folder_without_descriptor(void **state)
{
    (void)state;
    mh_directory opened;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    mh_status status = mh_directory_open(context, "run", &opened);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    expect_failure(status, "run", "cannot be opened");
    expect_entries(".", 0);
}

static void permissions_and_links_stay(void **state)
{
    (void)state;
    put("file", "old");
    static const mode_t modes[] = {0600, 0640, 0666, 0755};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(chmod("file", modes[i]), 0);
        assert_int_equal(write_text("file", "new"), MH_OK);
        assert_int_equal(mode_of("file") & 07777, modes[i]);
    }
    mkdir("sub", 0755);
    assert_int_equal(symlink("../file", "sub/link"), 0);
    assert_int_equal(symlink("sub/link", "chain"), 0);
    assert_int_equal(write_text("chain", "through"), MH_OK);
    expect_text("file", "through");
    assert_true(S_ISLNK(mode_of("chain")) && S_ISLNK(mode_of("sub/link")));
    assert_int_equal(symlink("fresh", "sub/dangling"), 0);
    assert_int_equal(write_text("sub/dangling", "made"), MH_OK);
    expect_text("sub/fresh", "made");
    assert_int_equal(symlink("loop", "loop"), 0);
    expect_failure(write_text("loop", "x"), "loop", strerror(ELOOP));
    expect_entries(".", 4);
}

static void longest_name(void **state)
{
    (void)state;
    char name[NAME_MAX + 1];
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    assert_int_equal(write_text(name, "fits"), MH_OK);
    expect_text(name, "fits");
    char *endless = calloc(1, PATH_MAX + 2);
    memset(endless, 'n', PATH_MAX + 1);
    expect_failure(write_text(endless, "x"), "nnnn", "too long");
    endless[PATH_MAX - 1] = '\0';
    expect_failure(write_text(endless, "x"), "nnnn", strerror(ENAMETOOLONG));
    free(endless);
    expect_entries(".", 1);
}

static void bad_paths(void **state)
{
    (void)state;
    put("file", "old");
    mkdir("sub", 0755);
    size_t before = open_descriptors();
    expect_failure(write_text("none/file", "x"), "none/file", strerror(ENOENT));
    expect_failure(write_text("file/file", "x"), "file/file", strerror(ENOTDIR));
    expect_failure(write_text("sub", "x"), "sub", strerror(EISDIR));
    expect_failure(write_text("sub/", "x"), "sub/", strerror(EISDIR));
    expect_failure(write_text("fresh/", "x"), "fresh/", strerror(EISDIR));
    expect_failure(write_text("", "x"), "", strerror(ENOENT));
    expect_entries(".", 2);
    expect_entries("sub", 0);
    assert_int_equal(open_descriptors(), before);
}

static void protected_paths(void **state)
{
    (void)state;
    mkdir("shut", 0555);
    put("protected", "old");
    assert_int_equal(chmod("protected", 0444), 0);
    bool root = geteuid() == 0;
    if (root) // nothing is forbidden to root
        assert_int_equal(seteuid(65534), 0);
    mh_status shut = write_text("shut/file", "x");
    char message[200];
    snprintf(message, sizeof message, "%s", mh_error_message(context));
    mh_status protected = write_text("protected", "x");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(shut, MH_ERROR_FILE);
    assert_string_equal(message,
                        "shut/file: no file can be created in its directory: Permission denied");
    expect_failure(protected, "protected", strerror(EACCES));
    expect_text("protected", "old");
    expect_entries("shut", 0);
    expect_entries(".", 2);
}

// ---- when writing fails half-way ----------------------------------------------------------------

static void full_device(void **state)
{
    (void)state;
    mh_file_writer *writer;
    expect_failure(write_text("/dev/full", "x"), "/dev/full", strerror(ENOSPC));
    assert_int_equal(mh_file_begin(context, "/dev/full", &writer), MH_OK);
    char *much = calloc(1, 100000);
    expect_failure(mh_file_write(writer, much, 100000), "/dev/full", strerror(ENOSPC));
    expect_failure(mh_file_write(writer, "x", 1), "/dev/full", strerror(ENOSPC));
    mh_fail(context, MH_ERROR_ARGUMENT, "something else");
    expect_failure(mh_file_commit(writer), "/dev/full", strerror(ENOSPC));
    free(much);
}

static void file_too_large(void **state)
{
    (void)state;
    put("file", "old");
    struct rlimit usual;
    getrlimit(RLIMIT_FSIZE, &usual);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, usual.rlim_max});
    mh_file_writer *writer;
    char *much = calloc(1, 200000);
    assert_int_equal(mh_file_begin(context, "file", &writer), MH_OK);
    mh_status first = mh_file_write(writer, much, 90000);
    mh_status second = mh_file_write(writer, much, 20000); // still in the buffer
    mh_status third = mh_file_commit(writer);
    setrlimit(RLIMIT_FSIZE, &usual);
    signal(SIGXFSZ, SIG_DFL);
    free(much);
    assert_int_equal(first, MH_OK);
    assert_int_equal(second, MH_OK);
    expect_failure(third, "file", strerror(EFBIG));
    expect_text("file", "old");
    expect_entries(".", 1);
}

static void directory_vanishes(void **state)
{
    (void)state;
    mkdir("sub", 0755);
    mh_file_writer *writer;
    assert_int_equal(mh_file_begin(context, "sub/file", &writer), MH_OK);
    assert_int_equal(system("rm -r sub"), 0);
    expect_failure(mh_file_commit(writer), "sub/file", strerror(ENOENT));
    expect_entries(".", 0);
}

static void *no_memory(void *user, size_t size, size_t alignment)
{
    (void)size;
    (void)alignment;
    int *calls = user;
    return ++*calls == 1 ? aligned_alloc(alignment, (size + 63) / 64 * 64) : NULL;
}

static void give_back(void *user, void *memory, size_t size)
{
    (void)user;
    (void)size;
    free(memory);
}

static void out_of_memory(void **state)
{
    (void)state;
    int calls = 0;
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.allocator = (mh_allocator){no_memory, give_back, &calls, false};
    mh_context *poor;
    assert_int_equal(mh_context_create(&options, &poor, NULL, 0), MH_OK);
    mh_file_writer *writer;
    assert_int_equal(mh_file_begin(poor, "file", &writer), MH_ERROR_MEMORY);
    assert_null(writer);
    expect_entries(".", 0);
    mh_context_free(poor);
}

// ---- what is no file ----------------------------------------------------------------------------

static void pipes_and_devices(void **state)
{
    (void)state;
    assert_int_equal(write_text("/dev/null", "x"), MH_OK);
    assert_true(S_ISCHR(mode_of("/dev/null")));
    int ends[2];
    char text[6] = "", path[40];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_int_equal(write_text(path, "hello"), MH_OK);
    assert_int_equal(read(ends[0], text, 5), 5);
    assert_string_equal(text, "hello");
    close(ends[0]);
    close(ends[1]);
    expect_failure(write_text(path, "x"), path, strerror(EBADF));
}

// "command --out /dev/stdout > file" adds to what the command has printed, wherever the file is.
static void standard_output(void **state)
{
    (void)state;
    assert_int_equal(symlink("/dev/stdout", "link"), 0);
    fflush(stdout);
    int usual = dup(STDOUT_FILENO), file = open("out", O_WRONLY | O_CREAT, 0644);
    assert_true(usual >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    bool good = write(STDOUT_FILENO, "one ", 4) == 4 &&
                write_text("/dev/stdout", "two ") == MH_OK &&
                write_text("link", "three ") == MH_OK && write(STDOUT_FILENO, "four", 4) == 4;
    dup2(usual, STDOUT_FILENO);
    close(usual);
    close(file);
    assert_true(good);
    expect_text("out", "one two three four");
    expect_entries(".", 2);
}

// ---- readers see the old file or the new one ----------------------------------------------------

static void write_for_ever(void)
{
    char text[5000];
    for (char c = 'a';; c = c == 'z' ? 'a' : (char)(c + 1)) {
        memset(text, c, sizeof text);
        mh_file_writer *writer;
        if (mh_file_begin(context, "file", &writer) != MH_OK)
            _exit(1);
        for (size_t i = 0; i < 40; i++)
            mh_file_write(writer, text, sizeof text);
        if (mh_file_commit(writer) != MH_OK)
            _exit(1);
    }
}

static bool is_whole(void)
{
    mh_mapping mapping;
    if (mh_file_map(context, "file", &mapping) != MH_OK)
        return false;
    const char *text = mapping.data;
    bool whole = mapping.size == 200000;
    for (size_t i = 1; whole && i < mapping.size; i++)
        whole = text[i] == text[0];
    mh_file_unmap(&mapping);
    return whole;
}

static void killed_writers_tear_nothing(void **state)
{
    (void)state;
    assert_int_equal(write_text("file", ""), MH_OK);
    assert_int_equal(truncate("file", 200000), 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_for_ever();
        for (int look = 0; look < 20; look++) {
            assert_true(is_whole());
            usleep((useconds_t)(i * 37 % 400));
        }
        int status;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_true(is_whole());
    }
}

// Writes a part of a file and is killed; how many entries does the directory have then?
static void kill_in_the_middle(size_t expected)
{
    static const char part[300000];
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mh_file_writer *writer;
        if (mh_file_begin(context, "file", &writer) == MH_OK &&
            mh_file_write(writer, part, sizeof part) == MH_OK)
            raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    expect_entries(".", expected);
}

static void killed_writers_leave_nothing(void **state)
{
    (void)state;
    int fd = openat(AT_FDCWD, ".", O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0)
        skip();
    close(fd);
    kill_in_the_middle(0);
    assert_int_equal(write_text("file", "old"), MH_OK);
    kill_in_the_middle(1);
    expect_text("file", "old");
}

// Without O_TMPFILE the new file has a temporary name from the beginning; all else is the same.
static void file_system_without_tmpfile(void **state)
{
    (void)state;
    without_tmpfile = true;
    kill_in_the_middle(1);
    put("file", "old");
    assert_int_equal(chmod("file", 0640), 0);
    assert_int_equal(write_text("file", "new"), MH_OK);
    without_tmpfile = false;
    expect_text("file", "new");
    assert_int_equal(mode_of("file") & 0777, 0640);
    expect_entries(".", 2); // and what the killed one left
    without_tmpfile = true;
    abandoned_leaves_nothing(2);
    without_tmpfile = false;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(mapping_reads),
        IN_FOLDER(mapping_refuses),
        IN_FOLDER(reading_refuses_devices),
        IN_FOLDER(new_file_appears_at_commit),
        IN_FOLDER(large_and_small_pieces),
        IN_FOLDER(abandoned_leaves_the_old),
        IN_FOLDER(interrupted_sync),
        IN_FOLDER(folder_without_descriptor),
        IN_FOLDER(permissions_and_links_stay),
        IN_FOLDER(longest_name),
        IN_FOLDER(bad_paths),
        IN_FOLDER(protected_paths),
        IN_FOLDER(full_device),
        IN_FOLDER(file_too_large),
        IN_FOLDER(directory_vanishes),
        IN_FOLDER(out_of_memory),
        IN_FOLDER(pipes_and_devices),
        IN_FOLDER(standard_output),
        IN_FOLDER(killed_writers_tear_nothing),
        IN_FOLDER(killed_writers_leave_nothing),
        IN_FOLDER(file_system_without_tmpfile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
