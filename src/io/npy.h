// SPDX-License-Identifier: MIT
// Shared by the .npy reader, its header parser and the writer.
//
//     byte 0   \x93 N U M P Y      magic
//          6   major, minor        1.0, 2.0 or 3.0
//          8   header length       2 bytes in version 1, 4 in versions 2 and 3
//     10 | 12  header              {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//                                  then spaces and one newline, up to a multiple of 64
//              the data            to the end of the file
#ifndef MH_IO_NPY_H
#define MH_IO_NPY_H

#include <multihead/tensor.h>

#include "support/source.h"

typedef struct mh_npy_header {
    mh_dtype dtype;
    bool big_endian;    // elements need a byte swap
    bool fortran_order; // the first dimension is the contiguous one
    int rank;
    size_t shape[MH_MAX_RANK];
} mh_npy_header;

// Parses the header's text, of which nothing is trusted but its length.
mh_status mh_npy_parse_header(const mh_source *source, const char *text, size_t size,
                              mh_npy_header *header);

// NumPy's kind letter and element size for a dtype, "f4" for f32; NULL for bf16, which NumPy lacks.
const char *mh_npy_type(mh_dtype dtype);

#endif
