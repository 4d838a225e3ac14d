// SPDX-License-Identifier: MIT
// Files: read-only mappings, sequential reads and atomic writes.
#ifndef MH_SUPPORT_FILE_H
#define MH_SUPPORT_FILE_H

#include <multihead/base.h>
#include <stdio.h>

// Whether there is something at this path, of any kind.
bool mh_file_exists(const char *path);

// Refuses what is no regular file, by its kind: opening a pipe would wait for a writer, and a
// device may never end. What is not there is left to the caller's open.
mh_status mh_file_check_regular(mh_context *context, const char *path);

typedef struct mh_mapping {
    const void *data; // NULL for an empty file
    size_t size;
} mh_mapping;

// Maps a regular file read-only. Directories, devices and pipes are rejected; the message names the
// kind.
mh_status mh_file_map(mh_context *context, const char *path, mh_mapping *mapping);
void mh_file_unmap(mh_mapping *mapping);

// Reads any file from beginning to end, also pipes and terminals; "-" is standard input. Other
// devices are refused, except for /dev/null: what is in them is no data, and may never end.
typedef struct mh_file_reader {
    mh_context *context;
    const char *path; // for messages; borrowed, NULL if nothing is open
    int fd;
} mh_file_reader;

mh_status mh_file_open(mh_context *context, const char *path, mh_file_reader *reader);
// At least one byte, at most `size`; *got is 0 only at the end.
mh_status mh_file_read(mh_file_reader *reader, void *bytes, size_t size, size_t *got);
void mh_file_close(mh_file_reader *reader); // all zeros is fine, so is twice

// Writes a file incrementally to a temporary in the same directory, unnamed where possible:
//
//     mh_file_begin -> mh_file_write ... -> mh_file_commit     fsync, rename, fsync the directory
//                                       \-> mh_file_abandon    the temporary is removed
//
// The replacement is atomic: readers of `path` see the old file or the new one, never a part, even
// after a crash. A failed commit abandons the write. An existing file keeps its permissions; a
// symbolic link is followed, so that the link stays a link. Special files (/dev/stdout, pipes)
// cannot be replaced by rename and are written directly.
typedef struct mh_file_writer mh_file_writer;

mh_status mh_file_begin(mh_context *context, const char *path, mh_file_writer **writer);
mh_status mh_file_write(mh_file_writer *writer, const void *bytes, size_t size);
mh_status mh_file_commit(mh_file_writer *writer);
void mh_file_abandon(mh_file_writer *writer); // NULL is fine

// Begin, write and commit in one call.
mh_status mh_file_replace(mh_context *context, const char *path, const void *bytes, size_t size);

// Makes what was written to an open stream durable; `path` is for the message.
mh_status mh_file_sync(mh_context *context, const char *path, FILE *stream);

#endif
