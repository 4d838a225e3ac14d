// SPDX-License-Identifier: MIT
// Files of a directory by their names; see find_file.h.
#include "support/find_file.h"

#include "support/directory.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

bool mh_has_file(const char *directory, const char *name)
{
    char path[MH_PATH_BYTES];
    int size = snprintf(path, sizeof path, "%s/%s", directory, name);
    return size > 0 && size < MH_PATH_BYTES && access(path, F_OK) == 0;
}

size_t mh_count_ending(const char *directory, const char *ending, char name[MH_NAME_BYTES])
{
    const size_t length = strlen(ending);
    size_t count = 0;
    DIR *list = opendir(directory);
    name[0] = '\0';
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        size_t size = strlen(entry->d_name);
        bool fits = size > length && size < MH_NAME_BYTES &&
                    strcmp(entry->d_name + size - length, ending) == 0;
        count += fits;
        if (fits && (name[0] == '\0' || strcmp(entry->d_name, name) < 0))
            memcpy(name, entry->d_name, size + 1);
    }
    if (list)
        closedir(list);
    return count;
}

bool mh_find_ending(const char *directory, const char *ending, char name[MH_NAME_BYTES])
{
    return mh_count_ending(directory, ending, name) > 0;
}
