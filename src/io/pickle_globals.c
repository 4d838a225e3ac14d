// SPDX-License-Identifier: MIT
// The closed table of globals; see pickle_globals.h. Elements that mh_dtype does not have (complex,
// quantised, 8-bit floats) are missing on purpose: the message then names them.
#include "io/pickle_globals.h"

#include <string.h>

#define STORAGE(name, dtype)                                                                       \
    {                                                                                              \
        "torch", name, MH_GLOBAL_STORAGE, dtype                                                    \
    }
#define DTYPE(name, dtype)                                                                         \
    {                                                                                              \
        "torch", name, MH_GLOBAL_DTYPE, dtype                                                      \
    }

const mh_pickle_global_entry mh_pickle_globals[] = {
    {"collections", "OrderedDict", MH_GLOBAL_ORDERED_DICT, MH_F32},
    {"torch", "Size", MH_GLOBAL_SIZE, MH_F32},
    {"torch._utils", "_rebuild_tensor", MH_GLOBAL_REBUILD_TENSOR, MH_F32},
    {"torch._utils", "_rebuild_tensor_v2", MH_GLOBAL_REBUILD_TENSOR_V2, MH_F32},
    {"torch._utils", "_rebuild_tensor_v3", MH_GLOBAL_REBUILD_TENSOR_V3, MH_F32},
    {"torch._utils", "_rebuild_parameter", MH_GLOBAL_REBUILD_PARAMETER, MH_F32},
    {"torch._utils", "_rebuild_parameter_with_state", MH_GLOBAL_REBUILD_PARAMETER, MH_F32},
    {"torch", "UntypedStorage", MH_GLOBAL_UNTYPED_STORAGE, MH_U8},
    {"torch.storage", "UntypedStorage", MH_GLOBAL_UNTYPED_STORAGE, MH_U8},
    STORAGE("FloatStorage", MH_F32),
    STORAGE("DoubleStorage", MH_F64),
    STORAGE("HalfStorage", MH_F16),
    STORAGE("BFloat16Storage", MH_BF16),
    STORAGE("LongStorage", MH_I64),
    STORAGE("IntStorage", MH_I32),
    STORAGE("ShortStorage", MH_I16),
    STORAGE("CharStorage", MH_I8),
    STORAGE("ByteStorage", MH_U8),
    STORAGE("BoolStorage", MH_BOOL),
    DTYPE("float32", MH_F32),
    DTYPE("float64", MH_F64),
    DTYPE("float16", MH_F16),
    DTYPE("bfloat16", MH_BF16),
    DTYPE("int64", MH_I64),
    DTYPE("int32", MH_I32),
    DTYPE("int16", MH_I16),
    DTYPE("int8", MH_I8),
    DTYPE("uint64", MH_U64),
    DTYPE("uint32", MH_U32),
    DTYPE("uint16", MH_U16),
    DTYPE("uint8", MH_U8),
    DTYPE("bool", MH_BOOL),
};

static bool equals(const char *known, const char *text, size_t size)
{
    return strlen(known) == size && memcmp(known, text, size) == 0;
}

int mh_pickle_find_global(const char *module, size_t module_size, const char *name,
                          size_t name_size)
{
    const int count = (int)(sizeof mh_pickle_globals / sizeof *mh_pickle_globals);
    for (int i = 0; i < count; i++)
        if (equals(mh_pickle_globals[i].name, name, name_size) &&
            equals(mh_pickle_globals[i].module, module, module_size))
            return i;
    return -1;
}
