// SPDX-License-Identifier: MIT
// A client that `multihead serve` would rather not have:
//     serve_client http://127.0.0.1:PORT/ [slow | once | post PATH BODY]
//
// Every check prints one line. Requests are sent as bytes, whatever HTTP has to say about them; all
// of them must get the answer that is expected here, and the server must answer the next one too.
// `slow` takes a quarter of a minute: a client that sends a byte now and then is hung up on. `once`
// asks for a page and a translation, and prints both codes; `post` prints the code of one request
// and the answer without the data of the page.
#include "http_client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 16, REQUESTS = 1000, TEXTS = 7 };

// ---- checks -------------------------------------------------------------------------------------

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
    expect("the model", ask("GET /model", "", NULL, 0), 200, "\"name\":\"model\"");
    expect("posting to the model", ask("POST /model", "", "{}", 2), 405, "GET, HEAD");
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
    expect("two hosts", ask_bytes(request, (size_t)size), 400, "Host: found twice");
    size = snprintf(request, sizeof request, "GET / HTTP/1.1\r\n\r\n");
    expect("no host", ask_bytes(request, (size_t)size), 400, "Host");
}

static void check_heads(void)
{
    static const struct {
        const char *heads;
        int code;
        const char *words;
    } cases[] = {
        {"[]", 200, "\"choices\":{"},
        {"[\"cross.1.2\", \"enc.0\"]", 200, "\"hypotheses\":["},
        {"[\"cross.2.0\"]", 422, "has 2 layers of 4 heads"},
        {"[\"cross.0.4\"]", 422, "has 2 layers of 4 heads"},
        {"[\"cross.0.0\", \"cross\"]", 422, "disabled_heads[1]: found 'cross'"},
        {"[\"cross.99999999999999999999.0\"]", 422, "expected enc.LAYER.HEAD"},
        {"[\"\"]", 422, "expected enc.LAYER.HEAD"},
        {"[7]", 400, "disabled_heads[0]: expected a string"},
        {"\"cross.0.0\"", 400, "expected a list"},
        {"null", 400, "expected a list"},
    };
    char body[256], name[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int size = snprintf(
            body, sizeof body, "{\"text\": \"le chat\", \"disabled_heads\": %s}", cases[i].heads);
        snprintf(name, sizeof name, "disabled_heads %s", cases[i].heads);
        expect(name, ask("POST /translate", "", body, (size_t)size), cases[i].code, cases[i].words);
    }
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

// The answer to a request, and that nothing behind it is taken for another one.
static void expect_last(const char *what, const char *bytes, size_t size, int code,
                        const char *part)
{
    static const char next[] = "GET /next HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    char line[128];
    int s = dial();
    send_all(s, bytes, size);
    send_all(s, next, strlen(next));
    expect(what, read_reply(s), code, part);
    reply second = read_reply(s);
    snprintf(line, sizeof line, "%s: the connection ends", what);
    expect_true(line, second.code == 0);
    free_reply(&second);
    close(s);
}

// Where a request ends must be beyond doubt.
static void check_framing(void)
{
    static const struct {
        const char *what, *line, *headers;
        int code;
    } cases[] = {
        {"both lengths", "POST /translate", "Content-Length: 5\r\nTransfer-Encoding: chunked", 400},
        {"both, the other order", "POST /translate",
         "Transfer-Encoding: chunked\r\nContent-Length: 5", 400},
        {"both, xchunked", "POST /translate", "Transfer-Encoding: xchunked\r\nContent-Length: 5",
         400},
        {"both, identity", "POST /translate", "Transfer-Encoding: identity\r\nContent-Length: 5",
         400},
        {"gzip, chunked", "POST /translate", "Transfer-Encoding: gzip, chunked", 411},
        {"chunked to the page", "GET /", "Transfer-Encoding: chunked", 411},
        {"both to the page", "GET /", "Transfer-Encoding: chunked\r\nContent-Length: 5", 400},
        {"two lengths that differ", "POST /translate", "Content-Length: 5\r\nContent-Length: 6",
         400},
        {"a list of lengths", "POST /translate", "Content-Length: 5, 5", 400},
        {"a length with a sign", "POST /translate", "Content-Length: +5", 400},
        {"a blank before the colon", "GET /", "Transfer-Encoding : chunked", 400},
        {"a value on two lines", "GET /", "X-Long: a\r\n b", 400},
        {"a line that ends with LF", "GET /", "X-Short: a\nX-Other: b", 400},
        {"a CR in a value", "GET /", "X-Other: a\rb", 400},
        {"a header without a name", "GET /", ": a", 400},
    };
    char request[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int size = snprintf(request, sizeof request,
                                  "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                                  "Content-Type: application/json\r\n%s\r\n\r\n0\r\n\r\n",
                                  cases[i].line, port, cases[i].headers);
        expect_last(cases[i].what, request, (size_t)size, cases[i].code, "error");
    }
    // with a NUL in it, which %s cannot print
    static const char *const nul[] = {"GET /#?",
                                      "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d#.evil.example"};
    static const char *const names[] = {"a NUL in the path", "a NUL in the host"};
    for (size_t i = 0; i < 2; i++) {
        int size = snprintf(request, sizeof request, nul[i], port);
        size += snprintf(request + size, sizeof request - (size_t)size,
                         i ? "\r\n\r\n" : " HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", port);
        *strchr(request, '#') = 0;
        expect_last(names[i], request, (size_t)size, 400, "error");
    }
    expect("an escaped NUL in the path", ask("GET /%00", "", NULL, 0), 404, "error");
}

// Requests that are unusual and get an answer all the same.
static void check_unusual(void)
{
    static const char body[] = "{\"text\": \"le chat\"}";
    char request[512];
    size_t whole;
    int size = snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: \xFF\r\n\r\n");
    expect("a host that is not UTF-8", ask_bytes(request, (size_t)size), 403, "found '?'");
    expect("an origin that is not UTF-8",
           ask("POST /translate", "Origin: http://\xC3\xA9\xFF\r\n", body, strlen(body)), 403,
           "http://\xC3\xA9?");
    size = snprintf(request, sizeof request,
                    "POST /translate HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                    "Content-Type: \xFF\r\nContent-Length: 2\r\n\r\n{}",
                    port);
    expect("a type that is not UTF-8", ask_bytes(request, (size_t)size), 415, "found '?'");
    expect("the page, with a body", ask("GET /", "", "le chat", 7), 200, "<!doctype html>");
    char *line = repeat('a', 20000, "GET /?", "=b", &whole);
    expect("20 KB of arguments", ask(line, "", NULL, 0), 200, "<!doctype html>");
    for (size_t i = 7; i < 20000; i += 2)
        line[i] = '&';
    expect("10,000 arguments", ask(line, "", NULL, 0), 200, "<!doctype html>");
    free(line);
    expect("two equal lengths", ask("POST /translate", "Content-Length: 19\r\n", body, 19), 200,
           "\"translation\":");
    size = snprintf(request, sizeof request, "\r\n\r\nGET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
                    port);
    expect("empty lines before a request", ask_bytes(request, (size_t)size), 200, NULL);
    size = snprintf(request, sizeof request, "GET / HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n", port);
    expect_last("HTTP/1.0", request, (size_t)size, 200, "<!doctype html>");
    size = snprintf(request, sizeof request, "GET / HTTP/2.0\r\nHost: 127.0.0.1:%d\r\n\r\n", port);
    expect_last("HTTP/2.0", request, (size_t)size, 505, "HTTP/1.1");
    char *close_it = make_request("GET /", "Connection: keep-alive, close\r\n", NULL, 0, &whole);
    expect_last("Connection: close", close_it, whole, 200, "<!doctype html>");
    free(close_it);
}

// The body is sent after the server has said that it wants it.
static void check_continue(void)
{
    static const char body[] = "{\"text\": \"le chat\"}",
                      interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char got[sizeof interim] = "";
    size_t whole;
    char *request = make_request("POST /translate", "Expect: 100-continue\r\n", body, 19, &whole);
    int s = dial();
    send_all(s, request, whole - 19);
    const bool said = recv(s, got, sizeof got - 1, MSG_WAITALL) == sizeof got - 1;
    expect_true("100 Continue", said && strcmp(got, interim) == 0);
    send_all(s, body, 19);
    expect("after 100 Continue", read_reply(s), 200, "\"translation\":");
    close(s);
    free(request);
    expect("another expectation", ask("POST /translate", "Expect: cookies\r\n", body, 19), 417,
           "100-continue");
    size_t ahead;
    char *head = make_request("HEAD /", "", NULL, 0, &whole);
    char *get = make_request("GET /", "", NULL, 0, &ahead);
    char line[64] = "";
    s = dial();
    send_all(s, head, whole);
    send_all(s, get, ahead);
    for (size_t i = 0, ends = 0; ends < 4 && recv(s, line, 1, 0) == 1; i++) // up to the empty line
        ends = strchr("\r\n", line[0]) ? ends + 1 : 0;
    expect("the page after its head alone", read_reply(s), 200, "<!doctype html>");
    close(s);
    free(head);
    free(get);
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
        {"an empty text", "{\"text\": \"\"}", 422, "the text is empty"},
        {"a blank text", "{\"text\": \" \\n\\t\"}", 422, "the text is empty"},
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
    body = repeat(' ', 300, "{\"text\":\"", "le chat\"}", &size);
    reply padded = ask("POST /translate", "", body, size);
    reply plain = ask("POST /translate", "", "{\"text\":\"le chat\"}", 18);
    expect_true("300 blanks and a text: the answer is that of the text",
                padded.code == 200 && padded.size == plain.size &&
                    memcmp(padded.body, plain.body, plain.size) == 0);
    free_reply(&padded);
    free_reply(&plain);
    free(body);
}

static void check_noise(void)
{
    size_t size;
    char *text = repeat('a', 100000, "X-Long: ", "\r\n", &size);
    expect("a header of 100,000 bytes", ask("GET /", text, NULL, 0), 431, "32768 bytes");
    free(text);
    text = repeat('a', 100000, "GET /", "", &size);
    expect("an address of 100,000 bytes", ask(text, "", NULL, 0), 414, "32768 bytes");
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
    expect("pipelined garbage", read_reply(s), 400, "request line");
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

// ---- many at once -------------------------------------------------------------------------------

static const char *const texts[TEXTS] = {"le chat",
                                         "le tapis est beau",
                                         "un tapis",
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

static void print_answer(const char *path, const char *body)
{
    char line[256];
    snprintf(line, sizeof line, "POST %s", path);
    reply r = ask(line, "", body, strlen(body));
    const char *data = r.body ? strstr(r.body, ",\"trace\"") : NULL;
    const size_t size = data ? (size_t)(data - r.body) : r.size;
    printf("%d %.*s%s\n", r.code, (int)size, r.body ? r.body : "", data ? ", ..." : "");
    free_reply(&r);
}

int main(int argc, char **argv)
{
    if (argc < 2 || sscanf(argv[1], "http://127.0.0.1:%d/", &port) != 1) {
        fprintf(stderr,
                "usage: serve_client http://127.0.0.1:PORT/ [slow | once | post PATH BODY]\n");
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
    if (argc > 4 && strcmp(argv[2], "post") == 0) {
        print_answer(argv[3], argv[4]);
        return 0;
    }
    if (argc > 2) {
        check_slow();
        return failed;
    }
    check_page();
    check_names();
    check_heads();
    check_types();
    check_framing();
    check_unusual();
    check_continue();
    check_bodies();
    check_noise();
    check_connections();
    check_load();
    return failed;
}
