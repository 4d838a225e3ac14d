// SPDX-License-Identifier: MIT
// The list of a module's parameters during its creation: modules declare their parameters in the
// order of PyTorch's state_dict, once to count them and once to fill the list.
#ifndef MH_NN_PARAMETER_LIST_H
#define MH_NN_PARAMETER_LIST_H

#include <multihead/nn.h>

typedef struct mh_parameter_list {
    mh_parameter *list; // NULL: only count
    size_t count, floats;
    // With `separate`, matrices are not among the floats: their offsets begin at first_matrix.
    bool separate;
    size_t first_matrix, matrix_floats;
} mh_parameter_list;

enum { MH_NO_PARAMETER = -1 }; // an offset

// Declares prefix + name; returns its offset.
ptrdiff_t mh_declare(mh_parameter_list *list, const char *prefix, const char *name, int rank,
                     const size_t *shape, mh_init init, double scale);

// A vector, and a matrix (rows, columns) initialised like PyTorch's linear layers: uniform within
// 1 / sqrt(columns), or xavier_uniform.
ptrdiff_t mh_declare_vector(mh_parameter_list *list, const char *prefix, const char *name, size_t n,
                            mh_init init, double scale);
ptrdiff_t mh_declare_matrix(mh_parameter_list *list, const char *prefix, const char *name,
                            size_t rows, size_t columns, bool xavier);

// Memory for `declare(list, module)`, called twice, and its values, all 0; with `separate`, for
// those that are not matrices. Error: MH_ERROR_MEMORY.
mh_status mh_parameters_create(mh_context *context, void (*declare)(mh_parameter_list *, void *),
                               void *module, bool separate, mh_parameters *parameters);
void mh_parameters_free(const mh_allocator *allocator, mh_parameters *parameters);

#endif
