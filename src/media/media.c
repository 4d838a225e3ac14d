// SPDX-License-Identifier: MIT
// The table that libmultihead-media exports.
#include "media/media_decoders.h"

__attribute__((visibility("default"))) const mh_media *mh_media_table(void);

const mh_media *mh_media_table(void)
{
    static const mh_media_decoder *const pictures[] = {&mh_media_png, &mh_media_jpeg, NULL};
    static const mh_media table = {.version = MH_MEDIA_VERSION, .pictures = pictures};
    return &table;
}
