// SPDX-License-Identifier: MIT
// Fuzzes the reader of run logs. What is accepted is drawn, as an image and as text: neither has a
// number that is none, nor anything but printable ASCII (in the text: and blocks).
#include "fuzz_context.h"

#include "view/curve.h"

static void draw(mh_context *context, const mh_run_history *history)
{
    mh_buffer svg, text;
    if (history->series[MH_RUN_LOSS].count + history->series[MH_RUN_VALID_LOSS].count == 0 ||
        mh_curve_draw_svg(context, history, &svg) != MH_OK ||
        mh_curve_draw_text(context, history, 80, &text) != MH_OK)
        abort();
    for (size_t i = 0; i < svg.size; i++)
        if ((svg.data[i] < ' ' || svg.data[i] > '~') && svg.data[i] != '\n')
            abort();
    const char *body = strstr(svg.data, "</style>");
    if (!body || strstr(body, "nan") || strstr(body, "inf") || strchr(text.data, '\033'))
        abort();
    mh_buffer_free(context, &svg);
    mh_buffer_free(context, &text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { PER_BYTE = 64, FIXED = 1 << 18 };
    mh_context *context = fuzz_context();
    mh_run_history history;
    size_t before = fuzz_memory.live;
    fuzz_memory.peak = before;
    mh_status status = mh_run_history_parse(context, "fuzz", bytes, size, &history);
    bool packed = size >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
    if (!packed && fuzz_memory.peak - before > FIXED + size * PER_BYTE)
        abort();
    if (status == MH_OK)
        draw(context, &history);
    else if (status != MH_ERROR_FORMAT || mh_error_message(context)[0] == '\0')
        abort();
    mh_run_history_free(context, &history);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
