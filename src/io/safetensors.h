// SPDX-License-Identifier: MIT
// Shared by the safetensors reader and writer: the layout, the limits, the dtypes.
//
//     byte 0     N              header length, 8 bytes, little-endian
//          8     header         N bytes of JSON, then spaces
//                {"__metadata__": {"key": "value", ...},
//                 "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//          8+N   data           data_offsets count from here; no holes, no overlap, no rest
#ifndef MH_IO_SAFETENSORS_H
#define MH_IO_SAFETENSORS_H

#include <multihead/tensor.h>

#define MH_SAFETENSORS_METADATA "__metadata__"

enum {
    MH_SAFETENSORS_PREFIX = 8,
    MH_SAFETENSORS_TENSORS_MAX = 1000000,
    MH_SAFETENSORS_METADATA_MAX = 1000000,
    MH_SAFETENSORS_NAME_MAX = 4096,
};

// The format's name of a dtype, or NULL.
static inline const char *mh_safetensors_type(mh_dtype dtype)
{
    static const char *const names[] = {
        [MH_F32] = "F32",   [MH_F64] = "F64", [MH_BF16] = "BF16", [MH_F16] = "F16",
        [MH_BOOL] = "BOOL", [MH_I8] = "I8",   [MH_I16] = "I16",   [MH_I32] = "I32",
        [MH_I64] = "I64",   [MH_U8] = "U8",   [MH_U16] = "U16",   [MH_U32] = "U32",
        [MH_U64] = "U64",
    };
    return (size_t)dtype < sizeof names / sizeof *names ? names[dtype] : NULL;
}

#endif
