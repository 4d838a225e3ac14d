// SPDX-License-Identifier: MIT
// The parser of request heads; see http.h.
#include "http.h"

#include <string.h>
#include <strings.h>

static bool is_token_character(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(mh_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!is_token_character(text.bytes[i]))
            return false;
    return text.size > 0;
}

static bool equals_any_case(mh_text text, const char *word)
{
    return text.size == strlen(word) && strncasecmp(text.bytes, word, text.size) == 0;
}

static bool http_is_whitespace(char c) { return c == ' ' || c == '\t'; }

static mh_text http_trim(mh_text text)
{
    while (text.size > 0 && http_is_whitespace(text.bytes[text.size - 1]))
        text.size--;
    while (text.size > 0 && http_is_whitespace(text.bytes[0]))
        text.bytes++, text.size--;
    return text;
}

// Splits off the bytes before the first `end`, and removes `end`; false without one.
static bool http_split(mh_text *text, char end, mh_text *first)
{
    const char *at = memchr(text->bytes, end, text->size);
    if (!at)
        return false;
    *first = (mh_text){text->bytes, (size_t)(at - text->bytes)};
    text->bytes = at + 1;
    text->size -= first->size + 1;
    return true;
}

// ---- where the head ends ------------------------------------------------------------------------

// The size of the head, with empty lines before it; 0: not complete; SIZE_MAX: a line that does not
// end with CR LF. *first is where the request line begins.
static size_t find_head(const char *bytes, size_t size, size_t *first)
{
    size_t start = 0;
    *first = 0;
    while (start < size) {
        const char *end = memchr(bytes + start, '\n', size - start);
        if (!end)
            return 0;
        const size_t line = (size_t)(end - bytes) - start;
        if (line == 0 || end[-1] != '\r')
            return SIZE_MAX;
        start += line + 1;
        if (line > 1)
            continue;
        if (start > *first + 2)
            return start;
        *first = start;
    }
    return 0;
}

// ---- the request line ---------------------------------------------------------------------------

static int parse_request_line(mh_text line, http_request *r, const char **problem)
{
    mh_text target, query;
    *problem = "the request line: expected 'METHOD /PATH HTTP/1.1'";
    if (!http_split(&line, ' ', &r->method) || !is_token(r->method) ||
        !http_split(&line, ' ', &target) || target.size == 0 || line.size != 8 ||
        memcmp(line.bytes, "HTTP/", 5) != 0 || line.bytes[6] != '.')
        return 400;
    for (size_t i = 0; i < target.size; i++)
        if (target.bytes[i] <= ' ' || target.bytes[i] > '~')
            return 400;
    if (line.bytes[5] != '1' || line.bytes[7] < '0' || line.bytes[7] > '9') {
        *problem = "expected HTTP/1.1";
        return 505;
    }
    r->keep_alive = line.bytes[7] != '0';
    r->path = http_split(&target, '?', &query) ? query : target;
    return 200;
}

// ---- headers ------------------------------------------------------------------------------------

// State that is only needed until the last header has been read.
typedef struct header_state {
    http_request *request;
    bool transfer_encoding;
    const char *problem;
} header_state;

static int http_refuse(header_state *s, int code, const char *problem)
{
    s->problem = problem;
    return code;
}

static int set_once(header_state *s, mh_text *field, mh_text value, const char *problem)
{
    if (field->bytes)
        return http_refuse(s, 400, problem);
    *field = value;
    return 200;
}

// Equal lengths may be repeated.
static int set_length(header_state *s, mh_text value)
{
    http_request *r = s->request;
    uint64_t size = 0;
    for (size_t i = 0; i < value.size; i++) {
        const char c = value.bytes[i];
        if (c < '0' || c > '9')
            return http_refuse(s, 400, "Content-Length: expected a number of bytes");
        const uint64_t digit = (uint64_t)(c - '0');
        size = size > (UINT64_MAX - digit) / 10 ? UINT64_MAX : 10 * size + digit;
    }
    if (value.size == 0)
        return http_refuse(s, 400, "Content-Length: expected a number of bytes");
    if (r->has_length && r->body_size != size)
        return http_refuse(s, 400, "Content-Length: found two that differ");
    r->has_length = true;
    r->body_size = size;
    return 200;
}

static void set_connection(http_request *r, mh_text list)
{
    mh_text option;
    while (http_split(&list, ',', &option))
        if (equals_any_case(http_trim(option), "close"))
            r->keep_alive = false;
    if (equals_any_case(http_trim(list), "close"))
        r->keep_alive = false;
}

static int set_header(header_state *s, mh_text name, mh_text value)
{
    http_request *r = s->request;
    if (equals_any_case(name, "Host"))
        return set_once(s, &r->host, value, "Host: found twice");
    if (equals_any_case(name, "Origin"))
        return set_once(s, &r->origin, value, "Origin: found twice");
    if (equals_any_case(name, "Content-Type"))
        return set_once(s, &r->content_type, value, "Content-Type: found twice");
    if (equals_any_case(name, "Content-Length"))
        return set_length(s, value);
    if (equals_any_case(name, "Transfer-Encoding"))
        s->transfer_encoding = true;
    else if (equals_any_case(name, "Connection"))
        set_connection(r, value);
    else if (equals_any_case(name, "Expect")) {
        if (!equals_any_case(value, "100-continue"))
            return http_refuse(s, 417, "Expect: expected '100-continue' or nothing");
        r->expects_continue = true;
    }
    return 200;
}

static int parse_header(header_state *s, mh_text line)
{
    mh_text name;
    if (!http_split(&line, ':', &name) || !is_token(name))
        return http_refuse(s, 400, "a header: expected 'Name: value' on one line");
    for (size_t i = 0; i < line.size; i++) {
        const unsigned char c = (unsigned char)line.bytes[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return http_refuse(s, 400, "a header: found a control character in its value");
    }
    return set_header(s, name, http_trim(line));
}

// ---- all of it ----------------------------------------------------------------------------------

int http_parse_request(const char *bytes, size_t size, http_request *r, const char **problem)
{
    size_t first;
    const size_t head = find_head(bytes, size, &first);
    *r = (http_request){.head_size = head};
    *problem = "the head: expected lines that end with CR LF";
    if (head == 0)
        return 0;
    if (head == SIZE_MAX)
        return 400;
    mh_text rest = {bytes + first, head - first - 2}, line = {0}; // without the empty line
    header_state s = {.request = r};
    http_split(&rest, '\n', &line);
    line.size--; // CR
    int code = parse_request_line(line, r, problem);
    while (code == 200 && http_split(&rest, '\n', &line)) {
        line.size--;
        code = parse_header(&s, line);
        *problem = s.problem;
    }
    if (code != 200)
        return code;
    if (s.transfer_encoding) {
        *problem = "Transfer-Encoding: found one, expected a body of known Content-Length";
        return r->has_length ? 400 : 411;
    }
    if (!r->host.bytes) {
        *problem = "Host: expected one";
        return 400;
    }
    return 200;
}
