// SPDX-License-Identifier: MIT
// See run_labels.h.
#include "train/run_labels.h"

#include "support/json_text.h"

bool mh_labels_find(const mh_run *run, mh_text name, size_t *label)
{
    for (size_t i = 0; i < run->label_count; i++)
        if (name.size == strlen(run->labels[i]) && !memcmp(name.bytes, run->labels[i], name.size)) {
            *label = i;
            return true;
        }
    return false;
}

mh_status mh_labels_add(mh_run *run, mh_text name)
{
    if (!mh_grow(run->context, &run->labels, &run->labels_capacity, run->label_count + 1,
                 sizeof *run->labels))
        return MH_ERROR_MEMORY;
    char *copy = mh_alloc(run->context, name.size + 1);
    if (!copy)
        return MH_ERROR_MEMORY;
    memcpy(copy, name.bytes, name.size);
    copy[name.size] = 0;
    run->labels[run->label_count++] = copy;
    return MH_OK;
}

void mh_labels_free(mh_run *run)
{
    for (size_t i = 0; i < run->label_count; i++)
        mh_free(run->context, run->labels[i], strlen(run->labels[i]) + 1);
    mh_shrink(run->context, &run->labels, &run->labels_capacity, sizeof *run->labels);
    run->label_count = 0;
}

void mh_labels_put(mh_appender *to, const mh_run *run, bool ids)
{
    for (size_t i = 0; i < run->label_count; i++) {
        mh_append_string(to, i ? ", " : "");
        if (ids) {
            mh_json_text(to, run->labels[i]);
            mh_append_format(to, ": %zu", i);
        } else {
            mh_append_format(to, "\"%zu\": ", i);
            mh_json_text(to, run->labels[i]);
        }
    }
}
