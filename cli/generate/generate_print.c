// SPDX-License-Identifier: MIT
// What `multihead generate` prints in the order of the prompts: texts while they grow, or JSON.
#include "generate_parts.h"
#include "messages.h"
#include "progress.h"
#include "report.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// Without a result the prompt has left no room for a token.
static void print_generation_json(const generate *g, mh_text prompt, const mh_generation *r)
{
    const mh_generation none = {
        .text = {"", 0}, .top_count = g->options.top_logprobs, .finish = MH_FINISH_LENGTH};
    r = r ? r : &none;
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

int complain_generation(const text_arguments *a, mh_status status)
{
    return status == MH_ERROR_FORMAT ? complain_status(a->context, status, a->directory)
                                     : complain_texts(a, status);
}

// ---- texts in order -----------------------------------------------------------------------------

typedef struct waiting_text {
    char *text;
    size_t size, capacity;
    const mh_generation *result; // NULL: no room for a token, or not done
    bool begun, done;
} waiting_text;

int ordered_text_open(const generate *g, size_t count, ordered_text *o)
{
    *o = (ordered_text){.generate = g,
                        .count = count,
                        .shows_progress = count > 1 && progress_wanted() && !isatty(STDOUT_FILENO)};
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

static void write_text(mh_text text)
{
    if (text.size == 0)
        return;
    terminal_put(stdout, text); // whole characters, as a token's text has
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

// The objects of the texts that are done, as far as all before them are.
static void print_objects(ordered_text *o)
{
    const size_t before = o->current;
    for (; o->current < o->count && o->waiting[o->current].done; o->current++)
        print_generation_json(o->generate, o->generate->arguments.texts[o->current],
                              o->waiting[o->current].result);
    if (o->current > before)
        flush_stdout();
}

// First tokens come in the order of the prompts: a prompt before this one that has none leaves no
// room for any.
static void skip_full(ordered_text *o, size_t sequence)
{
    for (size_t i = o->current; i < sequence; i++)
        if (!o->waiting[i].begun && !o->waiting[i].done) {
            o->waiting[i].done = true;
            o->done++;
        }
    if (o->waiting[o->current].done && !o->generate->arguments.json) {
        if (o->current == 0)
            begin_text(o);
        end_text(o);
    }
}

static void print_text(ordered_text *o, const mh_generated_token *token)
{
    if (o->generate->arguments.json) {
        print_objects(o);
    } else if (token->sequence == o->current) {
        write_text(token->text);
        if (token->last)
            end_text(o);
    }
}

mh_generate_action ordered_text_add(void *user, const mh_generated_token *token)
{
    ordered_text *o = user;
    const bool json = o->generate->arguments.json;
    waiting_text *w = &o->waiting[token->sequence];
    if (!w->begun && o->generate->options.beam == 1)
        skip_full(o, token->sequence);
    if (!w->begun && token->sequence == 0 && !json)
        begin_text(o);
    w->begun = true;
    w->done = token->last;
    w->result = token->result;
    o->done += token->last;
    if ((token->sequence != o->current || o->keeps) && !json)
        o->failed = o->failed || !append_text(w, token->text);
    print_text(o, token);
    if (o->shows_progress && token->last)
        progress_show(o->done, o->count, "texts");
    const bool stops = o->failed || ferror(stdout) || was_interrupted();
    return stops ? MH_GENERATE_STOP_ALL : MH_GENERATE_CONTINUE;
}

// Prompts that leave no room for a token, of which no call has told.
static void end_rest(ordered_text *o)
{
    for (size_t i = o->current; i < o->count; i++)
        o->waiting[i].done = true;
    if (o->generate->arguments.json) {
        print_objects(o);
        return;
    }
    if (o->current == 0 && o->count && !o->waiting[0].begun)
        begin_text(o);
    while (o->current < o->count)
        end_text(o);
}

// Whether the model's longest input has ended the text, and nothing that was asked for.
static bool is_full(const generate *g, const mh_generation *r)
{
    return r->finish == MH_FINISH_LENGTH && r->count < g->options.max_tokens &&
           r->prompt_count + r->count == mh_model_describe(g->arguments.model)->max_length;
}

// JSON says so itself: "finish" is "length", with fewer tokens than were asked for.
static void note_full(const ordered_text *o, const mh_generations *made)
{
    const size_t most = mh_model_describe(o->generate->arguments.model)->max_length;
    size_t full = 0;
    for (size_t i = 0; i < o->count; i++)
        full += is_full(o->generate, mh_generations_at(made, i));
    if (full && o->count > 1)
        note("%zu of %zu texts %s because the model's context of %zu tokens is full", full,
             o->count, plural(full, "ends", "end"), most);
    else if (full && mh_generations_at(made, 0)->count == 0)
        note("the prompt fills the model's context of %zu tokens", most);
    else if (full)
        note("the text ends because the model's context of %zu tokens is full", most);
}

int ordered_text_close(ordered_text *o, const mh_generations *made)
{
    int code = EXIT_DONE;
    progress_clear();
    if (o->failed) {
        complain("out of memory for the text");
        code = EXIT_MEMORY;
    } else if (made) {
        end_rest(o);
        if (!o->generate->arguments.json)
            note_full(o, made);
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
