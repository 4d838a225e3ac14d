// SPDX-License-Identifier: MIT
// Block-quantised elements, as GGUF files have them: a block is a group of consecutive values of a
// row with scales of its own,
//
//     Q8_0    [d f16][32 x int8]                         x = d q
//     Q4_1    [d f16][m f16][32 x 4 bits]                x = d q + m
//     Q4_K    [d][dmin][8 x (6-bit scale, 6-bit min)][256 x 4 bits]
//
// and rows are whole blocks. Values are those of the `gguf` package bit for bit: products and sums
// in f32, each rounded.
#ifndef MH_IO_GGUF_BLOCKS_H
#define MH_IO_GGUF_BLOCKS_H

#include <stddef.h>

enum { MH_BLOCK_VALUES_MAX = 256 };

typedef struct mh_block_format {
    const char *name;     // "Q4_1"
    size_t values, bytes; // of a block
    // `count` blocks, at any address, to count * values floats
    void (*dequantize)(const unsigned char *blocks, size_t count, float *to);
} mh_block_format;

// The format of one of GGUF's numbers for types, or NULL.
const mh_block_format *mh_block_format_of(unsigned type);

#endif
