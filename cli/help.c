// SPDX-License-Identifier: MIT
// Help on the terminal, printed from the commands' argp tables.
//
// argp could print it too, but it sorts the options of a group by name, and the order of the
// tables (q, k, v; then masks; then outputs) would be lost.
#include "command.h"

#include <stdbool.h>
#include <string.h>

enum { PAGE_WIDTH = 79, TEXT_COLUMN = 28 };

static void help_put_spaces(FILE *to, int count)
{
    for (int i = 0; i < count; i++)
        putc(' ', to);
}

// Prints words from `column` on; continuation lines start at `indent`.
static void put_wrapped(FILE *to, const char *text, size_t length, int column, int indent)
{
    const char *end = text + length;
    bool first = true;
    while (text < end) {
        const char *space = memchr(text, ' ', (size_t)(end - text));
        int size = (int)((space ? space : end) - text);
        if (!first && column + 1 + size > PAGE_WIDTH) {
            putc('\n', to);
            help_put_spaces(to, indent);
            column = indent;
        } else if (!first) {
            putc(' ', to);
            column++;
        }
        fwrite(text, 1, (size_t)size, to);
        column += size;
        first = false;
        text = space ? space + 1 : end;
    }
    putc('\n', to);
}

// A text of paragraphs, one per line; a line that starts with a space is printed verbatim.
static void put_text(FILE *to, const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((newline ? newline : end) - text);
        if (*text == ' ')
            fprintf(to, "%.*s\n", (int)size, text);
        else
            put_wrapped(to, text, size, 0, 0);
        text += size + 1;
    }
}

static void help_put_option(FILE *to, const struct argp_option *option)
{
    bool has_short = option->key > ' ' && option->key < 0x7f;
    int column = has_short ? fprintf(to, "  -%c, ", option->key) : fprintf(to, "      ");
    column += fprintf(to, "--%s", option->name);
    if (option->arg)
        column += fprintf(to, option->flags & OPTION_ARG_OPTIONAL ? "[=%s]" : "=%s", option->arg);
    if (column > TEXT_COLUMN - 2) {
        putc('\n', to);
        column = 0;
    }
    help_put_spaces(to, TEXT_COLUMN - column);
    put_wrapped(to, option->doc, strlen(option->doc), TEXT_COLUMN, TEXT_COLUMN);
}

static void help_put_group(FILE *to, const char *title) { fprintf(to, "\n%s:\n", title); }

void put_options(FILE *to, const struct argp *argp, const option_style *style)
{
    for (const struct argp_option *o = argp->options; o->name || o->doc; o++) {
        if (o->flags & OPTION_HIDDEN)
            continue;
        if (o->name)
            style->option(to, o);
        else
            style->group(to, o->doc);
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        put_options(to, c->argp, style);
}

// A form of the command per line of args_doc.
void print_command_usage(FILE *to, const command *c)
{
    const char *label = "Usage:";
    for (const char *form = c->argp->args_doc; form; label = "   or:") {
        const size_t size = strcspn(form, "\n");
        const int column = fprintf(to, "%s multihead %s ", label, c->name);
        put_wrapped(to, form, size, column, 11);
        form = form[size] ? form + size + 1 : NULL;
    }
}

void print_command_help(FILE *to, const command *c)
{
    print_command_usage(to, c);
    const char *doc = c->argp->doc;
    const char *after = strchr(doc, '\v');
    put_text(to, doc, after ? (size_t)(after - doc) : strlen(doc));
    put_options(to, c->argp, &(option_style){help_put_option, help_put_group});
    if (after) {
        putc('\n', to);
        put_text(to, after + 1, strlen(after + 1));
    }
}

void print_program_help(FILE *to)
{
    fprintf(to, "Usage: multihead COMMAND [OPTION...]\nmultihead - %s\n\nCommands:\n",
            program_summary);
    for (const command *const *c = commands; *c; c++)
        fprintf(to, "  %-11s%s\n", (*c)->name, (*c)->summary);
    fprintf(to, "  %-11s%s\n", "help", "show the help of a command: multihead help COMMAND");
    fprintf(to, "\nFirst steps:\n"
                "  multihead attend --random 3x4 --trace            attention, in numbers\n"
                "  multihead mha --embed-dim 4 --heads 2 --random 1x5 --trace --values\n"
                "  multihead encoder --d-model 4 --nhead 2 --trace  a whole layer\n"
                "  multihead translate -m fr-en \"Il fait beau.\"     a model that ships\n"
                "  multihead look -m en-fr \"It is raining.\"         what its heads attend to\n");
    fprintf(to, "\nOptions:\n"
                "  -h, --help        show this help\n"
                "  -V, --version     show the version\n"
                "\n'multihead COMMAND --help' shows the options of a command.\n");
}
