// SPDX-License-Identifier: MIT
// Where attention goes, as text and as JSON; see heads_parts.h.
//
//     encoder.self: 3 layers of 4 heads, 6,143 queries
//              prev next self  1st ...  dist
//     uniform    12   12   15   15 ...   3.1
//     0.0         3   61*   8    2 ...   1.4  next
//
// A column that no text had a key for is left out. A table that is too wide is broken into several.
#include "heads_parts.h"
#include "report.h"

#include <string.h>

enum { LABEL = 7, CELL = 5, DISTANCE = 5, NAME = 13, COLUMNS_MOST = MH_PATTERN_COUNT };

static const struct {
    mh_head_pattern pattern;
    const char *self, *cross, *picture; // NULL: it says nothing new
} meanings[] = {
    {MH_PATTERN_PREVIOUS, "prev the token before", "bef the token before the aligned one", NULL},
    {MH_PATTERN_NEXT, "next the token after", "aft the token after it", NULL},
    {MH_PATTERN_ITSELF, "self the token itself",
     "algn the aligned token, which the mean of all heads weights most", "self the patch itself"},
    {MH_PATTERN_DIAGONAL, NULL, "diag the proportional position", NULL},
    {MH_PATTERN_FIRST, "1st the first token", NULL, NULL},
    {MH_PATTERN_SPECIAL, "spec special tokens", NULL, "spec the class token"},
    {MH_PATTERN_OWN_WORD, "word other tokens of the same word", NULL, NULL},
    {MH_PATTERN_SAME_TOKEN, "=tok the same token elsewhere", "=tok the same token", NULL},
    {MH_PATTERN_SAME_WORD, "=wrd the same word elsewhere", "=wrd the same word", NULL},
    {MH_PATTERN_PUNCTUATION, "punc punctuation", NULL, NULL},
    {MH_PATTERN_NEIGHBOUR, "near the 8 patches around", NULL, NULL},
    {MH_PATTERN_ROW, "row others of its row", NULL, NULL},
    {MH_PATTERN_COLUMN, "col others of its column", NULL, NULL},
};

const char *head_meaning(mh_trace_kind kind, bool picture, mh_head_pattern pattern)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const char *text = kind == MH_TRACE_CROSS && meanings[i].cross ? meanings[i].cross
                           : picture && meanings[i].picture            ? meanings[i].picture
                                                                       : meanings[i].self;
        if (meanings[i].pattern == pattern && text)
            return strchr(text, ' ') + 1; // after the short name
    }
    return NULL;
}

// A group while it is printed.
typedef struct table {
    const head_output *o;
    mh_context *context;
    const mh_head_statistics *s;
    mh_trace_kind kind;
    size_t layers, heads;
    bool picture;
    head_column columns[COLUMNS_MOST];
    size_t count; // of columns that have figures
} table;

static mh_head_figures figures_of(const table *t, size_t layer, size_t head)
{
    mh_head_figures f = mh_head_figures_default();
    const mh_status status = mh_head_statistics_read(t->context, t->s, t->kind, layer, head, &f);
    (void)status; // the group has this head
    return f;
}

static bool open_table(const head_output *o, mh_context *context, const mh_head_statistics *s,
                       mh_trace_kind kind, table *t)
{
    *t = (table){.o = o, .context = context, .s = s, .kind = kind};
    if (!mh_head_statistics_size(s, kind, &t->layers, &t->heads, &t->picture))
        return false;
    const mh_head_figures f = figures_of(t, 0, 0);
    for (const head_column *c = head_columns(kind, t->picture); c->label; c++)
        if (f.queries[c->pattern] > 0)
            t->columns[t->count++] = *c;
    return true;
}

// ---- text ---------------------------------------------------------------------------------------

void put_shaded(bool colours, double part, const char *text)
{
    static const unsigned char dark[3] = {28, 58, 94}, bright[3] = {251, 247, 197};
    if (colours && part > 0.02) {
        part = part > 1 ? 1 : part;
        printf("\033[48;2");
        for (int c = 0; c < 3; c++)
            printf(";%d", (int)(dark[c] + (bright[c] - dark[c]) * part + 0.5));
        printf("m\033[%dm%s\033[0m", part > 0.5 ? 30 : 97, text);
    } else {
        fputs(text, stdout);
    }
}

// A figure, and * if it is far above a uniform head's. The last cell of a line has no space after
// it.
static void put_cell(const table *t, const mh_head_figures *f, bool uniform, size_t i, bool last)
{
    const mh_head_pattern pattern = t->columns[i].pattern;
    const double value = uniform ? f->uniform[pattern] : f->weight[pattern];
    const bool marked = !uniform && f->score[pattern] >= MH_HEAD_SCORE;
    char text[24];
    snprintf(text, sizeof text, "%4.0f%s", 100 * value, marked ? "*" : last ? "" : " ");
    put_shaded(t->o->colours, value, text);
}

// The part of a row that columns `first` to `end` are, with the distance and the name at its end.
static void put_row(const table *t, const mh_head_figures *f, const char *label, bool uniform,
                    size_t first, size_t end)
{
    printf("%-*s", LABEL, label);
    for (size_t i = first; i < end; i++)
        put_cell(t, f, uniform, i, i + 1 == end && end < t->count);
    if (end == t->count)
        printf("%*.1f", DISTANCE, uniform ? f->uniform_distance : f->distance);
    if (end == t->count && !uniform)
        printf("  %s", mh_head_name(t->kind, f));
    putchar('\n');
}

static void put_columns(const table *t, size_t first, size_t end)
{
    char label[48];
    printf("%-*s", LABEL, "");
    for (size_t i = first; i < end; i++)
        printf("%4s%s", t->columns[i].label, i + 1 < end || end == t->count ? " " : "");
    printf(end == t->count ? "%*s\n" : "\n", DISTANCE, DISTANCE_LABEL);
    const mh_head_figures any = figures_of(t, 0, 0);
    put_row(t, &any, "uniform", true, first, end);
    for (size_t l = 0; l < t->layers; l++)
        for (size_t h = 0; h < t->heads; h++) {
            const mh_head_figures f = figures_of(t, l, h);
            snprintf(label, sizeof label, "%zu.%zu", l, h);
            put_row(t, &f, label, false, first, end);
        }
}

static void put_table(const table *t)
{
    const size_t end_width = DISTANCE + NAME, width = t->o->width;
    size_t first = 0;
    printf("%s: %zu layer%s of %zu head%s; %% of attention\n", mh_trace_kind_name(t->kind),
           t->layers, t->layers == 1 ? "" : "s", t->heads, t->heads == 1 ? "" : "s");
    do {
        const size_t left = t->count - first;
        size_t fit = width > LABEL + CELL ? (width - LABEL) / CELL : 1;
        if (LABEL + left * CELL + end_width <= width)
            fit = left;
        else if (fit >= left)
            fit = left - 1; // the distance and the name need room
        if (fit == 0)
            fit = left;
        put_columns(t, first, first + fit);
        first += fit;
        putchar('\n');
    } while (first < t->count);
}

// Which columns there were: of tables of one text, and of cross-attention.
typedef struct legend {
    const head_output *o;
    bool shown[2][MH_PATTERN_COUNT];
    bool picture;
    size_t column; // so far
} legend;

static void put_item(legend *l, const char *text)
{
    const size_t size = strlen(text);
    if (l->column > 0 && l->column + size + 3 > l->o->width) {
        fputs(";\n", stdout);
        l->column = 0;
    }
    printf("%s%s", l->column ? "; " : "", text);
    l->column += size + (l->column ? 2 : 0);
}

// Of one text as of two, so that it is explained once.
static bool has_one_meaning(mh_head_pattern pattern)
{
    return pattern == MH_PATTERN_SAME_TOKEN || pattern == MH_PATTERN_SAME_WORD;
}

static void put_meanings(legend *l, bool cross)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const char *text = cross                               ? meanings[i].cross
                           : l->picture && meanings[i].picture ? meanings[i].picture
                                                               : meanings[i].self;
        const bool again =
            cross && has_one_meaning(meanings[i].pattern) && l->shown[false][meanings[i].pattern];
        if (text && !again && l->shown[cross][meanings[i].pattern])
            put_item(l, text);
    }
}

static bool has_column(const legend *l, mh_head_pattern pattern)
{
    return l->shown[false][pattern] || l->shown[true][pattern];
}

static void put_legend(legend *l, uint64_t rare)
{
    const char *unit = l->picture ? "patches" : "tokens";
    char text[120];
    put_meanings(l, false);
    snprintf(text, sizeof text, "rare words that occur at most %llu times",
             (unsigned long long)rare);
    if (has_column(l, MH_PATTERN_RARE))
        put_item(l, rare == 1 ? "rare words that occur once" : text);
    snprintf(text, sizeof text, "far more than %zu %s away", l->o->far,
             l->o->far > 1 ? unit
             : l->picture  ? "patch"
                           : "token");
    if (has_column(l, MH_PATTERN_FAR))
        put_item(l, text);
    snprintf(text, sizeof text, "dist the mean distance in %s", unit);
    put_item(l, text);
    put_meanings(l, true);
    putchar('\n');
}

void print_statistics(const head_output *o, mh_context *context, const mh_head_statistics *s)
{
    table t;
    legend l = {.o = o};
    for (int kind = 0; kind < MH_TRACE_KINDS_MAX; kind++) {
        if (!open_table(o, context, s, (mh_trace_kind)kind, &t))
            continue;
        put_table(&t);
        for (size_t i = 0; i < t.count; i++)
            l.shown[kind == MH_TRACE_CROSS][t.columns[i].pattern] = true;
        l.picture = l.picture || t.picture;
    }
    printf("%zu %s. A figure is the mean over the queries that have such a key;\n"
           "uniform: what a head with equal weights would have; *: far above it, see --help.\n",
           o->texts,
           l.picture       ? o->texts == 1 ? "picture" : "pictures"
           : o->texts == 1 ? "text"
                           : "texts");
    put_legend(&l, mh_head_statistics_rare(s));
    if (o->own > 0)
        printf("Translations of %zu of them are the model's own.\n", o->own);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void put_pattern_name(mh_trace_kind kind, mh_head_pattern pattern)
{
    const char *name = mh_head_pattern_name(kind, pattern);
    if (name)
        put_json_string(stdout, name, strlen(name));
    else
        fputs("null", stdout);
}

static void put_values(const table *t, const char *key, const double *values)
{
    printf("\"%s\": {", key);
    for (size_t i = 0; i < t->count; i++) {
        fputs(i ? ", " : "", stdout);
        put_pattern_name(t->kind, t->columns[i].pattern);
        printf(": %.9g", values[t->columns[i].pattern]);
    }
    fputs("}", stdout);
}

static void put_head_json(const table *t, size_t layer, size_t head)
{
    const mh_head_figures f = figures_of(t, layer, head);
    printf("%s{\"layer\": %zu, \"head\": %zu, \"pattern\": ", layer + head ? ", " : "", layer,
           head);
    put_pattern_name(t->kind, f.pattern);
    printf(", \"entropy\": %.9g, \"distance\": %.9g, ", f.entropy, f.distance);
    put_values(t, "weights", f.weight);
    fputs("}", stdout);
}

static void put_group_json(const table *t, bool first)
{
    const mh_head_figures f = figures_of(t, 0, 0);
    double queries[MH_PATTERN_COUNT];
    for (int i = 0; i < MH_PATTERN_COUNT; i++)
        queries[i] = (double)f.queries[i];
    printf("%s{\"kind\": \"%s\", \"picture\": %s, \"layers\": %zu, \"heads\": %zu, ",
           first ? "" : ", ", mh_trace_kind_name(t->kind), t->picture ? "true" : "false", t->layers,
           t->heads);
    put_values(t, "queries", queries);
    printf(", \"uniform_distance\": %.9g, ", f.uniform_distance);
    put_values(t, "uniform", f.uniform);
    fputs(", \"figures\": [", stdout);
    for (size_t l = 0; l < t->layers; l++)
        for (size_t h = 0; h < t->heads; h++)
            put_head_json(t, l, h);
    fputs("]}", stdout);
}

void print_statistics_json(const head_output *o, mh_context *context, const mh_head_statistics *s)
{
    table t;
    bool first = true;
    printf(
        "{\"texts\": %zu, \"own_translations\": %zu, \"far\": %zu, \"rare\": %llu, \"groups\": [",
        o->texts, o->own, o->far, (unsigned long long)mh_head_statistics_rare(s));
    for (int kind = 0; kind < MH_TRACE_KINDS_MAX; kind++)
        if (open_table(o, context, s, (mh_trace_kind)kind, &t)) {
            put_group_json(&t, first);
            first = false;
        }
    fputs("]}\n", stdout);
}
