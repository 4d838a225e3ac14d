// SPDX-License-Identifier: MIT
// .npz (numpy.savez, numpy.savez_compressed) to checked entries: a ZIP archive whose members are
// .npy files, NAME.npy for the array NAME. Other members are ignored.
//
// Stored arrays are used in the mapping; deflated ones are inflated into one block, whose size is
// limited by deflate's maximum ratio. Checksums are those of ZIP (CRC-32).
#include <stdio.h>
#include <string.h>

#include "base/overflow.h"
#include "io/npy.h"
#include "io/tensor_file.h"
#include "io/zip.h"
#include "io/zlib_memory.h"

enum { ALIGNMENT = 64, RAW = -15, SUFFIX = 4, MOST = 1 << 30 };

static bool ends_in(const mh_zip_member *m, const char *suffix)
{
    const size_t size = strlen(suffix);
    return m->name_size >= size && memcmp(m->name + m->name_size - size, suffix, size) == 0;
}

// ---- what there is ------------------------------------------------------------------------

typedef struct contents {
    size_t arrays, text, inflated; // how many, bytes of names, bytes of inflated members
    bool pickle;                   // torch.save writes data.pkl
} contents;

// The space for an inflated member, never 0: a multiple of the alignment.
static size_t inflated_room(const mh_zip_member *m)
{
    return m->deflated ? m->size / ALIGNMENT * ALIGNMENT + ALIGNMENT : 0;
}

static mh_status count_members(const mh_source *source, contents *c)
{
    mh_zip zip;
    mh_zip_member m;
    mh_status status = mh_zip_open(source, &zip);
    while (!status && zip.left > 0) {
        status = mh_zip_next(&zip, &m);
        c->pickle |= !status && ends_in(&m, "data.pkl");
        if (status || !ends_in(&m, ".npy"))
            continue;
        c->arrays++;
        c->text += m.name_size - SUFFIX + 1;
        if (!mh_add_sizes(c->inflated, inflated_room(&m), &c->inflated))
            status = mh_source_fail(source, MH_ERROR_FORMAT, "its arrays do not fit in memory");
    }
    return status;
}

static mh_status refuse_archive(const mh_source *source, bool pickle)
{
    if (pickle)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "is a PyTorch file (torch.save: a Python pickle in a ZIP archive), "
                              "which is never executed; save it with safetensors.torch.save_file");
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "is a ZIP archive without arrays, expected .npz (numpy.savez): members "
                          "NAME.npy");
}

// ---- one array ----------------------------------------------------------------------------

static mh_status fail_inflating(const mh_source *source, int code)
{
    if (code == Z_MEM_ERROR)
        return mh_source_fail(source, MH_ERROR_MEMORY, "out of memory while decompressing");
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "the compressed data is damaged, or not as long as the directory says");
}

// Inflates a member of exactly m->size bytes.
static mh_status inflate_member(const mh_source *source, const mh_zip_member *m, unsigned char *to)
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

static mh_status check_crc(const mh_source *source, uint32_t expected)
{
    const uint32_t found = (uint32_t)crc32_z(0, source->bytes, source->size);
    if (found == expected)
        return MH_OK;
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "the data is damaged: found the checksum %08x, expected %08x", found,
                          expected);
}

// Reads the array into *entry; `inflated` is its destination if it is compressed.
static mh_status npz_read_array(const mh_source *source, const mh_zip_member *m,
                                unsigned char *inflated, mh_file_entry *entry)
{
    char label[640];
    const size_t length = strlen(source->name), shown = 400;
    const char *path = source->name + (length > shown ? length - shown : 0);
    snprintf(label, sizeof label, "%s: array %s", path,
             mh_quote(m->name, m->name_size - SUFFIX).text);
    const mh_source array = {source->context, label, m->deflated ? inflated : m->bytes, m->size};
    mh_status status = m->deflated ? inflate_member(&array, m, inflated) : MH_OK;
    if (!status)
        status = check_crc(&array, m->crc);
    return status ? status : mh_npy_entry(&array, entry);
}

// ---- all of them --------------------------------------------------------------------------

// The file is mapped: whoever writes to it meanwhile must not get beyond what was counted.
static mh_status fail_changed(const mh_source *source)
{
    return mh_source_fail(source, MH_ERROR_FORMAT, "was changed while it was read");
}

static mh_status read_arrays(const mh_source *source, mh_tensor_file *file)
{
    mh_zip zip;
    mh_zip_member m;
    mh_file_entry *entry = file->entries;
    char *text = file->text;
    unsigned char *inflated = file->inflated;
    size_t room = file->inflated_size;
    mh_status status = mh_zip_open(source, &zip);
    while (!status && zip.left > 0) {
        status = mh_zip_next(&zip, &m);
        if (status || !ends_in(&m, ".npy"))
            continue;
        if (entry == file->entries + file->count ||
            m.name_size - SUFFIX >= (size_t)(file->text + file->text_size - text) ||
            (m.deflated && inflated_room(&m) > room))
            return fail_changed(source);
        status = npz_read_array(source, &m, inflated, entry);
        entry++->name = memcpy(text, m.name, m.name_size - SUFFIX);
        text += m.name_size - SUFFIX;
        *text++ = '\0';
        if (m.deflated) {
            inflated += inflated_room(&m);
            room -= inflated_room(&m);
        }
    }
    return !status && entry != file->entries + file->count ? fail_changed(source) : status;
}

bool mh_is_zip(const mh_source *source)
{
    return source->size > 4 &&
           (memcmp(source->bytes, "PK\3\4", 4) == 0 || memcmp(source->bytes, "PK\5\6", 4) == 0);
}

mh_status mh_npz_read(const mh_source *source, mh_tensor_file *file)
{
    contents c = {0};
    mh_status status = count_members(source, &c);
    if (!status && c.arrays == 0)
        status = refuse_archive(source, c.pickle);
    if (!status)
        status = mh_tensor_file_reserve(source->context, file, c.arrays, 0, c.text);
    if (!status && c.inflated > 0) {
        file->inflated = mh_alloc(source->context, c.inflated);
        file->inflated_size = file->inflated ? c.inflated : 0;
        status = file->inflated ? MH_OK : MH_ERROR_MEMORY;
    }
    return status ? status : read_arrays(source, file);
}
