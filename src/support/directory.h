// SPDX-License-Identifier: MIT
// A directory locked by one process at a time, and paths within it.
#ifndef MH_SUPPORT_DIRECTORY_H
#define MH_SUPPORT_DIRECTORY_H

#include <multihead/base.h>

enum { MH_PATH_BYTES = 4096 };

typedef struct mh_directory {
    int descriptor; // -1: not open
    bool made;      // it did not exist before
} mh_directory;

// Creates the directory, durably, if it does not exist, and locks it: a kernel lock, which ends
// with the process however that ends. Removes temporaries of killed writers (support/file.h).
// Errors: MH_ERROR_FILE, also if another process holds the lock.
mh_status mh_directory_open(mh_context *context, const char *path, mh_directory *directory);
void mh_directory_close(mh_directory *directory);

// Whether `path` still names this directory: it may have been moved, and another one created there,
// which is not locked.
bool mh_directory_is_at(const mh_directory *directory, const char *path);

// The directory's current path; false if it was removed, or the system cannot tell.
bool mh_directory_where(const mh_directory *directory, char path[MH_PATH_BYTES]);

// Removes the directory if it was created by mh_directory_open and is still empty.
void mh_directory_discard(const mh_directory *directory, const char *path);

// directory/name; MH_ERROR_FILE if that is too long.
mh_status mh_path_join(mh_context *context, const char *directory, const char *name,
                       char path[MH_PATH_BYTES]);

// Whether it has a file of this name.
bool mh_directory_has(const mh_directory *directory, const char *name);

#endif
