// SPDX-License-Identifier: MIT
// Where the attention of heads goes over many traces; see heads.h. A group of a trace is read
// twice: what its keys are to its queries, as bits, which also gives what a uniform head would do,
//
//     patterns (T, S)   bit p: the key has pattern p for this query; bit VISIBLE: it may be seen
//
// and then every row of every head, whose weights are summed by these bits. Sums are in double, in
// the order of the traces, so that results are the same for any number of threads.
#include <math.h>
#include <multihead/heads.h>
#include <string.h>

#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "base/sized_struct.h"
#include "view/head_words.h"
#include "view/trace.h"

_Static_assert((int)MH_PATTERN_COUNT < (int)MH_PATTERN_MOST,
               "patterns are bits, and one is VISIBLE");

enum {
    P = MH_PATTERN_COUNT,
    VISIBLE = P,
    QUERIES_LEAST = 10, // below, a mean tells nothing
};

// Sums over the queries of all traces.
typedef struct head_sums {
    double weight[P];
    double distance, entropy;
} head_sums;

typedef struct group_sums {
    size_t layers, heads;
    bool picture;
    double uniform[P], uniform_distance;
    uint64_t queries[P], rows, entropy_rows; // rows: queries with keys
    head_sums *each;                         // (layers, heads)
} group_sums;

struct mh_head_statistics {
    mh_context *context; // of all calls
    mh_head_options options;
    mh_head_words words;
    bool counted; // rare is known, because a trace was added
    uint64_t rare;
    group_sums groups[MH_TRACE_KINDS];
};

// ---- names --------------------------------------------------------------------------------------

const char *mh_head_pattern_name(mh_trace_kind kind, mh_head_pattern pattern)
{
    static const char *const names[P] = {"previous",   "next",        "itself",     "diagonal",
                                         "first",      "special",     "own word",   "same token",
                                         "same word",  "punctuation", "rare words", "far",
                                         "neighbours", "row",         "column"};
    static const char *const aligned[] = {"before", "after", "aligned"};
    if (pattern < 0 || pattern >= MH_PATTERN_COUNT || mh_trace_kind_name(kind) == NULL)
        return NULL;
    return kind == MH_TRACE_CROSS && pattern <= MH_PATTERN_ITSELF ? aligned[pattern]
                                                                  : names[pattern];
}

const char *mh_head_name(mh_trace_kind kind, const mh_head_figures *figures)
{
    if (!figures)
        return NULL;
    const char *name = mh_head_pattern_name(kind, figures->pattern);
    return name ? name : figures->entropy >= MH_HEAD_BROAD ? "broad" : "mixed";
}

// ---- the patterns of a group --------------------------------------------------------------------

// A group of a trace while it is added.
typedef struct group_pass {
    mh_context *context;
    const mh_head_statistics *s;
    const mh_trace_group *g;
    mh_trace_kind kind;
    bool crossing; // queries and keys are of different texts
    bool picture;
    size_t L, H, T, S;
    mh_head_token *keys, *queries; // (S), (T)
    uint32_t *patterns;            // (T, S)
    ptrdiff_t *anchors;            // (T): what positions are relative to, -1: nothing
    double *distances;             // (T, S)
    float *row;                    // (S)
} group_pass;

static bool sees(const group_pass *p, size_t t, size_t s)
{
    const mh_tensor *m = &p->g->mask;
    if (m->data == NULL)
        return p->kind != MH_TRACE_DECODER || p->T != p->S || s <= t;
    const ptrdiff_t at = (ptrdiff_t)t * m->stride[0] + (ptrdiff_t)s * m->stride[1];
    return ((const unsigned char *)m->data)[at] != 0;
}

static uint32_t bit_if(bool is, int pattern) { return is ? UINT32_C(1) << pattern : 0; }

// Of one text, or of two.
static uint32_t text_patterns(const group_pass *p, size_t t, size_t s)
{
    const mh_head_token *q = &p->queries[t], *k = &p->keys[s];
    const ptrdiff_t at = p->anchors[t], here = (ptrdiff_t)s;
    const ptrdiff_t away = here > at ? here - at : at - here;
    const bool elsewhere = p->crossing || s != t;
    const size_t diagonal = p->T > 1 ? (2 * t * (p->S - 1) + p->T - 1) / (2 * (p->T - 1)) : 0;
    uint32_t bits = bit_if(s == 0, MH_PATTERN_FIRST) | bit_if(k->special, MH_PATTERN_SPECIAL) |
                    bit_if(k->punctuation, MH_PATTERN_PUNCTUATION) |
                    bit_if(k->rare, MH_PATTERN_RARE);
    if (at >= 0)
        bits |= bit_if(here == at - 1, MH_PATTERN_PREVIOUS) |
                bit_if(here == at + 1, MH_PATTERN_NEXT) | bit_if(here == at, MH_PATTERN_ITSELF) |
                bit_if((size_t)away > p->s->options.far, MH_PATTERN_FAR);
    if (p->crossing)
        bits |= bit_if(s == diagonal, MH_PATTERN_DIAGONAL);
    else
        bits |= bit_if(elsewhere && q->position >= 0 && q->position == k->position,
                       MH_PATTERN_OWN_WORD);
    if (elsewhere && !q->special && !k->special)
        bits |= bit_if(q->name == k->name, MH_PATTERN_SAME_TOKEN) |
                bit_if(q->word >= 0 && q->word == k->word &&
                           (p->crossing || q->position != k->position),
                       MH_PATTERN_SAME_WORD);
    return bits;
}

static double patch_distance(const mh_head_token *q, const mh_head_token *k)
{
    return hypot(q->row - k->row, q->column - k->column);
}

static uint32_t picture_patterns(const group_pass *p, size_t t, size_t s)
{
    const mh_head_token *q = &p->queries[t], *k = &p->keys[s];
    if (k->special)
        return bit_if(true, MH_PATTERN_SPECIAL);
    const bool row = q->row == k->row, column = q->column == k->column;
    const double away = patch_distance(q, k);
    return bit_if(row && column, MH_PATTERN_ITSELF) | bit_if(row && !column, MH_PATTERN_ROW) |
           bit_if(column && !row, MH_PATTERN_COLUMN) |
           bit_if(away > 0 && away < 1.5, MH_PATTERN_NEIGHBOUR) |
           bit_if(away > (double)p->s->options.far, MH_PATTERN_FAR);
}

// Whether a query counts: of a picture the patches.
static bool is_counted(const group_pass *p, size_t t)
{
    return !p->picture || !p->queries[t].special;
}

// The key that the mean of all heads weights most, and which is not special, for each query.
static mh_status align(const group_pass *p, double *sums)
{
    for (size_t t = 0; t < p->T; t++) {
        memset(sums, 0, p->S * sizeof *sums);
        for (size_t l = 0; l < p->L; l++)
            for (size_t h = 0; h < p->H; h++) {
                MH_TRY(mh_trace_rows(p->context, &p->g->weights, l, h, t, 1, p->row));
                for (size_t s = 0; s < p->S; s++)
                    sums[s] += (double)p->row[s];
            }
        p->anchors[t] = -1;
        for (size_t s = 0; s < p->S; s++)
            if (!p->keys[s].special && (p->anchors[t] < 0 || sums[s] > sums[p->anchors[t]]))
                p->anchors[t] = (ptrdiff_t)s;
    }
    return MH_OK;
}

static double key_distance(const group_pass *p, size_t t, size_t s)
{
    if (p->picture)
        return p->keys[s].special ? 0 : patch_distance(&p->queries[t], &p->keys[s]);
    return p->anchors[t] < 0 ? 0 : fabs((double)s - (double)p->anchors[t]);
}

static void find_patterns(const group_pass *p)
{
    for (size_t t = 0; t < p->T; t++)
        for (size_t s = 0; s < p->S; s++) {
            uint32_t *bits = &p->patterns[t * p->S + s];
            *bits = 0;
            if (!is_counted(p, t) || !sees(p, t, s))
                continue;
            *bits =
                (p->picture ? picture_patterns : text_patterns)(p, t, s) | bit_if(true, VISIBLE);
            p->distances[t * p->S + s] = key_distance(p, t, s);
        }
}

// ---- sums ---------------------------------------------------------------------------------------

// Adds `weight` to the sums of all patterns in `bits`.
static void add_by_bits(double *sums, uint32_t bits, double weight)
{
    for (int pattern = 0; pattern < P; pattern++)
        if (bits >> pattern & 1)
            sums[pattern] += weight;
}

// Whether a key counts in the mean distance.
static bool has_distance(const group_pass *p, size_t s)
{
    return !p->picture || !p->keys[s].special;
}

// What a uniform head would give, and the number of queries of each pattern.
static void add_uniform(const group_pass *p, group_sums *to)
{
    for (size_t t = 0; t < p->T; t++) {
        const uint32_t *bits = p->patterns + t * p->S;
        double found[P] = {0}, away = 0;
        size_t keys = 0, measured = 0;
        for (size_t s = 0; s < p->S; s++) {
            if (!(bits[s] >> VISIBLE & 1))
                continue;
            keys++;
            add_by_bits(found, bits[s], 1);
            if (has_distance(p, s)) {
                away += p->distances[t * p->S + s];
                measured++;
            }
        }
        if (keys == 0)
            continue;
        to->rows++;
        to->entropy_rows += keys > 1;
        to->uniform_distance += measured ? away / (double)measured : 0;
        for (int i = 0; i < P; i++) {
            to->uniform[i] += found[i] / (double)keys;
            to->queries[i] += found[i] > 0;
        }
    }
}

static void add_row(const group_pass *p, size_t t, head_sums *to)
{
    const uint32_t *bits = p->patterns + t * p->S;
    double entropy = 0, away = 0, sum = 0;
    size_t keys = 0;
    for (size_t s = 0; s < p->S; s++) {
        const double w = (double)p->row[s];
        if (!(bits[s] >> VISIBLE & 1))
            continue;
        keys++;
        add_by_bits(to->weight, bits[s], w);
        entropy -= w > 0 ? w * log(w) : 0;
        if (has_distance(p, s)) {
            away += w * p->distances[t * p->S + s];
            sum += w;
        }
    }
    to->distance += sum > 0 ? away / sum : 0;
    to->entropy += keys > 1 ? entropy / log((double)keys) : 0;
}

static mh_status add_heads(const group_pass *p, group_sums *to)
{
    for (size_t l = 0; l < p->L; l++)
        for (size_t h = 0; h < p->H; h++)
            for (size_t t = 0; t < p->T; t++) {
                if (!is_counted(p, t))
                    continue;
                MH_TRY(mh_trace_rows(p->context, &p->g->weights, l, h, t, 1, p->row));
                add_row(p, t, &to->each[l * p->H + h]);
            }
    return MH_OK;
}

// ---- a group ------------------------------------------------------------------------------------

static mh_status check_tokens(const group_pass *p, const mh_trace_tokens *tokens, size_t count)
{
    if (tokens->count > 0)
        return MH_OK;
    return mh_fail(p->context, MH_ERROR_ARGUMENT, "%s: the trace has no tokens, expected %zu",
                   mh_trace_kind_name(p->kind), count);
}

static mh_status find_tokens(group_pass *p, mh_head_statistics *s, const mh_trace *trace)
{
    mh_trace_tokens keys = mh_trace_keys(trace, p->kind);
    mh_trace_tokens queries = mh_trace_queries(trace, p->kind);
    MH_TRY(check_tokens(p, &keys, p->S));
    MH_TRY(check_tokens(p, &queries, p->T));
    p->crossing = p->kind == MH_TRACE_CROSS || keys.text != queries.text;
    return mh_head_tokens_find(p->context, &s->words, s->rare, &keys, &queries, p->keys,
                               &p->picture);
}

// All sizes were checked with the trace: weights of 8 bytes fit.
static mh_status add_group_in(group_pass *p, mh_head_statistics *s, const mh_trace *trace,
                              double *sums, group_sums *to)
{
    p->queries = p->keys + p->S;
    MH_TRY(find_tokens(p, s, trace));
    if (to->rows > 0 && to->picture != p->picture)
        return mh_fail(p->context, MH_ERROR_ARGUMENT, "trace: found a %s, before a %s",
                       p->picture ? "picture" : "text", to->picture ? "picture" : "text");
    for (size_t t = 0; t < p->T; t++)
        p->anchors[t] = (ptrdiff_t)t;
    if (p->crossing)
        MH_TRY(align(p, sums));
    find_patterns(p);
    to->picture = p->picture;
    add_uniform(p, to);
    return add_heads(p, to);
}

static mh_status add_group(mh_head_statistics *s, const mh_trace *trace, group_pass *p,
                           group_sums *to)
{
    mh_context *c = p->context;
    const size_t cells = p->T * p->S, tokens = p->T + p->S;
    double *sums = mh_alloc(c, p->S * sizeof *sums);
    p->keys = mh_alloc(c, tokens * sizeof *p->keys);
    p->anchors = mh_alloc(c, p->T * sizeof *p->anchors);
    p->row = mh_alloc(c, p->S * sizeof *p->row);
    p->patterns = mh_alloc(c, cells * sizeof *p->patterns);
    p->distances = mh_alloc(c, cells * sizeof *p->distances);
    mh_status status = MH_ERROR_MEMORY;
    if (sums && p->keys && p->anchors && p->row && p->patterns && p->distances)
        status = add_group_in(p, s, trace, sums, to);
    mh_free(c, p->distances, cells * sizeof *p->distances);
    mh_free(c, p->patterns, cells * sizeof *p->patterns);
    mh_free(c, p->row, p->S * sizeof *p->row);
    mh_free(c, p->anchors, p->T * sizeof *p->anchors);
    mh_free(c, p->keys, tokens * sizeof *p->keys);
    mh_free(c, sums, p->S * sizeof *sums);
    return status;
}

// ---- a trace ------------------------------------------------------------------------------------

static size_t sums_size(const group_sums *g) { return g->layers * g->heads * sizeof *g->each; }

// The sums so far, in memory of their own, or zeros.
static mh_status begin_group(const group_pass *p, const group_sums *before, group_sums *sums)
{
    *sums = *before;
    sums->each = NULL;
    if (before->each && (before->layers != p->L || before->heads != p->H))
        return mh_fail(p->context, MH_ERROR_ARGUMENT,
                       "%s: found %zu layers of %zu heads, before %zu of %zu",
                       mh_trace_kind_name(p->kind), p->L, p->H, before->layers, before->heads);
    if (p->g->sequences)
        return mh_fail(p->context, MH_ERROR_UNSUPPORTED,
                       "%s: found the sequences of a batch, expected layers",
                       mh_trace_kind_name(p->kind));
    sums->layers = p->L;
    sums->heads = p->H;
    size_t count, size;
    if (!mh_multiply_sizes(p->L, p->H, &count) ||
        !mh_multiply_sizes(count, sizeof *sums->each, &size))
        return mh_fail(p->context, MH_ERROR_MEMORY, "out of memory for %zu layers", p->L);
    sums->each = mh_alloc(p->context, size);
    if (!sums->each)
        return MH_ERROR_MEMORY;
    if (before->each)
        memcpy(sums->each, before->each, size);
    else
        memset(sums->each, 0, size);
    return MH_OK;
}

static mh_status add_groups(mh_context *context, mh_head_statistics *s, const mh_trace *trace,
                            group_sums *next)
{
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++) {
        const mh_trace_group *g = &trace->groups[kind];
        const size_t *shape = g->weights.shape;
        if (!mh_trace_has(trace, kind))
            continue;
        group_pass p = {.context = context,
                        .s = s,
                        .g = g,
                        .kind = (mh_trace_kind)kind,
                        .L = shape[0],
                        .H = shape[1],
                        .T = shape[2],
                        .S = shape[3]};
        MH_TRY(begin_group(&p, &s->groups[kind], &next[kind]));
        MH_TRY(add_group(s, trace, &p, &next[kind]));
    }
    return MH_OK;
}

mh_status mh_head_statistics_add(mh_context *context, mh_head_statistics *statistics,
                                 const mh_trace *trace)
{
    mh_trace own;
    group_sums next[MH_TRACE_KINDS] = {0};
    MH_TRY(MH_NEED(context, {"statistics", statistics}));
    MH_TRY(mh_trace_read(context, trace, false, &own));
    if (!statistics->counted)
        statistics->rare = mh_head_words_rare(&statistics->words);
    statistics->counted = true;
    mh_status status = add_groups(context, statistics, &own, next);
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++) {
        group_sums *drop = status ? &next[kind] : &statistics->groups[kind];
        if (next[kind].each == NULL)
            continue;
        mh_free(context, drop->each, sums_size(drop));
        if (!status)
            *drop = next[kind];
    }
    return status;
}

mh_status mh_head_statistics_create(mh_context *context, const mh_head_options *options,
                                    mh_head_statistics **statistics)
{
    mh_head_options own = mh_head_options_default();
    MH_TRY(MH_NEED(context, {"statistics", statistics}));
    *statistics = NULL;
    MH_TRY(MH_READ_STRUCT(context, mh_head_options, options, &own));
    if (own.far == 0 || own.far > INT32_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "far: found %zu, expected 1 to %d", own.far,
                       INT32_MAX);
    mh_head_statistics *made = mh_alloc(context, sizeof *made);
    if (!made)
        return MH_ERROR_MEMORY;
    *made = (mh_head_statistics){.context = context, .options = own};
    *statistics = made;
    return MH_OK;
}

void mh_head_statistics_free(mh_head_statistics *s)
{
    if (!s)
        return;
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++)
        mh_free(s->context, s->groups[kind].each, sums_size(&s->groups[kind]));
    mh_head_words_free(s->context, &s->words);
    mh_free(s->context, s, sizeof *s);
}

mh_status mh_head_statistics_count_words(mh_context *context, mh_head_statistics *statistics,
                                         mh_text text)
{
    MH_TRY(MH_NEED(context, {"statistics", statistics},
                   {"text.bytes", mh_array(text.bytes, text.size)}));
    if (statistics->counted)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "words are counted before the first trace is added");
    return mh_head_words_count(context, &statistics->words, text);
}

uint64_t mh_head_statistics_rare(const mh_head_statistics *s)
{
    return s->counted ? s->rare : mh_head_words_rare(&s->words);
}

// ---- figures ------------------------------------------------------------------------------------

bool mh_head_statistics_size(const mh_head_statistics *s, mh_trace_kind kind, size_t *layers,
                             size_t *heads, bool *picture)
{
    if (!mh_trace_kind_name(kind) || !s->groups[kind].each)
        return false;
    const group_sums *g = &s->groups[kind];
    if (layers)
        *layers = g->layers;
    if (heads)
        *heads = g->heads;
    if (picture)
        *picture = g->picture;
    return true;
}

static double mean_of(double sum, uint64_t count) { return count ? sum / (double)count : 0; }

// How far from a uniform head (0) to one that does nothing else (1).
static double pattern_score(const mh_head_figures *f, int pattern)
{
    const double room = 1 - f->uniform[pattern];
    if (f->queries[pattern] < QUERIES_LEAST || room <= 0)
        return 0;
    return (f->weight[pattern] - f->uniform[pattern]) / room;
}

static mh_head_pattern name_pattern(const mh_head_figures *f)
{
    mh_head_pattern best = MH_PATTERN_NONE;
    double most = 0;
    for (int i = 0; i < P; i++) {
        const double part = f->score[i] * (double)f->queries[i];
        if (f->score[i] >= MH_HEAD_SCORE && part > most) {
            best = (mh_head_pattern)i;
            most = part;
        }
    }
    return best;
}

mh_status mh_head_statistics_read(mh_context *context, const mh_head_statistics *statistics,
                                  mh_trace_kind kind, size_t layer, size_t head,
                                  mh_head_figures *figures)
{
    size_t layers, heads;
    mh_head_figures f = mh_head_figures_default();
    MH_TRY(MH_NEED(context, {"statistics", statistics}, {"figures", figures}));
    MH_TRY(MH_CHECK_OUTPUT(context, mh_head_figures, figures));
    if (!mh_head_statistics_size(statistics, kind, &layers, &heads, NULL))
        return mh_fail(context, MH_ERROR_ARGUMENT, "kind: no trace had attention of kind %d",
                       (int)kind);
    if (layer >= layers || head >= heads)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "head: found layer %zu, head %zu, expected less than %zu, %zu", layer, head,
                       layers, heads);
    const group_sums *g = &statistics->groups[kind];
    const head_sums *sums = &g->each[layer * heads + head];
    for (int i = 0; i < P; i++) {
        f.queries[i] = g->queries[i];
        f.uniform[i] = mean_of(g->uniform[i], g->queries[i]);
        f.weight[i] = mean_of(sums->weight[i], g->queries[i]);
        f.score[i] = pattern_score(&f, i);
    }
    f.all_queries = g->rows;
    f.distance = mean_of(sums->distance, g->rows);
    f.uniform_distance = mean_of(g->uniform_distance, g->rows);
    f.entropy = mean_of(sums->entropy, g->entropy_rows);
    f.pattern = name_pattern(&f);
    mh_write_struct(&f, sizeof f, figures);
    return MH_OK;
}
