// SPDX-License-Identifier: MIT
// GGUF, versions 2 and 3, little-endian: a model in one file, with its settings and tokenizer.
//
//     "GGUF" u32 version, u64 tensors, u64 pairs
//     pairs     key, u32 type, value                     strings: u64 length, bytes
//     tensors   name, u32 rank, u64 dimensions (the fastest first), u32 type, u64 offset
//     padding to a multiple of general.alignment (32)
//     data      offsets count from here
//
//     gguf_value.c   a value: its extent, its parts, and it as text
//     gguf_read.c    all of the file
//
// Values stay where they are in the file; they were checked when it was opened.
#ifndef MH_IO_GGUF_H
#define MH_IO_GGUF_H

#include <multihead/text.h>

#include "io/tensor_file.h"

enum {
    MH_GGUF_TENSORS_MAX = 1000000,
    MH_GGUF_NAME_MAX = 4096,
    MH_GGUF_NESTING_MAX = 4, // of arrays
    MH_GGUF_RANK_MAX = 4,
    MH_GGUF_ALIGNMENT_MAX = 65536,
    MH_GGUF_TEXT_MAX = 128, // of the text of a value that is not a string
};

// As numbered in files.
typedef enum mh_gguf_type {
    MH_GGUF_U8,
    MH_GGUF_I8,
    MH_GGUF_U16,
    MH_GGUF_I16,
    MH_GGUF_U32,
    MH_GGUF_I32,
    MH_GGUF_F32,
    MH_GGUF_BOOL,
    MH_GGUF_STRING,
    MH_GGUF_ARRAY,
    MH_GGUF_U64,
    MH_GGUF_I64,
    MH_GGUF_F64,
    MH_GGUF_TYPES,
} mh_gguf_type;

typedef struct mh_gguf_value {
    mh_gguf_type type;
    mh_gguf_type of;            // an array's elements
    size_t count;               // of elements; of bytes of a string
    const unsigned char *bytes; // elements one after the other; the string's; the number's
    size_t size;                // of these bytes
} mh_gguf_value;

// A key and its value; the keys of a file are sorted.
struct mh_gguf_pair {
    const char *key; // in the file's text
    mh_gguf_value value;
};

// Where a reader is.
typedef struct mh_gguf_cursor {
    const mh_source *source;
    size_t at;
} mh_gguf_cursor;

// Numbers of 4 and 8 bytes, a string in the file (which must be UTF-8) and a value with its type.
// `what` begins a message. Errors: MH_ERROR_FORMAT.
mh_status mh_gguf_take_u32(mh_gguf_cursor *c, const char *what, uint32_t *number);
mh_status mh_gguf_take_u64(mh_gguf_cursor *c, const char *what, uint64_t *number);
mh_status mh_gguf_take_string(mh_gguf_cursor *c, const char *what, mh_text *string);
mh_status mh_gguf_take_value(mh_gguf_cursor *c, const char *what, mh_gguf_value *value);

// The value of a key of an open file; false if there is none, or it is not a GGUF file.
bool mh_gguf_find(const mh_tensor_file *file, const char *key, mh_gguf_value *value);

// What a value is, "a string", for messages.
const char *mh_gguf_type_name(mh_gguf_type type);

// Integers (which fit in int64_t), numbers, strings; false for values of other types.
bool mh_gguf_integer(const mh_gguf_value *value, int64_t *number);
bool mh_gguf_number(const mh_gguf_value *value, double *number);
bool mh_gguf_string(const mh_gguf_value *value, mh_text *text);

// Element i of an array of numbers or booleans.
mh_gguf_value mh_gguf_element(const mh_gguf_value *array, size_t i);

// The next string of an array of strings; *at begins with 0.
mh_text mh_gguf_next_string(const mh_gguf_value *array, size_t *at);

// A value as text: a string as it is, numbers, booleans, "[1, 2]", "49152 strings". Returns its
// length; at most `size` bytes are written, with a 0 if there is room.
size_t mh_gguf_format(const mh_gguf_value *value, char *text, size_t size);

bool mh_is_gguf(const mh_source *source);

#endif
