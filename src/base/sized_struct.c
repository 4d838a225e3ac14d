// SPDX-License-Identifier: MIT
// Structs that begin with their size; see sized_struct.h.
#include "base/sized_struct.h"

// A struct has never shrunk, nor will one grow by this much: more is a number that was never set.
enum { MOST_GROWTH = 4096 };

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

// Every such struct is aligned as its first member, so that its size is a multiple of it.
static mh_status check_size(mh_context *context, const char *name, size_t given, size_t own_size)
{
    if (given >= sizeof given && given % sizeof given == 0 && given <= own_size + MOST_GROWTH)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   "%s.struct_size: found %zu, expected %zu as %s_default() sets it", name, given,
                   own_size, name);
}

mh_status mh_read_struct(mh_context *context, const char *name, const void *given, void *own,
                         size_t own_size)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!given)
        return MH_OK;
    const size_t size = size_of(given);
    mh_status status = check_size(context, name, size, own_size);
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

mh_status mh_read_element(mh_context *context, const char *name, const void *array, size_t i,
                          void *own, size_t own_size)
{
    const size_t stride = size_of(array);
    mh_status status = check_size(context, name, stride, own_size);
    if (status)
        return status;
    const char *element = (const char *)array + i * stride;
    if (size_of(element) != stride)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s.struct_size: found %zu in element %zu of an array, expected %zu as in "
                       "the first",
                       name, size_of(element), i, stride);
    return mh_read_struct(context, name, element, own, own_size);
}

mh_status mh_check_output_struct(mh_context *context, const char *name, const void *out,
                                 size_t own_size)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    return check_size(context, name, size_of(out), own_size);
}

void mh_write_struct(const void *own, size_t own_size, void *out)
{
    const size_t given = size_of(out), size = given < own_size ? given : own_size;
    memcpy((char *)out + sizeof size, (const char *)own + sizeof size, size - sizeof size);
}
