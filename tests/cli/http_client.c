// SPDX-License-Identifier: MIT
// Requests as bytes, whatever HTTP has to say about them, and checks that print a line each.
#include "http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE = 120 };

int port;
bool failed;

void *grow(void *memory, size_t size)
{
    void *more = realloc(memory, size);
    if (!more)
        abort();
    return more;
}

int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct timeval patience = {.tv_sec = PATIENCE};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(s, (struct sockaddr *)&address, sizeof address) != 0) {
        printf("FAIL connect: %s\n", strerror(errno));
        exit(1);
    }
    return s;
}

bool send_all(int s, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(s, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

void free_reply(reply *r)
{
    free(r->head);
    free(r->body);
    *r = (reply){0};
}

static bool read_exactly(int s, char *to, size_t size)
{
    for (size_t used = 0; used < size;) {
        const ssize_t got = recv(s, to + used, size - used, 0);
        if (got <= 0)
            return false;
        used += (size_t)got;
    }
    return true;
}

// One answer, and not a byte of the next.
reply read_reply(int s)
{
    reply r = {0};
    size_t used = 0;
    do {
        r.head = grow(r.head, used + 2);
        if (!read_exactly(s, r.head + used, 1)) {
            free_reply(&r);
            return r;
        }
        r.head[++used] = 0;
    } while (used < 4 || strcmp(r.head + used - 4, "\r\n\r\n") != 0);
    const char *length = strcasestr(r.head, "\nContent-Length:");
    r.code = atoi(r.head + strlen("HTTP/1.1 "));
    r.size = length ? strtoul(length + 16, NULL, 10) : 0;
    r.body = grow(NULL, r.size + 1);
    r.body[r.size] = 0;
    if (!read_exactly(s, r.body, r.size))
        free_reply(&r);
    return r;
}

// A request with our Host, and if there is a body, what belongs to it.
char *make_request(const char *line, const char *headers, const char *body, size_t size,
                   size_t *whole)
{
    char *text = grow(NULL, strlen(line) + strlen(headers) + size + 256);
    int used = sprintf(text, "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s", line, port, headers);
    if (body)
        used +=
            sprintf(text + used, "Content-Type: application/json\r\nContent-Length: %zu\r\n", size);
    used += sprintf(text + used, "\r\n");
    if (body)
        memcpy(text + used, body, size);
    *whole = (size_t)used + (body ? size : 0);
    return text;
}

reply ask_bytes(const char *bytes, size_t size)
{
    int s = dial();
    send_all(s, bytes, size); // it may hang up before it has all
    const reply r = read_reply(s);
    close(s);
    return r;
}

reply ask(const char *line, const char *headers, const char *body, size_t size)
{
    size_t whole;
    char *request = make_request(line, headers, body, size, &whole);
    const reply r = ask_bytes(request, whole);
    free(request);
    return r;
}

// ---- checks -------------------------------------------------------------------------------------

bool has_header(const reply *r, const char *line)
{
    const char *at = r->head ? strcasestr(r->head, line) : NULL;
    return at && at > r->head && at[-1] == '\n' && at[strlen(line)] == '\r';
}

void expect(const char *what, reply r, int code, const char *part)
{
    const bool good = r.code == code && (!part || (r.body && strstr(r.body, part))) &&
                      (code == 0 || has_header(&r, "X-Content-Type-Options: nosniff"));
    printf("%s %s: %d\n", good ? "ok  " : "FAIL", what, r.code);
    if (!good)
        printf("     expected %d and '%s', found '%.300s'\n", code, part ? part : "",
               r.body ? r.body : "");
    failed |= !good;
    free_reply(&r);
}

void expect_true(const char *what, bool good)
{
    printf("%s %s\n", good ? "ok  " : "FAIL", what);
    failed |= !good;
}

char *repeat(char c, size_t count, const char *before, const char *after, size_t *size)
{
    *size = strlen(before) + count + strlen(after);
    char *text = grow(NULL, *size + 1);
    strcpy(text, before);
    memset(text + strlen(before), c, count);
    strcpy(text + strlen(before) + count, after);
    return text;
}
