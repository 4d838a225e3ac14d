// SPDX-License-Identifier: MIT
// Fuzzes chat templates: each input is one, run on a short conversation. It ends, in memory that
// the interpreter's limits justify, with valid UTF-8 or a message.
#include "fuzz_context.h"
#include "model/chat_template.h"

enum { MEMORY = 192 << 20 }; // strings of 16 MB, and values of 2^20 steps

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    const mh_chat_message messages[] = {{MH_CHAT_SYSTEM, {" be \xC3\xA9 ", 7}},
                                        {MH_CHAT_USER, {"user", 4}},
                                        {MH_CHAT_ASSISTANT, {"answer\n", 7}},
                                        {MH_CHAT_USER, {"", 0}}};
    const mh_text template = {(const char *)bytes, size};
    const size_t before = fuzz_memory.live;
    mh_buffer text = {0};
    fuzz_memory.peak = before;
    const mh_status status = mh_chat_render(context, template, (mh_text){"<s>", 3},
                                            (mh_text){"</s>", 4}, messages, 4, &text);
    if (status == MH_OK ? mh_utf8_valid(text.data, text.size) < text.size
                        : mh_error_message(context)[0] == '\0')
        abort();
    mh_buffer_free(context, &text);
    if (fuzz_memory.live != before || fuzz_memory.peak - before > MEMORY)
        abort();
    return 0;
}
