// SPDX-License-Identifier: MIT
// The cases of `multihead bench`, from bench/shapes/*.txt or --shape, and their data.
#include "arrays.h"
#include "bench.h"
#include "messages.h"

#include <inttypes.h>
#include <string.h>

// Cases that take longer than a second or so on two cores.
static const double long_flops = 1e11;

enum { SIZES = 6, LARGEST = 1 << 24 };

// The sizes are B,H,G,T,S,E or M,K,N; `word` is whether the suite's word was given.
static void set_case(const suite *s, const int64_t *n, bool word, bench_case *c)
{
    if (s->sizes == SIZES) {
        c->B = (size_t)n[0], c->H = (size_t)n[1], c->G = (size_t)n[2];
        c->T = (size_t)n[3], c->S = (size_t)n[4], c->E = (size_t)n[5];
    } else {
        c->B = c->H = c->G = 1;
        c->T = (size_t)n[0], c->E = (size_t)n[1], c->S = (size_t)n[2];
    }
    c->causal = s->sizes == SIZES && word;
    c->packed = s->sizes != SIZES && word;
}

// ---- the list -----------------------------------------------------------------------------------

static bool read_line(const suite *s, const char *line, bench_case *c)
{
    int64_t n[SIZES] = {0};
    int used = 0;
    if (sscanf(line, "%31s%n", c->name, &used) != 1 || c->name[0] == '#')
        return false;
    for (size_t i = 0; i < s->sizes; i++) {
        int width = 0;
        if (sscanf(line + used, "%" SCNd64 "%n", &n[i], &width) != 1)
            return false;
        used += width;
    }
    char word[16] = "";
    if (sscanf(line + used, "%15s", word) != 1)
        return false;
    set_case(s, n, strcmp(word, s->word) == 0, c);
    return true;
}

// The next case of the list; *line is the position in it.
static bool next_case(const suite *s, const char **line, bench_case *c)
{
    bool found = false;
    while (!found && **line) {
        found = read_line(s, *line, c);
        *line += strcspn(*line, "\n") + 1; // the text ends with a newline
    }
    return found;
}

void bench_name_cases(const suite *s, char *text, size_t size)
{
    bench_case c;
    for (const char *line = s->shapes; next_case(s, &line, &c);) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, " %s", c.name);
    }
}

// ---- --shape ------------------------------------------------------------------------------------

// "1,16,16,2048,2048,64,causal". The state is NULL if the text has been checked before.
static void parse_shape(struct argp_state *state, const suite *s, const char *text, bench_case *c)
{
    char numbers[128], form[64];
    int64_t n[SIZES] = {0};
    const char *tail = strstr(text, s->word);
    bool word = tail && tail > text && tail[-1] == ',' && strcmp(tail, s->word) == 0;
    word = word && strlen(text) < sizeof numbers;
    if (word)
        snprintf(numbers, sizeof numbers, "%.*s", (int)(tail - text) - 1, text);
    snprintf(form, sizeof form, "%s or %s,%s", s->form, s->form, s->word);
    parse_integers(state, "--shape", word ? numbers : text, form, 1, LARGEST, s->sizes, n);
    memcpy(c->name, "shape", sizeof "shape");
    set_case(s, n, word, c);
    if (c->H % c->G != 0)
        argp_error(state, "--shape: found '%s', expected H to be a multiple of G", text);
}

void bench_check_shapes(struct argp_state *state, const bench *b)
{
    bench_case c;
    if (b->shape_count > 0 && !b->suite)
        argp_error(state, "--shape: the suite is missing, expected attention, decode or matmul");
    for (size_t i = 0; i < b->shape_count && !b->suite->list; i++)
        parse_shape(state, b->suite, b->shapes[i], &c);
}

size_t bench_list_cases(const bench *b, const suite *s, bench_case *cases)
{
    size_t count = 0;
    if (s->list)
        return s->passes & b->passes ? s->list(b, cases) : 0;
    for (; count < b->shape_count; count++)
        parse_shape(NULL, s, b->shapes[count], &cases[count]);
    if (count || !(s->passes & b->passes))
        return count;
    const char *line = s->shapes;
    while (count < MOST_CASES && next_case(s, &line, &cases[count])) {
        bool wanted = !b->filter || strstr(cases[count].name, b->filter);
        if (wanted && !(b->quick && s->flops(&cases[count]) > long_flops))
            count++;
    }
    return count;
}

// ---- data ---------------------------------------------------------------------------------------

// From a multiplicative generator: any values will do, as long as they are not all the same.
static float next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

// Converts row by row, to avoid a second copy of the whole tensor.
static mh_status bench_fill(mh_context *context, const mh_tensor *t, uint32_t seed)
{
    enum { ROW = 256 };
    float row[ROW];
    size_t count = mh_tensor_count(t), width = mh_dtype_size(t->dtype);
    for (size_t at = 0; at < count; at += ROW) {
        size_t n = count - at < ROW ? count - at : ROW;
        for (size_t i = 0; i < n; i++)
            row[i] = next_number(&seed);
        mh_tensor from = mh_tensor_1d(row, MH_F32, n);
        mh_tensor to = mh_tensor_1d((char *)t->data + at * width, t->dtype, n);
        mh_status status = mh_tensor_copy(context, &from, &to);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

int bench_tensor(const bench *b, const bench_case *c, mh_dtype dtype, int rank, const size_t *shape,
                 uint32_t seed, mh_tensor *tensor, size_t *size)
{
    int code = array_allocate(b->context, c->name, dtype, rank, shape, tensor, size);
    if (code != EXIT_DONE)
        return code;
    if (seed == 0)
        memset(tensor->data, 0, *size); // so that its pages are mapped
    mh_status status = seed ? bench_fill(b->context, tensor, seed) : MH_OK;
    return status == MH_OK ? EXIT_DONE : complain_status(b->context, status, c->name);
}
