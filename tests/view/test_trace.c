// SPDX-License-Identifier: MIT
// Traces: what is written is read back; shapes, tokens and weights that do not fit are refused
// with the right words, from memory and from files; whatever allocation fails is reported.
#include "parser_support.h"

#include <multihead/view.h>

#include <math.h>

static char warning[512];

enum { L = 2, H = 4, T = 3, S = 5, E = 2, G = 2 };

static float cross[L * H * T * S], q[L * H * T * E], k[L * G * S * E], v[L * G * S * E];
static float out[L * T * 7];
static bool mask[T * S];
static const char *const source[S] = {"le", "\"chat\"", "\\", "\xE2\x96\x81noir", "</s>"};
static const char *const target[T] = {"the", "\xFF", "cat\n"};
static const bool starts[T] = {true, false, true};

static void keep_warning(void *user, mh_log_level level, const char *message)
{
    (void)user;
    if (level == MH_LOG_WARNING)
        snprintf(warning, sizeof warning, "%s", message);
}

static int set_up(void **state)
{
    (void)state;
    return parser_place("t.safetensors", keep_warning);
}

// Rows that sum to 1, and everything that a trace can have.
static const char *const likely[] = {"a", "b", "c", "d", "e", "f"};
static const float chances[] = {0.5f, 0.25f, 1, 0, 0.75f, 0.125f}, taken[] = {0.5f, 0, 1};
static float x[L * T * 7];
static const mh_trace_stream stream = {
    .x = {.data = x, .dtype = MH_F32, .rank = 3, .shape = {L, T, 7}, .stride = {T * 7, 7, 1}},
    .sum = {.data = out, .dtype = MH_F32, .rank = 3, .shape = {L, T, 7}, .stride = {T * 7, 7, 1}},
    .order = "before"};

static mh_trace good_trace(void)
{
    mh_trace t = mh_trace_default();
    mh_trace_group *g = &t.groups[MH_TRACE_CROSS];
    for (size_t row = 0; row < L * H * T; row++)
        for (size_t j = 0; j < S; j++)
            cross[row * S + j] = j == row % S ? 0.6f : 0.1f;
    for (size_t i = 0; i < T * S; i++)
        mask[i] = i % 2;
    t.title = "a title";
    t.source = (mh_trace_tokens){.count = S, .text = source};
    t.target = (mh_trace_tokens){.count = T, .text = target, .word_start = starts};
    g->weights = mh_tensor_4d(cross, MH_F32, L, H, T, S);
    g->q = mh_tensor_4d(q, MH_F32, L, H, T, E);
    g->k = mh_tensor_4d(k, MH_F32, L, G, S, E);
    g->v = mh_tensor_4d(v, MH_F32, L, G, S, E);
    g->out = mh_tensor_3d(out, MH_F32, L, T, 7);
    g->mask = mh_tensor_2d(mask, MH_BOOL, T, S);
    g->scale = 0.1;
    g->stream = &stream;
    t.choices = (mh_trace_choices){2, likely, chances, taken};
    return t;
}

// ---- files --------------------------------------------------------------------------------------

static void check_read_back(const mh_trace *t)
{
    const mh_trace_group *g = &t->groups[MH_TRACE_CROSS];
    assert_string_equal(t->title, "a title");
    assert_null(t->model);
    assert_int_equal(t->source.count, S);
    for (size_t i = 0; i < S; i++)
        assert_string_equal(t->source.text[i], source[i]);
    assert_null(t->source.word_start);
    assert_int_equal(t->target.count, T);
    assert_string_equal(t->target.text[1], "\xEF\xBF\xBD"); // was no UTF-8
    assert_string_equal(t->target.text[2], "cat\n");
    assert_memory_equal(t->target.word_start, starts, sizeof starts);
    assert_int_equal(g->weights.rank, 4);
    assert_memory_equal(g->weights.data, cross, sizeof cross);
    assert_memory_equal(g->mask.data, mask, sizeof mask);
    assert_true(g->scale == 0.1);
    assert_non_null(g->k.data);
    assert_int_equal(t->choices.count, 2);
    for (size_t i = 0; i < 2 * T; i++)
        assert_string_equal(t->choices.text[i], likely[i]);
    assert_memory_equal(t->choices.probability, chances, sizeof chances);
    assert_memory_equal(t->choices.chosen, taken, sizeof taken);
    assert_non_null(g->stream);
    assert_memory_equal(g->stream->x.data, x, sizeof x);
    assert_non_null(g->stream->sum.data);
    assert_null(g->stream->hidden.data);
    assert_string_equal(g->stream->order, "before");
    assert_null(t->groups[MH_TRACE_ENCODER].weights.data);
}

// What the decoder was given names its attention to itself, and nothing else.
static void test_given(void **state)
{
    (void)state;
    static const char *const given[] = {"<s>", "the"}, *const chosen[] = {"the", "</s>"};
    static float weights[] = {1, 0, 0.5f, 0.5f};
    mh_trace t = mh_trace_default();
    mh_trace_file *file;
    mh_buffer json;
    t.target = (mh_trace_tokens){.count = 2, .text = chosen};
    t.given = (mh_trace_tokens){.count = 2, .text = given, .word_start = starts};
    t.groups[MH_TRACE_DECODER].weights = mh_tensor_4d(weights, MH_F32, 1, 1, 2, 2);
    t.groups[MH_TRACE_CROSS].weights = mh_tensor_4d(weights, MH_F32, 1, 1, 2, 2);
    test_ok(context, mh_trace_write(context, path, &t));
    test_ok(context, mh_trace_file_open(context, path, &file));
    const mh_trace *read = mh_trace_file_trace(file);
    assert_int_equal(read->given.count, 2);
    assert_string_equal(read->given.text[0], "<s>");
    assert_memory_equal(read->given.word_start, starts, 2 * sizeof *starts);
    assert_string_equal(read->target.text[0], "the");
    test_ok(context, mh_view_data(context, NULL, read, &json));
    assert_non_null(strstr(json.data, "\"queries\":\"given\",\"keys\":\"given\""));
    assert_non_null(strstr(json.data, "\"queries\":\"target\",\"keys\":null"));
    mh_buffer_free(context, &json);
    mh_trace_file_free(file);
    t.given.count = 1;
    assert_int_equal(mh_trace_check(context, &t), MH_ERROR_ARGUMENT);
    assert_non_null(strstr(mh_error_message(context), "decoder.self: 1 token for 2 queries"));
}

static void test_round_trip(void **state)
{
    (void)state;
    mh_trace t = good_trace();
    mh_trace_file *file;
    test_ok(context, mh_trace_write(context, path, &t));
    test_ok(context, mh_trace_file_open(context, path, &file));
    check_read_back(mh_trace_file_trace(file));
    mh_trace_file_free(file);
    mh_trace_file_free(NULL);
}

// Each allocation of reading and writing fails once, then with all that follow; ours and jansson's.
static void check_starved(scarce *whose, bool always)
{
    mh_trace t = good_trace();
    for (size_t n = 1;; n++) {
        mh_trace_file *file = NULL;
        size_t live = memory.live;
        whose->calls = 0;
        whose->fail_at = n;
        whose->always = always;
        mh_status written = mh_trace_write(context, path, &t);
        mh_status status = mh_trace_file_open(context, path, &file);
        size_t calls = whose->calls;
        whose->fail_at = 0;
        assert_true(written == MH_OK || written == MH_ERROR_MEMORY);
        if (status == MH_OK)
            check_read_back(mh_trace_file_trace(file));
        else
            assert_int_equal(status, MH_ERROR_MEMORY);
        mh_trace_file_free(file);
        assert_int_equal(memory.live, live);
        if (calls < n)
            break;
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    mh_trace t = good_trace();
    test_ok(context, mh_trace_write(context, path, &t)); // what stays if writing fails
    check_starved(&memory, false);
    check_starved(&memory, true);
    check_starved(&json_memory, false);
    check_starved(&json_memory, true);
}

static const struct {
    const char *header, *words;
} bad_files[] = {
    {"{}", "no weights"},
    {"{\"__metadata__\":{\"trace\":\"2\"}}", "trace version \"2\""},
    {"{\"cross\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}",
     "found f32 (1, 1), expected 4 dimensions, (layers, heads, T, S)"},
    {"{\"__metadata__\":{\"source.tokens\":\"[\\\"a\\\",\\\"b\\\"]\"},"
     "\"encoder.self\":{\"dtype\":\"U8\",\"shape\":[1,1,1,2,2],\"data_offsets\":[0,4]}}",
     "encoder.self: found u8 (1, 1, 1, 2, 2), expected 4 dimensions, (layers, heads, S, S): of a "
     "batch, one sequence"},
    {"{\"cross\":{\"dtype\":\"I32\",\"shape\":[1,1,1,1],\"data_offsets\":[0,4]}}", "f32"},
    {"{\"cross\":{\"dtype\":\"F32\",\"shape\":[1,1,0,1],\"data_offsets\":[0,0]}}", "elements"},
    {"{\"cross.q\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1],\"data_offsets\":[0,4]}}",
     "without weights"},
#define WITH(metadata)                                                                             \
    "{\"__metadata__\":{" metadata                                                                 \
    "},\"cross\":{\"dtype\":\"U8\",\"shape\":[1,1,2,2],\"data_offsets\":[0,4]}}"
    {WITH("\"source.tokens\":\"[\\\"a\\\"]\""), "1 token for 2 keys"},
    {WITH("\"target.tokens\":\"[\\\"a\\\",\\\"b\\\",\\\"c\\\"]\""), "at most 2"},
    {WITH("\"source.tokens\":\"[[[[[\""), "nesting deeper than 1 level"},
    {WITH("\"source.tokens\":\"{}\""), "expected a list"},
    {WITH("\"cross.axes\":\"heads,batch\""),
     "metadata 'cross.axes': found \"heads,batch\", expected \"layers,heads\" or \"batch,heads\""},
    {WITH("\"source.tokens\":\"[1,2]\""), "not a string"},
    {WITH("\"source.tokens\":\"[\\\"a\\\",\""), "not valid JSON"},
    {WITH("\"source.words\":\"[true]\""), "found a list of 1, expected one for each of 0 tokens"},
    {WITH("\"source.tokens\":\"[\\\"a\\\",\\\"b\\\"]\",\"source.words\":\"[true,1]\""),
     "neither true nor false"},
    {"{\"cross.scale\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "a number > 0"},
};

static void test_bad_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        const char *header = bad_files[i].header;
        size_t data = strstr(header, "[0,4]") ? 4 : 0;
        blob b = blob_safetensors(header, data);
        mh_trace_file *file;
        mh_status status = mh_trace_file_parse(context, "bad", b.bytes, b.size, &file);
        test_refused(context, status, MH_ERROR_FORMAT, bad_files[i].words);
        assert_int_equal(strncmp(mh_error_message(context), "bad: ", 5), 0);
        assert_null(file);
        blob_free(&b);
    }
}

// ---- checks -------------------------------------------------------------------------------------

static void refused(const mh_trace *t, const char *words)
{
    test_refused(context, mh_trace_check(context, t), MH_ERROR_ARGUMENT, words);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *const missing[] = {"a", NULL, "c"};
    mh_trace t = good_trace();
    mh_trace_group *g = &t.groups[MH_TRACE_CROSS];
    test_ok(context, mh_trace_check(context, &t));
    refused(NULL, "NULL");
    t.struct_size--, refused(&t, "mh_trace.struct_size"), t = good_trace();
    t.source.count--, refused(&t, "4 tokens for 5 keys"), t = good_trace();
    t.target.text = missing, refused(&t, "target: token 1 is NULL"), t = good_trace();
    // What no group uses is written and drawn all the same.
    t.given.count = 3, refused(&t, "given: 3 tokens, but text is NULL"), t = good_trace();
    g->weights = mh_tensor_4d(cross, MH_F32, L, H, T, T),
    *g = (mh_trace_group){.weights = g->weights};
    t.groups[MH_TRACE_ENCODER] = *g, *g = (mh_trace_group){0};
    t.source = t.target, t.target = (mh_trace_tokens){.count = 2, .text = missing};
    refused(&t, "target: token 1 is NULL"), t = good_trace();
    t.groups[MH_TRACE_DECODER].k = g->k;
    refused(&t, "decoder.self: tensors without weights"), t = good_trace();
    g->v.data = NULL, refused(&t, "must be given together"), t = good_trace();
    g->k.shape[1] = 3, refused(&t, "divides"), t = good_trace();
    g->q.shape[3] = 1, refused(&t, "cross.k"), t = good_trace();
    g->out.rank = 2, refused(&t, "(2, 3, n)"), t = good_trace();
    mh_trace_stream other = stream;
    g->stream = &other, other.sum.shape[1]--, refused(&t, "cross.sum"), t = good_trace();
    g->mask.dtype = MH_I8, refused(&t, "bool or u8"), t = good_trace();
    g->scale = -1, refused(&t, "scale"), t = good_trace();
    cross[((1 * H + 2) * T + 1) * S + 4] = NAN;
    refused(&t, "layer 1, head 2, query 1, key 4: found nan"), t = good_trace();
    cross[0] = -0.1f, refused(&t, "not negative"), t = good_trace();
    cross[1] = INFINITY, refused(&t, "found inf"), t = good_trace();
    assert_int_equal(mh_trace_check(NULL, &t), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_trace_file_open(context, path, NULL), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_trace_write(NULL, path, &t), MH_ERROR_ARGUMENT);
}

static void test_choices(void **state)
{
    (void)state;
    const char *tokens[] = {"a", "b", "c", "d", "e", "f"}, *no_tokens[] = {"a", NULL};
    float probability[] = {0.5f, 0.25f, 1, 0, 0.75f, 1e-9f}, chosen[] = {0.5f, 0, 1};
    mh_trace_hypothesis hypotheses[] = {{"x", -0.5}, {"y", -1}};
    const mh_trace_choices good = {2, tokens, probability, chosen};
    mh_buffer json;
    mh_trace t = good_trace();
    cross[0] = cross[1] = 0;
    t.choices = good;
    t.hypotheses = hypotheses;
    t.hypothesis_count = 2;
    test_ok(context, mh_view_data(context, NULL, &t, &json));
    assert_non_null(strstr(json.data,
                           "\"choices\":{\"count\":2,\"tokens\":[\"a\",\"b\",\"c\",\"d\","
                           "\"e\",\"f\"],\"probabilities\":[500000,250000,1000000,0,"
                           "750000,1],\"chosen\":[500000,0,1000000]}"));
    assert_non_null(strstr(json.data, "\"hypotheses\":[{\"text\":\"x\",\"score\":-0.5},"
                                      "{\"text\":\"y\",\"score\":-1.0}]"));
    mh_buffer_free(context, &json);
    t.choices.text = NULL, refused(&t, "choices: found NULL"), t.choices = good;
    t.choices.chosen = NULL, refused(&t, "choices: found NULL"), t.choices = good;
    t.choices.text = no_tokens, refused(&t, "choices.text[1]"), t.choices = good;
    t.target.count = 0, refused(&t, "no target tokens"), t.target.count = T;
    probability[3] = NAN, refused(&t, "choices.probability[3]: found nan"), probability[3] = 0;
    chosen[2] = 1.5f, refused(&t, "choices.chosen[2]: found 1.5"), chosen[2] = 1;
    hypotheses[1].score = INFINITY, refused(&t, "hypotheses[1]"), hypotheses[1].score = -1;
    hypotheses[0].text = NULL, refused(&t, "hypotheses[0]");
    t.hypotheses = NULL, refused(&t, "hypotheses: found NULL, expected 2");
    t.hypothesis_count = 0;
    mh_trace_label labels[] = {{"a \"b\"", 0.75}, {"c", 0.25}};
    t.labels = labels, t.label_count = 2, t.continuation = "and on";
    assert_int_equal(mh_view_data(context, NULL, &t, &json), MH_OK);
    assert_non_null(
        strstr(json.data, "\"labels\":[{\"text\":\"a \\\"b\\\"\",\"probability\":0.75},"));
    assert_non_null(strstr(json.data, "\"continuation\":\"and on\""));
    mh_buffer_free(context, &json);
    labels[1].probability = NAN, refused(&t, "labels[1]"), labels[1].probability = 0;
    labels[0].text = NULL, refused(&t, "labels[0]");
    t.labels = NULL, refused(&t, "labels: found NULL, expected 2");
}

static void test_sums(void **state)
{
    (void)state;
    mh_trace t = good_trace();
    warning[0] = 0;
    test_ok(context, mh_trace_check(context, &t));
    memset(cross, 0, S * sizeof *cross); // a row that sees nothing is fine
    test_ok(context, mh_trace_check(context, &t));
    assert_string_equal(warning, "");
    cross[S] += 1;
    test_ok(context, mh_trace_check(context, &t));
    assert_string_equal(warning, "cross: 1 of 24 rows do not sum to 1; the first is layer 0, head "
                                 "0, query 1: 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_given),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_sums),
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, set_up, parser_tear_down);
}
