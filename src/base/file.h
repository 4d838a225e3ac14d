// SPDX-License-Identifier: MIT
// Files: read-only mappings, and writing that is all or nothing. Exported for
// libmultihead-model, but not part of the public API.
#ifndef MH_BASE_FILE_H
#define MH_BASE_FILE_H

#include <multihead/base.h>

typedef struct mh_mapping {
    const void *data; // NULL for an empty file
    size_t size;
} mh_mapping;

// Maps a regular file read-only. Directories, devices and pipes are refused by name.
MH_API mh_status mh_file_map(mh_context *context, const char *path, mh_mapping *mapping);
MH_API void mh_file_unmap(mh_mapping *mapping);

// Writes a file in pieces to a temporary name in the same folder:
//
//     mh_file_begin -> mh_file_write ... -> mh_file_commit     fsync, rename, fsync of the folder
//                                       \-> mh_file_abandon    the temporary is removed
//
// Whoever reads `path` sees the old file or the new one, never a part, whatever happens when.
// A failed commit abandons by itself. An existing file keeps its permissions; a symbolic link
// is followed, so that the link stays a link. Special files (/dev/stdout, pipes) cannot be
// renamed over and are written directly.
typedef struct mh_file_writer mh_file_writer;

MH_API mh_status mh_file_begin(mh_context *context, const char *path, mh_file_writer **writer);
MH_API mh_status mh_file_write(mh_file_writer *writer, const void *bytes, size_t size);
MH_API mh_status mh_file_commit(mh_file_writer *writer);
MH_API void mh_file_abandon(mh_file_writer *writer); // NULL is fine

#endif
