// SPDX-License-Identifier: MIT
// Fuzzes the parser of request heads. What is accepted lies within the head and has no control
// characters; bytes behind the head change nothing, and no shorter input is a complete head.
#include "cli/serve/http.h"

#include <stdlib.h>
#include <string.h>

static bool has_control(mh_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (((unsigned char)text.bytes[i] < ' ' && text.bytes[i] != '\t') || text.bytes[i] == 0x7f)
            return true;
    return false;
}

static void check_value(const char *bytes, const http_request *r, mh_text value)
{
    if (!value.bytes)
        return;
    if (value.bytes < bytes || value.bytes + value.size > bytes + r->head_size ||
        has_control(value))
        abort();
}

// The input is copied to memory of exactly its size, so that no byte beyond it is read.
static int parse(const uint8_t *bytes, size_t size, http_request *r)
{
    const char *problem = NULL;
    char *copy = malloc(size ? size : 1);
    if (size)
        memcpy(copy, bytes, size);
    const int code = http_parse_request(copy, size, r, &problem);
    if (code != 0 && code != 200 && (code < 400 || !problem || !*problem))
        abort();
    if (code == 200) {
        const mh_text values[] = {r->method, r->path, r->host, r->origin, r->content_type};
        if (r->head_size > size || memcmp(copy + r->head_size - 4, "\r\n\r\n", 4) != 0 ||
            !r->host.bytes || (!r->has_length && r->body_size > 0))
            abort();
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            check_value(copy, r, values[i]);
    }
    free(copy);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    http_request whole, other;
    if (parse(bytes, size, &whole) != 200)
        return 0;
    if (parse(bytes, whole.head_size, &other) != 200 || other.head_size != whole.head_size ||
        other.body_size != whole.body_size || other.keep_alive != whole.keep_alive)
        abort();
    if (parse(bytes, whole.head_size - 1, &other) != 0)
        abort();
    return 0;
}
