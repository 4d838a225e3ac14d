// SPDX-License-Identifier: MIT
// fsync() of files and directories.
#ifndef MH_SUPPORT_SYNC_H
#define MH_SUPPORT_SYNC_H

#include <errno.h>
#include <unistd.h>

// An errno or 0. Network file systems may be interrupted; some file systems cannot sync a
// directory, and return EINVAL.
static inline int mh_sync(int fd)
{
    int error;
    do
        error = fsync(fd) == 0 ? 0 : errno;
    while (error == EINTR);
    return error == EINVAL ? 0 : error;
}

#endif
