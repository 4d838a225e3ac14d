// SPDX-License-Identifier: MIT
// Files of a directory by their names.
#ifndef MH_SUPPORT_FIND_FILE_H
#define MH_SUPPORT_FIND_FILE_H

#include <multihead/base.h>

enum { MH_NAME_BYTES = 256 };

// Whether directory/name is there.
bool mh_has_file(const char *directory, const char *name);

// The number of names that end so, and the first of them in alphabetical order; 0 if there is no
// such directory.
size_t mh_count_ending(const char *directory, const char *ending, char name[MH_NAME_BYTES]);

// The first name in alphabetical order that ends so; false if there is none, or no such directory.
bool mh_find_ending(const char *directory, const char *ending, char name[MH_NAME_BYTES]);

#endif
