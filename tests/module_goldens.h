// SPDX-License-Identifier: MIT
// The cases of goldens/modules.safetensors: their options, the inputs and parameters that both
// sides compute by the same formula, and comparing results one after the other with a case's row of
// numbers. goldens/make_modules.py is the other side.
#ifndef MH_TESTS_MODULE_GOLDENS_H
#define MH_TESTS_MODULE_GOLDENS_H

#include <multihead/io.h>

#include "support.h"

typedef struct module_case {
    mh_context *context;
    const char *text;      // "mha D=12 H=3 ...", from the file
    const float *expected; // what is still to be compared
    size_t left;
    double scale;         // the largest of all its numbers
    double largest_error; // in units of the tolerance
    void *blocks[64];     // memory that lives as long as the case
    size_t block_count;
} module_case;

// Case `key` of the file; the test fails if there is none.
module_case module_case_open(mh_context *context, const mh_tensor_file *file, const char *key);
void module_case_close(module_case *c); // fails unless all numbers were compared

bool module_is(const module_case *c, const char *kind);
double module_option(const module_case *c, const char *key, double usual);
size_t module_size(const module_case *c, const char *key, size_t usual);

// Zeroed memory of the case's.
void *module_memory(module_case *c, size_t count, size_t size);

// 32-bit hash i of `name`; and the numbers made from it: multiples of amplitude / 1024.
uint32_t module_bits(const char *name, size_t i);
void module_numbers(const char *name, size_t n, double amplitude, float *out);
void module_parameters(const mh_parameters *parameters);

// An input or output of length T: `view` (B, T, W) as the golden has it, `given` as the module
// wants it: batch first or not, or unbatched.
typedef struct module_rows {
    mh_tensor view, given;
} module_rows;
module_rows module_rows_make(module_case *c, size_t T, size_t W);
void module_rows_fill(module_case *c, const char *name, double amplitude, const module_rows *rows);

// A mask of PyTorch's kind: 0 none, odd bool, even float; `empty` numbers leave no key.
const mh_tensor *module_mask(module_case *c, const char *name, int kind, int rank,
                             const size_t *shape, bool empty);

// The next numbers of the golden against these.
void module_compare(module_case *c, const char *what, const mh_tensor *found);

// And the gradients of all parameters, in the order of their names.
void module_compare_gradients(module_case *c, const mh_parameters *parameters, float *gradients);

#endif
