// SPDX-License-Identifier: MIT
// Lists a directory; see list_directory.h. The names are collected one after the other, then
// pointers to them are sorted.
#include "support/list_directory.h"

#include "base/compiler.h"
#include "support/buffer.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool mh_is_directory(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static mh_status list_fail(mh_context *context, const char *path)
{
    return mh_fail(context, MH_ERROR_FILE, "%.700s: cannot be read: %s", path, strerror(errno));
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The next entry that is not hidden. NULL: the end, or an error in errno.
static const char *next_name(DIR *entries)
{
    errno = 0;
    for (const struct dirent *e; (e = readdir(entries)); errno = 0)
        if (e->d_name[0] != '.')
            return e->d_name;
    return NULL;
}

static mh_status collect_names(mh_context *context, const char *path, DIR *entries,
                               mh_buffer *names, size_t *count)
{
    for (const char *name; (name = next_name(entries)); ++*count)
        if (!mh_buffer_append(context, names, name, strlen(name) + 1))
            return MH_ERROR_MEMORY;
    return errno ? list_fail(context, path) : MH_OK;
}

static mh_status sort_names(mh_context *context, const mh_buffer *names, size_t count,
                            mh_listing *listing)
{
    const size_t bytes = count * sizeof(char *) + names->size;
    if (count == 0)
        return MH_OK;
    listing->names = mh_alloc(context, bytes);
    if (!listing->names)
        return MH_ERROR_MEMORY;
    listing->bytes = bytes;
    listing->count = count;
    char *at = (char *)(listing->names + count);
    memcpy(at, names->data, names->size);
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        listing->names[i] = at;
    qsort(listing->names, count, sizeof *listing->names, compare_names);
    return MH_OK;
}

mh_status mh_list_directory(mh_context *context, const char *path, mh_listing *listing)
{
    mh_buffer names = {0};
    size_t count = 0;
    *listing = (mh_listing){0};
    DIR *entries = opendir(path);
    if (!entries)
        return list_fail(context, path);
    mh_status status = collect_names(context, path, entries, &names, &count);
    closedir(entries);
    if (!status)
        status = sort_names(context, &names, count, listing);
    mh_buffer_free(context, &names);
    return status;
}

void mh_listing_free(mh_context *context, mh_listing *listing)
{
    mh_free(context, listing->names, listing->bytes);
    *listing = (mh_listing){0};
}
