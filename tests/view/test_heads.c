// SPDX-License-Identifier: MIT
// Statistics of heads: traces of a few tokens for which it is written down which keys have which
// pattern; means over random weights are those of these tables, a head that does one thing has its
// name, words are counted, what does not fit is refused, failed allocations are reported.
#include "parser_support.h"

#include <math.h>
#include <multihead/heads.h>

enum { L = 2, H = 3, T = 8, MOST = 12, FAR = 2 };

static float weights[L * H * MOST * MOST];
static mh_head_statistics *statistics;

// A text with a word of two tokens and a word that occurs twice, in different case.
static const char *const words[T] = {"[CLS]", "The", "cat", "run", "##s", "the", ".", "[SEP]"};
static const mh_text counted[] = {{"The cat runs the.", 17}, {"The, the; CAT: the", 18}};

// Rows are queries; 1: the key has the pattern.
typedef struct expected {
    mh_head_pattern pattern;
    const char *rows[MOST];
} expected;

static const expected of_text[] = {
    {MH_PATTERN_PREVIOUS,
     {"00000000", "10000000", "01000000", "00100000", "00010000", "00001000", "00000100",
      "00000010"}},
    {MH_PATTERN_NEXT,
     {"01000000", "00100000", "00010000", "00001000", "00000100", "00000010", "00000001",
      "00000000"}},
    {MH_PATTERN_ITSELF,
     {"10000000", "01000000", "00100000", "00010000", "00001000", "00000100", "00000010",
      "00000001"}},
    {MH_PATTERN_FIRST,
     {"10000000", "10000000", "10000000", "10000000", "10000000", "10000000", "10000000",
      "10000000"}},
    {MH_PATTERN_SPECIAL,
     {"10000001", "10000001", "10000001", "10000001", "10000001", "10000001", "10000001",
      "10000001"}},
    {MH_PATTERN_OWN_WORD,
     {"00000000", "00000000", "00000000", "00001000", "00010000", "00000000", "00000000",
      "00000000"}},
    {MH_PATTERN_SAME_TOKEN, // "The" and "the" are different tokens
     {"00000000", "00000000", "00000000", "00000000", "00000000", "00000000", "00000000",
      "00000000"}},
    {MH_PATTERN_SAME_WORD,
     {"00000000", "00000100", "00000000", "00000000", "00000000", "01000000", "00000000",
      "00000000"}},
    {MH_PATTERN_PUNCTUATION,
     {"00000010", "00000010", "00000010", "00000010", "00000010", "00000010", "00000010",
      "00000010"}},
    {MH_PATTERN_RARE, // of "the" 5, "cat" 2, "runs" 1: "runs", as 1 + 2 are more than a quarter
     {"00011000", "00011000", "00011000", "00011000", "00011000", "00011000", "00011000",
      "00011000"}},
    {MH_PATTERN_FAR,
     {"00011111", "00001111", "00000111", "10000011", "11000001", "11100000", "11110000",
      "11111000"}},
    {MH_PATTERN_DIAGONAL, {NULL}},
    {MH_PATTERN_NEIGHBOUR, {NULL}},
};

static void near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, expected %.17g", found, wanted);
}

// ---- traces -------------------------------------------------------------------------------------

static void random_weights(uint64_t seed, size_t queries, size_t keys, const char *const *visible)
{
    test_rng rng = {test_seed() + seed};
    for (size_t row = 0; row < L * H * queries; row++) {
        float *w = weights + row * keys;
        double sum = 0;
        for (size_t j = 0; j < keys; j++) {
            const bool sees = !visible || visible[row % queries][j] == '1';
            w[j] = sees ? (float)test_uniform(&rng, 0.01, 1) : 0;
            sum += (double)w[j];
        }
        for (size_t j = 0; j < keys; j++)
            w[j] /= (float)sum;
    }
}

static mh_trace text_trace(mh_trace_kind kind)
{
    mh_trace t = mh_trace_default();
    t.source = (mh_trace_tokens){.count = T, .text = words};
    t.groups[kind].weights = mh_tensor_4d(weights, MH_F32, L, H, T, T);
    return t;
}

static void open_statistics(void)
{
    mh_head_options options = mh_head_options_default();
    options.far = FAR;
    test_ok(context, mh_head_statistics_create(context, &options, &statistics));
}

static void count_all(void)
{
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        test_ok(context, mh_head_statistics_count_words(context, statistics, counted[i]));
}

static mh_head_figures read_head(mh_trace_kind kind, size_t layer, size_t head)
{
    mh_head_figures f = mh_head_figures_default();
    test_ok(context, mh_head_statistics_read(context, statistics, kind, layer, head, &f));
    return f;
}

static void close_statistics(void)
{
    mh_head_statistics_free(statistics);
    statistics = NULL;
}

// ---- means --------------------------------------------------------------------------------------

// Of one head whose weights are at `w`, over the tables; NULL rows: no key has the pattern.
static void check_means(const mh_head_figures *f, const float *w, size_t queries, size_t keys,
                        const char *const *visible, const expected *tables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const expected *e = &tables[i];
        double weight = 0, uniform = 0;
        uint64_t with = 0;
        for (size_t t = 0; t < queries && e->rows[0]; t++) {
            size_t here = 0, seen = 0;
            for (size_t s = 0; s < keys; s++) {
                if (visible && visible[t][s] != '1')
                    continue;
                seen++;
                here += e->rows[t][s] == '1';
                weight += e->rows[t][s] == '1' ? (double)w[t * keys + s] : 0;
            }
            uniform += seen ? (double)here / (double)seen : 0;
            with += here > 0;
        }
        assert_int_equal(f->queries[e->pattern], with);
        near(f->weight[e->pattern], with ? weight / (double)with : 0, 1e-12);
        near(f->uniform[e->pattern], with ? uniform / (double)with : 0, 1e-12);
    }
}

static void check_heads(mh_trace_kind kind, size_t queries, size_t keys, const char *const *visible,
                        const expected *tables, size_t count)
{
    for (size_t i = 0; i < L * H; i++) {
        const mh_head_figures f = read_head(kind, i / H, i % H);
        check_means(&f, weights + i * queries * keys, queries, keys, visible, tables, count);
    }
}

static void test_text(void **state)
{
    (void)state;
    const mh_trace t = text_trace(MH_TRACE_ENCODER);
    random_weights(0, T, T, NULL);
    open_statistics();
    count_all();
    assert_int_equal(mh_head_statistics_rare(statistics), 1);
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    check_heads(MH_TRACE_ENCODER, T, T, NULL, of_text, sizeof of_text / sizeof *of_text);

    // Distance and entropy of one head, and twice the same is the same on average.
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    const mh_head_figures f = read_head(MH_TRACE_ENCODER, 1, 2);
    const float *w = weights + 5 * T * T;
    double away = 0, entropy = 0, uniform = 0;
    for (size_t i = 0; i < T * T; i++) {
        const double far = fabs((double)(i / T) - (double)(i % T));
        away += (double)w[i] * far / T;
        uniform += far / (T * T);
        entropy -= (double)w[i] * log((double)w[i]) / log(T) / T;
    }
    assert_int_equal(f.all_queries, 2 * T);
    near(f.distance, away, 1e-6); // weights are rounded
    near(f.uniform_distance, uniform, 1e-12);
    near(f.entropy, entropy, 1e-12);
    close_statistics();

    open_statistics(); // no words, nothing is rare
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    assert_int_equal(read_head(MH_TRACE_ENCODER, 0, 0).queries[MH_PATTERN_RARE], 0);
    close_statistics();
}

// A query of a decoder sees itself and what is before it; or what a mask says.
static void test_visible(void **state)
{
    (void)state;
    static const char *const causal[T] = {"10000000", "11000000", "11100000", "11110000",
                                          "11111000", "11111100", "11111110", "11111111"};
    static const char *const masked[T] = {"00000000", "11000000", "01100000", "00110000",
                                          "00011000", "00001100", "00000110", "00000011"};
    bool mask[T * T];
    mh_trace t = text_trace(MH_TRACE_DECODER);
    t.target = t.source;
    random_weights(1, T, T, causal);
    open_statistics();
    count_all();
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    check_heads(MH_TRACE_DECODER, T, T, causal, of_text, sizeof of_text / sizeof *of_text);
    close_statistics();

    for (size_t i = 0; i < T * T; i++)
        mask[i] = masked[i / T][i % T] == '1';
    t.groups[MH_TRACE_DECODER].mask = mh_tensor_2d(mask, MH_BOOL, T, T);
    random_weights(2, T, T, causal);
    open_statistics();
    count_all();
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    check_heads(MH_TRACE_DECODER, T, T, masked, of_text, sizeof of_text / sizeof *of_text);
    assert_int_equal(read_head(MH_TRACE_DECODER, 0, 0).all_queries, T - 1);
    close_statistics();
}

// Query t of the target is aligned with a source token, by all heads together.
static void test_cross(void **state)
{
    (void)state;
    enum { Q = 4, K = 5 };
    static const char *const source[K] = {"\xE2\x96\x81Tom",
                                          "\xE2\x96\x81"
                                          "dort",
                                          "\xE2\x96\x81"
                                          "bien",
                                          ".", "</s>"};
    static const char *const target[Q] = {"\xE2\x96\x81tom", "\xE2\x96\x81sleeps", ".", "</s>"};
    static const size_t aligned[Q] = {0, 2, 3, 1};
    static const expected tables[] = {
        {MH_PATTERN_PREVIOUS, {"00000", "01000", "00100", "10000"}},
        {MH_PATTERN_ITSELF, {"10000", "00100", "00010", "01000"}},
        {MH_PATTERN_NEXT, {"01000", "00010", "00001", "00100"}},
        {MH_PATTERN_DIAGONAL, {"10000", "01000", "00010", "00001"}}, // 0, 4/3, 8/3, 4
        {MH_PATTERN_FIRST, {"10000", "10000", "10000", "10000"}},
        {MH_PATTERN_SPECIAL, {"00001", "00001", "00001", "00001"}},
        {MH_PATTERN_SAME_TOKEN, {"00000", "00000", "00010", "00000"}},
        {MH_PATTERN_SAME_WORD, {"10000", "00000", "00000", "00000"}},
        {MH_PATTERN_PUNCTUATION, {"00010", "00010", "00010", "00010"}},
        {MH_PATTERN_FAR, {"00011", "00000", "10000", "00001"}},
        {MH_PATTERN_OWN_WORD, {NULL}},
    };
    mh_trace t = mh_trace_default();
    t.source = (mh_trace_tokens){.count = K, .text = source};
    t.target = (mh_trace_tokens){.count = Q, .text = target};
    t.groups[MH_TRACE_CROSS].weights = mh_tensor_4d(weights, MH_F32, L, H, Q, K);
    random_weights(3, Q, K, NULL);
    for (size_t row = 0; row < L * H * Q; row++)
        for (size_t j = 0; j < K; j++) // </s> has most, which is no alignment
            weights[row * K + j] = weights[row * K + j] * 0.1f + (j == aligned[row % Q] ? 0.4f
                                                                  : j == K - 1          ? 0.5f
                                                                                        : 0);
    open_statistics();
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    check_heads(MH_TRACE_CROSS, Q, K, NULL, tables, sizeof tables / sizeof *tables);
    assert_string_equal(mh_head_pattern_name(MH_TRACE_CROSS, MH_PATTERN_ITSELF), "aligned");
    assert_string_equal(mh_head_pattern_name(MH_TRACE_ENCODER, MH_PATTERN_ITSELF), "itself");
    assert_null(mh_head_pattern_name(MH_TRACE_CROSS, MH_PATTERN_COUNT));
    assert_null(mh_head_pattern_name(MH_TRACE_CROSS, MH_PATTERN_NONE));
    close_statistics();
}

// A class token and 2 x 3 patches: only these are queries.
static void test_picture(void **state)
{
    (void)state;
    enum { K = 7 };
    static const char *const patches[K] = {"[CLS]", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2"};
    static const char *const visible[K] = {"0000000", "1111111", "1111111", "1111111",
                                           "1111111", "1111111", "1111111"};
    static const expected tables[] = {
        {MH_PATTERN_ITSELF,
         {"0000000", "0100000", "0010000", "0001000", "0000100", "0000010", "0000001"}},
        {MH_PATTERN_NEIGHBOUR,
         {"0000000", "0010110", "0101111", "0010011", "0110010", "0111101", "0011010"}},
        {MH_PATTERN_ROW,
         {"0000000", "0011000", "0101000", "0110000", "0000011", "0000101", "0000110"}},
        {MH_PATTERN_COLUMN,
         {"0000000", "0000100", "0000010", "0000001", "0100000", "0010000", "0001000"}},
        {MH_PATTERN_SPECIAL,
         {"0000000", "1000000", "1000000", "1000000", "1000000", "1000000", "1000000"}},
        {MH_PATTERN_FAR, // beyond 2: the corners
         {"0000000", "0000001", "0000000", "0000100", "0001000", "0000000", "0100000"}},
        {MH_PATTERN_PREVIOUS, {NULL}},
        {MH_PATTERN_FIRST, {NULL}},
    };
    size_t layers, heads;
    bool picture;
    mh_trace t = mh_trace_default();
    t.source = (mh_trace_tokens){.count = K, .text = patches};
    t.groups[MH_TRACE_ENCODER].weights = mh_tensor_4d(weights, MH_F32, L, H, K, K);
    random_weights(4, K, K, NULL);
    // Head 0 of layer 0: all to the class token and, twice as much, to the patch below or above.
    for (size_t q = 0; q < K; q++)
        for (size_t s = 0; s < K; s++)
            weights[q * K + s] = s == 0                                ? 1.0f / 3
                                 : q > 0 && (s == q + 3 || s + 3 == q) ? 2.0f / 3
                                                                       : 0;
    weights[0] = 1;
    open_statistics();
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    check_heads(MH_TRACE_ENCODER, K, K, visible, tables, sizeof tables / sizeof *tables);
    assert_true(mh_head_statistics_size(statistics, MH_TRACE_ENCODER, &layers, &heads, &picture));
    assert_true(layers == L && heads == H && picture);
    assert_false(mh_head_statistics_size(statistics, MH_TRACE_CROSS, NULL, NULL, NULL));
    const mh_head_figures f = read_head(MH_TRACE_ENCODER, 0, 0);
    near(f.distance, 1, 1e-12); // the class token is nowhere
    near(f.uniform_distance, (8 + 4 * 2 + 6 + 8 * sqrt(2) + 4 * sqrt(5)) / 36, 1e-12);
    close_statistics();
}

// ---- names --------------------------------------------------------------------------------------

// Head h of layer 0 gives all its weight to the previous, the next, and equally to all keys; of
// layer 1 a third to ".", and half to "[CLS]" each.
static void one_thing_each(void)
{
    memset(weights, 0, sizeof weights);
    for (size_t q = 0; q < T; q++) {
        float *rows[L * H];
        for (size_t i = 0; i < L * H; i++)
            rows[i] = weights + (i * T + q) * T;
        rows[0][q ? q - 1 : 0] = 1;
        rows[1][q < T - 1 ? q + 1 : q] = 1;
        for (size_t s = 0; s < T; s++) {
            rows[2][s] = 1.0f / T;
            rows[3][s] = s == 6 ? 0.45f : 0.55f / (T - 1);
            rows[4][s] = s == 0 ? 0.65f : 0.05f;
            rows[5][s] = s == 6 ? 0.35f : 0.65f / (T - 1);
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    const mh_trace t = text_trace(MH_TRACE_ENCODER);
    one_thing_each();
    open_statistics();
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    assert_int_equal(read_head(MH_TRACE_ENCODER, 0, 0).pattern, MH_PATTERN_NONE); // of 7 queries
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    const mh_head_figures previous = read_head(MH_TRACE_ENCODER, 0, 0);
    assert_int_equal(previous.pattern, MH_PATTERN_PREVIOUS);
    near(previous.score[MH_PATTERN_PREVIOUS], 1, 1e-12);
    assert_int_equal(read_head(MH_TRACE_ENCODER, 0, 1).pattern, MH_PATTERN_NEXT);
    const mh_head_figures uniform = read_head(MH_TRACE_ENCODER, 0, 2);
    assert_int_equal(uniform.pattern, MH_PATTERN_NONE);
    near(uniform.entropy, 1, 1e-7);
    for (int i = 0; i < MH_PATTERN_COUNT; i++)
        near(uniform.weight[i], uniform.uniform[i], 1e-12);
    // (0.45 - 1/8) / (7/8) is 0.37, (0.35 - 1/8) / (7/8) is 0.26
    assert_int_equal(read_head(MH_TRACE_ENCODER, 1, 0).pattern, MH_PATTERN_PUNCTUATION);
    assert_int_equal(read_head(MH_TRACE_ENCODER, 1, 1).pattern, MH_PATTERN_FIRST);
    const mh_head_figures spread = read_head(MH_TRACE_ENCODER, 1, 2);
    assert_int_equal(spread.pattern, MH_PATTERN_NONE);
    assert_string_equal(mh_head_name(MH_TRACE_ENCODER, &previous), "previous");
    assert_string_equal(mh_head_name(MH_TRACE_CROSS, &previous), "before");
    assert_string_equal(mh_head_name(MH_TRACE_ENCODER, &uniform), "broad");
    mh_head_figures narrow = spread;
    narrow.entropy = 0.8;
    assert_string_equal(mh_head_name(MH_TRACE_ENCODER, &narrow), "mixed");
    assert_null(mh_head_name(MH_TRACE_ENCODER, NULL));
    close_statistics();
}

// A head that does one thing for two queries, and another less clearly for all others.
static void test_what_counts_most(void **state)
{
    (void)state;
    const mh_trace t = text_trace(MH_TRACE_ENCODER);
    one_thing_each();
    for (size_t q = 0; q < T; q++)
        for (size_t s = 0; s < T; s++)
            weights[q * T + s] = q == 3 || q == 4 ? s + q == 7 : s == 0 ? 0.72f : 0.04f;
    open_statistics();
    for (int i = 0; i < 5; i++)
        test_ok(context, mh_head_statistics_add(context, statistics, &t));
    const mh_head_figures f = read_head(MH_TRACE_ENCODER, 0, 0);
    assert_int_equal(f.queries[MH_PATTERN_OWN_WORD], 10);
    near(f.score[MH_PATTERN_OWN_WORD], 1, 1e-12);
    near(f.score[MH_PATTERN_FIRST], (0.72 * 6 / 8 - 0.125) / 0.875, 1e-6);
    assert_int_equal(f.pattern, MH_PATTERN_FIRST);
    close_statistics();
}

// Words of one count are rare together or not at all; at least those that occur once.
static void test_rare(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t rare;
    } cases[] = {{"", 0},
                 {"., !", 0},
                 {"a", 1},
                 {"a b c", 1},
                 {"a a b b", 2},
                 // 1 + 1 + 3 of 16 are more than a quarter
                 {"x y w w w a a a a a a a a a a a", 1},
                 // 1 + 1 + 2 of 16 are a quarter, with 3 more they are not
                 {"x y z z w w w a a a a a a a a a", 2},
                 {"\xC3\x89t\xC3\xA9 \xC3\xA9t\xC3\xA9 \xC3\x89T\xC3\x89", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_statistics();
        test_ok(context, mh_head_statistics_count_words(
                             context, statistics, (mh_text){cases[i].text, strlen(cases[i].text)}));
        assert_int_equal(mh_head_statistics_rare(statistics), cases[i].rare);
        close_statistics();
    }
}

// ---- errors -------------------------------------------------------------------------------------

static void refuse_trace(const mh_trace *t, mh_status status, const char *words_of_it)
{
    assert_int_equal(mh_head_statistics_add(context, statistics, t), status);
    assert_non_null(strstr(mh_error_message(context), words_of_it));
}

static void test_wrong_traces(void **state)
{
    (void)state;
    mh_head_options options = mh_head_options_default();
    mh_head_figures f = mh_head_figures_default();
    mh_trace t = text_trace(MH_TRACE_ENCODER);
    options.far = 0;
    assert_int_equal(mh_head_statistics_create(context, &options, &statistics), MH_ERROR_ARGUMENT);
    random_weights(5, T, T, NULL);
    open_statistics();
    test_ok(context, mh_head_statistics_add(context, statistics, &t));
    const mh_head_figures before = read_head(MH_TRACE_ENCODER, 1, 1);

    assert_int_equal(mh_head_statistics_count_words(context, statistics, counted[0]),
                     MH_ERROR_ARGUMENT);
    t.groups[MH_TRACE_ENCODER].weights = mh_tensor_4d(weights, MH_F32, H, L, T, T);
    refuse_trace(&t, MH_ERROR_ARGUMENT, "found 3 layers of 2 heads, before 2 of 3");
    t.groups[MH_TRACE_DECODER] = t.groups[MH_TRACE_ENCODER]; // and nothing of another group
    refuse_trace(&t, MH_ERROR_ARGUMENT, "encoder.self");
    assert_false(mh_head_statistics_size(statistics, MH_TRACE_DECODER, NULL, NULL, NULL));
    t = text_trace(MH_TRACE_ENCODER);
    t.groups[MH_TRACE_ENCODER].sequences = true;
    refuse_trace(&t, MH_ERROR_UNSUPPORTED, "batch");
    t = text_trace(MH_TRACE_ENCODER);
    t.source.count = 0;
    refuse_trace(&t, MH_ERROR_ARGUMENT, "no tokens");
    weights[3] = -1;
    t = text_trace(MH_TRACE_ENCODER);
    refuse_trace(&t, MH_ERROR_ARGUMENT, "expected a weight");
    const mh_head_figures after = read_head(MH_TRACE_ENCODER, 1, 1);
    assert_memory_equal(&before, &after, sizeof before);

    assert_int_equal(mh_head_statistics_read(context, statistics, MH_TRACE_CROSS, 0, 0, &f),
                     MH_ERROR_ARGUMENT);
    assert_int_equal(mh_head_statistics_read(context, statistics, MH_TRACE_ENCODER, L, 0, &f),
                     MH_ERROR_ARGUMENT);
    assert_int_equal(mh_head_statistics_read(context, statistics, MH_TRACE_ENCODER, 0, H, &f),
                     MH_ERROR_ARGUMENT);
    close_statistics();
    mh_head_statistics_free(NULL);
}

static mh_status count_and_add(void)
{
    const mh_trace t = text_trace(MH_TRACE_ENCODER);
    mh_head_statistics *s;
    mh_status status = mh_head_statistics_create(context, NULL, &s);
    if (!status)
        status = mh_head_statistics_count_words(context, s, counted[1]);
    for (int i = 0; i < 2 && !status; i++)
        status = mh_head_statistics_add(context, s, &t);
    mh_head_statistics_free(s);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    random_weights(6, T, T, NULL);
    test_out_of_memory(&memory, 1, count_and_add);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),      cmocka_unit_test(test_visible),
        cmocka_unit_test(test_cross),     cmocka_unit_test(test_picture),
        cmocka_unit_test(test_names),     cmocka_unit_test(test_what_counts_most),
        cmocka_unit_test(test_rare),      cmocka_unit_test(test_wrong_traces),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
