// SPDX-License-Identifier: MIT
// One connection. Sockets are non-blocking: unsent bytes are sent when poll() reports it writable.
//
//     ASKING --> WAITING --> ANSWERED --> ASKING                  keep-alive
//        |                   ^      |
//        +-------------------+      +---> LINGERING --> GONE      the last answer
//         the page, an error
//
// Closing a socket with unread input resets the connection, and the client may lose the answer that
// was sent before. So after the last answer only the sending side is shut down, and further input
// is ignored for a while.
#include "server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READ_BYTES = 16 << 10 };

client *client_open(int socket)
{
    const int yes = 1;
    client *c = calloc(1, sizeof *c);
    if (!c) {
        close(socket);
        return NULL;
    }
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    c->socket = socket;
    client_enter(c, CLIENT_ASKING, REQUEST_SECONDS);
    return c;
}

static void free_answer(server *s, client *c)
{
    if (c->owned)
        s->unsent -= c->body_size;
    free(c->owned);
    c->owned = NULL;
    c->body = "";
    c->body_size = 0;
}

void client_close(server *s, client *c)
{
    if (c->job)
        queue_cancel(&s->queue, c->job);
    free_answer(s, c);
    close(c->socket);
    free(c->input);
    free(c);
}

void client_enter(client *c, client_state state, int seconds)
{
    c->state = state;
    c->since = now_ms();
    c->deadline = c->since + 1000 * (int64_t)seconds;
}

// ---- answers ------------------------------------------------------------------------------------

static void begin_answer(server *s, client *c, http_response *r)
{
    c->keep_alive = r->keep_alive && !s->stopping;
    r->keep_alive = c->keep_alive;
    c->head_size = http_write_head(r, time(NULL), c->head);
    c->sent = 0;
    if (c->head_only)
        free_answer(s, c);
    client_enter(c, CLIENT_ANSWERED, RESPONSE_SECONDS);
    client_send(s, c);
}

void client_answer(server *s, client *c, answer a, bool keep_alive)
{
    http_response r = {.code = a.code,
                       .content_type = "application/json",
                       .allow = a.allow,
                       .retry_after = a.code == 503 ? RETRY_SECONDS : 0,
                       .keep_alive = keep_alive,
                       .body_size = a.size};
    if (!a.body) { // out of memory
        c->state = CLIENT_GONE;
        return;
    }
    c->body = c->owned = a.body;
    c->body_size = a.size;
    s->unsent += a.size;
    begin_answer(s, c, &r);
}

// Bytes that live as long as the server.
static void client_show(server *s, client *c, const char *type, const char *bytes, size_t size)
{
    http_response r = {
        .code = 200, .content_type = type, .keep_alive = c->keep_alive, .body_size = size};
    c->body = bytes;
    c->body_size = size;
    begin_answer(s, c, &r);
}

void client_show_page(server *s, client *c)
{
    client_show(s, c, "text/html; charset=utf-8", s->page.data, s->page.size);
}

void client_show_model(server *s, client *c)
{
    client_show(s, c, "application/json", s->model, strlen(s->model));
}

static void end_answer(server *s, client *c)
{
    free_answer(s, c);
    if (c->keep_alive && !s->stopping) {
        client_enter(c, CLIENT_ASKING, REQUEST_SECONDS);
    } else {
        shutdown(c->socket, SHUT_WR);
        client_enter(c, CLIENT_LINGERING, LINGER_SECONDS);
    }
}

void client_send(server *s, client *c)
{
    const size_t size = c->head_size + c->body_size;
    while (c->sent < size) {
        const size_t head = c->sent < c->head_size ? c->sent : c->head_size;
        const size_t body = c->sent - head;
        struct iovec parts[2] = {{c->head + head, c->head_size - head},
                                 {(char *)(uintptr_t)(c->body + body), c->body_size - body}};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        const ssize_t sent = sendmsg(c->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
                c->state = CLIENT_GONE;
            return;
        }
        c->sent += (size_t)sent;
        c->since = now_ms();
    }
    end_answer(s, c);
}

bool client_send_now(client *c, const char *bytes, size_t size)
{
    return send(c->socket, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

// ---- requests -----------------------------------------------------------------------------------

static bool make_room(client *c)
{
    if (c->input_capacity - c->input_size >= READ_BYTES)
        return true;
    const size_t capacity = c->input_size + 2 * READ_BYTES;
    char *input = realloc(c->input, capacity);
    if (!input)
        return false;
    c->input = input;
    c->input_capacity = capacity;
    return true;
}

static ssize_t receive(client *c)
{
    char ignored[READ_BYTES];
    if (c->state == CLIENT_LINGERING)
        return recv(c->socket, ignored, sizeof ignored, MSG_DONTWAIT);
    if (!make_room(c))
        return 0;
    const ssize_t size = recv(c->socket, c->input + c->input_size, READ_BYTES, MSG_DONTWAIT);
    if (size > 0)
        c->input_size += (size_t)size;
    return size;
}

void client_take_requests(server *s, client *c)
{
    while (c->state == CLIENT_ASKING && request_take(s, c)) {
    }
    if (c->input_size == 0) { // most connections are idle most of the time
        free(c->input);
        c->input = NULL;
        c->input_capacity = 0;
    }
}

void client_read(server *s, client *c)
{
    const ssize_t size = receive(c);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        c->state = CLIENT_GONE;
    else if (c->state == CLIENT_ASKING)
        client_take_requests(s, c);
}
