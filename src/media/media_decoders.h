// SPDX-License-Identifier: MIT
// The decoders of libmultihead-media.
#ifndef MH_MEDIA_MEDIA_DECODERS_H
#define MH_MEDIA_MEDIA_DECODERS_H

#include "media/media.h"

extern const mh_media_decoder mh_media_png, mh_media_jpeg; // with MH_MEDIA_PICTURES
extern const mh_media_sounds mh_media_sndfile;             // with MH_MEDIA_SOUNDS

#endif
