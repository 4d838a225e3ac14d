// SPDX-License-Identifier: MIT
// .npz (numpy.savez, numpy.savez_compressed) to checked entries: a ZIP archive whose members are
// .npy files, NAME.npy for the array NAME. Other members are ignored.
//
// Stored arrays are used in the mapping; deflated ones are inflated into one block, whose size is
// limited by deflate's maximum ratio. Checksums are those of ZIP (CRC-32).
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/overflow.h"
#include "io/npy.h"
#include "io/tensor_file.h"
#include "io/zip.h"

enum { SUFFIX = 4 };

static bool ends_in(const mh_zip_member *m, const char *suffix)
{
    const size_t size = strlen(suffix);
    return m->name_size >= size && memcmp(m->name + m->name_size - size, suffix, size) == 0;
}

// ---- what there is ------------------------------------------------------------------------------

typedef struct contents {
    size_t arrays, text, inflated; // how many, bytes of names, bytes of inflated members
} contents;

static mh_status count_members(const mh_source *source, contents *c)
{
    mh_zip zip;
    mh_zip_member m;
    mh_status status = mh_zip_open(source, &zip);
    while (!status && zip.left > 0) {
        status = mh_zip_next(&zip, &m);
        if (status || !ends_in(&m, ".npy"))
            continue;
        c->arrays++;
        c->text += m.name_size - SUFFIX + 1;
        if (!mh_add_sizes(c->inflated, mh_zip_room(&m), &c->inflated))
            status = mh_source_fail(source, MH_ERROR_FORMAT, "its arrays do not fit in memory");
    }
    return status;
}

static mh_status refuse_archive(const mh_source *source)
{
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "is a ZIP archive without arrays, expected .npz (numpy.savez): members "
                          "NAME.npy, or a PyTorch file (torch.save): a member data.pkl");
}

// ---- one array ----------------------------------------------------------------------------------

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
    MH_TRY(m->deflated ? mh_zip_inflate(&array, m, inflated) : MH_OK);
    MH_TRY(mh_zip_check(&array, m->crc));
    return mh_npy_entry(&array, entry);
}

// ---- all of them --------------------------------------------------------------------------------

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
            (m.deflated && mh_zip_room(&m) > room))
            return fail_changed(source);
        status = npz_read_array(source, &m, inflated, entry);
        entry++->name = memcpy(text, m.name, m.name_size - SUFFIX);
        text += m.name_size - SUFFIX;
        *text++ = '\0';
        if (m.deflated) {
            inflated += mh_zip_room(&m);
            room -= mh_zip_room(&m);
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
        status = refuse_archive(source);
    if (!status)
        status = mh_tensor_file_reserve(source->context, file, c.arrays, 0, c.text);
    if (!status && c.inflated > 0) {
        file->inflated = mh_alloc(source->context, c.inflated);
        file->inflated_size = file->inflated ? c.inflated : 0;
        status = file->inflated ? MH_OK : MH_ERROR_MEMORY;
    }
    return status ? status : read_arrays(source, file);
}
