// SPDX-License-Identifier: MIT
// Parsing that the commands share; see arguments.h.
#include "arguments.h"
#include "messages.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 1024 };

const choice dtype_choices[] = {{"f32", MH_F32}, {"bf16", MH_BF16}, {"f16", MH_F16}, {NULL, 0}};
const choice precision_choices[] = {
    {"f32", MH_PRECISION_F32}, {"bf16", MH_PRECISION_BF16}, {NULL, 0}};

// ---- numbers and choices --------------------------------------------------------------

static bool read_integer(const char *text, const char **end, int64_t *value)
{
    if (!isdigit((unsigned char)text[0]) && !(text[0] == '-' && isdigit((unsigned char)text[1])))
        return false;
    char *stop;
    errno = 0;
    *value = strtoll(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

int64_t parse_integer(struct argp_state *state, const char *option, const char *text, int64_t low,
                      int64_t high)
{
    const char *end;
    int64_t value;
    if (!read_integer(text, &end, &value) || *end || value < low || value > high)
        argp_error(state, "%s: found '%s', expected an integer from %" PRId64 " to %" PRId64,
                   option, text, low, high);
    return value;
}

double parse_number(struct argp_state *state, const char *option, const char *text)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    bool whole = end != text && !*end && !isspace((unsigned char)text[0]);
    if (!whole || !(fabs(value) <= FLT_MAX))
        argp_error(state, "%s: found '%s', expected a finite number", option, text);
    return value;
}

void parse_integers(struct argp_state *state, const char *option, const char *text,
                    const char *form, int64_t low, int64_t high, size_t count, int64_t *values)
{
    const char *at = text;
    for (size_t i = 0; i < count; i++) {
        const char *end;
        bool good = read_integer(at, &end, &values[i]);
        if (!good || values[i] < low || values[i] > high || *end != (i + 1 < count ? ',' : 0))
            argp_error(state, "%s: found '%s', expected %s, integers from %" PRId64 " to %" PRId64,
                       option, text, form, low, high);
        at = end + 1;
    }
}

int parse_choice(struct argp_state *state, const char *option, const char *text,
                 const choice *choices)
{
    for (const choice *c = choices; c->name; c++)
        if (strcmp(text, c->name) == 0)
            return c->value;
    char expected[256] = "";
    for (const choice *c = choices; c->name; c++) {
        const char *joint = c == choices ? "" : c[1].name ? ", " : " or ";
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", joint, c->name);
    }
    argp_error(state, "%s: found '%s', expected %s", option, text, expected);
    return 0;
}

error_t refuse_argument(struct argp_state *state, const char *argument)
{
    argp_error(state, "unexpected argument '%s'", argument);
    return 0;
}

// ---- the options of every command -----------------------------------------------------

enum {
    KEY_THREADS = 0x1000, // above the keys of every command's own table
    KEY_ISA,
    KEY_USAGE
};

static const struct argp_option common_table[] = {
    {NULL, 0, NULL, 0, "Running", 90},
    {"threads", KEY_THREADS, "N", 0, "use N threads; default: the CPUs this process may use", 0},
    {"isa", KEY_ISA, "LEVEL", 0,
     "use the kernels of this instruction-set level; 'multihead info' lists them. Default: "
     "$MH_ISA, or else the best that this CPU has",
     0},
    {"quiet", 'q', NULL, 0, "no notes, warnings or progress on stderr, errors only", 0},
    {"help", 'h', NULL, 0, "show this help", 0},
    {"usage", KEY_USAGE, NULL, 0, "show a short usage message", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static void check_level(struct argp_state *state, const char *level)
{
    char known[256] = "";
    for (const char *const *name = mh_isa_levels(); *name; name++) {
        if (strcmp(level, *name) == 0)
            return;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", *name);
    }
    argp_error(state, "--isa: found '%s', expected one of:%s", level, known);
}

static error_t parse_common(int key, char *argument, struct argp_state *state)
{
    common_options *options = state->input;
    switch (key) {
    case KEY_THREADS:
        options->threads = (size_t)parse_integer(state, "--threads", argument, 1, MOST_THREADS);
        return 0;
    case KEY_ISA:
        check_level(state, argument);
        options->isa = argument;
        return 0;
    case 'q':
        set_quiet(true);
        return 0;
    case 'h':
        print_command_help(stdout, options->command);
        exit(EXIT_DONE);
    case KEY_USAGE:
        print_command_usage(stdout, options->command);
        exit(EXIT_DONE);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp common_argp = {
    .options = common_table,
    .parser = parse_common,
};

static void pass_on_warning(void *user, mh_log_level level, const char *message)
{
    (void)user;
    if (level == MH_LOG_WARNING)
        note("%s", message);
}

int parse_arguments(const struct argp *argp, int argc, char **argv, void *input)
{
    if (argp_parse(argp, argc, argv, ARGP_NO_HELP, NULL, input) == 0)
        return EXIT_DONE;
    complain("out of memory for the command line");
    return EXIT_MEMORY;
}

int open_context(const common_options *options, mh_context **context)
{
    mh_context_options wanted = mh_context_options_default();
    wanted.threads = options->threads;
    wanted.isa = options->isa;
    wanted.log = pass_on_warning;
    char error[512] = "";
    mh_status status = mh_context_create(&wanted, context, error, sizeof error);
    if (status == MH_OK)
        return EXIT_DONE;
    complain("%s%s", options->isa ? "--isa: " : "", *error ? error : mh_status_name(status));
    return status_exit_code(status);
}

// ---- the nearest name ------------------------------------------------------------------

enum { LONGEST_WORD = 31 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

// Levenshtein's distance, one row of its table at a time.
static size_t edit_distance(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b);
    if (m > LONGEST_WORD || n > LONGEST_WORD)
        return SIZE_MAX;
    size_t row[LONGEST_WORD + 1];
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n];
}

const char *nearest_name(const char *word, const char *const *names)
{
    const char *best = NULL;
    size_t best_distance = 1 + strlen(word) / 2; // farther than that is no likeness
    for (const char *const *name = names; *name; name++) {
        size_t distance = edit_distance(word, *name);
        bool begins = *word && strncmp(word, *name, strlen(word)) == 0;
        if (begins)
            distance = 0;
        if (distance < best_distance) {
            best_distance = distance;
            best = *name;
        }
    }
    return best;
}
