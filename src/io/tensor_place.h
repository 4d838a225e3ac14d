// SPDX-License-Identifier: MIT
// Where the tensors of a file are read: in the file itself, or, if they are not aligned or have
// another byte order, in a copy that is made when the first of them is read.
//
//     file    ....[ storage 1 ]..[ storage 2 ]        odd addresses
//     copies  [ storage 1 ][ storage 2 ]              multiples of 8: reserved, not written
//
// A copy is of a whole storage, which several tensors may share, so that copies are no larger than
// the file. Memory for all is reserved when the file is opened, and reading therefore cannot fail;
// the system provides pages only for what is copied.
#ifndef MH_IO_TENSOR_PLACE_H
#define MH_IO_TENSOR_PLACE_H

#include "io/tensor_file.h"
#include "support/lock.h"

typedef struct mh_file_copy {
    struct mh_file_copies *all;
    const unsigned char *bytes; // in the file
    size_t size;
    size_t swap; // the width of big-endian elements, else 0
    unsigned char *copy;
    bool made;
} mh_file_copy;

typedef struct mh_file_copies {
    mh_lock lock; // of every .made
    size_t count;
    mh_file_copy *items; // (count)
    unsigned char *memory;
    size_t size;
} mh_file_copies;

// Sets .tensor.data and .copy of all entries, which are not indexed yet: by_name is scratch.
mh_status mh_tensor_file_place(const mh_source *source, mh_tensor_file *file);
void mh_file_copies_free(const mh_allocator *allocator, mh_file_copies *copies);

// Makes the copy unless it is made. Any thread may call it.
void mh_file_copy_make(mh_file_copy *copy);
bool mh_file_copy_is_made(mh_file_copy *copy);

// `size` bytes at `from`, within the copy's source, as they are in the copy; whole elements.
void mh_file_copy_piece(const mh_file_copy *copy, const unsigned char *from, size_t size,
                        unsigned char *to);

#endif
