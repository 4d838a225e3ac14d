// SPDX-License-Identifier: MIT
// See model_name.h.
#include "train/model_name.h"

#include <string.h>

// The last part of the path that ends at `end`.
static mh_text last_part(const char *path, const char *end)
{
    while (end - path > 1 && end[-1] == '/')
        end--;
    const char *begin = end;
    while (begin > path && begin[-1] != '/')
        begin--;
    return (mh_text){begin, (size_t)(end - begin)};
}

static bool begins_with(mh_text part, const char *text)
{
    return part.size >= strlen(text) && !memcmp(part.bytes, text, strlen(text));
}

// "ORG--NAME", or "NAME" of a model without an organisation.
static mh_model_name split_name(mh_text both)
{
    for (size_t i = 0; i + 2 < both.size; i++)
        if (both.bytes[i] == '-' && both.bytes[i + 1] == '-')
            return (mh_model_name){{both.bytes, i}, {both.bytes + i + 2, both.size - i - 2}};
    return (mh_model_name){{both.bytes, 0}, both};
}

mh_model_name mh_model_name_of(const char *path)
{
    static const char cached[] = "models--", snapshots[] = "snapshots";
    const mh_text name = last_part(path, path + strlen(path));
    const mh_text parent = last_part(path, name.bytes);
    const mh_text model = last_part(path, parent.bytes);
    if (parent.size != strlen(snapshots) || !begins_with(parent, snapshots) ||
        !begins_with(model, cached))
        return (mh_model_name){{name.bytes, 0}, name};
    return split_name((mh_text){model.bytes + strlen(cached), model.size - strlen(cached)});
}
