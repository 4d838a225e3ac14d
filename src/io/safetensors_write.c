// SPDX-License-Identifier: MIT
// Tensors to safetensors. Data is laid out by element size, widest first, and the header is padded
// to a multiple of 8 bytes: every tensor is then aligned in the file and can be used in place. The
// same input gives the same bytes; nothing depends on time, addresses or hashing. Layout:
// safetensors.h.
//
//     data   [8-byte elements, in the order given][4-byte ...][2-byte ...][1-byte ...]
#include <multihead/io.h>

#include <jansson.h>

#include "base/overflow.h"
#include "io/checksum.h"
#include "io/safetensors.h"
#include "io/tensor_stream.h"
#include "io/xxh64.h"
#include "support/file.h"
#include "support/source.h"

enum { WIDEST = 8 };

typedef struct job {
    mh_source target; // for messages: the path
    const mh_named_tensor *tensors;
    size_t tensor_count;
    const mh_metadata *metadata;
    size_t metadata_count;
    char *checksum; // the value of that metadata, its digits 0; NULL: none is written
} job;

// ---- the header ---------------------------------------------------------------------------------

// The length of the UTF-8 sequence at `s`, 0 if invalid: overlong forms, surrogates, code points
// beyond U+10FFFF. (jansson checks this too, but returns NULL both for this and for lack of
// memory.)
static size_t utf8_sequence(const unsigned char *s)
{
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (s[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    bool bad = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
               (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F);
    return bad ? 0 : length;
}

static mh_status check_text(const job *j, const char *what, const char *text)
{
    if (text == NULL)
        return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "%s is NULL", what);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t length = utf8_sequence(s);
        if (length == 0)
            return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "%s %s is not valid UTF-8", what,
                                  mh_quote_string(text).text);
        s += length;
    }
    return MH_OK;
}

static mh_status header_no_memory(const job *j)
{
    return mh_source_fail(&j->target, MH_ERROR_MEMORY, "out of memory for the header");
}

static mh_status header_add_metadata(const job *j, json_t *root)
{
    json_t *object;
    if (j->metadata_count == 0 && j->checksum == NULL)
        return MH_OK;
    if (json_object_set_new(root, MH_SAFETENSORS_METADATA, object = json_object()) != 0)
        return header_no_memory(j);
    for (size_t i = 0; i < j->metadata_count; i++) {
        const char *key = j->metadata[i].key, *value = j->metadata[i].value;
        mh_status status = check_text(j, "metadata key", key);
        if (status == MH_OK)
            status = check_text(j, "metadata value", value);
        if (status != MH_OK)
            return status;
        if (json_object_get(object, key) != NULL)
            return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "duplicate metadata key %s",
                                  mh_quote_string(key).text);
        if (mh_is_checksum(key, value))
            return mh_source_fail(
                &j->target, MH_ERROR_ARGUMENT,
                "metadata key %s: reserved for the checksum, which the writer computes",
                mh_quote_string(key).text);
        if (json_object_set_new(object, key, json_string(value)) != 0)
            return header_no_memory(j);
    }
    if (j->checksum && json_object_set_new(object, MH_CHECKSUM_KEY, json_string(j->checksum)) != 0)
        return header_no_memory(j);
    return MH_OK;
}

static mh_status check_name(const job *j, const json_t *root, const char *name)
{
    mh_status status = check_text(j, "tensor name", name);
    if (status != MH_OK)
        return status;
    if (strlen(name) > MH_SAFETENSORS_NAME_MAX)
        return mh_source_fail(&j->target, MH_ERROR_ARGUMENT,
                              "tensor name of %zu bytes, expected at most %d", strlen(name),
                              MH_SAFETENSORS_NAME_MAX);
    if (strcmp(name, MH_SAFETENSORS_METADATA) == 0)
        return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "a tensor cannot be called %s", name);
    if (json_object_get(root, name) != NULL)
        return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "two tensors are called %s",
                              mh_quote_string(name).text);
    return MH_OK;
}

// Appends an integer; false if out of memory.
static bool append_size(json_t *list, size_t value)
{
    return json_array_append_new(list, json_integer((json_int_t)value)) == 0;
}

static mh_status header_add_tensor(const job *j, json_t *root, const mh_named_tensor *named,
                                   size_t begin, size_t end)
{
    const mh_tensor *t = &named->tensor;
    json_t *object = json_object(), *shape = json_array(), *offsets = json_array();
    bool done = object && shape && offsets && append_size(offsets, begin) && //
                append_size(offsets, end);
    for (int i = 0; done && i < t->rank; i++)
        done = append_size(shape, t->shape[i]);
    done = done &&
           json_object_set_new(object, "dtype", json_string(mh_safetensors_type(t->dtype))) == 0 &&
           json_object_set(object, "shape", shape) == 0 &&
           json_object_set(object, "data_offsets", offsets) == 0 &&
           json_object_set(root, named->name, object) == 0;
    json_decref(object);
    json_decref(shape);
    json_decref(offsets);
    return done ? MH_OK : header_no_memory(j);
}

// Adds the tensors whose elements have `width` bytes, from byte *end of the data on.
static mh_status add_tensors(const job *j, json_t *root, size_t width, size_t *end)
{
    for (size_t i = 0; i < j->tensor_count; i++) {
        const mh_named_tensor *named = &j->tensors[i];
        size_t begin = *end, bytes;
        if (mh_dtype_size(named->tensor.dtype) != width)
            continue;
        mh_status status = check_name(j, root, named->name);
        if (status == MH_OK)
            status = mh_stream_check(&j->target, named->name, &named->tensor, &bytes);
        if (status != MH_OK)
            return status;
        if (!mh_add_sizes(begin, bytes, end) || *end > PTRDIFF_MAX)
            return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "the tensors are too large");
        status = header_add_tensor(j, root, named, begin, *end);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

static mh_status build_header(const job *j, json_t *root)
{
    size_t end = 0;
    mh_status status = header_add_metadata(j, root);
    for (size_t width = WIDEST; status == MH_OK && width > 0; width /= 2)
        status = add_tensors(j, root, width, &end);
    return status;
}

// The length prefix, the JSON and the padding, in *size bytes to be freed with mh_free.
static mh_status header_print(const job *j, const json_t *root, char **header, size_t *size)
{
    const size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII;
    size_t length = json_dumpb(root, NULL, 0, flags), padded;
    if (length == 0)
        return header_no_memory(j);
    if (!mh_round_up_size(length, WIDEST, &padded) || padded > MH_HEADER_BYTES_MAX)
        return mh_source_fail(&j->target, MH_ERROR_ARGUMENT,
                              "header of %zu bytes, the format allows %zu", length,
                              MH_HEADER_BYTES_MAX);
    *size = MH_SAFETENSORS_PREFIX + padded;
    *header = mh_alloc(j->target.context, *size);
    if (*header == NULL)
        return MH_ERROR_MEMORY;
    for (int i = 0; i < MH_SAFETENSORS_PREFIX; i++)
        (*header)[i] = (char)((uint64_t)padded >> (8 * i) & 0xFF);
    memset(*header + MH_SAFETENSORS_PREFIX, ' ', padded);
    if (json_dumpb(root, *header + MH_SAFETENSORS_PREFIX, length, flags) == length)
        return MH_OK;
    mh_free(j->target.context, *header, *size);
    *header = NULL;
    return header_no_memory(j);
}

static mh_status make_header(const job *j, char **header, size_t *size)
{
    json_t *root = json_object();
    if (root == NULL)
        return header_no_memory(j);
    mh_status status = build_header(j, root);
    if (status == MH_OK)
        status = header_print(j, root, header, size);
    json_decref(root);
    return status;
}

// Writes the checksums of tensors, which are as they will be in the file, into the header.
static void fill_checksums(const job *j, char *header, size_t size)
{
    char *const first = mh_checksum_find(header, size), *digits = first;
    for (size_t width = WIDEST; width > 0; width /= 2)
        for (size_t i = 0; i < j->tensor_count; i++) {
            const mh_tensor *t = &j->tensors[i].tensor;
            if (mh_dtype_size(t->dtype) != width)
                continue;
            digits += MH_CHECKSUM_DIGITS;
            mh_checksum_print(mh_xxh64_of(0, t->data, mh_tensor_count(t) * width), digits);
        }
    mh_checksum_print(mh_checksum_of_header(header, size, first), first);
}

// ---- the file -----------------------------------------------------------------------------------

static mh_status write_tensors(const job *j, mh_file_writer *writer, void *buffer)
{
    mh_status status = MH_OK;
    for (size_t width = WIDEST; width > 0; width /= 2)
        for (size_t i = 0; status == MH_OK && i < j->tensor_count; i++)
            if (mh_dtype_size(j->tensors[i].tensor.dtype) == width)
                status = mh_stream_tensor(j->target.context, writer, &j->tensors[i].tensor, buffer);
    return status;
}

static mh_status write_file(const job *j, const char *header, size_t header_size, void *buffer)
{
    mh_file_writer *writer;
    mh_status status = mh_file_begin(j->target.context, j->target.name, &writer);
    if (status != MH_OK)
        return status;
    status = mh_file_write(writer, header, header_size);
    if (status == MH_OK)
        status = write_tensors(j, writer, buffer);
    if (status == MH_OK)
        return mh_file_commit(writer);
    mh_file_abandon(writer);
    return status;
}

static mh_status check_job(const job *j)
{
    if (j->tensor_count > MH_SAFETENSORS_TENSORS_MAX ||
        j->metadata_count > MH_SAFETENSORS_METADATA_MAX)
        return mh_source_fail(&j->target, MH_ERROR_ARGUMENT,
                              "%zu tensors and %zu metadata pairs, expected at most %d and %d",
                              j->tensor_count, j->metadata_count, MH_SAFETENSORS_TENSORS_MAX,
                              MH_SAFETENSORS_METADATA_MAX);
    if ((j->tensors == NULL && j->tensor_count) || (j->metadata == NULL && j->metadata_count))
        return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "%s is NULL",
                              j->tensors || !j->tensor_count ? "metadata" : "tensors");
    for (size_t i = 0; i < j->tensor_count; i++)
        if (mh_safetensors_type(j->tensors[i].tensor.dtype) == NULL)
            return mh_source_fail(&j->target, MH_ERROR_ARGUMENT, "tensor %zu: %d is not a dtype", i,
                                  (int)j->tensors[i].tensor.dtype);
    return MH_OK;
}

static mh_status do_job(const job *j)
{
    mh_context *context = j->target.context;
    char *header = NULL;
    size_t header_size = 0;
    void *buffer = NULL;
    mh_status status = check_job(j);
    if (status == MH_OK)
        status = make_header(j, &header, &header_size);
    if (status == MH_OK && j->checksum != NULL)
        fill_checksums(j, header, header_size);
    if (status == MH_OK && (buffer = mh_alloc(context, MH_STREAM_BYTES)) == NULL)
        status = MH_ERROR_MEMORY;
    if (status == MH_OK)
        status = write_file(j, header, header_size, buffer);
    mh_free(context, buffer, MH_STREAM_BYTES);
    mh_free(context, header, header_size);
    return status;
}

mh_status mh_safetensors_write(mh_context *context, const char *path,
                               const mh_named_tensor *tensors, size_t tensor_count,
                               const mh_metadata *metadata, size_t metadata_count)
{
    if (context == NULL)
        return MH_ERROR_ARGUMENT;
    if (path == NULL)
        return mh_fail(context, MH_ERROR_ARGUMENT, "mh_safetensors_write: path is NULL");
    const job j = {
        {.context = context, .name = path}, tensors, tensor_count, metadata, metadata_count, NULL};
    return do_job(&j);
}

mh_status mh_safetensors_write_checked(mh_context *context, const char *path,
                                       const mh_named_tensor *tensors, size_t tensor_count,
                                       const mh_metadata *metadata, size_t metadata_count)
{
    size_t size = 0;
    char *checksum = mh_checksum_value(context, tensor_count, &size);
    if (checksum == NULL)
        return MH_ERROR_MEMORY;
    const job j = {{.context = context, .name = path},
                   tensors,
                   tensor_count,
                   metadata,
                   metadata_count,
                   checksum};
    mh_status status = do_job(&j);
    mh_free(context, checksum, size);
    return status;
}
