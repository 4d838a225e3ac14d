// SPDX-License-Identifier: MIT
// Reads a GGUF file: header, metadata, tensors; see gguf.h. Counts are compared with the bytes that
// are left before anything is allocated for them, and tensors follow each other in the data, each
// at a multiple of the alignment, as every writer puts them.
#include "io/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/overflow.h"
#include "io/gguf_blocks.h"
#include "io/shape_bytes.h"

enum { MAGIC = 4, LEAST_PAIR = 8 + 4 + 1, LEAST_TENSOR = 8 + 4 + 4 + 8 };

typedef struct gguf_reader {
    const mh_source *source;
    mh_tensor_file *file;
    uint64_t tensors, pairs;
    mh_gguf_cursor cursor;
    size_t tensor_begin, tensor_end; // where the tensors' descriptions are
    size_t alignment;
    size_t data;       // where the data begin
    size_t next;       // the offset of the next tensor, from there
    size_t text_bytes; // of names, keys and values
    char *text;        // the next string goes here
} gguf_reader;

bool mh_is_gguf(const mh_source *source)
{
    return source->size >= MAGIC && memcmp(source->bytes, "GGUF", MAGIC) == 0;
}

// ---- header -------------------------------------------------------------------------------------

static mh_status check_version(const mh_source *source, uint32_t version)
{
    if (version == 2 || version == 3)
        return MH_OK;
    if (version == 1)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "GGUF version 1 is not supported, expected 2 or 3: convert the model "
                              "again");
    if (version != 0 && (version & 0xFFFF) == 0)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "big-endian GGUF is not supported, expected little-endian");
    return mh_source_fail(source, MH_ERROR_FORMAT, "GGUF version %lu, expected 2 or 3",
                          (unsigned long)version);
}

// A count that the rest of the file can hold.
static mh_status take_count(gguf_reader *r, const char *what, size_t least, uint64_t *count)
{
    MH_TRY(mh_gguf_take_u64(&r->cursor, what, count));
    const size_t most = (r->source->size - r->cursor.at) / least;
    if (*count <= most && *count <= MH_GGUF_TENSORS_MAX)
        return MH_OK;
    return mh_source_fail(r->source, MH_ERROR_FORMAT, "%s: found %llu, expected at most %zu%s",
                          what, (unsigned long long)*count,
                          most < MH_GGUF_TENSORS_MAX ? most : (size_t)MH_GGUF_TENSORS_MAX,
                          *count > most ? ", as many as the file has room for" : "");
}

static mh_status read_header(gguf_reader *r)
{
    uint32_t version = 0;
    r->cursor = (mh_gguf_cursor){r->source, MAGIC};
    MH_TRY(mh_gguf_take_u32(&r->cursor, "version", &version));
    MH_TRY(check_version(r->source, version));
    MH_TRY(take_count(r, "number of tensors", LEAST_TENSOR, &r->tensors));
    return take_count(r, "number of metadata", LEAST_PAIR, &r->pairs);
}

// ---- metadata -----------------------------------------------------------------------------------

static mh_status check_name(const gguf_reader *r, const char *what, mh_text name)
{
    if (name.size <= MH_GGUF_NAME_MAX && !memchr(name.bytes, 0, name.size))
        return MH_OK;
    return mh_source_fail(r->source, MH_ERROR_FORMAT,
                          "%s %s: found %zu bytes, expected at most %d, and none of them 0", what,
                          mh_quote(name.bytes, name.size).text, name.size, MH_GGUF_NAME_MAX);
}

static mh_status take_pair(gguf_reader *r, mh_text *key, mh_gguf_value *value)
{
    char what[MH_GGUF_TEXT_MAX + 64];
    mh_text text;
    MH_TRY(mh_gguf_take_string(&r->cursor, "a key of the metadata", key));
    MH_TRY(check_name(r, "key", *key));
    snprintf(what, sizeof what, "metadata %s", mh_quote(key->bytes, key->size).text);
    MH_TRY(mh_gguf_take_value(&r->cursor, what, value));
    if (mh_gguf_string(value, &text) && text.size && memchr(text.bytes, 0, text.size))
        return mh_source_fail(r->source, MH_ERROR_FORMAT, "%s: found a 0 in a string", what);
    if (r->cursor.at > MH_HEADER_BYTES_MAX)
        return mh_source_fail(r->source, MH_ERROR_FORMAT,
                              "%s: ends at byte %zu, expected metadata of at most %zu bytes", what,
                              r->cursor.at, MH_HEADER_BYTES_MAX);
    return MH_OK;
}

// The first pass: checks all pairs and measures their text.
static mh_status measure_pairs(gguf_reader *r)
{
    for (uint64_t i = 0; i < r->pairs; i++) {
        mh_text key = {0};
        mh_gguf_value value = {0};
        MH_TRY(take_pair(r, &key, &value));
        r->text_bytes += key.size + 1 + mh_gguf_format(&value, NULL, 0) + 1;
    }
    r->tensor_begin = r->cursor.at;
    return MH_OK;
}

static const char *keep_text(gguf_reader *r, mh_text text)
{
    char *kept = r->text;
    if (text.size)
        memcpy(kept, text.bytes, text.size);
    kept[text.size] = '\0';
    r->text += text.size + 1;
    return kept;
}

static int compare_pairs(const void *a, const void *b)
{
    const mh_gguf_pair *left = a, *right = b;
    return strcmp(left->key, right->key);
}

// The second pass; `begin` is where the pairs are.
static mh_status fill_pairs(gguf_reader *r, size_t begin)
{
    mh_tensor_file *file = r->file;
    r->cursor.at = begin;
    for (size_t i = 0; i < (size_t)r->pairs; i++) {
        mh_text key = {0};
        mh_gguf_pair *pair = &file->pairs[i];
        MH_TRY(take_pair(r, &key, &pair->value));
        pair->key = keep_text(r, key);
        const size_t size = mh_gguf_format(&pair->value, NULL, 0) + 1;
        mh_gguf_format(&pair->value, r->text, size);
        file->metadata[i] = (mh_metadata){pair->key, r->text};
        r->text += size;
    }
    if (r->pairs > 1)
        qsort(file->pairs, file->pair_count, sizeof *file->pairs, compare_pairs);
    for (size_t i = 1; i < file->pair_count; i++)
        if (compare_pairs(&file->pairs[i - 1], &file->pairs[i]) == 0)
            return mh_source_fail(r->source, MH_ERROR_FORMAT, "metadata %s is there twice",
                                  mh_quote_string(file->pairs[i].key).text);
    return MH_OK;
}

static mh_status read_alignment(gguf_reader *r)
{
    mh_gguf_value value;
    int64_t number = 32;
    if (mh_gguf_find(r->file, "general.alignment", &value) &&
        (!mh_gguf_integer(&value, &number) || number < 1 || number > MH_GGUF_ALIGNMENT_MAX ||
         (number & (number - 1))))
        return mh_source_fail(r->source, MH_ERROR_FORMAT,
                              "metadata \"general.alignment\": found %s (%lld), expected a power "
                              "of 2 up to %d",
                              mh_gguf_type_name(value.type), (long long)number,
                              MH_GGUF_ALIGNMENT_MAX);
    r->alignment = (size_t)number;
    const size_t rest = r->tensor_end % r->alignment; // of at most 100 MB: no overflow
    r->data = r->tensor_end + (rest ? r->alignment - rest : 0);
    return MH_OK;
}

bool mh_gguf_find(const mh_tensor_file *file, const char *key, mh_gguf_value *value)
{
    const mh_gguf_pair wanted = {.key = key};
    if (!file->pair_count)
        return false;
    const mh_gguf_pair *found =
        bsearch(&wanted, file->pairs, file->pair_count, sizeof *file->pairs, compare_pairs);
    if (found)
        *value = found->value;
    return found != NULL;
}

// ---- tensors ------------------------------------------------------------------------------------

typedef struct tensor_info {
    mh_text name;
    uint32_t rank, type;
    uint64_t dimensions[MH_GGUF_RANK_MAX], offset;
} tensor_info;

static mh_status take_tensor(gguf_reader *r, tensor_info *info)
{
    mh_gguf_cursor *c = &r->cursor;
    MH_TRY(mh_gguf_take_string(c, "the name of a tensor", &info->name));
    MH_TRY(check_name(r, "tensor", info->name));
    const mh_quoted name = mh_quote(info->name.bytes, info->name.size);
    MH_TRY(mh_gguf_take_u32(c, name.text, &info->rank));
    if (info->rank > MH_GGUF_RANK_MAX)
        return mh_source_fail(r->source, MH_ERROR_FORMAT,
                              "tensor %s: %lu dimensions, expected at most %d", name.text,
                              (unsigned long)info->rank, MH_GGUF_RANK_MAX);
    for (uint32_t i = 0; i < info->rank; i++)
        MH_TRY(mh_gguf_take_u64(c, name.text, &info->dimensions[i]));
    MH_TRY(mh_gguf_take_u32(c, name.text, &info->type));
    MH_TRY(mh_gguf_take_u64(c, name.text, &info->offset));
    if (c->at <= MH_HEADER_BYTES_MAX)
        return MH_OK;
    return mh_source_fail(r->source, MH_ERROR_FORMAT,
                          "tensor %s: its description ends at byte %zu, expected at most %zu",
                          name.text, c->at, MH_HEADER_BYTES_MAX);
}

static mh_status measure_tensors(gguf_reader *r)
{
    for (uint64_t i = 0; i < r->tensors; i++) {
        tensor_info info = {0};
        MH_TRY(take_tensor(r, &info));
        r->text_bytes += info.name.size + 1;
    }
    r->tensor_end = r->cursor.at;
    return MH_OK;
}

// Types that are elements of ours; false for the others.
static bool plain_dtype(uint32_t type, mh_dtype *dtype)
{
    static const struct {
        uint32_t type;
        mh_dtype dtype;
    } plain[] = {{0, MH_F32}, {1, MH_F16},  {30, MH_BF16}, {28, MH_F64},
                 {24, MH_I8}, {25, MH_I16}, {26, MH_I32},  {27, MH_I64}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].type == type) {
            *dtype = plain[i].dtype;
            return true;
        }
    return false;
}

static mh_status refuse_type(const gguf_reader *r, const char *name, uint32_t type)
{
    static const char *const others[] = {
        [4] = "Q4_2",      [5] = "Q4_3",     [9] = "Q8_1",   [15] = "Q8_K",     [16] = "IQ2_XXS",
        [17] = "IQ2_XS",   [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL",   [21] = "IQ3_S",
        [22] = "IQ2_S",    [23] = "IQ4_XS",  [29] = "IQ1_M", [31] = "Q4_0_4_4", [32] = "Q4_0_4_8",
        [33] = "Q4_0_8_8", [34] = "TQ1_0",   [35] = "TQ2_0", [39] = "MXFP4",    [40] = "NVFP4",
        [41] = "Q1_0",
    };
    const char *known = type < sizeof others / sizeof *others ? others[type] : NULL;
    return mh_source_fail(r->source, MH_ERROR_FORMAT,
                          "tensor %s: type %s (%lu) is not supported, expected F32, F16, BF16, "
                          "F64, I8 to I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or Q2_K to Q6_K",
                          name, known ? known : "unknown", (unsigned long)type);
}

// Shape, dtype and the bytes that they need.
static mh_status describe_entry(const gguf_reader *r, const char *name, const tensor_info *info,
                                mh_file_entry *entry)
{
    mh_dtype dtype = MH_F32;
    size_t shape[MH_GGUF_RANK_MAX], values = 0;
    const int rank = (int)info->rank;
    if (!plain_dtype(info->type, &dtype) && !(entry->blocks = mh_block_format_of(info->type)))
        return refuse_type(r, name, info->type);
    bool fits = true;
    for (int i = 0; i < rank; i++) {
        shape[i] = (size_t)info->dimensions[rank - 1 - i];
        fits = fits && shape[i] == info->dimensions[rank - 1 - i];
    }
    if (!fits || !mh_shape_bytes(dtype, rank, shape, &entry->size))
        return mh_source_fail(r->source, MH_ERROR_FORMAT,
                              "tensor %s: the shape's product overflows: its size does not fit in "
                              "memory",
                              name);
    entry->tensor = mh_tensor_view(NULL, dtype, rank, shape);
    if (!entry->blocks)
        return MH_OK;
    values = entry->size / mh_dtype_size(dtype);
    if (rank == 0 || shape[rank - 1] % entry->blocks->values)
        return mh_source_fail(r->source, MH_ERROR_FORMAT,
                              "tensor %s: %zu values in a row, expected a multiple of %zu, the "
                              "values of a block of type %s",
                              name, rank ? shape[rank - 1] : (size_t)1, entry->blocks->values,
                              entry->blocks->name);
    entry->size = values / entry->blocks->values * entry->blocks->bytes;
    return MH_OK;
}

static mh_status place_entry(gguf_reader *r, const char *name, uint64_t offset,
                             mh_file_entry *entry)
{
    const size_t room = r->source->size > r->data ? r->source->size - r->data : 0;
    if (offset != r->next)
        return mh_source_fail(r->source, MH_ERROR_FORMAT,
                              "tensor %s: data at offset %llu, expected %zu, where the tensor "
                              "before it ends, at a multiple of %zu",
                              name, (unsigned long long)offset, r->next, r->alignment);
    if (entry->size && (r->next > room || entry->size > room - r->next))
        return mh_source_fail(r->source, MH_ERROR_FORMAT,
                              "tensor %s: %zu bytes at offset %zu, but the file has only %zu data "
                              "bytes",
                              name, entry->size, r->next, room);
    entry->bytes = r->source->bytes + (entry->size ? r->data + r->next : 0);
    if (!mh_round_up_size(r->next + entry->size, r->alignment, &r->next))
        r->next = SIZE_MAX;
    return MH_OK;
}

static mh_status fill_tensors(gguf_reader *r)
{
    r->cursor.at = r->tensor_begin;
    for (size_t i = 0; i < (size_t)r->tensors; i++) {
        mh_file_entry *entry = &r->file->entries[i];
        tensor_info info = {0};
        *entry = (mh_file_entry){0};
        MH_TRY(take_tensor(r, &info));
        const mh_quoted name = mh_quote(info.name.bytes, info.name.size);
        entry->name = keep_text(r, info.name);
        MH_TRY(describe_entry(r, name.text, &info, entry));
        MH_TRY(place_entry(r, name.text, info.offset, entry));
    }
    return MH_OK;
}

// ---- all of it ----------------------------------------------------------------------------------

// Text of numbers is at most MH_GGUF_TEXT_MAX bytes per pair, so all of this is bounded by the
// bytes of the file.
static mh_status reserve(gguf_reader *r)
{
    mh_tensor_file *file = r->file;
    MH_TRY(mh_tensor_file_reserve(r->source->context, file, (size_t)r->tensors, (size_t)r->pairs,
                                  r->text_bytes));
    memset(file->entries, 0, file->count * sizeof *file->entries);
    file->pairs = mh_alloc(r->source->context, (size_t)r->pairs * sizeof *file->pairs);
    file->pair_count = file->pairs ? (size_t)r->pairs : 0;
    r->text = file->text;
    return file->pairs ? MH_OK : MH_ERROR_MEMORY;
}

mh_status mh_gguf_read(const mh_source *source, mh_tensor_file *file)
{
    gguf_reader r = {.source = source, .file = file};
    MH_TRY(read_header(&r));
    const size_t begin = r.cursor.at;
    MH_TRY(measure_pairs(&r));
    MH_TRY(measure_tensors(&r));
    MH_TRY(reserve(&r));
    MH_TRY(fill_pairs(&r, begin));
    MH_TRY(read_alignment(&r));
    return fill_tensors(&r);
}
