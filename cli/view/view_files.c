// SPDX-License-Identifier: MIT
// What heads attend to, as files and heatmaps; see view_files.h.
#include "view_files.h"
#include "messages.h"
#include "terminal.h"

#include <string.h>
#include <unistd.h>

void view_files_check(struct argp_state *state, const output *page)
{
    static const char *const others[] = {".svg", ".png", ".jpg", ".pdf", ".csv", ".npy"};
    const char *dot = page->path ? strrchr(page->path, '.') : NULL;
    if (dot && strcmp(dot, ".safetensors") == 0)
        argp_error(state,
                   "%s: found '%s', expected a page, such as page.html; --trace-out writes a "
                   "trace",
                   page->option, page->path);
    for (size_t i = 0; dot && i < sizeof others / sizeof *others; i++)
        if (strcmp(dot, others[i]) == 0)
            argp_error(state,
                       "%s: found '%s', expected a page, such as page.html, which saves its "
                       "views as SVG, PNG and CSV",
                       page->option, page->path);
}

int view_files_save(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                    const output *page, const output *trace_out)
{
    mh_status status = MH_OK;
    const output *at = page;
    begin_saving();
    if (page->path)
        status = mh_view_page_write(context, options, trace, page->path);
    if (status == MH_OK && trace_out->path) {
        at = trace_out;
        status = mh_trace_write(context, trace_out->path, trace);
    }
    end_saving();
    if (status == MH_OK)
        return EXIT_DONE;
    return complain_output(context, status, status == MH_ERROR_FILE ? at->option : NULL);
}

int view_heatmaps_print(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                        FILE *to)
{
    mh_view_options shown = *options;
    mh_buffer text = {0};
    if (shown.width == 0)
        shown.width = terminal_width(STDOUT_FILENO);
    shown.colour = to == stdout && terminal_has_colours();
    const mh_status status = mh_view_text(context, &shown, trace, &text);
    if (status)
        return complain_status(context, status, NULL);
    fwrite(text.data, 1, text.size, to);
    mh_buffer_free(context, &text);
    return EXIT_DONE;
}
