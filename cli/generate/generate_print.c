// SPDX-License-Identifier: MIT
// What `multihead generate` prints: texts in order while they grow, or JSON.
#include "generate_parts.h"
#include "messages.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- texts in order -----------------------------------------------------------------------------

typedef struct waiting_text {
    char *text;
    size_t size, capacity;
    bool done;
} waiting_text;

int ordered_text_open(const generate *g, size_t count, ordered_text *o)
{
    *o = (ordered_text){.generate = g, .count = count};
    o->waiting = calloc(count + 1, sizeof *o->waiting);
    if (o->waiting)
        return EXIT_DONE;
    complain("out of memory for %zu texts", count);
    return EXIT_MEMORY;
}

static bool append_text(waiting_text *w, mh_text text)
{
    if (w->size + text.size > w->capacity) {
        const size_t capacity = 2 * (w->size + text.size);
        char *bigger = realloc(w->text, capacity);
        if (!bigger)
            return false;
        w->text = bigger;
        w->capacity = capacity;
    }
    if (text.size)
        memcpy(w->text + w->size, text.bytes, text.size);
    w->size += text.size;
    return true;
}

// Control characters that a model may generate must not reach the terminal: C0, DEL, and C1, which
// is c2 80 to c2 9f. A token's text has whole characters.
static void write_printable(mh_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char c = (unsigned char)text.bytes[i];
        const unsigned char next = i + 1 < text.size ? (unsigned char)text.bytes[i + 1] : 0;
        const bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
        putchar((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || c1 ? '?' : c);
        i += c1;
    }
}

static void write_text(mh_text text)
{
    if (text.size == 0)
        return;
    if (isatty(STDOUT_FILENO))
        write_printable(text);
    else
        fwrite(text.bytes, 1, text.size, stdout);
    flush_stdout(); // a pipe's reader sees the text grow, too; a failure is reported once
}

static void begin_text(const ordered_text *o)
{
    const generate *g = o->generate;
    if (!g->echo || o->current >= o->count || !g->arguments.texts)
        return;
    write_text(g->arguments.texts[o->current]);
    if (g->chat) // an answer is no continuation of the message
        write_text((mh_text){"\n", 1});
}

// The current text is complete: those that have waited behind it follow.
static void end_text(ordered_text *o)
{
    do {
        write_text((mh_text){"\n", 1});
        o->current++;
        begin_text(o);
        const waiting_text *w = &o->waiting[o->current];
        write_text((mh_text){w->text, w->size});
    } while (o->current < o->count && o->waiting[o->current].done);
}

mh_generate_action ordered_text_add(void *user, const mh_generated_token *token)
{
    ordered_text *o = user;
    waiting_text *w = &o->waiting[token->sequence];
    if (o->current == 0 && token->sequence == 0 && token->position == 0)
        begin_text(o);
    w->done = token->last;
    if (token->sequence != o->current || o->keeps)
        o->failed = o->failed || !append_text(w, token->text);
    if (token->sequence == o->current) {
        write_text(token->text);
        if (token->last)
            end_text(o);
    }
    return o->failed || ferror(stdout) ? MH_GENERATE_STOP_ALL : MH_GENERATE_CONTINUE;
}

int ordered_text_close(ordered_text *o, bool complete)
{
    int code = EXIT_DONE;
    if (o->failed) {
        complain("out of memory for the text");
        code = EXIT_MEMORY;
    } else if (complete) { // prompts that leave no room for a token
        if (o->current == 0 && o->count && o->waiting[0].size == 0 && !o->waiting[0].done)
            begin_text(o);
        while (o->current < o->count)
            end_text(o);
    }
    if (o->keeps && code == EXIT_DONE) {
        o->kept = o->waiting[0].text;
        o->kept_size = o->waiting[0].size;
        o->waiting[0].text = NULL;
    }
    for (size_t i = 0; i < o->count; i++)
        free(o->waiting[i].text);
    free(o->waiting);
    return code;
}

// ---- JSON ---------------------------------------------------------------------------------------

static const char *finish_name(mh_finish finish)
{
    return finish == MH_FINISH_LENGTH ? "length" : "stop";
}

static void print_token_json(const mh_tokenizer *tokenizer, const mh_token_score *token)
{
    mh_text name = {"", 0};
    mh_tokenizer_name(tokenizer, token->id, &name);
    printf("{\"id\": %d, \"token\": ", (int)token->id);
    put_json_string(stdout, name.bytes, name.size);
    printf(", \"logprob\": %.9g}", token->logprob);
}

// Tokens that cannot come at all have no number in JSON, and are left out.
static void print_top_json(const generate *g, const mh_generation *r)
{
    printf(", \"top_logprobs\": [");
    for (size_t i = 0; i < r->count; i++) {
        printf("%s[", i ? ", " : "");
        const mh_token_score *top = r->top + i * r->top_count;
        for (size_t j = 0; j < r->top_count && top[j].id >= 0 && isfinite(top[j].logprob); j++) {
            printf("%s", j ? ", " : "");
            print_token_json(mh_model_tokenizer(g->arguments.model), &top[j]);
        }
        printf("]");
    }
    printf("]");
}

void print_generation_json(const generate *g, mh_text prompt, const mh_generation *r)
{
    printf("{\"prompt\": ");
    put_json_string(stdout, prompt.bytes, prompt.size);
    printf(", \"text\": ");
    put_json_string(stdout, r->text.bytes, r->text.size);
    printf(", \"ids\": [");
    for (size_t i = 0; i < r->count; i++)
        printf("%s%d", i ? ", " : "", (int)r->ids[i]);
    printf("], \"logprobs\": [");
    for (size_t i = 0; i < r->count; i++)
        printf("%s%.9g", i ? ", " : "", r->logprobs[i]);
    printf("], \"finish\": \"%s\"", finish_name(r->finish));
    if (r->top_count)
        print_top_json(g, r);
    printf("}\n");
}
