// SPDX-License-Identifier: MIT
// A client that `multihead serve` would rather not have:
//     serve_client http://127.0.0.1:PORT/ [slow | once]
//
// Every check prints one line. Requests are sent as bytes, whatever HTTP has to say about them; all
// of them must get the answer that is expected here, and the server must answer the next one too.
// `slow` takes a quarter of a minute: a client that sends a byte now and then is hung up on. `once`
// asks for a page and a translation, and prints both codes.
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 16, REQUESTS = 1000, TEXTS = 7, PATIENCE = 120 };

static int port;
static bool failed;

// ---- HTTP -----------------------------------------------------------------------------------

typedef struct reply {
    int code; // 0: the connection ended without one
    char *head, *body;
    size_t size; // of the body
} reply;

static void *grow(void *memory, size_t size)
{
    void *more = realloc(memory, size);
    if (!more)
        abort();
    return more;
}

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct timeval patience = {.tv_sec = PATIENCE};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(s, (struct sockaddr *)&address, sizeof address) != 0) {
        printf("FAIL connect: %s\n", strerror(errno));
        exit(1);
    }
    return s;
}

static bool send_all(int s, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(s, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static void free_reply(reply *r)
{
    free(r->head);
    free(r->body);
    *r = (reply){0};
}

static bool read_exactly(int s, char *to, size_t size)
{
    for (size_t used = 0; used < size;) {
        const ssize_t got = recv(s, to + used, size - used, 0);
        if (got <= 0)
            return false;
        used += (size_t)got;
    }
    return true;
}

// One answer, and not a byte of the next.
static reply read_reply(int s)
{
    reply r = {0};
    size_t used = 0;
    do {
        r.head = grow(r.head, used + 2);
        if (!read_exactly(s, r.head + used, 1)) {
            free_reply(&r);
            return r;
        }
        r.head[++used] = 0;
    } while (used < 4 || strcmp(r.head + used - 4, "\r\n\r\n") != 0);
    const char *length = strcasestr(r.head, "\nContent-Length:");
    r.code = atoi(r.head + strlen("HTTP/1.1 "));
    r.size = length ? strtoul(length + 16, NULL, 10) : 0;
    r.body = grow(NULL, r.size + 1);
    r.body[r.size] = 0;
    if (!read_exactly(s, r.body, r.size))
        free_reply(&r);
    return r;
}

// A request with our Host, and if there is a body, what belongs to it.
static char *make_request(const char *line, const char *headers, const char *body, size_t size,
                          size_t *whole)
{
    char *text = grow(NULL, strlen(line) + strlen(headers) + size + 256);
    int used = sprintf(text, "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s", line, port, headers);
    if (body)
        used +=
            sprintf(text + used, "Content-Type: application/json\r\nContent-Length: %zu\r\n", size);
    used += sprintf(text + used, "\r\n");
    if (body)
        memcpy(text + used, body, size);
    *whole = (size_t)used + (body ? size : 0);
    return text;
}

static reply ask_bytes(const char *bytes, size_t size)
{
    int s = dial();
    send_all(s, bytes, size); // it may hang up before it has all
    const reply r = read_reply(s);
    close(s);
    return r;
}

static reply ask(const char *line, const char *headers, const char *body, size_t size)
{
    size_t whole;
    char *request = make_request(line, headers, body, size, &whole);
    const reply r = ask_bytes(request, whole);
    free(request);
    return r;
}

// ---- checks ---------------------------------------------------------------------------------

static void expect(const char *what, reply r, int code, const char *part)
{
    const bool good = r.code == code && (!part || (r.body && strstr(r.body, part)));
    printf("%s %s: %d\n", good ? "ok  " : "FAIL", what, r.code);
    if (!good)
        printf("     expected %d and '%s', found '%.300s'\n", code, part ? part : "",
               r.body ? r.body : "");
    failed |= !good;
    free_reply(&r);
}

static void expect_true(const char *what, bool good)
{
    printf("%s %s\n", good ? "ok  " : "FAIL", what);
    failed |= !good;
}

static void check_page(void)
{
    reply r = ask("GET /", "", NULL, 0);
    static const char *const headers[] = {"\nX-Content-Type-Options: nosniff\r",
                                          "\nCache-Control: no-store\r",
                                          "\nCross-Origin-Resource-Policy: same-origin\r",
                                          "\nContent-Type: text/html; charset=utf-8\r"};
    for (size_t i = 0; i < 4; i++)
        expect_true(headers[i] + 1, r.head && strcasestr(r.head, headers[i]));
    expect("the page", r, 200, "connect-src 'self'");
    expect("no other page", ask("GET /index.html", "", NULL, 0), 404, "error");
    expect("no file", ask("GET /../../../../etc/passwd", "", NULL, 0), 404, "error");
    expect("no file, in disguise", ask("GET /%2e%2e/%2e%2e/etc/passwd", "", NULL, 0), 404, "error");
    expect("posting to the page", ask("POST /", "", "{}", 2), 405, "GET, HEAD");
    expect("getting a translation", ask("GET /translate?text=x", "", NULL, 0), 405, "POST");
    expect("DELETE", ask("DELETE /", "", NULL, 0), 405, NULL);
}

static void check_names(void)
{
    static const char body[] = "{\"text\": \"le chat\"}";
    char headers[4][128], request[512];
    snprintf(headers[0], 128, "Origin: http://127.0.0.1:%d\r\n", port);
    expect("our own page asks", ask("POST /translate", headers[0], body, strlen(body)), 200,
           "\"translation\":");
    static const char *const others[] = {"http://evil.example", "null", "https://127.0.0.1", ""};
    for (size_t i = 0; i < 4; i++) {
        snprintf(headers[1], 128, "Origin: %s\r\n", others[i]);
        snprintf(headers[2], 128, "Origin: %s", others[i]);
        expect(headers[2], ask("POST /translate", headers[1], body, strlen(body)), 403, "Origin");
    }
    snprintf(headers[3], 128, "localhost:%d", port);
    const char *const hosts[] = {headers[3], "evil.example:8080",     "127.0.0.1", "localhost:1",
                                 "",         "127.0.0.1.evil.example"};
    for (size_t i = 0; i < 6; i++) {
        const int size =
            snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
        snprintf(headers[1], 128, "Host: %s", i ? hosts[i] : "localhost:PORT");
        expect(headers[1], ask_bytes(request, (size_t)size), i ? 403 : 200, NULL);
    }
    int size = snprintf(request, sizeof request,
                        "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nHost: evil.example\r\n\r\n", port);
    reply two = ask_bytes(request, (size_t)size);
    expect_true("two hosts are refused", two.code == 400 || two.code == 403);
    free_reply(&two);
    size = snprintf(request, sizeof request, "GET / HTTP/1.1\r\n\r\n");
    reply none = ask_bytes(request, (size_t)size);
    expect_true("no host is refused", none.code == 400 || none.code == 403);
    free_reply(&none);
}

static void check_types(void)
{
    static const char *const types[] = {"text/plain", "application/x-www-form-urlencoded",
                                        "multipart/form-data", "application/jsonx"};
    char request[512], what[128];
    for (size_t i = 0; i < 4; i++) {
        const int size = snprintf(request, sizeof request,
                                  "POST /translate HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                                  "Content-Type: %s\r\nContent-Length: 12\r\n\r\n{\"text\":\"a\"}",
                                  port, types[i]);
        snprintf(what, sizeof what, "Content-Type: %s", types[i]);
        expect(what, ask_bytes(request, (size_t)size), 415, "application/json");
    }
    static const char *const lengths[] = {"Transfer-Encoding: chunked", "Content-Length: 65537",
                                          "Content-Length: 99999999999999999"};
    static const int codes[] = {411, 413, 413};
    for (size_t i = 0; i < 3; i++) { // the body never comes
        const int size = snprintf(request, sizeof request,
                                  "POST /translate HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                                  "Content-Type: application/json\r\n%s\r\n\r\n",
                                  port, lengths[i]);
        expect(lengths[i], ask_bytes(request, (size_t)size), codes[i], "error");
    }
}

static char *repeat(char c, size_t count, const char *before, const char *after, size_t *size)
{
    *size = strlen(before) + count + strlen(after);
    char *text = grow(NULL, *size + 1);
    strcpy(text, before);
    memset(text + strlen(before), c, count);
    strcpy(text + strlen(before) + count, after);
    return text;
}

static void check_bodies(void)
{
    static const struct {
        const char *what, *body;
        int code;
        const char *part;
    } cases[] = {
        {"nothing", "", 400, "not JSON"},
        {"not JSON", "le chat", 400, "not JSON"},
        {"a list", "[\"text\"]", 400, "expected an object"},
        {"no text", "{\"texts\": \"a\"}", 400, "expected an object"},
        {"a number", "{\"text\": 1}", 400, "expected an object"},
        {"two texts", "{\"text\": \"a\", \"text\": \"b\"}", 400, "not JSON"},
        {"not UTF-8", "{\"text\": \"a\xFF\"}", 400, "byte 12 (0xff) is not valid UTF-8"},
        {"half a character", "{\"text\": \"\xC3\"}", 400, "UTF-8"},
        {"half a pair", "{\"text\": \"\\ud800\"}", 400, "not JSON"},
        {"a NUL", "{\"text\": \"\\u0000\"}", 400, "not JSON"},
        {"a blank text", "{\"text\": \" \"}", 200, "\"translation\":\"\""},
        {"markup", "{\"text\": \"</script>\"}", 200, "\"trace\":"},
        {"a face", "{\"text\": \"\\ud83d\\ude00\"}", 200, "\"chunks\":"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].what, ask("POST /translate", "", cases[i].body, strlen(cases[i].body)),
               cases[i].code, cases[i].part);
    size_t size;
    char *body = repeat('[', 60000, "", "", &size);
    expect("60,000 brackets", ask("POST /translate", "", body, size), 400, "not JSON");
    free(body);
    body = repeat('q', 65524, "{\"text\":\"", "\"}", &size);
    expect("as long as may be", ask("POST /translate", "", body, size), 422, "tokens");
    free(body);
    body = repeat('q', 50 << 20, "{\"text\":\"", "\"}", &size);
    reply r = ask("POST /translate", "", body, size); // it may hang up while we are talking
    expect_true("50 MB", r.code == 413 || r.code == 0);
    free_reply(&r);
    free(body);
}

static void check_noise(void)
{
    size_t size;
    char *text = repeat('a', 100000, "X-Long: ", "\r\n", &size);
    reply r = ask("GET /", text, NULL, 0);
    expect_true("a header of 100,000 bytes", r.code >= 400 || r.code == 0);
    free_reply(&r);
    free(text);
    text = repeat('a', 100000, "GET /", "", &size);
    r = ask(text, "", NULL, 0);
    expect_true("an address of 100,000 bytes", r.code >= 400 || r.code == 0);
    free_reply(&r);
    free(text);
    unsigned noise = 1;
    for (int turn = 0; turn < 50; turn++) {
        char bytes[4096];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)((noise = noise * 1664525 + 1013904223) >> 24);
        int s = dial();
        send_all(s, bytes, sizeof bytes);
        close(s);
    }
    expect("after noise", ask("GET /", "", NULL, 0), 200, NULL);
}

static void check_connections(void)
{
    static const char body[] = "{\"text\": \"le chat\"}";
    size_t size, page;
    char *request = make_request("POST /translate", "", body, strlen(body), &size);
    int s = dial();
    send_all(s, request, size);
    shutdown(s, SHUT_WR);
    reply r = read_reply(s);
    expect_true("half-closed after the request", r.code == 200 || r.code == 0);
    free_reply(&r);
    close(s);
    for (size_t part = 1; part < size; part += 7) { // hung up in the middle
        s = dial();
        send_all(s, request, part);
        close(s);
    }
    for (int i = 0; i < 20; i++) { // nobody waits for the answer
        s = dial();
        send_all(s, request, size);
        close(s);
    }
    expect("after requests that broke off", ask_bytes(request, size), 200, "\"translation\":");
    char *get = make_request("GET /", "", NULL, 0, &page);
    s = dial();
    send_all(s, request, size);
    send_all(s, get, page);
    send_all(s, request, size);
    send_all(s, "\x01\x02 garbage \r\n\r\n", 15);
    expect("pipelined, the first", read_reply(s), 200, "\"translation\":");
    expect("pipelined, the second", read_reply(s), 200, "<!doctype html>");
    expect("pipelined, the third", read_reply(s), 200, "\"translation\":");
    r = read_reply(s);
    expect_true("pipelined garbage", r.code >= 400 || r.code == 0);
    free_reply(&r);
    close(s);
    int idle[100];
    for (size_t i = 0; i < 100; i++)
        idle[i] = dial();
    expect("beside 100 that say nothing", ask_bytes(request, size), 200, "\"translation\":");
    for (size_t i = 0; i < 100; i++)
        close(idle[i]);
    free(request);
    free(get);
}

// ---- many at once ---------------------------------------------------------------------------

static const char *const texts[TEXTS] = {"le chat",
                                         "le tapis est beau",
                                         "",
                                         "the cat sleeps on a mat.",
                                         "x y z",
                                         "d\xC3\xA9j\xC3\xA0 vu",
                                         "il fait beau, le chat dort"};
static reply right[TEXTS];

static reply ask_text(int s, size_t i)
{
    char body[128];
    size_t size;
    snprintf(body, sizeof body, "{\"text\": \"%s\"}", texts[i]);
    char *request = make_request("POST /translate", "", body, strlen(body), &size);
    const bool sent = send_all(s, request, size);
    free(request);
    return sent ? read_reply(s) : (reply){0};
}

static void *load(void *argument)
{
    const size_t first = *(const size_t *)argument;
    size_t *wrong = argument;
    size_t count = 0;
    int s = dial();
    for (size_t i = first; i < REQUESTS; i += CLIENTS) {
        reply r = ask_text(s, i % TEXTS);
        count += r.code != 200 || r.size != right[i % TEXTS].size ||
                 memcmp(r.body, right[i % TEXTS].body, r.size) != 0;
        free_reply(&r);
    }
    close(s);
    *wrong = count;
    return NULL;
}

static void check_load(void)
{
    pthread_t threads[CLIENTS];
    size_t places[CLIENTS], wrong = 0;
    int s = dial();
    for (size_t i = 0; i < TEXTS; i++) {
        right[i] = ask_text(s, i);
        wrong += right[i].code != 200;
    }
    close(s);
    for (size_t i = 0; i < CLIENTS; i++) {
        places[i] = i;
        if (pthread_create(&threads[i], NULL, load, &places[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        wrong += places[i];
    }
    printf("%s %d requests over %d connections, %zu wrong\n", wrong ? "FAIL" : "ok  ", REQUESTS,
           CLIENTS, wrong);
    failed |= wrong != 0;
    for (size_t i = 0; i < TEXTS; i++)
        free_reply(&right[i]);
}

// A byte every half second is never idle; others are answered meanwhile.
static void check_slow(void)
{
    static const char line[] = "GET / HTTP/1.1\r\nX-Slow: ";
    int s = dial();
    const time_t start = time(NULL);
    bool open = send_all(s, line, strlen(line));
    while (open && time(NULL) < start + 60) {
        const struct timespec half = {.tv_nsec = 500000000};
        char c;
        open = send_all(s, "a", 1) && (recv(s, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
        nanosleep(&half, NULL);
    }
    const time_t end = time(NULL);
    close(s);
    expect_true("a slow sender is hung up on", !open && end - start >= 10 && end - start <= 40);
    expect("after that", ask("GET /", "", NULL, 0), 200, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 2 || sscanf(argv[1], "http://127.0.0.1:%d/", &port) != 1) {
        fprintf(stderr, "usage: serve_client http://127.0.0.1:PORT/ [slow | once]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2 && strcmp(argv[2], "once") == 0) {
        static const char body[] = "{\"text\": \"le chat\"}";
        reply page = ask("GET /", "", NULL, 0);
        reply text = ask("POST /translate", "", body, strlen(body));
        printf("%d %d\n", page.code, text.code);
        free_reply(&page);
        free_reply(&text);
        return 0;
    }
    if (argc > 2) {
        check_slow();
        return failed;
    }
    check_page();
    check_names();
    check_types();
    check_bodies();
    check_noise();
    check_connections();
    check_load();
    return failed;
}
