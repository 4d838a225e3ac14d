// SPDX-License-Identifier: MIT
// What heads attend to, as files; see view_files.h.
#include "view_files.h"
#include "messages.h"

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
