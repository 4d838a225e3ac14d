// SPDX-License-Identifier: MIT
// Files: read-only mappings, reading in order, and writing that is all or nothing. Exported for
// libmultihead-model, but not part of the public API.
#ifndef MH_BASE_FILE_H
#define MH_BASE_FILE_H

#include <multihead/base.h>
#include <stdio.h>

typedef struct mh_mapping {
    const void *data; // NULL for an empty file
    size_t size;
} mh_mapping;

// Maps a regular file read-only. Directories, devices and pipes are refused by name.
MH_API mh_status mh_file_map(mh_context *context, const char *path, mh_mapping *mapping);
MH_API void mh_file_unmap(mh_mapping *mapping);

// Reads any file from its beginning to its end, pipes and terminals too; "-" is standard input.
typedef struct mh_file_reader {
    mh_context *context;
    const char *path; // for messages; borrowed, NULL if nothing is open
    int fd;
} mh_file_reader;

MH_API mh_status mh_file_open(mh_context *context, const char *path, mh_file_reader *reader);
// At least one byte, at most `size`; *got is 0 only at the end.
MH_API mh_status mh_file_read(mh_file_reader *reader, void *bytes, size_t size, size_t *got);
MH_API void mh_file_close(mh_file_reader *reader); // all zeros is fine, so is twice

// Writes a file in pieces to a temporary in the same folder, without a name where that is possible:
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

// All of that for bytes at hand.
MH_API mh_status mh_file_replace(mh_context *context, const char *path, const void *bytes,
                                 size_t size);

// Makes what was written to an open stream durable; `path` is for the message.
MH_API mh_status mh_file_sync(mh_context *context, const char *path, FILE *stream);

#endif
