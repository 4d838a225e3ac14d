// SPDX-License-Identifier: MIT
// HTTP/1.1 as `multihead serve` needs it: parses the head of a request, writes the head of a
// response. Bytes in, values out; no sockets.
//
// The parser is strict, because all programs must agree where a request ends (request smuggling):
// lines end with CR LF, names are tokens directly followed by a colon, no value is continued on the
// next line or contains a control character, a NUL least of all. A body has a Content-Length;
// Transfer-Encoding is rejected.
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include <multihead/text.h>
#include <time.h>

enum {
    HTTP_REQUEST_HEAD_MAX = 32 << 10, // bytes
    HTTP_RESPONSE_HEAD_MAX = 1 << 10,
};

// Values point into the bytes that were parsed.
typedef struct http_request {
    mh_text method;
    mh_text path;                       // without the query
    mh_text host, origin, content_type; // bytes == NULL: missing
    bool has_length;                    // Content-Length is present
    uint64_t body_size;                 // 0 without one; UINT64_MAX: that or more
    size_t head_size;                   // the empty line included
    bool keep_alive;
    bool expects_continue;
} http_request;

// 0: the head is not complete yet; 200: *request is valid; else the status code of the response,
// with *problem, a constant string. Any thread.
int http_parse_request(const char *bytes, size_t size, http_request *request, const char **problem);

typedef struct http_response {
    int code;
    const char *content_type;
    const char *allow; // NULL: no such header
    int retry_after;   // in seconds; 0: no such header
    bool keep_alive;
    size_t body_size;
} http_response;

// Writes status line, headers and the empty line; returns their size.
size_t http_write_head(const http_response *response, time_t now, char to[HTTP_RESPONSE_HEAD_MAX]);

#endif
