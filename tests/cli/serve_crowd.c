// SPDX-License-Identifier: MIT
// Many clients of `multihead serve` at once, and what the server must do about them:
//     serve_crowd http://127.0.0.1:PORT/ burst PID      more requests than may wait
//     serve_crowd http://127.0.0.1:PORT/ leave          requests whose clients leave at once
//     serve_crowd http://127.0.0.1:PORT/ deadline       requests that wait for too long
//     serve_crowd http://127.0.0.1:PORT/ idle PID       more connections than descriptors
//     serve_crowd http://127.0.0.1:PORT/ stop PID       requests while the server is told to stop
//
// PID is the server's. It is stopped while requests are sent, so that it finds all of them at the
// same moment; nothing here depends on how fast it is.
#include "http_client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CROWD = 120, CONNECTIONS = 100 };

static pid_t server;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A text that takes about as long as one can.
static char *long_request(size_t *size)
{
    static const char sentence[] =
        "Le petit chat noir dort sur le grand tapis rouge de la maison. ";
    char body[1024] = "{\"text\": \"";
    for (int i = 0; i < 10; i++)
        strcat(body, sentence);
    strcat(body, "\"}");
    return make_request("POST /translate", "", body, strlen(body), size);
}

static char *short_request(size_t *size)
{
    static const char body[] = "{\"text\": \"Oui.\"}";
    return make_request("POST /translate", "", body, strlen(body), size);
}

static void send_crowd(int sockets[CROWD], char *request, size_t size)
{
    for (size_t i = 0; i < CROWD; i++) {
        sockets[i] = dial();
        send_all(sockets[i], request, size);
    }
}

typedef struct counts {
    size_t translated, full, late, cut_off, stopping, other, without_retry_after;
} counts;

static void count(counts *n, reply *r)
{
    const char *body = r->body ? r->body : "";
    if (r->code == 200)
        n->translated++;
    else if (r->code == 503 && strstr(body, "waiting already"))
        n->full++;
    else if (r->code == 503 && strstr(body, "has waited"))
        n->late++;
    else if (r->code == 503 && strstr(body, "stopping"))
        n->stopping++;
    else if (r->code == 504 && strstr(body, "more than 1 seconds"))
        n->cut_off++;
    else
        n->other++;
    n->without_retry_after += r->code == 503 && !has_header(r, "Retry-After: 2");
    free_reply(r);
}

static counts read_crowd(int sockets[CROWD])
{
    counts n = {0};
    for (size_t i = 0; i < CROWD; i++) {
        reply r = read_reply(sockets[i]);
        count(&n, &r);
        close(sockets[i]);
    }
    return n;
}

// One second may be too short for it on a busy machine: then it is asked again.
static void expect_short(const char *what)
{
    size_t size;
    char *request = short_request(&size);
    reply r = ask_bytes(request, size);
    for (int i = 0; i < 60 && (r.code == 503 || r.code == 504); i++) {
        free_reply(&r);
        r = ask_bytes(request, size);
    }
    expect(what, r, 200, "\"translation\":");
    free(request);
}

static void check_burst(void)
{
    int sockets[CROWD];
    size_t size;
    char *request = long_request(&size);
    kill(server, SIGSTOP);
    send_crowd(sockets, request, size);
    kill(server, SIGCONT);
    const counts n = read_crowd(sockets);
    expect_true("some are translated", n.translated > 0);
    expect_true("the others get 503", n.full > 0 && n.translated + n.full == CROWD);
    expect_true("with Retry-After", n.without_retry_after == 0);
    expect_short("after a burst");
    free(request);
}

// One worker would be busy for CROWD times as long as with one of them.
static void check_leave(void)
{
    int sockets[CROWD];
    size_t size;
    char *request = long_request(&size);
    const double start = seconds();
    expect("a long text", ask_bytes(request, size), 200, "\"translation\":");
    const double one = seconds() - start;
    send_crowd(sockets, request, size);
    for (size_t i = 0; i < CROWD; i++)
        close(sockets[i]);
    const double left = seconds();
    expect_short("after all have left");
    expect_true("nothing was translated for them", seconds() - left < 0.25 * CROWD * one);
    free(request);
}

static void check_deadline(void)
{
    int sockets[CROWD];
    size_t size;
    char *request = long_request(&size);
    send_crowd(sockets, request, size);
    const counts n = read_crowd(sockets);
    expect_true("those that still wait get 503", n.late > 0);
    expect_true("what is being translated gets 504", n.cut_off > 0);
    expect_true("nothing else", n.late + n.cut_off + n.translated == CROWD);
    expect_true("with Retry-After", n.without_retry_after == 0);
    expect_short("after the deadline");
    free(request);
}

// Clock ticks of CPU that the server has used.
static long ticks(void)
{
    char path[64];
    long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)server);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld",
                        &user, &system) != 2)
        printf("FAIL %s\n", path);
    if (file)
        fclose(file);
    return user + system;
}

static void check_idle(void)
{
    int sockets[CONNECTIONS];
    const struct timespec wait = {.tv_sec = 3};
    for (size_t i = 0; i < CONNECTIONS; i++)
        sockets[i] = dial();
    const long before = ticks();
    nanosleep(&wait, NULL);
    expect_true("it does not spin", ticks() - before < sysconf(_SC_CLK_TCK));
    for (size_t i = 0; i < CONNECTIONS; i++)
        close(sockets[i]);
    expect("after more connections than descriptors", ask("GET /", "", NULL, 0), 200, NULL);
}

static void check_stop(void)
{
    int sockets[CROWD];
    size_t size;
    char *request = long_request(&size);
    kill(server, SIGSTOP);
    send_crowd(sockets, request, size);
    kill(server, SIGTERM);
    kill(server, SIGCONT);
    const counts n = read_crowd(sockets);
    expect_true("they are told that the server stops", n.stopping > 0);
    expect_true("none is left without an answer", n.translated + n.stopping == CROWD);
    expect_true("with Retry-After", n.without_retry_after == 0);
    free(request);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"burst", check_burst},
                 {"leave", check_leave},
                 {"deadline", check_deadline},
                 {"idle", check_idle},
                 {"stop", check_stop}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2 && sscanf(argv[1], "http://127.0.0.1:%d/", &port) == 1) {
        server = argc > 3 ? (pid_t)atoi(argv[3]) : 0;
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (strcmp(argv[2], modes[i].name) == 0) {
                modes[i].run();
                return failed;
            }
    }
    fprintf(stderr, "usage: serve_crowd http://127.0.0.1:PORT/ MODE [PID]\n");
    return 2;
}
