// SPDX-License-Identifier: MIT
// The blocks of a preset with random weights, for `multihead bench model`: bench_model.c measures
// them, bench_blocks.c creates them.
#ifndef CLI_BENCH_MODEL_H
#define CLI_BENCH_MODEL_H

#include "bench.h"

typedef struct bench_blocks {
    size_t layers, decoder_layers; // that are created
    double bytes_per_number;       // of packed matrices
    mh_transformer *transformer;
} bench_blocks;

// As many layers as --layers says, else all that fit in the available memory, of which a note tells
// if they are not all. Returns an exit code.
int bench_create_blocks(const bench *b, const bench_case *c, mh_precision precision,
                        bench_blocks *blocks);

#endif
