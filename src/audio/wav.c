// SPDX-License-Identifier: MIT
// WAV files:
//
//     "RIFF" size "WAVE"                   then chunks, each with an even number of bytes:
//     "fmt " size  format channels rate bytes/s block bits    16 bytes or more
//     "data" size  samples                 size 0 or 2 GB and more: until the file ends, as
//                                          programs write that do not know it yet
//
// all little-endian. A format of 0xFFFE has the true one behind those 16 bytes.
#include "audio/audio_internal.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include <string.h>

enum { FORMAT_PCM = 1, FORMAT_FLOAT = 3, FORMAT_EXTENSIBLE = 0xfffe };
enum { OPEN_BYTES = 0x7ffff000 }; // 2 GB, less what some writers leave for the header

static size_t le16(const unsigned char *b) { return b[0] | (size_t)b[1] << 8; }
static size_t le32(const unsigned char *b) { return le16(b) | le16(b + 2) << 16; }

bool mh_is_wav(const mh_source *source)
{
    return source->size >= 12 && memcmp(source->bytes, "RIFF", 4) == 0 &&
           memcmp(source->bytes + 8, "WAVE", 4) == 0;
}

typedef struct wav_chunk {
    const unsigned char *bytes; // NULL: there is none
    size_t size;
    size_t missing; // bytes, of a file that ends early
} wav_chunk;

static wav_chunk find_chunk(const mh_source *source, const char *id)
{
    for (size_t at = 12; source->size - at >= 8;) {
        const unsigned char *header = source->bytes + at;
        const size_t left = source->size - at - 8, claimed = le32(header + 4);
        const bool data = memcmp(header, "data", 4) == 0;
        const bool open = data && (claimed == 0 || claimed == 0xffffffff ||
                                   (claimed >= OPEN_BYTES && claimed > left));
        const size_t size = open ? left : mh_smaller(claimed, left);
        if (memcmp(header, id, 4) == 0)
            return (wav_chunk){header + 8, size, open ? 0 : claimed - size};
        if (claimed >= left)
            break;
        at += 8 + size + (size & (left > size));
    }
    return (wav_chunk){NULL, 0, 0};
}

static mh_status check_format(const mh_source *source, size_t format, size_t bits, size_t block,
                              const mh_pcm *pcm)
{
    const bool known = format == FORMAT_PCM ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                       : format == FORMAT_FLOAT ? bits == 32 || bits == 64
                                                : false;
    if (!known)
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "found samples of format %zu with %zu bits, expected PCM of 8, 16, "
                              "24 or 32 bits or floats of 32 or 64",
                              format, bits);
    if (pcm->channels == 0 || block != pcm->channels * pcm->sample_bytes)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "found blocks of %zu bytes for %zu channels of %zu bits", block,
                              pcm->channels, bits);
    return MH_OK;
}

mh_status mh_wav_parse(const mh_source *source, mh_pcm *pcm)
{
    const wav_chunk fmt = find_chunk(source, "fmt "), data = find_chunk(source, "data");
    if (!fmt.bytes || fmt.size < 16)
        return mh_source_fail(source, MH_ERROR_FORMAT, "the WAV file has no 'fmt ' chunk");
    if (!data.bytes)
        return mh_source_fail(source, MH_ERROR_FORMAT, "the WAV file has no 'data' chunk");
    size_t format = le16(fmt.bytes);
    if (format == FORMAT_EXTENSIBLE && fmt.size >= 26)
        format = le16(fmt.bytes + 24);
    const size_t block = le16(fmt.bytes + 12), bits = le16(fmt.bytes + 14);
    *pcm = (mh_pcm){.bytes = data.bytes,
                    .channels = le16(fmt.bytes + 2),
                    .rate = le32(fmt.bytes + 4),
                    .sample_bytes = bits / 8,
                    .floats = format == FORMAT_FLOAT};
    MH_TRY(check_format(source, format, bits, block, pcm));
    pcm->frames = data.size / block;
    if (data.missing)
        mh_log(source->context, MH_LOG_WARNING,
               "%.900s: the file ends early: found %zu of %zu samples", source->name, pcm->frames,
               (data.size + data.missing) / block);
    return MH_OK;
}
