// SPDX-License-Identifier: MIT
// The page: web/'s template with two placeholders filled in.
//
//     ... connect-src {{connect}} ...     whom the page may talk to: 'none', or its server
//     {{data}}                            the trace, as elements that are no program
//
// A trace's contents are JSON, with every "<" escaped as \u003c, and base64, so that no token can
// close an element and inject markup.
#include <string.h>

#include "base/argument_check.h"
#include "base/sized_struct.h"
#include "support/file.h"
#include "view/page_data.h"
#include "view/page_template.h"
#include "view/trace.h"

// ---- in a page ----------------------------------------------------------------------------------

static void page_description(mh_appender *to, const char *json)
{
    mh_append_string(to, "<script type=\"application/json\" id=\"trace\">");
    for (const char *less; (less = strchr(json, '<')) != NULL; json = less + 1) {
        mh_append(to, json, (size_t)(less - json));
        mh_append_string(to, "\\u003c");
    }
    mh_append_string(to, json);
    mh_append_string(to, "</script>\n");
}

static void page_chunk(mh_appender *to, size_t number, const unsigned char *bytes, size_t size)
{
    mh_append_format(to, "<script type=\"application/octet-stream\" id=\"chunk%zu\">", number);
    mh_append_base64(to, bytes, size);
    mh_append_string(to, "</script>\n");
}

static const mh_page_sink page_sink = {page_description, page_chunk};

// ---- alone --------------------------------------------------------------------------------------

static void json_description(mh_appender *to, const char *json)
{
    mh_append_string(to, "{\"trace\":");
    mh_append_string(to, json);
    mh_append_string(to, ",\"chunks\":[");
}

static void json_chunk(mh_appender *to, size_t number, const unsigned char *bytes, size_t size)
{
    mh_append_string(to, number ? ",\n\"" : "\n\"");
    mh_append_base64(to, bytes, size);
    mh_append_string(to, "\"");
}

static const mh_page_sink json_sink = {json_description, json_chunk};

// ---- both ---------------------------------------------------------------------------------------

// The caller's structs, complete.
typedef struct call {
    mh_view_options options;
    mh_trace trace;
} call;

static mh_status page_read_call(mh_context *context, const mh_view_options *options,
                                const mh_trace *trace, const char *out_name, mh_buffer *out,
                                call *own)
{
    if (mh_need(context, out, out_name))
        return MH_ERROR_ARGUMENT;
    *out = (mh_buffer){0};
    own->options = mh_view_options_default();
    mh_status status = MH_READ_STRUCT(context, mh_view_options, options, &own->options);
    return status || !trace ? status : mh_trace_read(context, trace, false, &own->trace);
}

// Appends the template up to `mark` and steps over it.
static void append_until(mh_appender *to, const char **from, const char *end, const char *mark)
{
    size_t left = (size_t)(end - *from);
    const char *found = mark ? memmem(*from, left, mark, strlen(mark)) : NULL;
    mh_append(to, *from, found ? (size_t)(found - *from) : left);
    *from = found ? found + strlen(mark) : end;
}

mh_status mh_view_page(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                       mh_buffer *page)
{
    call own;
    const char *from = (const char *)mh_page_template, *end = from + mh_page_template_size;
    mh_appender to = {.context = context};
    mh_status status = page_read_call(context, options, trace, "page", page, &own);
    if (status != MH_OK)
        return status;
    append_until(&to, &from, end, "{{connect}}");
    mh_append_string(&to, own.options.served ? "'self'" : "'none'");
    append_until(&to, &from, end, "{{data}}");
    if (trace != NULL)
        status = mh_page_data(&own.options, &own.trace, &page_sink, &to);
    append_until(&to, &from, end, NULL);
    return mh_append_finish(&to, status, page);
}

mh_status mh_view_data(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                       mh_buffer *json)
{
    call own;
    mh_appender to = {.context = context};
    mh_status status = page_read_call(context, options, trace, "json", json, &own);
    if (status == MH_OK)
        status = mh_need(context, trace, "trace");
    if (status != MH_OK)
        return status;
    status = mh_page_data(&own.options, &own.trace, &json_sink, &to);
    mh_append_string(&to, "]}\n");
    return mh_append_finish(&to, status, json);
}

mh_status mh_view_page_write(mh_context *context, const mh_view_options *options,
                             const mh_trace *trace, const char *path)
{
    mh_buffer page;
    if (mh_need(context, path, "path"))
        return MH_ERROR_ARGUMENT;
    mh_status status = mh_view_page(context, options, trace, &page);
    if (status != MH_OK)
        return status;
    status = mh_file_replace(context, path, page.data, page.size);
    mh_buffer_free(context, &page);
    return status;
}
