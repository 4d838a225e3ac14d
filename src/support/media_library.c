// SPDX-License-Identifier: MIT
// Loading libmultihead-media: from beside this library or the program (their RUNPATH), else from
// where the system has its libraries. Once found it stays loaded, so that finding it again is cheap
// and nothing has to be remembered here.
#include "support/media_library.h"
#include <dlfcn.h>
#include <string.h>

const mh_media *mh_media_load(void)
{
    void *library = dlopen(MH_MEDIA_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = library ? dlsym(library, "mh_media_table") : NULL;
    mh_media_table_fn table = NULL;
    memcpy(&table, &symbol, sizeof table); // ISO C has no cast for it
    const mh_media *media = table ? table() : NULL;
    if (library)
        dlclose(library);
    return media && media->version == MH_MEDIA_VERSION ? media : NULL;
}
