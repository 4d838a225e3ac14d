// SPDX-License-Identifier: MIT
// Sequential reads; see file.h. Standard input is duplicated, so that closing the reader leaves it
// open for others.
#include "support/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static mh_status file_read_fail(mh_file_reader *reader, int error, const char *what)
{
    return mh_fail(reader->context, MH_ERROR_FILE, "%.700s: %s: %s", reader->path, what,
                   strerror(error));
}

// Other than a terminal or /dev/null.
static bool is_device(int fd, const struct stat *status)
{
    const bool null = S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, 3);
    return S_ISBLK(status->st_mode) || (S_ISCHR(status->st_mode) && !null && !isatty(fd));
}

mh_status mh_file_open(mh_context *context, const char *path, mh_file_reader *reader)
{
    bool standard = strcmp(path, "-") == 0;
    struct stat status;
    *reader = (mh_file_reader){context, standard ? "standard input" : path, -1};
    reader->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                          : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int error = reader->fd < 0                    ? errno
                : fstat(reader->fd, &status) != 0 ? errno
                : S_ISDIR(status.st_mode)         ? EISDIR
                                                  : 0;
    if (!error && !is_device(reader->fd, &status))
        return MH_OK;
    mh_status failure =
        error ? file_read_fail(reader, error, "cannot be opened")
              : mh_fail(context, MH_ERROR_FILE,
                        "%.700s: is a device, expected a file, a pipe or a terminal", reader->path);
    mh_file_close(reader);
    return failure;
}

mh_status mh_file_read(mh_file_reader *reader, void *bytes, size_t size, size_t *got)
{
    ssize_t count;
    do
        count = read(reader->fd, bytes, size);
    while (count < 0 && errno == EINTR);
    *got = count > 0 ? (size_t)count : 0;
    return count < 0 ? file_read_fail(reader, errno, "cannot be read") : MH_OK;
}

void mh_file_close(mh_file_reader *reader)
{
    if (reader->path && reader->fd >= 0)
        close(reader->fd);
    *reader = (mh_file_reader){0};
}
