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

// A struct has never shrunk, nor will one grow by this much: more is a number that was never set.
enum { MH_MOST_STRUCT_GROWTH = 4096 };

static inline size_t mh_struct_size(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

// Every such struct is aligned as its first member, so that its size is a multiple of it.
static inline mh_status mh_check_struct_size(mh_context *context, const char *name, size_t given,
                                             size_t own_size)
{
    if (given >= sizeof given && given % sizeof given == 0 &&
        given <= own_size + MH_MOST_STRUCT_GROWTH)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   "%s.struct_size: found %zu, expected %zu as %s_default() sets it", name, given,
                   own_size, name);
}

// Copies what the caller gave over the defaults in `own`, whose struct_size becomes own_size; NULL
// leaves the defaults. `name` is that of the type: the message names its _default() function.
static inline mh_status mh_read_struct(mh_context *context, const char *name, const void *given,
                                       void *own, size_t own_size)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!given)
        return MH_OK;
    const size_t size = mh_struct_size(given);
    mh_status status = mh_check_struct_size(context, name, size, own_size);
    if (status)
        return status;
    for (size_t i = own_size; i < size; i++)
        if (((const char *)given)[i] != 0)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s.struct_size: found %zu with a field set at offset %zu, which this "
                           "library (version " MH_VERSION_STRING ", %zu bytes) does not have",
                           name, size, i, own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof own_size);
    return MH_OK;
}

// The same for element i of an array: the first element's struct_size is the array's stride.
static inline mh_status mh_read_element(mh_context *context, const char *name, const void *array,
                                        size_t i, void *own, size_t own_size)
{
    const size_t stride = mh_struct_size(array);
    mh_status status = mh_check_struct_size(context, name, stride, own_size);
    if (status)
        return status;
    const char *element = (const char *)array + i * stride;
    if (mh_struct_size(element) != stride)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s.struct_size: found %zu in element %zu of an array, expected %zu as in "
                       "the first",
                       name, mh_struct_size(element), i, stride);
    return mh_read_struct(context, name, element, own, own_size);
}

// An output that the caller allocated: checks its struct_size; mh_write_struct then writes as much
// of `own` as fits, and leaves struct_size and what lies behind own_size as they are.
static inline mh_status mh_check_output_struct(mh_context *context, const char *name,
                                               const void *out, size_t own_size)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    return mh_check_struct_size(context, name, mh_struct_size(out), own_size);
}

static inline void mh_write_struct(const void *own, size_t own_size, void *out)
{
    const size_t given = mh_struct_size(out), size = given < own_size ? given : own_size;
    memcpy((char *)out + sizeof size, (const char *)own + sizeof size, size - sizeof size);
}

// With the type's name and size: MH_READ_STRUCT(context, mh_rope_options, options, &own).
#define MH_READ_STRUCT(context, type, given, own)                                                  \
    mh_read_struct(context, #type, (const type *){given}, (type *){own}, sizeof(type))
#define MH_READ_ELEMENT(context, type, array, i, own)                                              \
    mh_read_element(context, #type, (const type *){array}, i, (type *){own}, sizeof(type))
#define MH_CHECK_OUTPUT(context, type, out)                                                        \
    mh_check_output_struct(context, #type, (const type *){out}, sizeof(type))

#endif
