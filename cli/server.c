// SPDX-License-Identifier: MIT
// The daemon: libmicrohttpd speaks HTTP, one thread for each of a bounded number of connections;
// here is decided who gets an answer. A request that is refused is refused before its body is read.
#include "server.h"
#include "messages.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <strings.h>

// ---- answers --------------------------------------------------------------------------------

static enum MHD_Result add_headers(struct MHD_Response *response, const char *type)
{
    const char *const headers[][2] = {
        {"Content-Type", type},
        {"X-Content-Type-Options", "nosniff"},
        {"Cache-Control", "no-store"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Content-Security-Policy", "frame-ancestors 'none'"}, // a page cannot say that itself
        {"Referrer-Policy", "no-referrer"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (MHD_add_response_header(response, headers[i][0], headers[i][1]) != MHD_YES)
            return MHD_NO;
    return MHD_YES;
}

// MHD_NO, here and below, ends the connection without an answer: there was no memory for one.
static enum MHD_Result send_answer(struct MHD_Connection *connection, answer a, const char *allow)
{
    if (!a.body)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(a.size, a.body, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(a.body);
        return MHD_NO;
    }
    enum MHD_Result result = add_headers(response, "application/json");
    if (result == MHD_YES && allow)
        result = MHD_add_response_header(response, "Allow", allow);
    if (result == MHD_YES)
        result = MHD_queue_response(connection, (unsigned)a.code, response);
    MHD_destroy_response(response);
    return result;
}

// ---- who may ask ----------------------------------------------------------------------------

typedef struct header_search {
    const char *name, *value;
    size_t count;
} header_search;

static enum MHD_Result look_at_header(void *user, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    header_search *s = user;
    (void)kind;
    if (strcasecmp(name, s->name) == 0) {
        s->value = value ? value : "";
        s->count++;
    }
    return MHD_YES;
}

static header_search find_header(struct MHD_Connection *connection, const char *name)
{
    header_search s = {.name = name};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, look_at_header, &s);
    return s;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    const size_t size = sizeof json - 1;
    return strncasecmp(type, json, size) == 0 && (!type[size] || strchr("; \t", type[size]));
}

// The number of bytes that are said to follow, SIZE_MAX for what is none.
static size_t body_size(const char *text)
{
    size_t size = 0;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9')
            return SIZE_MAX;
        size = 10 * size + (size_t)(*at - '0');
        if (size > BODY_BYTES_MOST)
            return BODY_BYTES_MOST + 1;
    }
    return *text ? size : SIZE_MAX;
}

// What speaks against a text from this request; code 0: nothing.
static answer refuse_post(struct MHD_Connection *connection, const char *host)
{
    const header_search origin = find_header(connection, "Origin");
    const header_search type = find_header(connection, "Content-Type");
    const header_search length = find_header(connection, "Content-Length");
    if (origin.count && (origin.count > 1 || strncasecmp(origin.value, "http://", 7) != 0 ||
                         strcasecmp(origin.value + 7, host) != 0))
        return answer_error(403, "Origin: found '%.200s', expected 'http://%.200s'", origin.value,
                            host);
    if (type.count != 1 || !is_json(type.value))
        return answer_error(415, "Content-Type: found '%.200s', expected 'application/json'",
                            type.count ? type.value : "none");
    if (length.count != 1 || body_size(length.value) == SIZE_MAX)
        return answer_error(411, "Content-Length: expected how many bytes there are");
    if (body_size(length.value) > BODY_BYTES_MOST)
        return answer_error(413, "the body: found %.40s bytes, expected at most %d", length.value,
                            BODY_BYTES_MOST);
    return (answer){0};
}

// Refuses what is neither our page nor a text for it; code 0: it is one of them.
static answer refuse(const server *s, struct MHD_Connection *connection, const char *url,
                     const char *method, const char **allow)
{
    const header_search host = find_header(connection, "Host");
    const bool page = strcmp(url, "/") == 0, text = strcmp(url, "/translate") == 0;
    if (host.count != 1 || !listener_knows(&s->listener, host.value))
        return answer_error(403, "Host: found '%.200s', expected the address in %s",
                            host.count ? host.value : "none", s->listener.url);
    if (!page && !text)
        return answer_error(404, "there is / and /translate here");
    *allow = page ? "GET, HEAD" : "POST";
    if (page ? strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0
             : strcmp(method, "POST") != 0)
        return answer_error(405, "expected %s", *allow);
    *allow = NULL;
    return text ? refuse_post(connection, host.value) : (answer){0};
}

// ---- a request ------------------------------------------------------------------------------

typedef struct request {
    bool page;
    char *body;
    size_t size;
} request;

static client *client_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static enum MHD_Result take_body(request *r, const char *bytes, size_t *size)
{
    if (*size > BODY_BYTES_MOST - r->size)
        return MHD_NO; // more than was said
    char *more = realloc(r->body, r->size + *size);
    if (!more)
        return MHD_NO;
    memcpy(more + r->size, bytes, *size);
    r->body = more;
    r->size += *size;
    *size = 0;
    return MHD_YES;
}

static enum MHD_Result begin_request(const server *s, struct MHD_Connection *connection,
                                     const char *url, const char *method, void **state)
{
    const char *allow = NULL;
    const answer refusal = refuse(s, connection, url, method, &allow);
    if (refusal.code)
        return send_answer(connection, refusal, allow);
    request *r = calloc(1, sizeof *r);
    if (!r)
        return MHD_NO;
    r->page = strcmp(url, "/") == 0;
    *state = r;
    return MHD_YES;
}

// Called once with the headers, then with each part of the body, then once more.
static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    server *s = user;
    request *r = *state;
    (void)version;
    if (!r)
        return begin_request(s, connection, url, method, state);
    if (*upload_size)
        return r->page ? MHD_NO : take_body(r, upload, upload_size);
    client *c = client_of(connection);
    if (r->page) {
        client_allow(&s->clients, c, SECONDS_TO_LISTEN);
        return MHD_queue_response(connection, MHD_HTTP_OK, s->page_response);
    }
    client_allow(&s->clients, c, 0);
    const answer a = answer_text(&s->answerer, r->body ? r->body : "", r->size);
    client_allow(&s->clients, c, SECONDS_TO_LISTEN);
    return send_answer(connection, a, NULL);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    server *s = user;
    request *r = *state;
    (void)why;
    if (r)
        free(r->body);
    free(r);
    *state = NULL;
    client_allow(&s->clients, client_of(connection), SECONDS_TO_ASK);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    server *s = user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = info ? client_add(&s->clients, info->connect_fd) : NULL;
    } else {
        client_remove(&s->clients, *socket_context);
        *socket_context = NULL;
    }
}

// Its own messages are about clients that went away.
static void ignore(void *user, const char *format, va_list arguments)
{
    (void)user;
    (void)format;
    (void)arguments;
}

// ---- the daemon -----------------------------------------------------------------------------

int server_start(server *s)
{
    s->page_response =
        MHD_create_response_from_buffer(s->page.size, s->page.data, MHD_RESPMEM_PERSISTENT);
    if (!s->page_response || add_headers(s->page_response, "text/html; charset=utf-8") != MHD_YES) {
        complain("out of memory for the page");
        return EXIT_MEMORY;
    }
    errno = 0;
    s->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, ignore,
        NULL, // first: it is for the options too
        MHD_OPTION_LISTEN_SOCKET, s->listener.socket, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MOST, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SECONDS_TO_ASK,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES_MOST, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_END);
    if (!s->daemon) {
        complain("the server could not be started: %s", strerror(errno ? errno : ENOMEM));
        return EXIT_FAILED;
    }
    s->listener.socket = -1; // it closes it
    return EXIT_DONE;
}

void server_stop(server *s)
{
    answerer_stop(&s->answerer);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->page_response)
        MHD_destroy_response(s->page_response);
    s->daemon = NULL;
    s->page_response = NULL;
}
