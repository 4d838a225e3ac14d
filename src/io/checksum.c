// SPDX-License-Identifier: MIT
// Checksums of safetensors files; see checksum.h. Data is hashed in blocks that stay in L1 until
// they are copied: the file is read once.
#include "io/checksum.h"

#include "base/compiler.h"
#include "base/overflow.h"
#include "io/xxh64.h"

#include <inttypes.h>
#include <string.h>

enum { MARK = sizeof MH_CHECKSUM_MARK - 1, PIECE = 1 << 14 };

bool mh_is_checksum(const char *key, const char *value)
{
    return strcmp(key, MH_CHECKSUM_KEY) == 0 || strncmp(value, MH_CHECKSUM_MARK, MARK) == 0;
}

// ---- digits -------------------------------------------------------------------------------------

void mh_checksum_print(uint64_t checksum, char *digits)
{
    for (int i = MH_CHECKSUM_DIGITS - 1; i >= 0; i--, checksum >>= 4)
        digits[i] = "0123456789abcdef"[checksum & 15];
}

// Lower case only: a flipped bit makes an upper-case letter.
static bool parse_digits(const char *digits, uint64_t *checksum)
{
    *checksum = 0;
    for (int i = 0; i < MH_CHECKSUM_DIGITS; i++) {
        const char c = digits[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
        *checksum = *checksum << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

char *mh_checksum_value(mh_context *context, size_t tensor_count, size_t *size)
{
    char *value = NULL;
    if (mh_multiply_sizes(tensor_count + 1, MH_CHECKSUM_DIGITS, size) &&
        mh_add_sizes(*size, MARK + 1, size))
        value = mh_alloc(context, *size);
    if (value == NULL)
        return NULL;
    memcpy(value, MH_CHECKSUM_MARK, MARK);
    memset(value + MARK, '0', *size - MARK - 1);
    value[*size - 1] = '\0';
    return value;
}

char *mh_checksum_find(const char *header, size_t size)
{
    static const char pattern[] = "\"" MH_CHECKSUM_KEY "\":\"" MH_CHECKSUM_MARK;
    const size_t length = sizeof pattern - 1;
    char *found = memmem(header, size, pattern, length);
    if (found == NULL || (size_t)(header + size - found) < length + MH_CHECKSUM_DIGITS)
        return NULL;
    return found + length;
}

uint64_t mh_checksum_of_header(const char *header, size_t size, const char *digits)
{
    const char *after = digits + MH_CHECKSUM_DIGITS;
    const uint64_t before = mh_xxh64_of(0, header, (size_t)(digits - header));
    return mh_xxh64_of(before, after, (size_t)(header + size - after));
}

// ---- reading ------------------------------------------------------------------------------------

void mh_checksum_open(mh_tensor_file *file, const char *header, size_t size)
{
    for (size_t i = 0; i < file->metadata_count; i++)
        if (mh_is_checksum(file->metadata[i].key, file->metadata[i].value))
            file->checksum = file->metadata[i].value;
    if (file->checksum == NULL)
        return;
    uint64_t saved;
    const char *digits = mh_checksum_find(header, size);
    const bool right = strlen(file->checksum) == MARK + (file->count + 1) * MH_CHECKSUM_DIGITS &&
                       digits != NULL && parse_digits(digits, &saved) &&
                       saved == mh_checksum_of_header(header, size, digits);
    file->header_changed = !right;
}

mh_status mh_verify_header(const mh_verified *v)
{
    if (!v->file->header_changed)
        return MH_OK;
    return mh_source_fail(v->source, MH_ERROR_FORMAT,
                          "was changed after saving: the header does not have the checksum that it "
                          "was saved with; %s",
                          v->advice);
}

static mh_status checksum_compare(const mh_verified *v, size_t index, uint64_t found)
{
    uint64_t saved = 0;
    const char *digits = v->file->checksum + MARK + (index + 1) * MH_CHECKSUM_DIGITS;
    if (parse_digits(digits, &saved) && saved == found)
        return MH_OK;
    return mh_source_fail(v->source, MH_ERROR_FORMAT,
                          "was changed after saving: the data of tensor %s has the checksum "
                          "%016" PRIx64 ", expected %016" PRIx64 "; %s",
                          mh_quote_string(mh_tensor_file_name(v->file, index)).text, found, saved,
                          v->advice);
}

// Hashes and copies block by block; both are contiguous.
static mh_status copy_pieces(const mh_verified *v, const mh_tensor *from, const mh_tensor *to,
                             mh_xxh64 *hash)
{
    const size_t wide = mh_dtype_size(from->dtype), room = PIECE / wide;
    const size_t count = mh_tensor_count(from), to_wide = mh_dtype_size(to->dtype);
    mh_status status = MH_OK;
    for (size_t i = 0; i + room <= count && !status; i += room) {
        char *source = (char *)from->data + i * wide, *target = (char *)to->data + i * to_wide;
        const mh_tensor part = mh_tensor_1d(source, from->dtype, room);
        mh_tensor place = mh_tensor_1d(target, to->dtype, room);
        mh_xxh64_add(hash, source, PIECE);
        status = mh_tensor_copy(v->source->context, &part, &place);
    }
    const size_t done = count - count % room, left = count % room;
    const mh_tensor part = mh_tensor_1d((char *)from->data + done * wide, from->dtype, left);
    mh_tensor place = mh_tensor_1d((char *)to->data + done * to_wide, to->dtype, left);
    return status ? status : mh_tensor_copy(v->source->context, &part, &place);
}

mh_status mh_verify_copy(const mh_verified *v, size_t index, const mh_tensor *from, mh_tensor *to)
{
    const mh_file_entry *entry = &v->file->entries[index];
    if (v->file->checksum == NULL || v->file->header_changed)
        return mh_tensor_copy(v->source->context, from, to);
    mh_xxh64 hash = mh_xxh64_begin(0);
    const bool contiguous = mh_tensor_is_contiguous(from) && mh_tensor_is_contiguous(to) &&
                            mh_tensor_same_shape(from, to);
    mh_status status =
        contiguous ? copy_pieces(v, from, to, &hash) : mh_tensor_copy(v->source->context, from, to);
    if (status)
        return status;
    const char *rest = (const char *)entry->tensor.data + hash.size;
    return checksum_compare(v, index, mh_xxh64_end(&hash, rest, entry->size - (size_t)hash.size));
}

mh_status mh_verify_all(const mh_verified *v)
{
    if (v->file->checksum == NULL)
        return MH_OK;
    MH_TRY(mh_verify_header(v));
    for (size_t i = 0; i < v->file->count; i++) {
        const mh_file_entry *entry = &v->file->entries[i];
        MH_TRY(checksum_compare(v, i, mh_xxh64_of(0, entry->tensor.data, entry->size)));
    }
    return MH_OK;
}
