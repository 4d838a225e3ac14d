// SPDX-License-Identifier: MIT
// Directories with a lock. The lock is on the directory itself, so there is no lock file.
#include "support/directory.h"

#include "support/sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH "%.700s"

static bool is_temporary(const char *name)
{
    static const char begin[] = ".multihead-", end[] = ".tmp";
    const size_t length = strlen(name);
    return length > sizeof begin + sizeof end && !strncmp(name, begin, sizeof begin - 1) &&
           !strcmp(name + length - (sizeof end - 1), end);
}

// The directory is locked, so that any temporaries were left by killed processes.
static void remove_temporaries(int descriptor)
{
    const int own = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = own < 0 ? NULL : fdopendir(own);
    if (!list) {
        if (own >= 0)
            close(own);
        return;
    }
    for (struct dirent *entry; (entry = readdir(list));)
        if (is_temporary(entry->d_name))
            unlinkat(descriptor, entry->d_name, 0);
    closedir(list);
}

static mh_status open_and_lock(mh_context *context, const char *path, mh_directory *directory)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return mh_fail(context, MH_ERROR_FILE, PATH ": the directory cannot be opened: %s", path,
                       strerror(errno));
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
        const int error = errno;
        close(descriptor);
        directory->made = directory->made && error != EWOULDBLOCK; // else another process uses it
        return mh_fail(context, MH_ERROR_FILE, PATH ": %s", path,
                       error == EWOULDBLOCK ? "another process is using this directory"
                                            : strerror(error));
    }
    remove_temporaries(descriptor);
    directory->descriptor = descriptor;
    return MH_OK;
}

// A new directory is an entry of its parent, which a power failure may lose.
static mh_status sync_parent(mh_context *context, const char *path, const mh_directory *directory)
{
    const int parent = openat(directory->descriptor, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 && errno == EACCES) // it cannot be synced without permission to read it
        return MH_OK;
    const int error = parent < 0 ? errno : mh_sync(parent);
    if (parent >= 0)
        close(parent);
    return error ? mh_fail(context, MH_ERROR_FILE, PATH ": the directory cannot be created: %s",
                           path, strerror(error))
                 : MH_OK;
}

mh_status mh_directory_open(mh_context *context, const char *path, mh_directory *directory)
{
    *directory = (mh_directory){-1, mkdir(path, 0777) == 0};
    if (!directory->made && errno != EEXIST)
        return mh_fail(context, MH_ERROR_FILE, PATH ": the directory cannot be created: %s", path,
                       strerror(errno));
    mh_status status = open_and_lock(context, path, directory);
    if (!status && directory->made)
        status = sync_parent(context, path, directory);
    if (status) {
        mh_directory_discard(directory, path);
        mh_directory_close(directory);
    }
    return status;
}

bool mh_directory_is_at(const mh_directory *directory, const char *path)
{
    struct stat own, there;
    return fstat(directory->descriptor, &own) == 0 && stat(path, &there) == 0 &&
           own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

bool mh_directory_where(const mh_directory *directory, char path[MH_PATH_BYTES])
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory->descriptor);
    const ssize_t size = readlink(link, path, MH_PATH_BYTES - 1);
    path[size > 0 ? size : 0] = '\0';
    return size > 0 && mh_directory_is_at(directory, path);
}

void mh_directory_close(mh_directory *directory)
{
    if (directory->descriptor >= 0)
        close(directory->descriptor);
    directory->descriptor = -1;
}

void mh_directory_discard(const mh_directory *directory, const char *path)
{
    if (directory->made && (directory->descriptor < 0 || mh_directory_is_at(directory, path)))
        rmdir(path); // fails unless it is empty
}

bool mh_directory_has(const mh_directory *directory, const char *name)
{
    return faccessat(directory->descriptor, name, F_OK, 0) == 0;
}

mh_status mh_path_join(mh_context *context, const char *directory, const char *name,
                       char path[MH_PATH_BYTES])
{
    const int size = snprintf(path, MH_PATH_BYTES, "%s/%s", directory, name);
    if (size < 0 || size >= MH_PATH_BYTES)
        return mh_fail(context, MH_ERROR_FILE, "%.100s...: the directory's name is too long",
                       directory);
    return MH_OK;
}
