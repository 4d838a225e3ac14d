// SPDX-License-Identifier: MIT
// Regular files mapped read-only; see file.h.
#include "support/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH "%.700s"

static const char *file_kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a pipe";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

bool mh_file_exists(const char *path) { return access(path, F_OK) == 0; }

static mh_status need_regular(mh_context *context, const char *path, mode_t mode)
{
    if (S_ISREG(mode))
        return MH_OK;
    return mh_fail(context, MH_ERROR_FILE, PATH ": is %s, expected a regular file", path,
                   file_kind_of(mode));
}

mh_status mh_file_check_regular(mh_context *context, const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? need_regular(context, path, status.st_mode) : MH_OK;
}

static mh_status map_open_file(mh_context *context, const char *path, int fd, mh_mapping *mapping)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return mh_fail(context, MH_ERROR_FILE, PATH ": cannot be examined: %s", path,
                       strerror(errno));
    const mh_status regular = need_regular(context, path, status.st_mode);
    if (regular || status.st_size == 0)
        return regular;
    if ((uintmax_t)status.st_size > PTRDIFF_MAX)
        return mh_fail(context, MH_ERROR_FILE, PATH ": too large to be mapped: %jd bytes", path,
                       (intmax_t)status.st_size);
    size_t size = (size_t)status.st_size;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return mh_fail(context, errno == ENOMEM ? MH_ERROR_MEMORY : MH_ERROR_FILE,
                       PATH ": %zu bytes cannot be mapped: %s", path, size, strerror(errno));
    *mapping = (mh_mapping){data, size};
    return MH_OK;
}

mh_status mh_file_map(mh_context *context, const char *path, mh_mapping *mapping)
{
    *mapping = (mh_mapping){NULL, 0};
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return mh_fail(context, MH_ERROR_FILE, PATH ": cannot be opened: %s", path,
                       strerror(errno));
    mh_status status = map_open_file(context, path, fd, mapping);
    close(fd);
    return status;
}

void mh_file_unmap(mh_mapping *mapping)
{
    if (mapping->data)
        munmap((void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (mh_mapping){NULL, 0};
}
