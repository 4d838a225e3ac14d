// SPDX-License-Identifier: MIT
// A client of `multihead serve` that sends bytes and reads responses; see http_client.c.
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

extern int port;    // of 127.0.0.1
extern bool failed; // any check

typedef struct reply {
    int code; // 0: the connection ended without one
    char *head, *body;
    size_t size; // of the body
} reply;

void *grow(void *memory, size_t size); // realloc() or abort()
char *repeat(char c, size_t count, const char *before, const char *after, size_t *size);

int dial(void);
bool send_all(int s, const char *bytes, size_t size);

// One answer, and not a byte of the next.
reply read_reply(int s);
void free_reply(reply *r);
bool has_header(const reply *r, const char *line);

// A request with our Host, and if there is a body, what belongs to it.
char *make_request(const char *line, const char *headers, const char *body, size_t size,
                   size_t *whole);

// One request over a connection of its own.
reply ask_bytes(const char *bytes, size_t size);
reply ask(const char *line, const char *headers, const char *body, size_t size);

// Checks that print a line each. Every answer must have our headers about security. expect() frees
// the reply.
void expect(const char *what, reply r, int code, const char *part);
void expect_true(const char *what, bool good);

#endif
