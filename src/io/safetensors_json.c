// SPDX-License-Identifier: MIT
// Parses a safetensors header as JSON. Before jansson sees the text, it is rejected if it has more
// than three levels of nesting, or more values than the maximum number of tensors needs.
#include "io/safetensors_json.h"

#include "io/safetensors.h"
#include "support/json_load.h"

enum {
    NESTING_MAX = 3, // header, tensor, shape
    // brackets and commas of a tensor: 3 brackets, 2 commas between its members, 7 between eight
    // dimensions, 1 between two offsets, 1 after it
    VALUES_PER_TENSOR = 14,
    MEMBERS_MAX = MH_SAFETENSORS_TENSORS_MAX + 1, // and the metadata
};

static mh_status check_limits(const mh_source *source, const mh_json_scan *s)
{
    size_t members = s->members + 1;
    if (members > MEMBERS_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header of %zu members, expected at most %d tensors", members,
                              MH_SAFETENSORS_TENSORS_MAX);
    if (s->values > members * VALUES_PER_TENSOR + MH_SAFETENSORS_METADATA_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header of %zu values, too many for %zu tensors with %d metadata "
                              "pairs",
                              s->values, members, MH_SAFETENSORS_METADATA_MAX);
    return MH_OK;
}

mh_status mh_safetensors_load(const mh_source *source, const char *text, size_t size, json_t **root)
{
    mh_json_scan s = {0};
    mh_status status = mh_json_scan_text(source, "header ", text, size, NESTING_MAX, &s);
    if (status == MH_OK)
        status = check_limits(source, &s);
    return status == MH_OK ? mh_json_load(source, "header ", text, size, &s, root) : status;
}
