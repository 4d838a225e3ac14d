// SPDX-License-Identifier: MIT
// Conversations, and the prompt to type at.
#include "generate_parts.h"
#include "messages.h"

#include <multihead/text.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- chat templates -----------------------------------------------------------------------------

static int render(const generate *g, const mh_chat_message *messages, size_t count, mh_buffer *text)
{
    const text_arguments *a = &g->arguments;
    mh_status status = mh_model_chat(a->context, a->model, g->template, messages, count, text);
    if (status == MH_OK)
        return EXIT_DONE;
    const bool unknown = !g->template && status == MH_ERROR_UNSUPPORTED;
    complain("%s: %s%s", a->directory, mh_error_message(a->context),
             unknown ? " (--template NAME)" : "");
    return status == MH_ERROR_MEMORY ? EXIT_MEMORY : EXIT_INPUT;
}

// A template that leaves the message out is a valid program, and the model answers nothing.
int check_template(const generate *g)
{
    static const char probe[] = "zqxj";
    mh_buffer text = {0};
    int code = make_prompt(g, (mh_text){probe, sizeof probe - 1}, &text);
    if (code == EXIT_DONE && (!text.size || !memmem(text.data, text.size, probe, sizeof probe - 1)))
        note("%s: the chat template %s", g->arguments.directory,
             text.size ? "leaves out the message" : "is empty: the model does not see the message");
    mh_buffer_free(g->arguments.context, &text);
    return code;
}

int make_prompt(const generate *g, mh_text message, mh_buffer *text)
{
    mh_chat_message messages[2];
    size_t count = 0;
    if (g->system)
        messages[count++] = (mh_chat_message){MH_CHAT_SYSTEM, {g->system, strlen(g->system)}};
    messages[count++] = (mh_chat_message){MH_CHAT_USER, message};
    return render(g, messages, count, text);
}

// ---- what is typed ------------------------------------------------------------------------------

typedef struct conversation {
    mh_chat_message *messages; // contents are to be freed
    size_t count;
} conversation;

static bool add_message(conversation *c, mh_chat_role role, char *text, size_t size)
{
    mh_chat_message *bigger = realloc(c->messages, (c->count + 1) * sizeof *bigger);
    if (!bigger || !text) {
        c->messages = bigger ? bigger : c->messages;
        free(text);
        complain("out of memory for the conversation");
        return false;
    }
    c->messages = bigger;
    c->messages[c->count++] = (mh_chat_message){role, {text, size}};
    return true;
}

static void free_conversation(conversation *c)
{
    for (size_t i = 0; i < c->count; i++)
        free((char *)c->messages[i].content.bytes);
    free(c->messages);
}

// Continues a prompt while it is printed; its text is in *answer, to be freed, if that is wanted.
static int answer_prompt(const generate *g, mh_text prompt, bool special, char **answer,
                         size_t *size)
{
    const text_arguments *a = &g->arguments;
    mh_generate_options o = g->options;
    ordered_text printed;
    mh_generations *made = NULL;
    int code = ordered_text_open(g, 1, &printed);
    if (code != EXIT_DONE)
        return code;
    printed.keeps = answer != NULL;
    o.on_token = ordered_text_add;
    o.user = &printed;
    o.add_special_tokens = special;
    o.prompt_cache = o.beam == 1 ? g->history : NULL;
    mh_status status = mh_generate_texts(a->context, a->model, &o, &prompt, 1, &made);
    if (status)
        code = complain_generation(a, status);
    const int closed = ordered_text_close(&printed, made);
    if (answer) {
        *answer = printed.kept ? printed.kept : calloc(1, 1);
        *size = printed.kept_size;
    } else {
        free(printed.kept);
    }
    mh_generations_free(made);
    return code != EXIT_DONE ? code : closed;
}

// The most tokens of a prompt that leave room for one more.
static size_t longest_prompt(const generate *g)
{
    const size_t most = mh_model_describe(g->arguments.model)->max_length;
    const size_t asked = g->options.max_length;
    return (asked && asked < most ? asked : most) - 1;
}

static int check_room(const generate *g, mh_text prompt, bool special, bool *fits)
{
    const text_arguments *a = &g->arguments;
    mh_encode_options o = mh_encode_options_default();
    mh_encoding encoding = {0};
    o.add_special_tokens = special;
    mh_status status = mh_tokenizer_encode_text(a->context, mh_model_tokenizer(a->model), &o,
                                                prompt, NULL, &encoding);
    *fits = encoding.count <= longest_prompt(g);
    mh_encoding_free(a->context, &encoding);
    return status ? complain_texts(a, status) : EXIT_DONE;
}

static int render_conversation(const generate *g, const conversation *c, mh_buffer *text,
                               bool *fits)
{
    const int code = render(g, c->messages, c->count, text);
    return code == EXIT_DONE ? check_room(g, (mh_text){text->data, text->size}, false, fits) : code;
}

static void drop_messages(conversation *c, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        free((char *)c->messages[i].content.bytes);
    memmove(c->messages + from, c->messages + to, (c->count - to) * sizeof *c->messages);
    c->count -= to - from;
}

// The conversation as a prompt, with its last message as the first if there is no room for all.
static int render_what_fits(const generate *g, conversation *c, mh_buffer *text, bool *fits)
{
    const size_t first = g->system != NULL, most = longest_prompt(g) + 1;
    int code = render_conversation(g, c, text, fits);
    if (code != EXIT_DONE || *fits)
        return code;
    if (c->count > first + 1) {
        note("the conversation has filled the model's %zu tokens; it begins anew", most);
        drop_messages(c, first, c->count - 1);
        code = render_conversation(g, c, text, fits);
    }
    if (code == EXIT_DONE && !*fits) {
        complain("the message is too long for the model's %zu tokens", most);
        drop_messages(c, c->count - 1, c->count);
    }
    return code;
}

static int answer_message(const generate *g, conversation *c)
{
    mh_buffer text = {0};
    char *answer = NULL;
    size_t size = 0;
    bool fits = false;
    int code = render_what_fits(g, c, &text, &fits);
    if (code == EXIT_DONE && fits)
        code = answer_prompt(g, (mh_text){text.data, text.size}, false, &answer, &size);
    mh_buffer_free(g->arguments.context, &text);
    if (code != EXIT_DONE || !fits) {
        free(answer);
        return code;
    }
    return add_message(c, MH_CHAT_ASSISTANT, answer, size) ? EXIT_DONE : EXIT_MEMORY;
}

static int continue_line(const generate *g, mh_text line)
{
    bool fits;
    const int code = check_room(g, line, true, &fits);
    if (code != EXIT_DONE || fits)
        return code == EXIT_DONE ? answer_prompt(g, line, true, NULL, NULL) : code;
    complain("the text is too long for the model's %zu tokens", longest_prompt(g) + 1);
    return EXIT_DONE;
}

// One line from the terminal, in *line of *size bytes; false at the end.
static bool read_prompt_line(char **line, size_t *capacity, size_t *size)
{
    const bool prompts = isatty(STDERR_FILENO) && !is_quiet();
    if (prompts)
        fputs("> ", stderr);
    const ssize_t got = getline(line, capacity, stdin);
    if (got < 0 && prompts)
        fputs("\n", stderr);
    if (got < 0)
        return false;
    *size = (size_t)got;
    if (*size && (*line)[*size - 1] == '\n')
        --*size;
    return true;
}

// A line that cannot be answered does not end the session.
static int take_line(const generate *g, conversation *c, size_t number, mh_text line)
{
    if (line.size == 0 || check_line("standard input", number, line) != EXIT_DONE)
        return EXIT_DONE;
    if (!g->chat)
        return continue_line(g, line);
    char *copy = malloc(line.size); // a line may have NULs
    if (copy)
        memcpy(copy, line.bytes, line.size);
    if (!add_message(c, MH_CHAT_USER, copy, line.size))
        return EXIT_MEMORY;
    return answer_message(g, c);
}

// What was said is not read again for the next answer.
static int open_history(generate *g)
{
    const text_arguments *a = &g->arguments;
    mh_status status = g->chat ? mh_prompt_cache_create(a->context, a->model, &g->history) : MH_OK;
    return status ? complain_texts(a, status) : EXIT_DONE;
}

int run_prompts(generate *g)
{
    conversation c = {0};
    char *line = NULL;
    size_t capacity = 0, size, number = 0;
    int code = open_history(g);
    if (code == EXIT_DONE && g->system &&
        !add_message(&c, MH_CHAT_SYSTEM, strdup(g->system), strlen(g->system)))
        code = EXIT_MEMORY;
    if (code == EXIT_DONE)
        note("type %s; Ctrl-C ends %s, Ctrl-D the session",
             g->chat ? "a message" : "the beginning of a text", g->chat ? "an answer" : "a text");
    while (code == EXIT_DONE && read_prompt_line(&line, &capacity, &size)) {
        begin_saving(); // Ctrl-C ends the answer, not the session
        code = take_line(g, &c, ++number, (mh_text){line, size});
        end_answer();
    }
    free(line);
    free_conversation(&c);
    mh_prompt_cache_free(g->history);
    g->history = NULL;
    return code;
}
