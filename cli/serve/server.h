// SPDX-License-Identifier: MIT
// `multihead serve`: a page with a text box, and what a model makes of a text, with its attention.
//
//     GET  /            the page
//     GET  /model       {"name": "...", "task": "translate", "from": "French", ...}
//     POST /translate   {"text": "..."} -> {"translation": "...", ..., "trace": ..., "chunks": ...}
//     POST /look        the same of a model that does not translate: {"predictions": [...], ...}
//
//     server.c            the event loop: one thread, all connections
//     server_client.c     one connection: bytes in, bytes out
//     server_request.c    which requests get which answer
//     server_queue.c      requests that wait for a worker, a thread with its own context
//     server_answer.c     the body of a request, and which of these two answers it
//     server_translate.c  a text to its translation
//     server_look.c       a text to what a model predicts
//     server_picture.c    a picture to the same
//     served_model.c      the model, and what it does
//     server_model.c      how it is described to the page, with texts to try
//     server_socket.c     where it listens, and which names for itself it accepts
//     http.h              the protocol
//
//     event loop --- job ---> queue (bounded) ---> worker 0 .. 3
//        ^                                            |
//        +------------------- done <------------------+
//
// Clients are untrusted, including pages of other sites in the user's own browser, which may send
// requests to 127.0.0.1. So a request must name this host (against DNS rebinding), a text must be
// sent as JSON (which other sites' pages cannot send without a CORS preflight), and bodies,
// headers, connections, waiting requests and all their times are bounded.
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include "arguments.h"
#include "http.h"
#include "pretrained/masks.h"
#include "translate/translate.h"

#include <jansson.h>
#include <multihead/translator.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum {
    BODY_MAX = 64 << 10,        // bytes of a request's body
    PICTURE_BODY_MAX = 1 << 20, // if the model reads pictures
    CONNECTIONS_MAX = 128,      // fewer where the limit of open files is low
    DESCRIPTORS_RESERVED = 16,  // of that limit, for all but connections
    WORKERS_MAX = 4,
    TOKENS_MAX = 256,      // of a text, for models that do not translate
    UNSENT_MAX = 64 << 20, // bytes of answers that clients have not read yet
    QUEUE_DEFAULT = 32,    // requests that wait
    TIMEOUT_DEFAULT = 30,  // seconds from a complete request to its answer
    RETRY_SECONDS = 2,     // after which a client that got 503 may try again
    REQUEST_SECONDS = 15,  // from the connection, or the last answer, to the end of a request
    RESPONSE_SECONDS = 60, // to read an answer
    LINGER_SECONDS = 2,    // to read the last answer before the connection is closed
    STOP_SECONDS = 2,      // to send the last answers when the server stops
    EVICTION_MS = 1000,    // a client that is idle for so long may be evicted for a new one
};

int64_t now_ms(void); // monotonic

// ---- where it listens ---------------------------------------------------------------------------

typedef struct listener {
    const char *host; // as it was given
    int port;         // 0: any; then the one assigned
    int socket;       // -1: none
    bool any_address; // of this machine
    char url[300];
} listener;

// Opens the socket, non-blocking. Returns an exit code after reporting errors.
int listener_open(listener *l);
void listener_close(listener *l);

// Whether the value of a Host header names us.
bool listener_knows(const listener *l, mh_text host);

// ---- the model ----------------------------------------------------------------------------------

typedef enum served_task {
    TASK_TRANSLATE,
    TASK_CONTINUE, // a causal language model
    TASK_FILL,     // a masked one
    TASK_CLASSIFY,
    TASK_EMBED,
} served_task;

typedef struct served_model {
    const char *name; // of its directory: clients need not know its path
    served_task task;
    mh_translator *translator; // of TASK_TRANSLATE
    translated_languages languages;
    mh_model *model; // of the others; of TASK_TRANSLATE, what it may run on, or NULL
    mask_token mask; // of TASK_FILL
    bool pictures;   // it reads these, and no texts
} served_model;

// Loads the model of a directory. Returns an exit code after reporting errors, also for a model
// that cannot be served. served_close() is needed in any case.
int served_open(mh_context *context, const char *directory,
                const mh_translator_load_options *options, served_model *served);
void served_close(served_model *served);

// "translate", ...
const char *task_name(served_task task);

// A picture to try, a PGM file as text; the list ends with a name of NULL.
typedef struct picture_example {
    const char *name, *file;
} picture_example;
extern const picture_example picture_examples[];

// What GET /model answers, malloc()ed; NULL if out of memory.
char *describe_served_model(const served_model *served);

// ---- answers ------------------------------------------------------------------------------------

typedef struct answer {
    int code;          // of HTTP
    char *body;        // malloc()ed JSON; NULL if out of memory
    size_t size;       //
    const char *allow; // NULL, or the methods that are allowed
} answer;

answer answer_error(int code, const char *format, ...) MH_PRINTF(2, 3);

// ---- the queue ----------------------------------------------------------------------------------

struct client;

typedef struct job {
    struct job *next;
    char *body; // of the request
    size_t size;
    answer answer;
    atomic_bool cancelled; // by the event loop: the answer is not needed any more
    struct client *client; // of the event loop; NULL: it has disconnected
} job;

struct queue;

typedef struct worker {
    struct queue *queue;
    mh_context *context;
    pthread_t thread;
    bool started;
} worker;

typedef struct queue {
    const served_model *served;
    size_t capacity; // jobs that may wait
    worker workers[WORKERS_MAX];
    size_t count; // of workers

    pthread_mutex_t mutex; // of all below
    pthread_cond_t filled;
    job *first, *last;       // waiting
    size_t waiting, working; //
    job *done;               // newest first
    bool stopping;
    int wake[2];     // a pipe: a byte for the event loop if `done` has something new
    bool unreadable; // the pipe cannot be read: the event loop checks `done` once per second
} queue;

// Splits the threads across the workers and starts them. Returns an exit code after reporting
// errors; queue_close() is needed in any case.
int queue_open(const common_options *options, size_t threads, queue *q);
void queue_close(queue *q);

// Queues the job, or returns false if the queue is full.
bool queue_push(queue *q, job *j);

// Cancels a job. True if it has not been started.
bool queue_cancel(queue *q, job *j);

// The list of jobs completed since the last call; the caller frees them.
job *queue_take_done(queue *q);
bool queue_is_idle(queue *q);
void job_free(job *j); // NULL is fine

// The answer to the body of a request, computed by one worker.
answer answer_job(const queue *q, mh_context *context, job *j);

// ---- answers by a worker ------------------------------------------------------------------------

typedef struct request {
    json_t *json; // owns the strings
    mh_text text;
    mh_text picture;  // in place of a text: a file in base64
    const char *name; // of the picture, or NULL
    bool error_200;   // a text or picture that is refused has status 200, not 422
    bool *disabled;   // heads; NULL: none
} request;

answer answer_translate(const served_model *served, mh_context *context, const request *r, job *j);
answer answer_look(const served_model *served, mh_context *context, const request *r, job *j);
answer answer_picture(const served_model *served, mh_context *context, const request *r, job *j);

// {"predictions": [...]} or, if there are none, with "embedding", for an input of so many rows,
// tokens or patches. NULL and *status after an error.
json_t *predict(const served_model *served, mh_context *context, const mh_model_input *input,
                size_t rows, mh_status *status);

// An error of the library; its message.
answer answer_status(mh_context *context, mh_status status);

// A JSON object and the page's data of a trace as the one object that the page expects. Takes the
// object, which may be NULL: out of memory.
answer answer_trace(mh_context *context, json_t *head, const mh_trace *trace);

// The same of a model's trace, with the name of the model.
answer answer_named(const served_model *served, mh_context *context, json_t *head,
                    const mh_model_trace *trace);

// ---- connections --------------------------------------------------------------------------------

typedef enum client_state {
    CLIENT_ASKING,    // a request is read
    CLIENT_WAITING,   // for its job
    CLIENT_ANSWERED,  // the answer is sent
    CLIENT_LINGERING, // all is sent; input is ignored until the client closes, too
    CLIENT_GONE,      // to be closed
} client_state;

typedef struct client {
    int socket;
    client_state state;
    int64_t since;    // ms: begin of the state, or the last byte sent
    int64_t deadline; // ms

    char *input;
    size_t input_size, input_capacity;
    size_t needed;  // no request is complete with fewer bytes
    bool continued; // the request has had its 100 Continue

    job *job; // while WAITING
    bool head_only, keep_alive;
    char head[HTTP_RESPONSE_HEAD_MAX];
    size_t head_size;
    const char *body;
    char *owned; // `body` if it must be freed
    size_t body_size;
    size_t sent; // of head and body
} client;

typedef struct server {
    listener listener;
    queue queue;
    served_model served;
    mh_buffer page;
    char *model; // the answer to GET /model
    int timeout; // seconds
    size_t most; // connections
    client *clients[CONNECTIONS_MAX];
    size_t count;
    size_t unsent;        // bytes of answers
    int64_t accept_after; // ms: accept no connections before that, out of descriptors
    int64_t trim_at;      // ms: memory is returned to the system if idle; 0: it has been
    bool stopping;
} server;

// NULL if out of memory; the socket is closed then.
client *client_open(int socket);
void client_close(server *s, client *c);
void client_enter(client *c, client_state state, int seconds);

// None of these blocks. The state is GONE afterwards if the connection is over.
void client_read(server *s, client *c); // and answers the requests that are complete
void client_send(server *s, client *c); // what is left of the answer
void client_answer(server *s, client *c, answer a, bool keep_alive); // takes a.body over
void client_show_page(server *s, client *c);
void client_show_model(server *s, client *c);
void client_take_requests(server *s, client *c);                 // those that are complete
bool client_send_now(client *c, const char *bytes, size_t size); // all or false

// Takes one request from the input. False if none is complete.
bool request_take(server *s, client *c);

// ---- the event loop -----------------------------------------------------------------------------

// Starts serving; listener, page and queue must be ready.
void server_start(server *s);

// Waits up to a second for events and handles them. `mask`: signals blocked meanwhile.
void server_step(server *s, const sigset_t *mask);

// Closes the listener, answers waiting requests with 503, and waits until that is sent.
void server_stop(server *s, const sigset_t *mask);

#endif
