// SPDX-License-Identifier: MIT
// The event loop: one thread polls all connections and never blocks on one of them.
//
// Three resources are bounded. Connections: at the limit, the client that has been idle for the
// longest time is evicted, else new ones wait in the system's backlog. Workers: the queue is
// bounded, and requests of clients that disconnect are cancelled. Memory: it is returned to the
// system when the queue has been empty for a second.
#include "server.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { TICK_MS = 1000 };

int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000 * (int64_t)t.tv_sec + t.tv_nsec / 1000000;
}

// ---- eviction and deadlines ---------------------------------------------------------------------

// The client to evict; never one that waits for an answer.
static client *find_idle(const server *s, bool with_answers_only)
{
    client *found = NULL;
    for (size_t i = 0; i < s->count; i++) {
        client *c = s->clients[i];
        if (c->state == CLIENT_WAITING || c->state == CLIENT_GONE ||
            (with_answers_only && !(c->state == CLIENT_ANSWERED && c->owned)))
            continue;
        if (!found || c->since < found->since)
            found = c;
    }
    return found;
}

static void remove_gone(server *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->clients[i]->state == CLIENT_GONE)
            client_close(s, s->clients[i]);
        else
            s->clients[kept++] = s->clients[i];
    s->count = kept;
}

static bool evict(server *s, bool with_answers_only)
{
    client *c = find_idle(s, with_answers_only);
    if (!c || now_ms() - c->since < EVICTION_MS)
        return false;
    c->state = CLIENT_GONE;
    remove_gone(s);
    return true;
}

static void time_out(server *s, client *c)
{
    if (c->state == CLIENT_WAITING) {
        job *j = c->job;
        c->job = NULL;
        const answer a =
            queue_cancel(&s->queue, j)
                ? answer_error(503, "the request has waited for %d seconds; try again later",
                               s->timeout)
                : answer_error(504, "the answer took more than %d seconds", s->timeout);
        client_answer(s, c, a, c->keep_alive);
        client_take_requests(s, c);
    } else if (c->state == CLIENT_ASKING && c->input_size > 0) {
        c->input_size = 0;
        c->head_only = false;
        client_answer(
            s, c,
            answer_error(408, "the request did not arrive within %d seconds", REQUEST_SECONDS),
            false);
    } else {
        c->state = CLIENT_GONE;
    }
}

static void check_deadlines(server *s)
{
    const int64_t now = now_ms();
    for (size_t i = 0; i < s->count; i++)
        if (s->clients[i]->deadline <= now)
            time_out(s, s->clients[i]);
    while (s->unsent > UNSENT_MAX && evict(s, true)) {
    }
}

// ---- new connections ----------------------------------------------------------------------------

static bool can_accept(const server *s)
{
    const int64_t now = now_ms();
    if (s->listener.socket < 0 || now < s->accept_after)
        return false;
    if (s->count < s->most)
        return true;
    const client *idle = find_idle(s, false);
    return idle && now - idle->since >= EVICTION_MS;
}

// At the limit an idle client makes room for the one that is known to be `pending`.
static void accept_clients(server *s, bool pending)
{
    bool room = s->count < s->most || (pending && evict(s, false));
    for (; room; room = s->count < s->most) {
        const int socket = accept4(s->listener.socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK) // no descriptors, or no memory
                s->accept_after = now_ms() + TICK_MS;
            return;
        }
        client *c = client_open(socket);
        if (c)
            s->clients[s->count++] = c;
    }
}

// ---- jobs ---------------------------------------------------------------------------------------

static void finish_jobs(server *s)
{
    for (job *j = queue_take_done(&s->queue), *next; j; j = next) {
        next = j->next;
        client *c = j->client;
        if (c) {
            c->job = NULL;
            client_answer(s, c, j->answer, c->keep_alive);
            j->answer.body = NULL;
            client_take_requests(s, c);
        }
        job_free(j);
        s->trim_at = now_ms() + TICK_MS;
    }
}

static void trim_memory(server *s)
{
    if (!s->trim_at || now_ms() < s->trim_at || !queue_is_idle(&s->queue))
        return;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    s->trim_at = 0;
}

// ---- one step -----------------------------------------------------------------------------------

static short wanted_events(const client *c)
{
    switch (c->state) {
    case CLIENT_WAITING:
        return POLLRDHUP;
    case CLIENT_ANSWERED:
        return POLLOUT;
    default:
        return POLLIN;
    }
}

static void handle(server *s, client *c, short events)
{
    if (!events || c->state == CLIENT_GONE)
        return;
    switch (c->state) {
    case CLIENT_WAITING: // it has disconnected; client_close() cancels its job
        c->state = CLIENT_GONE;
        break;
    case CLIENT_ANSWERED:
        client_send(s, c);
        client_take_requests(s, c);
        break;
    default:
        client_read(s, c);
    }
}

// Until the next deadline, or until a client at the limit has been idle for long enough.
static int time_to_wait(const server *s)
{
    const int64_t now = now_ms();
    int64_t wait = TICK_MS;
    for (size_t i = 0; i < s->count; i++)
        if (s->clients[i]->deadline - now < wait)
            wait = s->clients[i]->deadline - now;
    if (s->count == s->most) {
        const client *idle = find_idle(s, false);
        if (idle && idle->since + EVICTION_MS > now && idle->since + EVICTION_MS - now < wait)
            wait = idle->since + EVICTION_MS - now;
    }
    return wait < 0 ? 0 : (int)wait;
}

// ppoll() leaves a signal pending if a socket is ready: without this a busy server never stops.
static void deliver_signals(const sigset_t *mask)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, mask, &blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

void server_step(server *s, const sigset_t *mask)
{
    struct pollfd polled[2 + CONNECTIONS_MAX];
    const size_t count = s->count;
    polled[0] = (struct pollfd){.fd = can_accept(s) ? s->listener.socket : -1, .events = POLLIN};
    polled[1] =
        (struct pollfd){.fd = s->queue.unreadable ? -1 : s->queue.wake[0], .events = POLLIN};
    for (size_t i = 0; i < count; i++)
        polled[2 + i] =
            (struct pollfd){.fd = s->clients[i]->socket, .events = wanted_events(s->clients[i])};
    const int wait = time_to_wait(s);
    const struct timespec timeout = {.tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000L};
    const int ready = ppoll(polled, 2 + count, &timeout, mask);
    deliver_signals(mask);
    if (ready < 0)
        return; // a signal
    for (size_t i = 0; i < count; i++)
        handle(s, s->clients[i], polled[2 + i].revents);
    finish_jobs(s);
    check_deadlines(s);
    remove_gone(s);
    if (polled[0].revents)
        accept_clients(s, true);
    trim_memory(s);
}

// ---- start and end ------------------------------------------------------------------------------

void server_start(server *s)
{
    struct rlimit files;
    s->most = CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < CONNECTIONS_MAX + DESCRIPTORS_RESERVED)
        s->most = files.rlim_cur > DESCRIPTORS_RESERVED ? files.rlim_cur - DESCRIPTORS_RESERVED : 1;
}

// A complete request gets an answer; other connections are closed.
static void dismiss(server *s, client *c)
{
    if (c->state == CLIENT_ASKING)
        client_read(s, c);
    if (c->state == CLIENT_WAITING) {
        queue_cancel(&s->queue, c->job);
        c->job = NULL;
        client_answer(s, c, answer_error(503, "the server is stopping"), false);
    } else if (c->state == CLIENT_ASKING) {
        c->state = CLIENT_GONE;
    }
}

void server_stop(server *s, const sigset_t *mask)
{
    const int64_t end = now_ms() + 1000 * STOP_SECONDS;
    s->stopping = true;
    if (s->listener.socket >= 0)
        accept_clients(s, false);
    listener_close(&s->listener);
    for (size_t i = 0; i < s->count; i++)
        dismiss(s, s->clients[i]);
    remove_gone(s);
    while (s->count > 0 && now_ms() < end)
        server_step(s, mask);
    for (size_t i = 0; i < s->count; i++)
        s->clients[i]->state = CLIENT_GONE;
    remove_gone(s);
}
