// SPDX-License-Identifier: MIT
// The table that libmultihead-media exports: what the libraries of the build could decode.
#include "media/media_decoders.h"

__attribute__((visibility("default"))) const mh_media *mh_media_table(void);

const mh_media *mh_media_table(void)
{
    static const mh_media_decoder *const pictures[] = {
#ifdef MH_MEDIA_PICTURES
        &mh_media_png, &mh_media_jpeg,
#endif
        NULL};
    static const mh_media table = {
        .version = MH_MEDIA_VERSION,
        .pictures = pictures,
#ifdef MH_MEDIA_SOUNDS
        .sounds = &mh_media_sndfile,
#endif
    };
    return &table;
}
