// SPDX-License-Identifier: MIT
// The heads of responses; see http.h. Every response, errors included, has the same security
// headers.
#include "http.h"

#include <stdarg.h>
#include <stdio.h>

static const char *reason(int code)
{
    static const struct {
        int code;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].code == code)
            return reasons[i].reason;
    return "";
}

typedef struct head {
    char *bytes;
    size_t size;
} head;

static void http_put(head *h, const char *format, ...) MH_PRINTF(2, 3);
static void http_put(head *h, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int size =
        vsnprintf(h->bytes + h->size, HTTP_RESPONSE_HEAD_MAX - h->size, format, arguments);
    va_end(arguments);
    if (size > 0)
        h->size += (size_t)size;
}

// strftime() depends on the locale.
static void put_date(head *h, time_t now)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm t;
    if (gmtime_r(&now, &t))
        http_put(h, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[t.tm_wday], t.tm_mday,
                 months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

size_t http_write_head(const http_response *r, time_t now, char to[HTTP_RESPONSE_HEAD_MAX])
{
    head h = {.bytes = to};
    http_put(&h, "HTTP/1.1 %d %s\r\n", r->code, reason(r->code));
    put_date(&h, now);
    http_put(&h, "Content-Type: %s\r\nContent-Length: %zu\r\n", r->content_type, r->body_size);
    if (r->allow)
        http_put(&h, "Allow: %s\r\n", r->allow);
    if (r->retry_after)
        http_put(&h, "Retry-After: %d\r\n", r->retry_after);
    if (!r->keep_alive)
        http_put(&h, "Connection: close\r\n");
    http_put(&h, "X-Content-Type-Options: nosniff\r\n"
                 "Cache-Control: no-store\r\n"
                 "Cross-Origin-Resource-Policy: same-origin\r\n"
                 "Cross-Origin-Opener-Policy: same-origin\r\n"
                 "Content-Security-Policy: frame-ancestors 'none'\r\n" // not possible in <meta>
                 "Referrer-Policy: no-referrer\r\n"
                 "\r\n");
    return h.size;
}
