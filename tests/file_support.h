// SPDX-License-Identifier: MIT
// What the tests and the fuzzers of tensor files share: files put together from a header and
// some data, reading every element of what a parser returned, and memory that runs out on demand.
// Needs neither cmocka nor the rest of the tests.
#ifndef MH_TESTS_FILE_SUPPORT_H
#define MH_TESTS_FILE_SUPPORT_H

#include <multihead/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- files in memory ------------------------------------------------------------------

// Bytes in a heap block of exactly their size, so that a sanitizer sees a read past the end.
typedef struct blob {
    unsigned char *bytes;
    size_t size;
} blob;

static inline void blob_free(blob *b)
{
    free(b->bytes);
    *b = (blob){0};
}

static inline blob blob_copy(const void *bytes, size_t size)
{
    blob b = {malloc(size ? size : 1), size};
    if (b.bytes == NULL)
        abort();
    if (size != 0)
        memcpy(b.bytes, bytes, size);
    return b;
}

// prefix, header and data_size bytes 1, 2, 3, ...
static inline blob blob_join(const void *prefix, size_t prefix_size, const char *header,
                             size_t header_size, size_t data_size)
{
    blob b = {malloc(prefix_size + header_size + data_size), prefix_size + header_size + data_size};
    if (b.bytes == NULL)
        abort();
    memcpy(b.bytes, prefix, prefix_size);
    memcpy(b.bytes + prefix_size, header, header_size);
    for (size_t i = 0; i < data_size; i++)
        b.bytes[prefix_size + header_size + i] = (unsigned char)(i + 1);
    return b;
}

// The prefix says `claimed` bytes of header, whatever the header really has.
static inline blob blob_npy_claiming(int major, size_t claimed, const char *header,
                                     size_t data_size)
{
    unsigned char prefix[12] = "\x93NUMPY";
    prefix[6] = (unsigned char)major;
    for (int i = 0; i < 4; i++)
        prefix[8 + i] = (unsigned char)(claimed >> (8 * i));
    return blob_join(prefix, major == 1 ? 10 : 12, header, strlen(header), data_size);
}

static inline blob blob_npy(int major, const char *header, size_t data_size)
{
    return blob_npy_claiming(major, strlen(header), header, data_size);
}

static inline blob blob_safetensors_claiming(uint64_t claimed, const char *header, size_t data_size)
{
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)(claimed >> (8 * i));
    return blob_join(prefix, sizeof prefix, header, strlen(header), data_size);
}

static inline blob blob_safetensors(const char *header, size_t data_size)
{
    return blob_safetensors_claiming(strlen(header), header, data_size);
}

// A file's bytes; size 0 if it cannot be read.
static inline blob blob_read(const char *path)
{
    blob b = {0};
    FILE *stream = fopen(path, "rb");
    long size = 0;
    if (stream == NULL)
        return b;
    if (fseek(stream, 0, SEEK_END) == 0 && (size = ftell(stream)) > 0) {
        b = blob_join("", 0, "", 0, (size_t)size);
        rewind(stream);
        b.size = fread(b.bytes, 1, (size_t)size, stream);
    }
    fclose(stream);
    return b;
}

// ---- reading everything ---------------------------------------------------------------

// Steps `index` through the shape in C order; false after the last.
static inline bool next_index(const mh_tensor *t, size_t *index)
{
    for (int d = t->rank - 1; d >= 0; d--) {
        if (++index[d] < t->shape[d])
            return true;
        index[d] = 0;
    }
    return false;
}

static inline const unsigned char *element_at(const mh_tensor *t, const size_t *index)
{
    ptrdiff_t offset = 0;
    for (int d = 0; d < t->rank; d++)
        offset += (ptrdiff_t)index[d] * t->stride[d];
    return (const unsigned char *)t->data + offset * (ptrdiff_t)mh_dtype_size(t->dtype);
}

// One element, read at its width so that a misaligned one is noticed.
static inline uint64_t element_bits(const mh_tensor *t, const size_t *index)
{
    const void *element = element_at(t, index);
    switch (mh_dtype_size(t->dtype)) {
    case 1:
        return *(const uint8_t *)element;
    case 2:
        return *(const uint16_t *)element;
    case 4:
        return *(const uint32_t *)element;
    default:
        return *(const uint64_t *)element;
    }
}

static inline uint64_t touch_tensor(const mh_tensor *t)
{
    size_t index[MH_MAX_RANK] = {0};
    uint64_t sum = 0;
    if (mh_tensor_count(t) != 0)
        do
            sum = sum * 31 + element_bits(t, index);
        while (next_index(t, index));
    return sum;
}

// Every element of every tensor, by number and by name; the result depends on all of them.
static inline uint64_t touch_file(const mh_tensor_file *file)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < mh_tensor_file_count(file); i++) {
        mh_tensor by_number, by_name;
        const char *name = mh_tensor_file_name(file, i);
        if (!mh_tensor_file_at(file, i, &by_number) || !mh_tensor_file_find(file, name, &by_name) ||
            by_number.data != by_name.data || !mh_tensor_same_shape(&by_number, &by_name))
            abort();
        sum = sum * 31 + touch_tensor(&by_number) + strlen(name);
    }
    return sum;
}

// ---- memory that runs out -------------------------------------------------------------

typedef struct scarce {
    size_t calls;   // allocations so far
    size_t fail_at; // the first to fail, counted from 1; 0: none
    bool always;    // and all after it, too
    size_t live;    // bytes not given back
    size_t peak;    // the most there ever were
} scarce;

static inline bool scarce_fails(scarce *s)
{
    s->calls++;
    return s->fail_at != 0 && (s->always ? s->calls >= s->fail_at : s->calls == s->fail_at);
}

static inline void *scarce_alloc(void *user, size_t size, size_t alignment)
{
    scarce *s = user;
    void *memory = NULL;
    if (scarce_fails(s) || posix_memalign(&memory, alignment, size) != 0)
        return NULL;
    s->live += size;
    s->peak = s->live > s->peak ? s->live : s->peak;
    return memory;
}

static inline void scarce_release(void *user, void *memory, size_t size)
{
    scarce *s = user;
    s->live -= size;
    free(memory);
}

static inline mh_context_options scarce_options(scarce *s)
{
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.allocator = (mh_allocator){scarce_alloc, scarce_release, s};
    return options;
}

#endif
