// SPDX-License-Identifier: MIT
// The names in a directory, sorted by their bytes.
#ifndef MH_SUPPORT_LIST_DIRECTORY_H
#define MH_SUPPORT_LIST_DIRECTORY_H

#include <multihead/base.h>

typedef struct mh_listing {
    char **names; // (count), in one block
    size_t count, bytes;
} mh_listing;

bool mh_is_directory(const char *path);

// Names that begin with a dot are left out. Errors: MH_ERROR_FILE, MH_ERROR_MEMORY.
mh_status mh_list_directory(mh_context *context, const char *path, mh_listing *listing);
void mh_listing_free(mh_context *context, mh_listing *listing); // all zeros is allowed

#endif
