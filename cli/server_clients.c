// SPDX-License-Identifier: MIT
// Who is connected, and until when. The library that answers ends connections on which nothing
// happens; a client that sends a byte now and then is never idle, and is ended here: its socket is
// shut down, which wakes the thread that reads it. A socket leaves the list before it is closed, so
// that its number cannot be somebody else's by then.
#include "server.h"

#include <stdlib.h>
#include <sys/socket.h>

struct client {
    client *next, *before;
    int descriptor;
    time_t deadline; // 0: none
};

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

client *client_add(client_list *list, int descriptor)
{
    client *c = malloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (client){.descriptor = descriptor, .deadline = now() + SECONDS_TO_ASK};
    pthread_mutex_lock(&list->mutex);
    c->next = list->first;
    if (c->next)
        c->next->before = c;
    list->first = c;
    pthread_mutex_unlock(&list->mutex);
    return c;
}

void client_remove(client_list *list, client *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&list->mutex);
    if (c->before)
        c->before->next = c->next;
    else
        list->first = c->next;
    if (c->next)
        c->next->before = c->before;
    pthread_mutex_unlock(&list->mutex);
    free(c);
}

void client_allow(client_list *list, client *c, int seconds)
{
    if (!c)
        return;
    pthread_mutex_lock(&list->mutex);
    c->deadline = seconds ? now() + seconds : 0;
    pthread_mutex_unlock(&list->mutex);
}

void clients_check(client_list *list)
{
    const time_t time = now();
    pthread_mutex_lock(&list->mutex);
    for (client *c = list->first; c; c = c->next)
        if (c->deadline && c->deadline < time) {
            shutdown(c->descriptor, SHUT_RDWR);
            c->deadline = 0; // once is enough
        }
    pthread_mutex_unlock(&list->mutex);
}
