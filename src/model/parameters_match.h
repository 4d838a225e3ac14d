// SPDX-License-Identifier: MIT
// Maps tensors of a file to parameters, under our names or those of tutorials. q, k and v may be
// one matrix or three, stacked or interleaved, (out, in) or (in, out); all are handled by views:
//
//     stacked      in_proj_weight (3HE, D) -> (3, H, E, D)
//     interleaved  qkv_layer      (H3E, D) -> (H, 3, E, D) -> swapped (3, H, E, D)
//     separate     W_q            (HE, D)  ->    (H, E, D), one of three
#ifndef MH_MODEL_PARAMETERS_MATCH_H
#define MH_MODEL_PARAMETERS_MATCH_H

#include <multihead/io.h>
#include <multihead/model.h>

#include "support/source.h"

enum { MH_PROBLEM_BYTES = 600 };

// A file being matched with the parameters of a module.
typedef struct mh_match {
    mh_source source; // for messages
    const mh_parameters *parameters;
    const mh_parameters_options *options;
    const mh_tensor_file *file;
    bool *used; // (tensors in the file)
    size_t found, missing, surplus, problems;
    char text[MH_PROBLEM_BYTES]; // the problems, as many as fit
    size_t text_size;
    size_t shown;
} mh_match;

// The copies for one parameter.
typedef struct mh_transfer {
    mh_tensor from[3], to[3];
    size_t index[3]; // of the tensors in the file
    int count;
} mh_transfer;

// Records a problem.
void mh_match_problem(mh_match *match, const char *format, ...) MH_PRINTF(2, 3);

// The copies for a parameter; false if it is missing or invalid, which has then been recorded.
bool mh_match_parameter(mh_match *match, const mh_parameter *parameter, mh_transfer *transfer);

#endif
