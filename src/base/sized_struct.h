// SPDX-License-Identifier: MIT
// Structs that begin with their size, as the program was compiled with them: the one place that
// knows the rule of multihead/base.h ("structs that can grow").
//
//     program older than the library    | given            |
//                                       | own              | defaults |
//
//     program newer than the library    | given            | must be 0 |
//                                       | own              |
#ifndef MH_BASE_SIZED_STRUCT_H
#define MH_BASE_SIZED_STRUCT_H

#include <multihead/base.h>

// Copies what the caller gave over the defaults in `own`, whose struct_size becomes own_size; NULL
// leaves the defaults. `name` is that of the type: the message names its _default() function.
MH_API mh_status mh_read_struct(mh_context *context, const char *name, const void *given, void *own,
                                size_t own_size);

// The same for element i of an array: the first element's struct_size is the array's stride.
MH_API mh_status mh_read_element(mh_context *context, const char *name, const void *array, size_t i,
                                 void *own, size_t own_size);

// An output that the caller allocated: checks its struct_size; then writes as much of `own` as
// fits, and leaves struct_size and what lies behind own_size as they are.
MH_API mh_status mh_check_output_struct(mh_context *context, const char *name, const void *out,
                                        size_t own_size);
MH_API void mh_write_struct(const void *own, size_t own_size, void *out);

// With the type's name and size: MH_READ_STRUCT(context, mh_rope_options, options, &own).
#define MH_READ_STRUCT(context, type, given, own)                                                  \
    mh_read_struct(context, #type, (const type *){given}, (type *){own}, sizeof(type))
#define MH_READ_ELEMENT(context, type, array, i, own)                                              \
    mh_read_element(context, #type, (const type *){array}, i, (type *){own}, sizeof(type))
#define MH_CHECK_OUTPUT(context, type, out)                                                        \
    mh_check_output_struct(context, #type, (const type *){out}, sizeof(type))

#endif
