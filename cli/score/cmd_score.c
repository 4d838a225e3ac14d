// SPDX-License-Identifier: MIT
// multihead score: scores translations against references, in sacreBLEU's format.
#include "arguments.h"
#include "lines.h"
#include "messages.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_REF = 0x100, KEY_METRIC, KEY_WIDTH, KEY_JSON, KEY_LOWERCASE };
enum { MOST_REFERENCES = 64, MOST_DIGITS = 15 };
enum { METRIC_BLEU = 1, METRIC_CHRF = 2, METRIC_CHRF_WORDS = 4 };

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Texts, one segment per line, UTF-8", 1},
    {"ref", KEY_REF, "FILE", 0, "the reference; may be given several times", 0},
    {"lowercase", KEY_LOWERCASE, NULL, 0, "compare in lower case", 0},
    {NULL, 0, NULL, 0, "What to print", 2},
    {"metric", KEY_METRIC, "NAME", 0,
     "bleu, chrf, chrf++ or all (three lines); default: bleu and chrf", 0},
    {"width", KEY_WIDTH, "N", 0, "digits after the point; default: 1", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object per line", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice metric_choices[] = {{"bleu", METRIC_BLEU},
                                        {"chrf", METRIC_CHRF},
                                        {"chrf++", METRIC_CHRF_WORDS},
                                        {"all", METRIC_BLEU | METRIC_CHRF | METRIC_CHRF_WORDS},
                                        {NULL, 0}};

typedef struct score {
    common_options common;
    const char *hypothesis_path; // NULL: standard input, too
    const char *reference_paths[MOST_REFERENCES];
    size_t reference_count;
    int metrics, width;
    bool lowercase, json;

    lines hypotheses, references[MOST_REFERENCES];
    mh_text *all_references; // reference r of line i at [r * hypotheses.count + i]
} score;

// ---- options ------------------------------------------------------------------------------------

static void add_reference(struct argp_state *state, score *s, const char *path)
{
    if (s->reference_count == MOST_REFERENCES)
        argp_error(state, "--ref: more than %d references", MOST_REFERENCES);
    s->reference_paths[s->reference_count++] = path;
}

static void score_check_options(struct argp_state *state, const score *s)
{
    size_t standard = !s->hypothesis_path || strcmp(s->hypothesis_path, "-") == 0;
    if (s->reference_count == 0)
        argp_error(state, "--ref is missing");
    for (size_t i = 0; i < s->reference_count; i++)
        standard += strcmp(s->reference_paths[i], "-") == 0;
    if (standard > 1)
        argp_error(state, "standard input can be read only once");
}

static error_t score_parse_option(int key, char *argument, struct argp_state *state)
{
    score *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case ARGP_KEY_ARG:
        if (s->hypothesis_path)
            return refuse_argument(state, argument);
        s->hypothesis_path = argument;
        return 0;
    case ARGP_KEY_END:
        score_check_options(state, s);
        return 0;
    case KEY_REF:
        add_reference(state, s, argument);
        return 0;
    case KEY_METRIC:
        s->metrics = parse_choice(state, "--metric", argument, metric_choices);
        return 0;
    case KEY_WIDTH:
        s->width = (int)parse_integer(state, "--width", argument, 0, MOST_DIGITS);
        return 0;
    case KEY_LOWERCASE:
        s->lowercase = true;
        return 0;
    case KEY_JSON:
        s->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp score_argp = {
    .options = option_table,
    .parser = score_parse_option,
    .args_doc = "--ref FILE [OPTION...] [HYPOTHESES]",
    .doc = "Scores translations against one or more references, line by line: BLEU (13a tokens, "
           "exponential smoothing) and chrF2 over the whole text, identical to sacreBLEU 2.6. "
           "HYPOTHESES is a file; without it, or with -, standard input.\v"
           "Examples:\n"
           "  multihead score --ref ref.txt < hyp.txt\n"
           "  multihead score --ref a.txt --ref b.txt --metric all --width 2 hyp.txt",
    .children = children,
};

// ---- texts --------------------------------------------------------------------------------------

static int read_texts(score *s)
{
    int code = lines_read(s->hypothesis_path ? s->hypothesis_path : "-", &s->hypotheses);
    for (size_t r = 0; r < s->reference_count && code == EXIT_DONE; r++)
        code = lines_read(s->reference_paths[r], &s->references[r]);
    if (code != EXIT_DONE)
        return code;
    if (s->hypotheses.count == 0) {
        complain("%s: is empty, expected at least one line", s->hypotheses.name);
        return EXIT_INPUT;
    }
    for (size_t r = 0; r < s->reference_count; r++)
        if (s->references[r].count != s->hypotheses.count) {
            complain("lines do not match: %s has %zu, %s has %zu", s->references[r].name,
                     s->references[r].count, s->hypotheses.name, s->hypotheses.count);
            return EXIT_INPUT;
        }
    return EXIT_DONE;
}

static int join_references(score *s)
{
    size_t count = s->hypotheses.count;
    s->all_references = calloc(count * s->reference_count, sizeof *s->all_references);
    if (!s->all_references) {
        complain("out of memory for %zu lines", count);
        return EXIT_MEMORY;
    }
    for (size_t r = 0; r < s->reference_count; r++)
        memcpy(s->all_references + r * count, s->references[r].items,
               count * sizeof *s->all_references);
    return EXIT_DONE;
}

// ---- scores -------------------------------------------------------------------------------------

static void print_score(const score *s, const char *name, double value, const char *settings,
                        const char *details)
{
    char signature[160];
    snprintf(signature, sizeof signature, "nrefs:%zu|case:%s|%s|version:mh-%s", s->reference_count,
             s->lowercase ? "lc" : "mixed", settings, mh_version());
    if (!s->json) {
        printf("%s|%s = %.*f%s%s\n", name, signature, s->width, value, *details ? " " : "",
               details);
        return;
    }
    report r = report_begin(stdout, true, 0);
    report_text(&r, "name", "", name);
    report_number(&r, "score", "", value, s->width, "");
    report_text(&r, "signature", "", signature);
    if (*details)
        report_text(&r, "verbose_score", "", details);
    report_end(&r);
}

static mh_status score_bleu(const score *s, mh_context *context)
{
    mh_bleu_score b = mh_bleu_score_default();
    char details[256];
    mh_status status = mh_bleu(context, s->hypotheses.items, s->all_references, s->hypotheses.count,
                               s->reference_count, s->lowercase, &b);
    if (status != MH_OK)
        return status;
    double ratio =
        b.reference_length ? (double)b.hypothesis_length / (double)b.reference_length : 0;
    snprintf(details, sizeof details,
             "%.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %ju ref_len = %ju)",
             b.precisions[0], b.precisions[1], b.precisions[2], b.precisions[3], b.brevity_penalty,
             ratio, (uintmax_t)b.hypothesis_length, (uintmax_t)b.reference_length);
    print_score(s, "BLEU", b.score, "eff:no|tok:13a|smooth:exp", details);
    return MH_OK;
}

static mh_status score_chrf(const score *s, mh_context *context, size_t word_order)
{
    double value;
    mh_status status = mh_chrf(context, s->hypotheses.items, s->all_references, s->hypotheses.count,
                               s->reference_count, word_order, s->lowercase, &value);
    if (status == MH_OK)
        print_score(s, word_order ? "chrF2++" : "chrF2", value,
                    word_order ? "eff:yes|nc:6|nw:2|space:no" : "eff:yes|nc:6|nw:0|space:no", "");
    return status;
}

static int print_scores(const score *s)
{
    mh_context *context = NULL;
    int code = open_context(&s->common, &context);
    if (code != EXIT_DONE)
        return code;
    mh_status status = MH_OK;
    if (s->metrics & METRIC_BLEU)
        status = score_bleu(s, context);
    if (status == MH_OK && s->metrics & METRIC_CHRF)
        status = score_chrf(s, context, 0);
    if (status == MH_OK && s->metrics & METRIC_CHRF_WORDS)
        status = score_chrf(s, context, 2);
    if (status != MH_OK)
        code = complain_status(context, status, NULL);
    mh_context_free(context);
    return code;
}

static int run_score(int argc, char **argv)
{
    score s = {.common = {.command = &score_command, .threads = 1},
               .metrics = METRIC_BLEU | METRIC_CHRF,
               .width = 1};
    int code = parse_arguments(&score_argp, argc, argv, &s);
    if (code == EXIT_DONE)
        code = read_texts(&s);
    if (code == EXIT_DONE)
        code = join_references(&s);
    if (code == EXIT_DONE)
        code = print_scores(&s);
    lines_free(&s.hypotheses);
    for (size_t r = 0; r < s.reference_count; r++)
        lines_free(&s.references[r]);
    free(s.all_references);
    return code;
}

const command score_command = {
    .name = "score",
    .summary = "score translations against references: BLEU and chrF",
    .argp = &score_argp,
    .run = run_score,
};
