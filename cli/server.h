// SPDX-License-Identifier: MIT
// `multihead serve`: a page with a text box, and translations with what attention did in them.
//
//     GET  /            the page
//     POST /translate   {"text": "..."} -> {"translation": "...", ..., "trace": ..., "chunks": ...}
//
//     server.c            the daemon: which requests get an answer at all
//     server_answer.c     a text to JSON, by one of a few contexts
//     server_clients.c    who is connected, and who takes too long
//     server_socket.c     where it listens, and which names for itself it believes
//
// Whoever can reach the port may be hostile: a page in the user's own browser, which the browser
// lets send requests to 127.0.0.1, included. So a request must name this host (a name that was made
// to point here is not believed), a text must come as JSON (which no other site's page can send
// without asking first), and bodies, headers, connections and their time are bounded.
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include "arguments.h"

#include <multihead/translator.h>
#include <pthread.h>
#include <time.h>

enum {
    BODY_BYTES_MOST = 64 << 10,
    HEADER_BYTES_MOST =
        32 << 10, // of a request; the rest of the connection's buffer is the answer's
    CONNECTIONS_MOST = 128,
    CONTEXTS_MOST = 4,
    SECONDS_TO_ASK = 15,    // from the connection, or the last answer, to the end of a request
    SECONDS_TO_LISTEN = 60, // to take an answer
};

// ---- where it listens -----------------------------------------------------------------------

typedef struct listener {
    const char *host; // as it was given
    int port;         // 0: any; then the one that it became
    int socket;       // -1: none
    bool any_address; // of this machine
    char url[300];
} listener;

// Opens the socket. Returns an exit code after saying what is wrong.
int listener_open(listener *l);
void listener_close(listener *l);

// Whether the value of a Host header names us.
bool listener_knows(const listener *l, const char *host);

// ---- who is connected -------------------------------------------------------------------------

typedef struct client client;

typedef struct client_list {
    pthread_mutex_t mutex;
    client *first;
} client_list;

// NULL if there is no memory.
client *client_add(client_list *list, int descriptor);
void client_remove(client_list *list, client *c);

// It has that many seconds from now; 0: as long as it wants.
void client_allow(client_list *list, client *c, int seconds);

// Hangs up on those whose time is over.
void clients_check(client_list *list);

// ---- answers ------------------------------------------------------------------------------------

typedef struct answer {
    int code;   // of HTTP
    char *body; // malloc()ed JSON; NULL if there was no memory for any
    size_t size;
} answer;

// A few contexts, each used by one request at a time.
typedef struct answerer {
    const mh_translator *translator;
    const char *model; // its name
    mh_context *contexts[CONTEXTS_MOST];
    size_t count;
    bool busy[CONTEXTS_MOST];
    bool stopping;
    pthread_mutex_t mutex;
    pthread_cond_t free;
} answerer;

// Shares the threads out among the contexts. Returns an exit code after saying what is wrong;
// answerer_close() is needed after that too.
int answerer_open(const common_options *options, size_t threads, answerer *a);
void answerer_close(answerer *a);

// From now on requests are refused, and those that wait for a context get none.
void answerer_stop(answerer *a);

// The answer to the body of a request. Any thread.
answer answer_text(answerer *a, const char *body, size_t size);
answer answer_error(int code, const char *format, ...) MH_PRINTF(2, 3);

// ---- the daemon -----------------------------------------------------------------------------

typedef struct server {
    listener listener;
    answerer answerer;
    client_list clients;
    mh_bytes page;
    struct MHD_Daemon *daemon;
    struct MHD_Response *page_response;
} server;

// Starts answering; the listener is open, the page there. Returns an exit code after saying what is
// wrong. server_stop() ends it, and is fine in any case.
int server_start(server *s);
void server_stop(server *s);

#endif
