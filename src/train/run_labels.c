// SPDX-License-Identifier: MIT
// See run_labels.h.
#include "train/run_labels.h"

#include "support/grow.h"
#include "support/json_text.h"

#include <string.h>

bool mh_labels_find(const mh_labels *labels, mh_text name, size_t *label)
{
    for (size_t i = 0; i < labels->count; i++)
        if (name.size == strlen(labels->names[i]) &&
            !memcmp(name.bytes, labels->names[i], name.size)) {
            *label = i;
            return true;
        }
    return false;
}

mh_status mh_labels_add(mh_context *context, mh_labels *labels, mh_text name)
{
    if (!mh_grow(context, &labels->names, &labels->capacity, labels->count + 1,
                 sizeof *labels->names))
        return MH_ERROR_MEMORY;
    char *copy = mh_alloc(context, name.size + 1);
    if (!copy)
        return MH_ERROR_MEMORY;
    memcpy(copy, name.bytes, name.size);
    copy[name.size] = 0;
    labels->names[labels->count++] = copy;
    return MH_OK;
}

void mh_labels_free(mh_context *context, mh_labels *labels)
{
    for (size_t i = 0; i < labels->count; i++)
        mh_free(context, labels->names[i], strlen(labels->names[i]) + 1);
    mh_shrink(context, &labels->names, &labels->capacity, sizeof *labels->names);
    labels->count = 0;
}

void mh_labels_put(mh_appender *to, const mh_labels *labels, bool ids)
{
    for (size_t i = 0; i < labels->count; i++) {
        mh_append_string(to, i ? ", " : "");
        if (ids) {
            mh_append_json_string(to, labels->names[i]);
            mh_append_format(to, ": %zu", i);
        } else {
            mh_append_format(to, "\"%zu\": ", i);
            mh_append_json_string(to, labels->names[i]);
        }
    }
}
