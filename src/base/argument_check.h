// SPDX-License-Identifier: MIT
// NULL for a required argument is an error of every public function.
#ifndef MH_BASE_ARGUMENT_CHECK_H
#define MH_BASE_ARGUMENT_CHECK_H

#include <multihead/base.h>

// Rejects a call without a context, or without the argument of that name.
static inline mh_status mh_need(mh_context *context, const void *argument, const char *name)
{
    if (context && argument)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL", name);
}

// An array, which may be NULL if it has no elements.
static inline const void *mh_array(const void *array, size_t count) { return count ? array : ""; }

typedef struct mh_argument {
    const char *name;
    const void *value;
} mh_argument;

static inline mh_status mh_need_all(mh_context *context, size_t count, const mh_argument *arguments)
{
    mh_status status = context ? MH_OK : MH_ERROR_ARGUMENT;
    for (size_t i = 0; i < count && !status; i++)
        status = mh_need(context, arguments[i].value, arguments[i].name);
    return status;
}

// The same for several: MH_NEED(context, {"from", from}, {"to", to}).
#define MH_NEED(context, ...)                                                                      \
    mh_need_all(context, sizeof((mh_argument[]){__VA_ARGS__}) / sizeof(mh_argument),               \
                (mh_argument[]){__VA_ARGS__})

#endif
