// SPDX-License-Identifier: MIT
// Which requests get which answer. A request is rejected before its body is read.
#include "server.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A header's value for "%.*s".
#define SHOWN(text) shown_size(text), (text).bytes ? (text).bytes : "none"
static int shown_size(mh_text text)
{
    enum { MOST = 200 };
    return !text.bytes ? 4 : text.size < MOST ? (int)text.size : MOST;
}

static bool equals(mh_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

static bool is_json(mh_text type)
{
    static const char json[] = "application/json";
    const size_t size = sizeof json - 1;
    return type.size >= size && strncasecmp(type.bytes, json, size) == 0 &&
           (type.size == size || strchr("; \t", type.bytes[size]));
}

static bool is_own_origin(mh_text origin, mh_text host)
{
    return origin.size == 7 + host.size && strncasecmp(origin.bytes, "http://", 7) == 0 &&
           strncasecmp(origin.bytes + 7, host.bytes, host.size) == 0;
}

// The error for a request with a text; code 0: it is valid.
static answer request_refuse_text(const http_request *r)
{
    if (r->origin.bytes && !is_own_origin(r->origin, r->host))
        return answer_error(403, "Origin: found '%.*s', expected 'http://%.*s'", SHOWN(r->origin),
                            SHOWN(r->host));
    if (!r->content_type.bytes || !is_json(r->content_type))
        return answer_error(415, "Content-Type: found '%.*s', expected 'application/json'",
                            SHOWN(r->content_type));
    if (!r->has_length)
        return answer_error(411, "Content-Length: missing, expected the size of the body");
    return (answer){0};
}

// Where texts are sent.
static const char *text_path(const server *s)
{
    return s->served.task == TASK_TRANSLATE ? "/translate" : "/look";
}

// The error for requests other than those for the page, /model and text_path(); code 0: it is
// valid.
static answer request_refuse(const server *s, const http_request *r)
{
    const bool page = equals(r->path, "/") || equals(r->path, "/model");
    const bool text = equals(r->path, text_path(s));
    if (!listener_knows(&s->listener, r->host))
        return answer_error(403, "Host: found '%.*s', expected the address in %s", SHOWN(r->host),
                            s->listener.url);
    if (!page && !text)
        return answer_error(404, "not found; this server has /, /model and %s", text_path(s));
    const char *allow = page ? "GET, HEAD" : "POST";
    if (page ? !equals(r->method, "GET") && !equals(r->method, "HEAD")
             : !equals(r->method, "POST")) {
        answer refusal = answer_error(405, "expected %s", allow);
        refusal.allow = allow;
        return refusal;
    }
    const answer refusal = text ? request_refuse_text(r) : (answer){0};
    const unsigned most = text && s->served.pictures ? PICTURE_BODY_MAX : BODY_MAX;
    if (!refusal.code && r->body_size > most)
        return answer_error(413, "the body: found %llu bytes, expected at most %u",
                            (unsigned long long)r->body_size, most);
    return refusal;
}

// The queued job, or the answer if it cannot be queued.
static job *push_text(server *s, client *c, const char *body, size_t size, answer *refusal)
{
    job *j = calloc(1, sizeof *j);
    if (j)
        j->body = malloc(size + 1);
    if (!j || !j->body) {
        *refusal = answer_error(503, "out of memory");
    } else if (s->unsent > UNSENT_MAX) {
        *refusal = answer_error(503, "too many answers are waiting to be read by their clients");
    } else {
        memcpy(j->body, body, size);
        j->size = size;
        j->client = c;
        atomic_init(&j->cancelled, false);
        if (queue_push(&s->queue, j))
            return j;
        *refusal = answer_error(503, "%zu requests are waiting already; try again later",
                                s->queue.capacity);
    }
    job_free(j);
    return NULL;
}

static void answer_text(server *s, client *c, const char *body, size_t size)
{
    answer refusal = {0};
    c->job = push_text(s, c, body, size, &refusal);
    if (!c->job) {
        client_answer(s, c, refusal, c->keep_alive);
        return;
    }
    client_enter(c, CLIENT_WAITING, s->timeout);
}

static void discard_input(client *c, size_t size)
{
    c->input_size -= size;
    memmove(c->input, c->input + size, c->input_size);
    c->needed = 0;
    c->continued = false;
}

// The rest of a rejected request is not read: the connection ends.
static bool end_with(server *s, client *c, answer a)
{
    c->input_size = 0;
    client_answer(s, c, a, false);
    return true;
}

static bool wait_for_body(client *c, size_t needed, bool expects_continue)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    c->needed = needed;
    if (expects_continue && !c->continued) {
        c->continued = true;
        if (!client_send_now(c, interim, sizeof interim - 1))
            c->state = CLIENT_GONE;
    }
    return false;
}

static answer refuse_long_head(const client *c)
{
    if (memchr(c->input, '\n', HTTP_REQUEST_HEAD_MAX))
        return answer_error(431, "the head: expected at most %d bytes", HTTP_REQUEST_HEAD_MAX);
    return answer_error(414, "the request line: expected at most %d bytes", HTTP_REQUEST_HEAD_MAX);
}

static bool answer_request(server *s, client *c, const http_request *r)
{
    const answer refusal =
        s->stopping ? answer_error(503, "the server is stopping") : request_refuse(s, r);
    if (refusal.code && r->body_size > 0)
        return end_with(s, c, refusal);
    const size_t size = r->head_size + (size_t)r->body_size;
    if (c->input_size < size)
        return wait_for_body(c, size, r->expects_continue);
    if (refusal.code)
        client_answer(s, c, refusal, c->keep_alive);
    else if (equals(r->path, "/"))
        client_show_page(s, c);
    else if (equals(r->path, "/model"))
        client_show_model(s, c);
    else
        answer_text(s, c, c->input + r->head_size, (size_t)r->body_size);
    discard_input(c, size);
    return true;
}

bool request_take(server *s, client *c)
{
    http_request r;
    const char *problem;
    if (c->input_size == 0 || c->input_size < c->needed)
        return false;
    const int code = http_parse_request(c->input, c->input_size, &r, &problem);
    if (code == 0 && c->input_size < HTTP_REQUEST_HEAD_MAX)
        return false;
    c->head_only = false;
    if (code == 0 || (code == 200 && r.head_size > HTTP_REQUEST_HEAD_MAX))
        return end_with(s, c, refuse_long_head(c));
    if (code != 200)
        return end_with(s, c, answer_error(code, "%s", problem));
    c->head_only = equals(r.method, "HEAD");
    c->keep_alive = r.keep_alive;
    return answer_request(s, c, &r);
}
