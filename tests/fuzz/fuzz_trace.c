// SPDX-License-Identifier: MIT
// Fuzzes the reader of traces: each input with a header length that points behind its last brace,
// because the safetensors reader has a target of its own. What is accepted is shown, as text and
// as a page's data.
#include "fuzz_context.h"

#include <multihead/view.h>

enum { PREFIX = 8 };

static void show(mh_context *context, const mh_trace *trace)
{
    mh_buffer text, data;
    mh_view_options options = mh_view_options_default();
    options.colour = true;
    if (mh_view_text(context, &options, trace, &text) != MH_OK ||
        mh_view_data(context, NULL, trace, &data) != MH_OK)
        abort();
    mh_buffer_free(context, &text);
    mh_buffer_free(context, &data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    mh_trace_file *file;
    size_t before = fuzz_memory.live;
    if (size <= PREFIX)
        return 0;
    const uint8_t *brace = memrchr(bytes + PREFIX, '}', size - PREFIX);
    uint64_t length = brace ? (uint64_t)(brace - bytes) + 1 - PREFIX : size - PREFIX;
    blob copy = blob_copy(bytes, size);
    for (int i = 0; i < PREFIX; i++)
        copy.bytes[i] = (uint8_t)(length >> (8 * i));
    fuzz_memory.peak = before;
    mh_status status = mh_trace_file_parse(context, "fuzz", copy.bytes, copy.size, &file);
    if (fuzz_memory.peak - before > FUZZ_MEMORY_FIXED + size * FUZZ_MEMORY_PER_BYTE)
        abort();
    if (status == MH_OK)
        show(context, mh_trace_file_trace(file));
    else if (status != MH_ERROR_FORMAT || file != NULL || mh_error_message(context)[0] == '\0')
        abort();
    mh_trace_file_free(file);
    blob_free(&copy);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
