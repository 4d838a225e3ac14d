// SPDX-License-Identifier: MIT
// The directory of a ZIP archive; see zip.h.
#include "io/zip.h"

#include <string.h>

enum {
    LOCAL_SIZE = 30,
    ENTRY_SIZE = 46,
    END_SIZE = 22,
    LOCATOR_SIZE = 20,
    END64_SIZE = 56,
    COMMENT_MAX = 0xFFFF,
    RATIO_MAX = 1032, // of deflate: 258 bytes from 2 bits
    NAME_MAX_BYTES = 4096,
};

static const uint32_t local_magic = 0x04034B50, entry_magic = 0x02014B50, end_magic = 0x06054B50,
                      locator_magic = 0x07064B50, end64_magic = 0x06064B50;

// `size` bytes at `at`, little-endian.
static uint64_t number(const mh_source *source, size_t at, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value |= (uint64_t)source->bytes[at + (size_t)i] << (8 * i);
    return value;
}

static mh_status damaged(const mh_source *source, const char *what)
{
    return mh_source_fail(source, MH_ERROR_FORMAT, "the ZIP archive is damaged: %s", what);
}

// ---- the end of the directory -------------------------------------------------------------------

// The last record of the file; its comment ends where the file does.
static bool find_end(const mh_source *source, size_t *end)
{
    if (source->size < END_SIZE)
        return false;
    const size_t last = source->size - END_SIZE;
    const size_t first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
    for (size_t at = last + 1; at-- > first;)
        if (number(source, at, 4) == end_magic && number(source, at + 20, 2) == last - at) {
            *end = at;
            return true;
        }
    return false;
}

// Replaces fields that overflow in the last record.
static mh_status read_end64(const mh_source *source, size_t *end, uint64_t *count, uint64_t *size,
                            uint64_t *offset)
{
    if (*end < LOCATOR_SIZE || number(source, *end - LOCATOR_SIZE, 4) != locator_magic)
        return damaged(source, "found no ZIP64 locator before the end");
    const size_t locator = *end - LOCATOR_SIZE;
    const uint64_t at = number(source, locator + 8, 8);
    if (locator < END64_SIZE || at > locator - END64_SIZE ||
        number(source, (size_t)at, 4) != end64_magic)
        return damaged(source, "found no ZIP64 record where its locator says");
    *end = (size_t)at;
    *count = number(source, *end + 32, 8);
    *size = number(source, *end + 40, 8);
    *offset = number(source, *end + 48, 8);
    return MH_OK;
}

// torch.save writes a ZIP64 record also where it is not needed, between the directory and the end.
static bool has_needless_end64(const mh_source *source, size_t end, uint64_t size, uint64_t offset)
{
    return offset + size != end && end >= LOCATOR_SIZE &&
           number(source, end - LOCATOR_SIZE, 4) == locator_magic;
}

mh_status mh_zip_open(const mh_source *source, mh_zip *zip)
{
    size_t end;
    if (!find_end(source, &end))
        return damaged(source, "found no directory at the end, the file may be cut off");
    uint64_t count = number(source, end + 10, 2), size = number(source, end + 12, 4);
    uint64_t offset = number(source, end + 16, 4);
    const bool overflown = count == 0xFFFF || size == 0xFFFFFFFF || offset == 0xFFFFFFFF;
    if (overflown || has_needless_end64(source, end, size, offset)) {
        mh_status status = read_end64(source, &end, &count, &size, &offset);
        if (status)
            return status;
    }
    if (offset > end || size != end - offset)
        return damaged(source, "the directory is not where it is said to be");
    if (count > size / ENTRY_SIZE)
        return damaged(source, "the directory is too short for its members");
    *zip = (mh_zip){source, (size_t)offset, end, (size_t)count, (size_t)offset, 0};
    return MH_OK;
}

// ---- members ------------------------------------------------------------------------------------

// The sizes and the offset of an entry; those that are all ones are in the ZIP64 field, in order.
typedef struct places {
    uint64_t size, compressed, offset;
} places;

static bool read_places(const mh_source *source, size_t at, size_t extra, size_t extra_size,
                        places *p)
{
    *p = (places){number(source, at + 24, 4), number(source, at + 20, 4),
                  number(source, at + 42, 4)};
    uint64_t *const fields[] = {&p->size, &p->compressed, &p->offset};
    size_t field = extra, left = 0; // of the ZIP64 field
    for (size_t end = extra + extra_size; end - field >= 4 && left == 0;) {
        const size_t length = (size_t)number(source, field + 2, 2);
        const bool zip64 = number(source, field, 2) == 1;
        field += 4;
        if (length > end - field)
            return false;
        left = zip64 ? length : 0;
        field += zip64 ? 0 : length;
    }
    for (int i = 0; i < 3; i++) {
        if (*fields[i] != 0xFFFFFFFF)
            continue;
        if (left < 8)
            return false;
        *fields[i] = number(source, field, 8);
        field += 8;
        left -= 8;
    }
    return true;
}

static mh_status member_fail(const mh_zip *zip, const mh_zip_member *m, const char *what)
{
    return mh_source_fail(zip->source, MH_ERROR_FORMAT, "member %s: %s",
                          mh_quote(m->name, m->name_size).text, what);
}

// Finds the data after the local header, which must have the same name.
static mh_status find_data(mh_zip *zip, uint64_t offset, mh_zip_member *m)
{
    const mh_source *source = zip->source;
    const size_t end = zip->directory;
    if (end < LOCAL_SIZE || offset > end - LOCAL_SIZE ||
        number(source, (size_t)offset, 4) != local_magic)
        return member_fail(zip, m, "is not where the directory says");
    const size_t at = (size_t)offset, name_size = (size_t)number(source, at + 26, 2);
    const size_t head = LOCAL_SIZE + name_size + (size_t)number(source, at + 28, 2);
    if (head > end - at || m->compressed > end - at - head)
        return member_fail(zip, m, "does not fit into the file");
    if (name_size != m->name_size ||
        memcmp(source->bytes + at + LOCAL_SIZE, m->name, name_size) != 0)
        return member_fail(zip, m, "has a different name in the directory");
    if (head + m->compressed > end - zip->used)
        return member_fail(zip, m, "overlaps another member");
    zip->used += head + m->compressed;
    m->bytes = source->bytes + at + head;
    return MH_OK;
}

static mh_status check_member(const mh_zip *zip, const mh_zip_member *m, uint64_t flags,
                              uint64_t method)
{
    if (m->name_size > NAME_MAX_BYTES || memchr(m->name, 0, m->name_size))
        return member_fail(zip, m, "its name is too long or contains a NUL byte");
    if (flags & 1)
        return member_fail(zip, m, "is encrypted");
    if (method != 0 && method != 8)
        return member_fail(zip, m, "is compressed with a method other than deflate");
    if (method == 0 ? m->size != m->compressed : m->size / RATIO_MAX > m->compressed)
        return member_fail(zip, m, "its sizes do not fit together");
    return MH_OK;
}

mh_status mh_zip_next(mh_zip *zip, mh_zip_member *m)
{
    const mh_source *source = zip->source;
    const size_t at = zip->at;
    places p;
    if (zip->end - at < ENTRY_SIZE || number(source, at, 4) != entry_magic)
        return damaged(source, "the directory has fewer members than it says");
    const size_t name_size = (size_t)number(source, at + 28, 2);
    const size_t extra_size = (size_t)number(source, at + 30, 2);
    const size_t rest = name_size + extra_size + (size_t)number(source, at + 32, 2);
    if (rest > zip->end - at - ENTRY_SIZE)
        return damaged(source, "a member's name does not fit into the directory");
    *m = (mh_zip_member){.name = (const char *)source->bytes + at + ENTRY_SIZE,
                         .name_size = name_size,
                         .deflated = number(source, at + 10, 2) == 8,
                         .crc = (uint32_t)number(source, at + 16, 4)};
    if (!read_places(source, at, at + ENTRY_SIZE + name_size, extra_size, &p))
        return member_fail(zip, m, "its ZIP64 field is damaged");
    if (p.compressed > source->size || p.size > PTRDIFF_MAX)
        return member_fail(zip, m, "does not fit into the file");
    m->size = (size_t)p.size;
    m->compressed = (size_t)p.compressed;
    mh_status status = check_member(zip, m, number(source, at + 8, 2), number(source, at + 10, 2));
    if (!status)
        status = find_data(zip, p.offset, m);
    zip->at += ENTRY_SIZE + rest;
    zip->left--;
    if (!status && zip->left == 0 && zip->at != zip->end)
        status = damaged(source, "the directory has more members than it says");
    return status;
}
