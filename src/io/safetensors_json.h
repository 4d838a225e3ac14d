// SPDX-License-Identifier: MIT
// Parses and validates the header of a safetensors file.
#ifndef MH_IO_SAFETENSORS_JSON_H
#define MH_IO_SAFETENSORS_JSON_H

#include <jansson.h>

#include "io/tensor_file.h"

// Parses the header's text into an object whose size is within the limits. Free *root with
// json_decref.
mh_status mh_safetensors_load(const mh_source *source, const char *text, size_t size,
                              json_t **root);

// The range of a tensor's data: [begin, end) of the bytes after the header.
typedef struct mh_data_range {
    size_t begin, end;
} mh_data_range;

// Checks one member of the header: known dtype, rank, dimensions, and a range within `data_size`
// that is as long as the shape needs. Sets dtype, rank, shape and strides of *tensor.
mh_status mh_safetensors_entry(const mh_source *source, const char *name, const json_t *value,
                               size_t data_size, mh_tensor *tensor, mh_data_range *range);

#endif
