// SPDX-License-Identifier: MIT
// The border between libmultihead-model and libmultihead-media, which decodes what would need
// libraries of others: one table of functions, of plain C types only.
//
// The table is found by name, mh_media_table, once the library is loaded (support/media_library.c),
// and of no use if its version is another: both are built together. Decoders allocate what they
// need themselves, with malloc, and print nothing, except that mpg123, by which libsndfile reads
// MP3 files, may write a warning about a damaged one to stderr. The memory of results is the
// caller's, who has checked the size that the header claims. An error is a message in the caller's
// array.
#ifndef MH_MEDIA_MEDIA_H
#define MH_MEDIA_MEDIA_H

#include <stdbool.h>
#include <stddef.h>

enum { MH_MEDIA_VERSION = 2, MH_MEDIA_MESSAGE = 200 };
#define MH_MEDIA_LIBRARY "libmultihead-media.so.0"

typedef struct mh_media_picture {
    size_t width, height;
    size_t channels; // of the decoded pixels: 1 gray, 3 red, green, blue
    size_t least;    // bytes of a file that such a picture takes at least
} mh_media_picture;

typedef struct mh_media_decoder {
    const char *name;  // "PNG"
    const char *magic; // the file's first bytes
    size_t magic_bytes;
    // What the header says. False with a message if it is invalid.
    bool (*describe)(const unsigned char *bytes, size_t size, mh_media_picture *picture,
                     char message[MH_MEDIA_MESSAGE]);
    // pixels (height, width, channels) of that picture. False with a message if the file is
    // invalid or ends early.
    bool (*decode)(const unsigned char *bytes, size_t size, const mh_media_picture *picture,
                   unsigned char *pixels, char message[MH_MEDIA_MESSAGE]);
} mh_media_decoder;

typedef struct mh_media_sound {
    size_t frames; // as the header says: there may be fewer, or more
    size_t channels, rate;
} mh_media_sound;

// Sound of any format; the library knows it by its content.
typedef struct mh_media_sounds {
    // NULL with a message if the bytes, which must stay, are no sound that is known.
    void *(*open)(const unsigned char *bytes, size_t size, mh_media_sound *sound,
                  char message[MH_MEDIA_MESSAGE]);
    // The next frames (frames, channels), full scale -1 to 1. Returns how many: fewer where the
    // sound ends, with a message if because the file is invalid.
    size_t (*read)(void *handle, float *samples, size_t frames, char message[MH_MEDIA_MESSAGE]);
    void (*close)(void *handle);
} mh_media_sounds;

typedef struct mh_media {
    unsigned version;                        // MH_MEDIA_VERSION
    const mh_media_decoder *const *pictures; // NULL-terminated
    const mh_media_sounds *sounds;           // NULL: built without
} mh_media;

// What the library exports.
typedef const mh_media *(*mh_media_table_fn)(void);

#endif
