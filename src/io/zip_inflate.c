// SPDX-License-Identifier: MIT
// The contents of a ZIP archive's members; see zip.h.
#include "io/zip.h"
#include "io/zlib_memory.h"

enum { ALIGNMENT = 64, RAW = -15, MOST = 1 << 30 };

size_t mh_zip_room(const mh_zip_member *m)
{
    return m->deflated ? m->size / ALIGNMENT * ALIGNMENT + ALIGNMENT : 0;
}

static mh_status fail_inflating(const mh_source *source, int code)
{
    if (code == Z_MEM_ERROR)
        return mh_source_fail(source, MH_ERROR_MEMORY, "no memory for decompressing");
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "the compressed data is damaged, or not as long as the directory says");
}

mh_status mh_zip_inflate(const mh_source *source, const mh_zip_member *m, unsigned char *to)
{
    z_stream z = mh_zlib_stream(source->context);
    size_t taken = 0, made = 0;
    int code = inflateInit2(&z, RAW);
    if (code != Z_OK)
        return fail_inflating(source, Z_MEM_ERROR);
    do { // zlib counts in unsigned
        const size_t in = m->compressed - taken, out = m->size - made;
        const unsigned in_now = in < MOST ? (unsigned)in : MOST;
        const unsigned out_now = out < MOST ? (unsigned)out : MOST;
        z.next_in = (Bytef *)(uintptr_t)(m->bytes + taken);
        z.next_out = to + made;
        z.avail_in = in_now;
        z.avail_out = out_now;
        code = inflate(&z, Z_NO_FLUSH);
        taken += in_now - z.avail_in;
        made += out_now - z.avail_out;
        if (code == Z_OK && z.avail_in == in_now && z.avail_out == out_now)
            code = Z_BUF_ERROR;
    } while (code == Z_OK);
    inflateEnd(&z);
    return code == Z_STREAM_END && taken == m->compressed && made == m->size
               ? MH_OK
               : fail_inflating(source, code);
}

mh_status mh_zip_check(const mh_source *source, uint32_t expected)
{
    const uint32_t found = (uint32_t)crc32_z(0, source->bytes, source->size);
    if (found == expected)
        return MH_OK;
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "the data is damaged: found the checksum %08x, expected %08x", found,
                          expected);
}
