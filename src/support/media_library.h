// SPDX-License-Identifier: MIT
// libmultihead-media, loaded when it is needed.
#ifndef MH_SUPPORT_MEDIA_LIBRARY_H
#define MH_SUPPORT_MEDIA_LIBRARY_H

#include "media/media.h"

// The library's table; NULL if there is none, or of another version. Any thread. The library stays
// loaded.
const mh_media *mh_media_load(void);

#endif
