// SPDX-License-Identifier: MIT
// Directories with a lock. The lock is on the directory itself, so there is no lock file.
#include "base/folder.h"

#include "base/sync.h"

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

static mh_status open_and_lock(mh_context *context, const char *path, mh_folder *folder)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return mh_fail(context, MH_ERROR_FILE, PATH ": the folder cannot be opened: %s", path,
                       strerror(errno));
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
        const int error = errno;
        close(descriptor);
        folder->made = folder->made && error != EWOULDBLOCK; // else another process uses it
        return mh_fail(context, MH_ERROR_FILE, PATH ": %s", path,
                       error == EWOULDBLOCK ? "another process is at work in this folder"
                                            : strerror(error));
    }
    remove_temporaries(descriptor);
    folder->descriptor = descriptor;
    return MH_OK;
}

// A new directory is an entry of its parent, which a power failure may lose.
static mh_status sync_parent(mh_context *context, const char *path, const mh_folder *folder)
{
    const int parent = openat(folder->descriptor, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 && errno == EACCES) // it cannot be synced without permission to read it
        return MH_OK;
    const int error = parent < 0 ? errno : mh_sync(parent);
    if (parent >= 0)
        close(parent);
    return error ? mh_fail(context, MH_ERROR_FILE, PATH ": the folder cannot be made: %s", path,
                           strerror(error))
                 : MH_OK;
}

mh_status mh_folder_open(mh_context *context, const char *path, mh_folder *folder)
{
    *folder = (mh_folder){-1, mkdir(path, 0777) == 0};
    if (!folder->made && errno != EEXIST)
        return mh_fail(context, MH_ERROR_FILE, PATH ": the folder cannot be made: %s", path,
                       strerror(errno));
    mh_status status = open_and_lock(context, path, folder);
    if (!status && folder->made)
        status = sync_parent(context, path, folder);
    if (status) {
        mh_folder_discard(folder, path);
        mh_folder_close(folder);
    }
    return status;
}

bool mh_folder_is_at(const mh_folder *folder, const char *path)
{
    struct stat own, there;
    return fstat(folder->descriptor, &own) == 0 && stat(path, &there) == 0 &&
           own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

bool mh_folder_where(const mh_folder *folder, char path[MH_PATH_BYTES])
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder->descriptor);
    const ssize_t size = readlink(link, path, MH_PATH_BYTES - 1);
    path[size > 0 ? size : 0] = '\0';
    return size > 0 && mh_folder_is_at(folder, path);
}

void mh_folder_close(mh_folder *folder)
{
    if (folder->descriptor >= 0)
        close(folder->descriptor);
    folder->descriptor = -1;
}

void mh_folder_discard(const mh_folder *folder, const char *path)
{
    if (folder->made && (folder->descriptor < 0 || mh_folder_is_at(folder, path)))
        rmdir(path); // fails unless it is empty
}

bool mh_folder_has(const mh_folder *folder, const char *name)
{
    return faccessat(folder->descriptor, name, F_OK, 0) == 0;
}

mh_status mh_path_join(mh_context *context, const char *folder, const char *name,
                       char path[MH_PATH_BYTES])
{
    const int size = snprintf(path, MH_PATH_BYTES, "%s/%s", folder, name);
    if (size < 0 || size >= MH_PATH_BYTES)
        return mh_fail(context, MH_ERROR_FILE, "%.100s...: the folder's name is too long", folder);
    return MH_OK;
}
