// SPDX-License-Identifier: MIT
// The softmax of the MMA path, see mh_softmax_tile: several tiles in succession, with the state and
// the weights of all of them compared with the formula in double. Weights are read by a product
// with the identity. Every other tile goes through gemm_softmax, whose product must be bitwise
// identical to gemm alone.
#include "base/size_math.h"
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { TILES = 4, KEYS = TILES * MH_KEY_TILE, MOST_ROWS = 64, DEPTH = 72 };

// Kinds of score rows.
enum habit { PLAIN, SOME_DEAD, ALL_DEAD, RISING, ENORMOUS, NOT_A_NUMBER, HABITS };

typedef struct weighing {
    const mh_gemm *gemm;
    const mh_attention_kernels *attention;
    size_t rows, last; // keys of the last tile
    float scale;
    float scores[TILES][MOST_ROWS][MH_KEY_TILE];
    uint64_t keep[TILES][MOST_ROWS];
    float max[MOST_ROWS], sum[MOST_ROWS * MH_MAX_LANES];
    void *weights;                  // (rows, KEYS), an A operand
    float found[MOST_ROWS][KEYS];   // the same, unpacked
    double top[MOST_ROWS];          // expected max of a row
    double terms[MOST_ROWS][KEYS];  // exp(t - top)
    double margin[MOST_ROWS][KEYS]; // allowed relative error of a weight
    bool same;                      // products of gemm_softmax have the bits of gemm
} weighing;

static const float keep_scale = 1.25f;

static size_t keys_of(const weighing *w, size_t tile)
{
    return tile == TILES - 1 ? w->last : MH_KEY_TILE;
}

static float make_score(enum habit habit, size_t tile)
{
    if (habit == ALL_DEAD || (habit == SOME_DEAD && check_random() < 0.3f))
        return -INFINITY;
    const float x = 10 * check_random();
    return habit == RISING     ? x + 30 * (float)tile
           : habit == ENORMOUS ? 1e28f * (x + (float)tile)
                               : x;
}

static void make_scores(weighing *w)
{
    for (size_t tile = 0; tile < TILES; tile++) {
        for (size_t r = 0; r < w->rows; r++) {
            for (size_t j = 0; j < MH_KEY_TILE; j++) // scores beyond the last key must not be used
                w->scores[tile][r][j] =
                    j < keys_of(w, tile) ? make_score((enum habit)(r % HABITS), tile) : NAN;
            w->keep[tile][r] = UINT64_C(0x5DEECE66D5DEECE6) << (r + tile);
            if (r % HABITS == NOT_A_NUMBER && tile == 1)
                w->scores[tile][r][7] = NAN;
        }
    }
}

// The formula: a max that is raised to the largest score if that is far above it, and weights
// relative to the final max. A weight is rounded once, and again at each rescaling.
static void expect(weighing *w)
{
    for (size_t r = 0; r < w->rows; r++) {
        w->top[r] = -INFINITY;
        for (size_t tile = 0; tile < TILES; tile++) {
            double max = -INFINITY;
            for (size_t j = 0; j < keys_of(w, tile); j++)
                max = fmax(max, (double)(w->scale * w->scores[tile][r][j]));
            const bool grows = max > w->top[r] + 8;
            w->top[r] = grows ? max : w->top[r];
            for (size_t j = 0; j < tile * MH_KEY_TILE && grows; j++)
                w->margin[r][j] += 0x1p-8;
            for (size_t j = 0; j < MH_KEY_TILE; j++)
                w->margin[r][tile * MH_KEY_TILE + j] = 0x1p-8;
        }
        for (size_t j = 0; j < KEYS; j++) {
            const size_t tile = j / MH_KEY_TILE;
            const double base = w->top[r] == -INFINITY ? 0 : w->top[r];
            const double t = (double)(w->scale * w->scores[tile][r][j % MH_KEY_TILE]);
            w->terms[r][j] = j % MH_KEY_TILE < keys_of(w, tile) ? exp(t - base) : 0;
            if (fabs(base) < 1e6) // else it is 0 or 1
                w->margin[r][j] += FLT_EPSILON * (4 + fabs(t) + fabs(base));
        }
    }
}

// The step interleaved with a product of `columns` columns.
static void softmax_tile_interleaved(weighing *w, const mh_softmax_tile *step, size_t columns)
{
    const mh_gemm *gemm = w->gemm;
    const size_t deep = mh_round_up(DEPTH, gemm->step);
    const size_t rows = mh_round_up(w->rows, gemm->micro_panel);
    float numbers[MH_KEY_TILE * DEPTH];
    check_fill(sizeof numbers / sizeof *numbers, 1, numbers);
    void *left = check_bytes(rows * deep * gemm->a_size);
    void *right = check_bytes(deep * columns * gemm->b_size);
    float *alone = check_floats(rows * columns), *beside = check_floats(rows * columns);
    if (gemm->enter)
        gemm->enter();
    gemm->pack_a(w->rows, DEPTH, &(mh_pack_source){.data = numbers, .stride = DEPTH}, left);
    gemm->pack_b(DEPTH, columns, &(mh_pack_source){.data = numbers, .stride = (ptrdiff_t)columns},
                 right, columns);
    gemm->gemm(&(mh_gemm_args){.m = w->rows,
                               .n = columns,
                               .k = DEPTH,
                               .a = left,
                               .lda = (ptrdiff_t)deep,
                               .b = right,
                               .ldb = (ptrdiff_t)columns,
                               .c = alone,
                               .ldc = (ptrdiff_t)columns});
    w->attention->gemm_softmax(&(mh_gemm_args){.m = w->rows,
                                               .n = columns,
                                               .k = DEPTH,
                                               .a = left,
                                               .lda = (ptrdiff_t)deep,
                                               .b = right,
                                               .ldb = (ptrdiff_t)columns,
                                               .c = beside,
                                               .ldc = (ptrdiff_t)columns},
                               step);
    if (gemm->leave)
        gemm->leave();
    w->same &= !memcmp(alone, beside, w->rows * columns * sizeof *alone);
}

static void softmax_tile(weighing *w, bool dropout)
{
    const mh_gemm *gemm = w->gemm;
    for (size_t r = 0; r < w->rows; r++)
        w->max[r] = -INFINITY;
    memset(w->sum, 0, sizeof w->sum);
    for (size_t tile = 0; tile < TILES; tile++) {
        float *scores = check_floats(w->rows * MH_KEY_TILE);
        memcpy(scores, w->scores[tile], w->rows * MH_KEY_TILE * sizeof *scores);
        const mh_softmax_tile step = {
            .m = w->rows,
            .n = keys_of(w, tile),
            .scale = w->scale,
            .scores = scores,
            .max = w->max,
            .sum = w->sum,
            .weights = (char *)w->weights + tile * MH_KEY_TILE * gemm->micro_panel * gemm->a_size,
            .columns = KEYS,
            .before = tile * MH_KEY_TILE,
            .keep = dropout ? w->keep[tile] : NULL,
            .keep_scale = keep_scale};
        if ((w->last / 2 + tile) % 2)
            softmax_tile_interleaved(w, &step, w->last % 3 ? MH_KEY_TILE : 48);
        else
            w->attention->softmax_tile(&step);
    }
}

// w->found = weights times the identity, which is exact.
static void read_weights(weighing *w)
{
    const mh_gemm *gemm = w->gemm;
    static float ones[KEYS][KEYS], rows[MOST_ROWS][KEYS];
    for (size_t i = 0; i < KEYS; i++)
        ones[i][i] = 1;
    void *right = check_bytes(KEYS * KEYS * gemm->b_size);
    if (gemm->enter)
        gemm->enter();
    gemm->pack_b(KEYS, KEYS, &(mh_pack_source){.data = &ones[0][0], .stride = KEYS}, right, KEYS);
    gemm->gemm(&(mh_gemm_args){.m = w->rows,
                               .n = KEYS,
                               .k = KEYS,
                               .a = w->weights,
                               .lda = KEYS,
                               .b = right,
                               .ldb = KEYS,
                               .c = &rows[0][0],
                               .ldc = KEYS});
    if (gemm->leave)
        gemm->leave();
    memcpy(w->found, rows, sizeof rows);
}

static double row_error(const weighing *w, const mh_kernels *kernels, size_t r, bool dropout)
{
    const double sum = kernels->attention.sum_lanes(w->sum + r * kernels->lanes);
    if (r % HABITS == NOT_A_NUMBER)
        return isnan(sum) ? 0 : INFINITY;
    double worst = check_error(w->max[r], w->top[r], 1e-30), total = 0;
    for (size_t j = 0; j < KEYS; j++) {
        const bool kept = !dropout || w->keep[j / MH_KEY_TILE][r] >> j % MH_KEY_TILE & 1;
        const double weight = kept ? w->terms[r][j] * (dropout ? keep_scale : 1) : 0;
        // Products of bf16 treat denormals as 0.
        worst = check_worse(
            worst, check_error(w->found[r][j], weight, w->margin[r][j] * weight + 0x1p-125));
        total += w->terms[r][j];
    }
    const double margin = FLT_EPSILON * (4 + (fabs(w->top[r]) < 1e6 ? 2 * fabs(w->top[r]) : 0));
    return check_worse(worst, check_error(sum, total, margin * total + 1e-30));
}

static void weigh_once(void *arg)
{
    weighing *w = arg;
    w->attention->softmax_tile(&(mh_softmax_tile){.m = w->rows,
                                                  .n = MH_KEY_TILE,
                                                  .scale = w->scale,
                                                  .scores = &w->scores[0][0][0],
                                                  .max = w->max,
                                                  .sum = w->sum,
                                                  .weights = w->weights,
                                                  .columns = KEYS});
}

check_result check_softmax_tile(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    static weighing w;
    const mh_gemm *gemm = &run->kernels->bf16;
    const mh_attention_kernels *attention = &run->kernels->attention;
    if (!attention->softmax_tile) // this level uses softmax_step
        return result;
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        const bool dropout = n % 2;
        w = (weighing){.gemm = gemm,
                       .attention = attention,
                       .rows = 1 + n % gemm->rows,
                       .last = n,
                       .same = true};
        w.scale = n % 3 ? 0.3f : 1.7f;
        w.weights = check_bytes(mh_round_up(w.rows, gemm->micro_panel) * KEYS * gemm->a_size);
        memset(w.weights, 0, mh_round_up(w.rows, gemm->micro_panel) * KEYS * gemm->a_size);
        make_scores(&w);
        softmax_tile(&w, dropout);
        expect(&w);
        read_weights(&w);
        result.ok &= w.same;
        for (size_t r = 0; r < w.rows; r++)
            result.error = check_worse(result.error, row_error(&w, run->kernels, r, dropout));
        check_release();
    }
    if (run->bench) {
        w.rows = gemm->rows;
        w.weights = check_bytes(w.rows * KEYS * gemm->a_size);
        check_fill(sizeof w.scores / sizeof(float), 5, &w.scores[0][0][0]);
        memset(w.max, 0, sizeof w.max);
        result.rate = 1e-9 * (double)(w.rows * MH_KEY_TILE) * check_rate(weigh_once, &w);
    }
    return result;
}
