// SPDX-License-Identifier: MIT
// multihead: finds the sub-command in the list of command.h and runs it.
#include "arguments.h"
#include "command.h"
#include "messages.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

const char program_summary[] = "multi-head attention on CPUs, from the shell";

#define ADDRESS(name) &name##_command,
const command *const commands[] = {COMMANDS(ADDRESS) NULL};
#undef ADDRESS

static const command *find_command(const char *name)
{
    for (const command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

// Words that readers of tutorials try, each list with the command that it leads to; see is_name().
static const struct {
    const char *words, *command;
} topics[] = {
    {"attention|self-attention|softmax|sdpa|qkv|scaled-dot-product-attention", "attend"},
    {"multi-head|multihead-attention|multi-head-attention|trace|steps|shapes|mask|masks", "mha"},
    {"transformer-encoder|encoder-layer|transformer|layer|layers", "encoder"},
    {"transformer-decoder|decoder-layer|cross-attention", "decoder"},
    {"heatmap|heatmaps|visualize|visualise|bertviz|explain", "look"},
    {"plot|show", "view"},
    {"translation|translator|marian|opus-mt", "translate"},
    {"chat|ask|complete|completion|gpt|gpt2|gpt-2|llama|text|prompt|write", "generate"},
    {"bert|mask-fill|fill-mask", "fill"},
    {"whisper|speech|audio|asr|stt", "transcribe"},
    {"vit|image|picture|sentiment|classification|classifier", "classify"},
    {"embedding|embeddings|similarity|vectors", "embed"},
    {"bleu|chrf|evaluate", "score"},
    {"benchmark|speed|time", "bench"},
    {"models|presets|parameters|sizes|cpu", "info"},
    {"web|ui|page|browser", "serve"},
    {"finetune|fine-tune|learn|fit", "train"},
};

static const char *topic_command(const char *word)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (is_name(word, topics[i].words))
            return topics[i].command;
    return NULL;
}

static int try_help(void)
{
    fputs("Try 'multihead --help' for more information.\n", stderr);
    return EXIT_USAGE;
}

static int unknown_command(const char *name)
{
    enum { MOST_NAMES = 32 };
    const char *names[MOST_NAMES + 1] = {"help"};
    size_t count = 1;
    for (const command *const *c = commands; *c && count < MOST_NAMES; c++)
        names[count++] = (*c)->name;
    const char *topic = topic_command(name), *nearest = topic ? topic : nearest_name(name, names);
    if (nearest)
        complain("unknown command '%s', did you mean '%s'?", name, nearest);
    else
        complain("unknown command '%s'", name);
    return try_help();
}

static int run_help(int argc, char **argv)
{
    if (argc < 3) {
        print_program_help(stdout);
        return EXIT_DONE;
    }
    const command *c = find_command(argv[2]);
    if (!c)
        return unknown_command(argv[2]);
    if (argc > 3) {
        complain("unexpected argument '%s'", argv[3]);
        return try_help();
    }
    print_command_help(stdout, c);
    return EXIT_DONE;
}

static int run_command(const command *c, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "multihead %s", c->name);
    argv[1] = name; // argp and getopt start their messages with argv[0]
    set_message_name(name);
    catch_signals();
    int code = c->run(argc - 1, argv + 1);
    set_message_name("multihead");
    return code;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_program_help(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return run_help(argc, argv);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("multihead %s\n", mh_version());
        return EXIT_DONE;
    }
    if (strcmp(word, "man") == 0) {
        print_man_page(stdout);
        return EXIT_DONE;
    }
    if (word[0] == '-') {
        static const char *const options[] = {"--help", "--version", NULL};
        const char *nearest = nearest_name(word, options);
        if (nearest)
            complain("unknown option '%s', did you mean '%s'?", word, nearest);
        else
            complain("unknown option '%s'", word);
        return try_help();
    }
    const command *c = find_command(word);
    return c ? run_command(c, argc, argv) : unknown_command(word);
}

static void finish_stdout(void)
{
    if (close_stdout() != EXIT_DONE)
        _Exit(EXIT_FAILED);
}

// Memory freed by a batch is allocated again by the next. By default glibc returns it to the system
// in between, and the page faults take a third of the time of a translation.
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int run_program(int argc, char **argv)
{
    keep_memory();
    argp_err_exit_status = EXIT_USAGE;
    atexit(finish_stdout);
    signal(SIGXFSZ, SIG_IGN); // exceeding the file size limit is then a write error
    return dispatch(argc, argv);
}
