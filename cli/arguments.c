// SPDX-License-Identifier: MIT
// Parsing that the commands share; see arguments.h.
#include "arguments.h"
#include "messages.h"
#include "option_names.h"
#include "ranks.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <multihead/layers.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const choice dtype_choices[] = {
    {F32_NAMES, MH_F32}, {BF16_NAMES, MH_BF16}, {F16_NAMES, MH_F16}, {NULL, 0}};
const choice precision_choices[] = {
    {F32_NAMES, MH_PRECISION_F32}, {BF16_NAMES, MH_PRECISION_BF16}, {NULL, 0}};
const choice activation_choices[] = {{"relu", MH_RELU},
                                     {"gelu", MH_GELU},
                                     {"gelu_tanh", MH_GELU_TANH},
                                     {"silu", MH_SILU},
                                     {NULL, 0}};

// ---- errors -------------------------------------------------------------------------------------

static _Noreturn void argument_refuse(const char *format, va_list arguments)
{
    complain_list(format, arguments);
    fprintf(stderr, "Try '%s --help' for more information.\n", get_message_name());
    ranks_exit(EXIT_USAGE);
}

void refuse_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    argument_refuse(format, arguments);
}

// Replaces the C library's, which adds two lines of advice and prints control characters unescaped.
void argp_error(const struct argp_state *state, const char *format, ...)
{
    (void)state;
    va_list arguments;
    va_start(arguments, format);
    argument_refuse(format, arguments);
}

void refuse_memory(void)
{
    complain("out of memory for the command line");
    ranks_exit(EXIT_MEMORY);
}

void given_names_add(given_names *list, const char *name)
{
    const char **names = realloc(list->names, (list->count + 1) * sizeof *names);
    if (!names)
        refuse_memory();
    list->names = names;
    list->names[list->count++] = name;
}

// ---- numbers and choices ------------------------------------------------------------------------

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

int parse_sizes(struct argp_state *state, const char *option, const char *text, const char *form,
                int least, int most, int64_t *sizes)
{
    const int64_t largest = 1 << 30;
    const char *at = text;
    for (int i = 0; i < most; i++) {
        const char *end;
        if (!read_integer(at, &end, &sizes[i]) || sizes[i] < 1 || sizes[i] > largest)
            break;
        if (!*end && i + 1 >= least)
            return i + 1;
        if (!*end || !strchr("xX,", *end))
            break;
        at = end + 1;
    }
    argp_error(state, "%s: found '%s', expected %s", option, text, form);
    return 0;
}

int parse_choice(struct argp_state *state, const char *option, const char *text,
                 const choice *choices)
{
    for (const choice *c = choices; c->name; c++)
        if (is_name(text, c->name))
            return c->value;
    char expected[256] = "";
    for (const choice *c = choices; c->name; c++) {
        const char *joint = c == choices ? "" : c[1].name ? ", " : " or ";
        size_t used = strlen(expected);
        const int length = (int)strcspn(c->name, "|");
        snprintf(expected + used, sizeof expected - used, "%s%.*s", joint, length, c->name);
    }
    argp_error(state, "%s: found '%s', expected %s", option, text, expected);
    return 0;
}

static bool counts(char c) { return !strchr("-_/. ", c); }

bool is_name(const char *word, const char *names)
{
    while (*names) {
        const char *w = word;
        for (; *names && *names != '|'; names++) {
            if (!counts(*names))
                continue;
            while (*w && !counts(*w))
                w++;
            if (tolower((unsigned char)*w) != tolower((unsigned char)*names))
                break;
            w++;
        }
        while (*w && !counts(*w))
            w++;
        if (!*w && (!*names || *names == '|'))
            return true;
        names += strcspn(names, "|");
        names += *names == '|';
    }
    return false;
}

static const choice causal_choices[] = {
    {"top-left", MH_CAUSAL_TOP_LEFT}, {"bottom-right", MH_CAUSAL_BOTTOM_RIGHT}, {NULL, 0}};

mh_causal parse_causal(struct argp_state *state, char *argument)
{
    // argp passes "--causal=top-left"; for "--causal top-left" the next word is consumed here.
    if (!argument && state->next < state->argc && state->argv[state->next][0] != '-')
        argument = state->argv[state->next++];
    if (!argument)
        return MH_CAUSAL;
    return (mh_causal)parse_choice(state, "--causal", argument, causal_choices);
}

int complain_alignment(size_t queries, size_t keys)
{
    complain("--causal: %zu %s and %zu %s need an alignment, expected --causal top-left "
             "(query i sees keys 0..i) or bottom-right (the last query sees the last key)",
             queries, plural(queries, "query", "queries"), keys, plural(keys, "key", "keys"));
    return EXIT_USAGE;
}

int check_index(const char *option, ptrdiff_t found, size_t count, const char *one,
                const char *many)
{
    if (found < (ptrdiff_t)count)
        return EXIT_DONE;
    complain("%s: found %td, but the model has %zu %s, from 0", option, found, count,
             plural(count, one, many));
    return EXIT_USAGE;
}

error_t refuse_argument(struct argp_state *state, const char *argument)
{
    argp_error(state, "unexpected argument '%s'", argument);
    return 0;
}

// ---- the options of every command ---------------------------------------------------------------

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
     "$MH_ISA, or else the best that this CPU supports",
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
        options->threads = (size_t)parse_integer(state, "--threads", argument, 1, MH_MAX_THREADS);
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
        ranks_exit(EXIT_DONE);
    case KEY_USAGE:
        print_command_usage(stdout, options->command);
        ranks_exit(EXIT_DONE);
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

static void pass_on_remark(void *user, mh_log_level level, const char *message)
{
    (void)user;
    if (level >= MH_LOG_INFO)
        note("%s", message);
}

int parse_arguments(const struct argp *argp, int argc, char **argv, void *input)
{
    check_option_names(argp, argc, argv);
    if (argp_parse(argp, argc, argv, ARGP_NO_HELP, NULL, input) == 0)
        return EXIT_DONE;
    complain("out of memory for the command line");
    return EXIT_MEMORY;
}

// As many threads as the machine, or a container's quota, has CPUs; a share of them for one of
// several ranks.
static mh_status create_context(mh_context_options *wanted, mh_context **context, char *error,
                                size_t size)
{
    mh_status status = mh_context_create(wanted, context, error, size);
    if (status || wanted->threads)
        return status;
    const size_t threads = mh_context_threads(*context), share = ranks_threads(threads);
    if (share == threads)
        return MH_OK;
    mh_context_free(*context);
    wanted->threads = share;
    return mh_context_create(wanted, context, error, size);
}

int open_context(const common_options *options, mh_context **context)
{
    mh_context_options wanted = mh_context_options_default();
    wanted.threads = options->threads;
    wanted.isa = options->isa;
    wanted.log = options->remarks ? pass_on_remark : pass_on_warning;
    char error[512] = "";
    mh_status status = create_context(&wanted, context, error, sizeof error);
    if (status == MH_OK)
        return EXIT_DONE;
    complain("%s%s", options->isa ? "--isa: " : "", *error ? error : mh_status_name(status));
    return status_exit_code(status);
}

// ---- the nearest name ---------------------------------------------------------------------------

enum { LONGEST_WORD = 31 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

// Levenshtein distance, one row of its table at a time.
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

// Whether `part` is one of the words of `name`, as mask is of attn-mask.
static bool has_part(const char *name, const char *part)
{
    const size_t length = strlen(part);
    for (const char *at = name; length > 1 && (at = strstr(at, part)); at++)
        if ((at == name || at[-1] == '-') && (at[length] == 0 || at[length] == '-'))
            return true;
    return false;
}

const char *nearest_name(const char *word, const char *const *names)
{
    const char *best = NULL;
    const size_t limit = 1 + strlen(word) / 2; // farther names are not suggested
    size_t best_distance = SIZE_MAX;
    for (const char *const *name = names; *name; name++) {
        const bool begins = *word && strncmp(word, *name, strlen(word)) == 0;
        const size_t distance = begins ? 0 : edit_distance(word, *name);
        const bool alike = distance < limit || has_part(*name, word) || has_part(word, *name);
        if (alike && distance < best_distance) {
            best_distance = distance;
            best = *name;
        }
    }
    return best;
}
