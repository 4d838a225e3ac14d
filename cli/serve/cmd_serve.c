// SPDX-License-Identifier: MIT
// multihead serve: a model in the browser: what it makes of a text, and what attention does.
#include "messages.h"
#include "model_path.h"
#include "server.h"
#include "translate/translate.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY_PORT = 0x100, KEY_HOST, KEY_OPEN, KEY_DTYPE, KEY_NO_VERIFY, KEY_QUEUE, KEY_TIMEOUT };

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "The model", 1},
    {"model", 'm', "MODEL", 0,
     "a directory as Hugging Face publishes it or 'multihead train -o DIR' writes it, or a GGUF "
     "file; or the name of one in $MULTIHEAD_MODELS, ./models or where models are installed. "
     "Default: " DEFAULT_MODEL,
     0},
    {"dtype", KEY_DTYPE, "TYPE", 0,
     "type of the operands of products, f32 or bf16; default: bf16 for translators at levels "
     "avx512bf16 and amx, else f32",
     0},
    {"no-verify", KEY_NO_VERIFY, NULL, 0,
     "load the model even if its checksums do not match: it was changed after saving", 0},
    {NULL, 0, NULL, 0, "The server", 2},
    {"port", KEY_PORT, "N", 0, "the port to listen on, 0 for any free one; default: 8080", 0},
    {"host", KEY_HOST, "NAME", 0,
     "the address to listen on; default: 127.0.0.1, which other machines cannot reach. There is "
     "no authentication and no encryption",
     0},
    {"queue", KEY_QUEUE, "N", 0,
     "length of the queue of waiting requests, 0 to 128; more get 503; default: 32", 0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "time limit of a request, 1 to 3600: one that is still waiting then gets 503, one that is "
     "being computed 504; default: 30",
     0},
    {"open", KEY_OPEN, NULL, 0, "open the page in the browser (xdg-open)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

typedef struct serve {
    common_options common;
    mh_context *context;
    const char *model; // NULL: the default
    char *directory;
    mh_translator_load_options loading;
    bool opens;
    pid_t browser; // 0: none
    server server;
} serve;

static error_t serve_parse_option(int key, char *argument, struct argp_state *state)
{
    serve *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case ARGP_KEY_ARG:
        return refuse_argument(state, argument);
    case 'm':
        s->model = argument;
        return 0;
    case KEY_NO_VERIFY:
        s->loading.verify = false;
        return 0;
    case KEY_DTYPE:
        s->loading.precision =
            (mh_precision)parse_choice(state, "--dtype", argument, precision_choices);
        return 0;
    case KEY_PORT:
        s->server.listener.port = (int)parse_integer(state, "--port", argument, 0, 65535);
        return 0;
    case KEY_HOST:
        if (strlen(argument) == 0 || strlen(argument) > 253)
            argp_error(state, "--host: found '%.60s', expected the name of a host", argument);
        s->server.listener.host = argument;
        return 0;
    case KEY_QUEUE:
        s->server.queue.capacity =
            (size_t)parse_integer(state, "--queue", argument, 0, CONNECTIONS_MAX);
        return 0;
    case KEY_TIMEOUT:
        s->server.timeout = (int)parse_integer(state, "--timeout", argument, 1, 3600);
        return 0;
    case KEY_OPEN:
        s->opens = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp serve_argp = {
    .options = option_table,
    .parser = serve_parse_option,
    .args_doc = "[-m MODEL] [--port N] [--open] [OPTION...]",
    .doc =
        "Serves a page that shows what a model makes of a sentence and what every head of every "
        "layer attends to: a translation; the continuation by a causal language model, with the "
        "likeliest next tokens; candidates for the masks of a masked one; the labels of a "
        "classifier, also of a picture that is chosen. A click disables a head, and the page shows "
        "both results. Speech models are not served; 'multihead look --page' writes a page for "
        "these. The address is printed once the server is ready. Ctrl-C, SIGTERM or SIGHUP stop "
        "it, with exit code 0.\n"
        "\n"
        "For programs: POST /translate with a JSON object {\"text\": \"...\"} returns an object "
        "with translation, score, log_probability, and the data of the page; "
        "\"disabled_heads\": [\"cross.2.0\"] disables heads, as --disable-head of 'multihead "
        "translate' does. Other models have POST /look, with predictions, "
        "continuation or embedding, and heads as --disable-head of 'multihead look' has them, "
        "\"2:0\"; in place of a text \"picture\" has a picture file in base64. GET /model names "
        "the model, its task and its languages.\v"
        "Examples:\n"
        "  multihead serve --open\n"
        "  multihead serve -m models/fr-en --port 0\n"
        "  multihead serve -m en-lm --open\n"
        "  multihead serve -m bert-base-uncased --open\n"
        "  multihead serve -m fashion-vit --open\n"
        "  curl -s localhost:8080/translate --json '{\"text\": \"Bonjour !\"}' | jq .translation",
    .children = children,
};

// ---- the parts ----------------------------------------------------------------------------------

static int serve_open_model(serve *s)
{
    server *to = &s->server;
    const int code = served_open(s->context, s->directory, &s->loading, &to->served);
    if (code != EXIT_DONE)
        return code;
    mh_view_options options = mh_view_options_default();
    options.served = true;
    const mh_status status = mh_view_page(s->context, &options, NULL, &to->page);
    if (status)
        return complain_status(s->context, status, NULL);
    to->queue.served = &to->served;
    to->model = describe_served_model(&to->served);
    if (to->model)
        return EXIT_DONE;
    complain("out of memory for the model's description");
    return EXIT_MEMORY;
}

static void open_browser(serve *s, const sigset_t *mask)
{
    extern char **environ;
    char name[] = "xdg-open";
    char *const arguments[] = {name, s->server.listener.url, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (!error && (error = posix_spawnattr_init(&attributes)))
        posix_spawn_file_actions_destroy(&actions);
    if (!error) {
        posix_spawnattr_setsigmask(&attributes, mask);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        error = posix_spawnp(&s->browser, name, &actions, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (error) {
        s->browser = 0;
        note("--open: xdg-open: %s; open the address above yourself", strerror(error));
    }
}

// Only this thread gets signals, and only while it waits. *open: the mask with them unblocked.
static void serve_block_signals(sigset_t *open)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, open);
}

static void serve_requests(serve *s, const sigset_t *open)
{
    while (!was_interrupted()) {
        server_step(&s->server, open);
        if (s->browser && waitpid(s->browser, NULL, WNOHANG) != 0)
            s->browser = 0;
    }
}

static int serve_start(serve *s)
{
    int code = open_context(&s->common, &s->context);
    if (code == EXIT_DONE)
        code = serve_open_model(s);
    if (code == EXIT_DONE)
        code = listener_open(&s->server.listener);
    if (code == EXIT_DONE)
        code = queue_open(&s->common, mh_context_threads(s->context), &s->server.queue);
    server_start(&s->server);
    return code;
}

static int start_and_serve(serve *s, const sigset_t *open)
{
    const int code = serve_start(s);
    if (code != EXIT_DONE)
        return code;
    begin_saving();
    puts(s->server.listener.url);
    if (fflush(stdout) != 0) {
        complain("standard output: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (s->opens)
        open_browser(s, open);
    serve_requests(s, open);
    server_stop(&s->server, open);
    return EXIT_DONE;
}

// Signals are delivered between the steps of the event loop; while workers end, a second one ends
// the process at once.
static int serve_until_interrupted(serve *s)
{
    sigset_t open;
    serve_block_signals(&open);
    const int code = start_and_serve(s, &open);
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    return code;
}

// One malloc arena is enough for all workers: each further one would retain the peak memory of its
// largest translation.
static void limit_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
#endif
}

static int run_serve(int argc, char **argv)
{
    serve s = {.common = {.command = &serve_command},
               .loading = mh_translator_load_options_default(),
               .server = {.listener = {.host = "127.0.0.1", .port = 8080, .socket = -1},
                          .queue = {.capacity = QUEUE_DEFAULT, .wake = {-1, -1}},
                          .timeout = TIMEOUT_DEFAULT}};
    int code = parse_arguments(&serve_argp, argc, argv, &s);
    if (code == EXIT_DONE)
        code = model_path_find(s.model, &s.directory);
    if (code != EXIT_DONE)
        return code;
    limit_memory();
    pthread_mutex_init(&s.server.queue.mutex, NULL);
    pthread_cond_init(&s.server.queue.filled, NULL);
    signal(SIGPIPE, SIG_IGN); // a client that disconnects must not end the server
    json_object_seed(0);      // now, not in two threads at once
    s.server.served.name = model_name(s.directory); // clients need not know its path
    code = serve_until_interrupted(&s);
    listener_close(&s.server.listener);
    queue_close(&s.server.queue);
    pthread_cond_destroy(&s.server.queue.filled);
    pthread_mutex_destroy(&s.server.queue.mutex);
    if (s.context)
        mh_buffer_free(s.context, &s.server.page);
    served_close(&s.server.served);
    mh_context_free(s.context);
    free(s.server.model);
    free(s.directory);
    return code;
}

const command serve_command = {
    .name = "serve",
    .summary = "run a model in the browser and see what its heads attend to",
    .argp = &serve_argp,
    .run = run_serve,
};
