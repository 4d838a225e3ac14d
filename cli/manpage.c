// SPDX-License-Identifier: MIT
// The man page, made from the same tables that parse the options and print the help. The build
// runs the hidden command `multihead man` and installs what it prints as multihead.1.
#include "command.h"

#include <multihead/base.h>
#include <string.h>

// Text with troff's special characters escaped.
static void man_put_escaped(FILE *to, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-')
            fputs("\\-", to);
        else if (i == 0 && (text[i] == '.' || text[i] == '\''))
            fprintf(to, "\\&%c", text[i]);
        else
            putc(text[i], to);
    }
}

static void man_put_line(FILE *to, const char *text)
{
    man_put_escaped(to, text, strlen(text));
    putc('\n', to);
}

// One paragraph per line; runs of lines that start with a space are printed verbatim.
static void put_paragraphs(FILE *to, const char *text, size_t length)
{
    const char *end = text + length;
    bool literal = false;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((newline ? newline : end) - text);
        bool indented = size > 0 && *text == ' ';
        if (indented != literal)
            fputs(indented ? ".PP\n.nf\n" : ".fi\n", to);
        if (!indented && size > 0)
            fputs(".PP\n", to);
        literal = indented;
        if (size > 0) {
            man_put_escaped(to, text, size);
            putc('\n', to);
        }
        text += size + 1;
    }
    if (literal)
        fputs(".fi\n", to);
}

static void man_put_option(FILE *to, const struct argp_option *option)
{
    fputs(".TP\n", to);
    if (option->key > ' ' && option->key < 0x7f)
        fprintf(to, "\\fB\\-%c\\fR, ", option->key);
    fputs("\\fB\\-\\-", to);
    man_put_escaped(to, option->name, strlen(option->name));
    fputs("\\fR", to);
    if (option->arg)
        fprintf(to, option->flags & OPTION_ARG_OPTIONAL ? "[=\\fI%s\\fR]" : "=\\fI%s\\fR",
                option->arg);
    putc('\n', to);
    man_put_line(to, option->doc);
}

static void man_put_group(FILE *to, const char *title) { fprintf(to, ".PP\n\\fI%s\\fR\n", title); }

// A form of the command per line of args_doc.
static void put_usage(FILE *to, const command *c)
{
    for (const char *form = c->argp->args_doc; form;) {
        const size_t size = strcspn(form, "\n");
        fprintf(to, "\\fBmultihead %s\\fR ", c->name);
        man_put_escaped(to, form, size);
        fputs(form[size] ? "\n.br\n" : "\n", to);
        form = form[size] ? form + size + 1 : NULL;
    }
}

static void put_command(FILE *to, const command *c)
{
    fprintf(to, ".SS \"multihead %s\"\n", c->name);
    put_usage(to, c);
    const char *doc = c->argp->doc;
    const char *after = strchr(doc, '\v');
    put_paragraphs(to, doc, after ? (size_t)(after - doc) : strlen(doc));
    put_options(to, c->argp, &(option_style){man_put_option, man_put_group});
    if (after)
        put_paragraphs(to, after + 1, strlen(after + 1));
}

static const char closing[] = ".SH EXIT STATUS\n"
                              ".TP\n\\fB0\\fR\nsuccess\n"
                              ".TP\n\\fB1\\fR\nit failed\n"
                              ".TP\n\\fB2\\fR\nthe command line is invalid\n"
                              ".TP\n\\fB3\\fR\nan input file is missing, damaged or does not fit\n"
                              ".TP\n\\fB4\\fR\nout of memory\n"
                              ".TP\n\\fB5\\fR\ninterrupted (SIGINT, SIGTERM, SIGHUP); "
                              "what was being written is complete\n"
                              ".SH ENVIRONMENT\n"
                              ".TP\n\\fBMH_ISA\\fR\n"
                              "the instruction\\-set level to use, as \\fB\\-\\-isa\\fR\n"
                              ".TP\n\\fBMULTIHEAD_MODELS\\fR\n"
                              "directories in which models are looked up by name, separated by "
                              "colons\n"
                              ".TP\n\\fBNO_COLOR\\fR\n"
                              "if set and not empty, progress is shown without colour\n"
                              ".SH SEE ALSO\n"
                              "The header files in \\fI<multihead/*.h>\\fR describe the library.\n";

void print_man_page(FILE *to)
{
    fprintf(to, ".TH MULTIHEAD 1 \"\" \"multihead %s\" \"User Commands\"\n", MH_VERSION_STRING);
    fputs(".SH NAME\nmultihead \\- ", to);
    man_put_line(to, program_summary);
    fputs(".SH SYNOPSIS\n\\fBmultihead\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n", to);
    fputs(".SH DESCRIPTION\nResults go to standard output or to the named files, "
          "messages and progress to standard error. Output files are written atomically.\n"
          ".SH COMMANDS\n",
          to);
    for (const command *const *c = commands; *c; c++)
        put_command(to, *c);
    fputs(closing, to);
}
