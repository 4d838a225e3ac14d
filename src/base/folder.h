// SPDX-License-Identifier: MIT
// A folder that one process at a time works in, and paths of what is in one. Exported for
// libmultihead-model, but not part of the public API.
#ifndef MH_BASE_FOLDER_H
#define MH_BASE_FOLDER_H

#include <multihead/base.h>

enum { MH_PATH_BYTES = 4096 };

typedef struct mh_folder {
    int descriptor; // -1: not open
    bool made;      // it was not there before
} mh_folder;

// Makes the folder if it is not there, durably, and locks it: a lock of the kernel's, which ends
// with the process however it ends. Removes what killed writers (base/file.h) left behind. Errors:
// MH_ERROR_FILE, also if another process has it.
MH_API mh_status mh_folder_open(mh_context *context, const char *path, mh_folder *folder);
MH_API void mh_folder_close(mh_folder *folder);

// Whether `path` still names this folder: it may have been moved, and another one made there, which
// is not locked.
MH_API bool mh_folder_is_at(const mh_folder *folder, const char *path);

// Where the folder is now; false if it was removed, or the system does not tell.
MH_API bool mh_folder_where(const mh_folder *folder, char path[MH_PATH_BYTES]);

// Removes the folder if it was made by mh_folder_open and is still empty.
MH_API void mh_folder_discard(const mh_folder *folder, const char *path);

// folder/name; MH_ERROR_FILE if that is too long.
MH_API mh_status mh_path_join(mh_context *context, const char *folder, const char *name,
                              char path[MH_PATH_BYTES]);

// Whether it has a file of this name.
MH_API bool mh_folder_has(const mh_folder *folder, const char *name);

#endif
