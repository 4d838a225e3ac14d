// SPDX-License-Identifier: MIT
// The header of a safetensors file from text to checked descriptions.
#ifndef MH_IO_SAFETENSORS_JSON_H
#define MH_IO_SAFETENSORS_JSON_H

#include <jansson.h>

#include "io/tensor_file.h"

// Parses the header's text into an object whose size is within the limits. *root is to be given
// to json_decref.
mh_status mh_safetensors_load(const mh_source *source, const char *text, size_t size,
                              json_t **root);

// Where a tensor says its data is: [begin, end) of the bytes behind the header.
typedef struct mh_data_range {
    size_t begin, end;
} mh_data_range;

// Checks one member of the header: known dtype, rank, dimensions, and a range within `data_size`
// that is as long as the shape needs. Sets dtype, rank, shape and strides of *tensor.
mh_status mh_safetensors_entry(const mh_source *source, const char *name, const json_t *value,
                               size_t data_size, mh_tensor *tensor, mh_data_range *range);

#endif
