// SPDX-License-Identifier: MIT
// Records of the peers' programs: a 32-bit length and so many elements, of text or of 32-bit
// numbers. Whatever goes wrong ends the program.
#ifndef TESTS_PEERS_PEER_RECORDS_H
#define TESTS_PEERS_PEER_RECORDS_H

#include <multihead/text.h>

#include <stdio.h>
#include <stdlib.h>

static inline void *allocate(size_t size)
{
    void *memory = malloc(size ? size : 1);
    if (!memory)
        exit(4);
    return memory;
}

// A whole file; the caller frees its bytes.
static inline mh_text read_file(const char *path)
{
    FILE *stream = fopen(path, "rb");
    long size = -1;
    if (stream && fseek(stream, 0, SEEK_END) == 0)
        size = ftell(stream);
    if (size < 0) {
        perror(path);
        exit(3);
    }
    rewind(stream);
    char *bytes = allocate((size_t)size);
    if (fread(bytes, 1, (size_t)size, stream) != (size_t)size)
        exit(3);
    fclose(stream);
    return (mh_text){bytes, (size_t)size};
}

// The next record of elements from stdin, NULL at the end.
static inline void *read_record(size_t element, size_t *count)
{
    uint32_t length;
    if (fread(&length, sizeof length, 1, stdin) != 1)
        return NULL;
    void *memory = allocate(length * element);
    if (fread(memory, element, length, stdin) != length)
        exit(3);
    *count = length;
    return memory;
}

static inline void write_record(const void *elements, size_t element, size_t count)
{
    uint32_t length = (uint32_t)count;
    fwrite(&length, sizeof length, 1, stdout);
    fwrite(elements, element, count, stdout);
}

#endif
