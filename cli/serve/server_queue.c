// SPDX-License-Identifier: MIT
// The FIFO queue of requests, and the workers that answer them. A worker is a thread with its own
// context for the lifetime of the server: connections need no threads, and only these few threads
// allocate.
#include "messages.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void job_free(job *j)
{
    if (j) {
        free(j->body);
        free(j->answer.body);
    }
    free(j);
}

// ---- workers ------------------------------------------------------------------------------------

// The next job; NULL: the server is stopping.
static job *take_job(queue *q)
{
    pthread_mutex_lock(&q->mutex);
    while (!q->first && !q->stopping)
        pthread_cond_wait(&q->filled, &q->mutex);
    job *j = q->stopping ? NULL : q->first;
    if (j) {
        q->first = j->next;
        if (!q->first)
            q->last = NULL;
        q->waiting--;
        q->working++;
    }
    pthread_mutex_unlock(&q->mutex);
    return j;
}

// A full pipe wakes the event loop anyway, and it checks once per second.
static void finish_job(queue *q, job *j)
{
    pthread_mutex_lock(&q->mutex);
    j->next = q->done;
    q->done = j;
    q->working--;
    pthread_mutex_unlock(&q->mutex);
    const ssize_t ignored = write(q->wake[1], "", 1);
    (void)ignored;
}

static void *run_worker(void *argument)
{
    worker *w = argument;
    for (job *j; (j = take_job(w->queue));) {
        j->answer = answer_job(w->queue, w->context, j);
        finish_job(w->queue, j);
    }
    return NULL;
}

static int start_worker(const common_options *options, queue *q)
{
    worker *w = &q->workers[q->count];
    w->queue = q;
    const int code = open_context(options, &w->context);
    if (code != EXIT_DONE)
        return code;
    q->count++;
    const int error = pthread_create(&w->thread, NULL, run_worker, w);
    if (error) {
        complain("a thread could not be started: %s", strerror(error));
        return EXIT_MEMORY;
    }
    w->started = true;
    return EXIT_DONE;
}

int queue_open(const common_options *options, size_t threads, queue *q)
{
    common_options own = *options;
    const size_t count = threads < WORKERS_MAX ? threads : WORKERS_MAX;
    own.threads = threads / count;
    if (pipe2(q->wake, O_NONBLOCK | O_CLOEXEC) != 0) {
        q->wake[0] = q->wake[1] = -1;
        complain("a pipe could not be created: %s", strerror(errno));
        return EXIT_FAILED;
    }
    int code = EXIT_DONE;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++)
        code = start_worker(&own, q);
    return code;
}

void queue_close(queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->stopping = true;
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->mutex);
    for (size_t i = 0; i < q->count; i++) {
        if (q->workers[i].started)
            pthread_join(q->workers[i].thread, NULL);
        mh_context_free(q->workers[i].context);
    }
    q->count = 0;
    job *const lists[] = {q->first, q->done};
    for (size_t i = 0; i < 2; i++)
        for (job *j = lists[i], *next; j; j = next) {
            next = j->next;
            job_free(j);
        }
    q->first = q->last = q->done = NULL;
    for (size_t i = 0; i < 2; i++)
        if (q->wake[i] >= 0)
            close(q->wake[i]);
    q->wake[0] = q->wake[1] = -1;
}

// ---- for the event loop -------------------------------------------------------------------------

bool queue_push(queue *q, job *j)
{
    pthread_mutex_lock(&q->mutex);
    const bool room = q->waiting + q->working < q->capacity + q->count;
    if (room) {
        j->next = NULL;
        if (q->last)
            q->last->next = j;
        else
            q->first = j;
        q->last = j;
        q->waiting++;
        pthread_cond_signal(&q->filled);
    }
    pthread_mutex_unlock(&q->mutex);
    return room;
}

bool queue_cancel(queue *q, job *j)
{
    atomic_store(&j->cancelled, true);
    j->client = NULL;
    pthread_mutex_lock(&q->mutex);
    job *before = NULL, *at = q->first;
    while (at && at != j)
        before = at, at = at->next;
    if (at) {
        *(before ? &before->next : &q->first) = at->next;
        if (q->last == at)
            q->last = before;
        q->waiting--;
    }
    pthread_mutex_unlock(&q->mutex);
    if (at)
        job_free(at);
    return at != NULL;
}

job *queue_take_done(queue *q)
{
    char bytes[64];
    ssize_t size;
    do
        size = read(q->wake[0], bytes, sizeof bytes);
    while (size > 0);
    q->unreadable = size < 0 && errno != EAGAIN && errno != EINTR;
    pthread_mutex_lock(&q->mutex);
    job *done = q->done;
    q->done = NULL;
    pthread_mutex_unlock(&q->mutex);
    return done;
}

bool queue_is_idle(queue *q)
{
    pthread_mutex_lock(&q->mutex);
    const bool idle = q->waiting + q->working == 0;
    pthread_mutex_unlock(&q->mutex);
    return idle;
}
