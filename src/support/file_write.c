// SPDX-License-Identifier: MIT
// Files are replaced atomically:
//
//     directory/   model.safetensors          the old file, untouched until the rename
//                  .multihead-9f3c...  .tmp   the new one; fsync, rename, fsync of the directory
//
// Where the file system has O_TMPFILE, the new file has no name while it is written, so that not
// even SIGKILL leaves it behind. linkat() cannot replace a file: it gets the temporary name after
// fsync, just before the rename.
//
// All names are relative to the open directory, so that a program may change its working directory
// in between. The temporary's name does not contain the file's, which may already have the maximum
// length. A rename does not preserve hard links to the old file and its ACLs.
#include "support/file.h"

#include "support/entropy.h"
#include "support/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A path in a message: its full 4 KB would leave no room for the reason.
#define PATH "%.700s"

struct mh_file_writer {
    mh_context *context;
    int fd;                // where the bytes go
    int directory;         // the directory of `target`; -1 if it is written directly
    bool directory_synced; // whether `directory` can be synced, which needs read permission
    int error;             // errno of the first failed write; all later calls fail with it
    size_t buffered;
    char path[PATH_MAX];   // as the caller named it, for messages
    char target[PATH_MAX]; // symbolic links followed
    const char *base;      // the last component of `target`
    bool unnamed;          // the new file has no name yet (O_TMPFILE)
    char temporary[40];    // "": none
    char buffer[1 << 16];
};

static mh_status file_write_fail(mh_file_writer *writer, int error, const char *what)
{
    writer->error = error;
    return mh_fail(writer->context, MH_ERROR_FILE, PATH ": %s: %s", writer->path, what,
                   strerror(error));
}

// The descriptor that a name such as /dev/stdout or /proc/self/fd/3 stands for, or -1. Opening
// such a name would reset the offset of a regular file, and fails for sockets.
static int own_descriptor(const char *path)
{
    static const char *const directories[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(directories[i]);
        char *end;
        if (strncmp(path, directories[i], length) != 0 || path[length] < '0' || path[length] > '9')
            continue;
        long number = strtol(path + length, &end, 10);
        if (*end == '\0' && number <= INT_MAX)
            return (int)number;
    }
    return -1;
}

// Replaces the last component of `target`, a symbolic link, by the link's content. An errno or 0.
static int follow_link(char target[PATH_MAX])
{
    char link[PATH_MAX];
    ssize_t got = readlink(target, link, sizeof link - 1);
    if (got < 0)
        return errno;
    link[got] = '\0';
    char *slash = strrchr(target, '/');
    char *end = link[0] == '/' || !slash ? target : slash + 1;
    if ((size_t)(end - target) + (size_t)got >= PATH_MAX)
        return ENAMETOOLONG;
    memcpy(end, link, (size_t)got + 1);
    return 0;
}

// Follows links until a file, a nonexistent name, or one of our own descriptors is reached.
static int file_follow_links(char target[PATH_MAX])
{
    enum { MOST_LINKS = 40 }; // as in Linux
    struct stat status;
    for (int i = 0; i < MOST_LINKS; i++) {
        if (own_descriptor(target) >= 0)
            return 0;
        if (lstat(target, &status) != 0)
            return errno == ENOENT ? 0 : errno;
        if (!S_ISLNK(status.st_mode))
            return 0;
        int error = follow_link(target);
        if (error)
            return error;
    }
    return ELOOP;
}

static void name_temporary(char *name, size_t size)
{
    snprintf(name, size, ".multihead-%016jx.tmp", (uintmax_t)mh_entropy());
}

// Opens the directory of `target`; `base` is the rest of the path.
static int file_open_directory(mh_file_writer *writer)
{
    char directory[PATH_MAX];
    char *slash = strrchr(writer->target, '/');
    writer->base = slash ? slash + 1 : writer->target;
    if (!*writer->base)
        return *writer->target ? EISDIR : ENOENT;
    size_t length = (size_t)(writer->base - writer->target);
    memcpy(directory, writer->target, length);
    strcpy(directory + length,
           "."); // "out/." for "out/x.npy", "." for "x.npy": fits, base is longer
    writer->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    writer->directory_synced = writer->directory >= 0;
    if (writer->directory < 0 && errno == EACCES)
        writer->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return writer->directory < 0 ? errno : 0;
}

// The name by which linkat() finds an unnamed file: it needs /proc, but no privilege.
static void name_descriptor(int fd, char name[32]) { snprintf(name, 32, "/proc/self/fd/%d", fd); }

// Creates an unnamed file; false where the file system or /proc does not allow it.
static bool create_unnamed(mh_file_writer *writer, mode_t mode)
{
    char name[32];
    int fd = openat(writer->directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (fd < 0)
        return false;
    name_descriptor(fd, name);
    if (faccessat(AT_FDCWD, name, F_OK, 0) != 0) {
        close(fd);
        return false;
    }
    writer->fd = fd;
    return writer->unnamed = true;
}

// Calls `create` with new names until one is not taken. An errno or 0.
static int try_names(mh_file_writer *writer, int (*create)(mh_file_writer *, mode_t), mode_t mode)
{
    enum { MOST_TRIES = 100 };
    int error = EEXIST;
    for (int i = 0; i < MOST_TRIES && error == EEXIST; i++) {
        name_temporary(writer->temporary, sizeof writer->temporary);
        error = create(writer, mode) == 0 ? 0 : errno;
    }
    if (error)
        writer->temporary[0] = '\0';
    return error;
}

static int create_named(mh_file_writer *writer, mode_t mode)
{
    writer->fd = openat(writer->directory, writer->temporary,
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    return writer->fd < 0 ? -1 : 0;
}

static int link_unnamed(mh_file_writer *writer, mode_t mode)
{
    char name[32];
    (void)mode;
    name_descriptor(writer->fd, name);
    return linkat(AT_FDCWD, name, writer->directory, writer->temporary, AT_SYMLINK_FOLLOW);
}

// Creates the temporary with the default permissions of a new file.
static int create_temporary(mh_file_writer *writer, mode_t mode)
{
    return create_unnamed(writer, mode) ? 0 : try_names(writer, create_named, mode);
}

// Gives the new file the old one's mode, and its owner where that is allowed.
static mh_status keep_permissions(mh_file_writer *writer, const struct stat *old)
{
    struct stat made;
    if (fstat(writer->fd, &made) != 0)
        return file_write_fail(writer, errno, "the temporary file cannot be examined");
    if ((made.st_uid != old->st_uid || made.st_gid != old->st_gid) &&
        fchown(writer->fd, old->st_uid, old->st_gid) != 0)
        mh_log(writer->context, MH_LOG_DEBUG, PATH ": the owner cannot be kept: %s", writer->path,
               strerror(errno));
    mode_t mode = old->st_mode & 0777;
    if ((made.st_mode & 0777) != mode && fchmod(writer->fd, mode) != 0)
        return file_write_fail(writer, errno, "permissions cannot be kept");
    return MH_OK;
}

static mh_status begin_temporary(mh_file_writer *writer, const struct stat *old)
{
    // A rename needs no permission for the old file, but write protection is to be respected.
    if (old && euidaccess(writer->target, W_OK) != 0)
        return file_write_fail(writer, errno, "cannot be written");
    int error = file_open_directory(writer);
    if (error)
        return file_write_fail(writer, error, "its directory cannot be opened");
    error = create_temporary(writer, old ? old->st_mode & 0777 : 0666);
    if (error)
        return file_write_fail(writer, error, "no file can be created in its directory");
    return old ? keep_permissions(writer, old) : MH_OK;
}

static mh_status begin_direct(mh_file_writer *writer)
{
    int descriptor = own_descriptor(writer->target);
    writer->fd = descriptor >= 0 ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
                                 : open(writer->target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return writer->fd < 0 ? file_write_fail(writer, errno, "cannot be written") : MH_OK;
}

static mh_status begin(mh_file_writer *writer)
{
    int error = file_follow_links(writer->target);
    if (error)
        return file_write_fail(writer, error, "cannot be written");
    if (own_descriptor(writer->target) >= 0)
        return begin_direct(writer);
    struct stat status;
    if (stat(writer->target, &status) != 0)
        return begin_temporary(writer, NULL);
    if (S_ISDIR(status.st_mode))
        return file_write_fail(writer, EISDIR, "cannot be written");
    return S_ISREG(status.st_mode) ? begin_temporary(writer, &status) : begin_direct(writer);
}

mh_status mh_file_begin(mh_context *context, const char *path, mh_file_writer **writer)
{
    *writer = NULL;
    size_t length = strlen(path);
    if (length >= PATH_MAX)
        return mh_fail(context, MH_ERROR_FILE, "%.100s...: the name is too long: %zu bytes", path,
                       length);
    mh_file_writer *made = mh_alloc(context, sizeof *made);
    if (!made)
        return MH_ERROR_MEMORY;
    made->context = context;
    made->fd = made->directory = -1;
    made->directory_synced = false;
    made->error = 0;
    made->buffered = 0;
    made->temporary[0] = '\0';
    made->unnamed = false;
    memcpy(made->path, path, length + 1);
    memcpy(made->target, path, length + 1);
    mh_status status = begin(made);
    if (status)
        mh_file_abandon(made);
    else
        *writer = made;
    return status;
}

static mh_status write_through(mh_file_writer *writer, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(writer->fd, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return file_write_fail(writer, written < 0 ? errno : ENOSPC, "cannot be written");
        bytes += written;
        size -= (size_t)written;
    }
    return MH_OK;
}

static mh_status flush(mh_file_writer *writer)
{
    size_t size = writer->buffered;
    writer->buffered = 0;
    return write_through(writer, writer->buffer, size);
}

mh_status mh_file_write(mh_file_writer *writer, const void *bytes, size_t size)
{
    if (writer->error)
        return file_write_fail(writer, writer->error, "cannot be written");
    if (size > sizeof writer->buffer - writer->buffered) {
        mh_status status = flush(writer);
        if (status)
            return status;
    }
    if (size > sizeof writer->buffer)
        return write_through(writer, bytes, size);
    if (size > 0)
        memcpy(writer->buffer + writer->buffered, bytes, size);
    writer->buffered += size;
    return MH_OK;
}

static mh_status close_file(mh_file_writer *writer)
{
    int fd = writer->fd;
    writer->fd = -1;
    return close(fd) == 0 || errno == EINTR ? MH_OK
                                            : file_write_fail(writer, errno, "cannot be written");
}

static mh_status rename_temporary(mh_file_writer *writer)
{
    if (renameat(writer->directory, writer->temporary, writer->directory, writer->base) != 0)
        return file_write_fail(writer, errno, "cannot be replaced");
    writer->temporary[0] = '\0';
    const int error = writer->directory_synced ? mh_sync(writer->directory) : 0;
    return error
               ? file_write_fail(writer, error, "was written, but may not survive a power failure")
               : MH_OK;
}

static mh_status commit(mh_file_writer *writer)
{
    if (writer->error)
        return file_write_fail(writer, writer->error, "cannot be written");
    bool renames = writer->directory >= 0;
    mh_status status = flush(writer);
    int error = !status && renames ? mh_sync(writer->fd) : 0;
    if (!status && !error && writer->unnamed)
        error = try_names(writer, link_unnamed, 0);
    if (error)
        status = file_write_fail(writer, error, "cannot be written");
    if (!status)
        status = close_file(writer);
    if (!status && renames)
        status = rename_temporary(writer);
    return status;
}

mh_status mh_file_commit(mh_file_writer *writer)
{
    mh_status status = commit(writer);
    mh_file_abandon(writer); // after a success there is nothing left to remove
    return status;
}

void mh_file_abandon(mh_file_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->temporary[0])
        unlinkat(writer->directory, writer->temporary, 0);
    if (writer->directory >= 0)
        close(writer->directory);
    mh_free(writer->context, writer, sizeof *writer);
}

mh_status mh_file_sync(mh_context *context, const char *path, FILE *stream)
{
    const int error = fflush(stream) != 0 ? errno : mh_sync(fileno(stream));
    return error ? mh_fail(context, MH_ERROR_FILE, PATH ": cannot be written: %s", path,
                           strerror(error))
                 : MH_OK;
}

mh_status mh_file_replace(mh_context *context, const char *path, const void *bytes, size_t size)
{
    mh_file_writer *writer;
    mh_status status = mh_file_begin(context, path, &writer);
    if (status)
        return status;
    status = mh_file_write(writer, bytes, size);
    if (!status)
        return mh_file_commit(writer);
    mh_file_abandon(writer);
    return status;
}
