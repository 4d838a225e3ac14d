// SPDX-License-Identifier: MIT
// A directory locked by one process at a time, and paths within it. Exported for
// libmultihead-model, but not part of the public API.
#ifndef MH_BASE_FOLDER_H
#define MH_BASE_FOLDER_H

#include <multihead/base.h>

enum { MH_PATH_BYTES = 4096 };

typedef struct mh_folder {
    int descriptor; // -1: not open
    bool made;      // it did not exist before
} mh_folder;

// Creates the directory, durably, if it does not exist, and locks it: a kernel lock, which ends
// with the process however that ends. Removes temporaries of killed writers (base/file.h). Errors:
// MH_ERROR_FILE, also if another process holds the lock.
MH_API mh_status mh_folder_open(mh_context *context, const char *path, mh_folder *folder);
MH_API void mh_folder_close(mh_folder *folder);

// Whether `path` still names this directory: it may have been moved, and another one created there,
// which is not locked.
MH_API bool mh_folder_is_at(const mh_folder *folder, const char *path);

// The directory's current path; false if it was removed, or the system cannot tell.
MH_API bool mh_folder_where(const mh_folder *folder, char path[MH_PATH_BYTES]);

// Removes the directory if it was created by mh_folder_open and is still empty.
MH_API void mh_folder_discard(const mh_folder *folder, const char *path);

// folder/name; MH_ERROR_FILE if that is too long.
MH_API mh_status mh_path_join(mh_context *context, const char *folder, const char *name,
                              char path[MH_PATH_BYTES]);

// Whether it has a file of this name.
MH_API bool mh_folder_has(const mh_folder *folder, const char *name);

#endif
