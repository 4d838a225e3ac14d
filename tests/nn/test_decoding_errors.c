// SPDX-License-Identifier: MIT
// Decodings of many sequences: arguments that are refused, memory that runs out at any moment, and
// how much memory they hold.
#include "block_case.h"
#include "nn_support.h"

enum { D = 24, H = 3, ROWS = 6, LAYERS = 2 };

// A causal stack with a window in one layer.
static mh_transformer *language_model(mh_context *context)
{
    mh_block_config blocks[LAYERS];
    const mh_block_config *pointers[LAYERS];
    for (size_t i = 0; i < LAYERS; i++) {
        blocks[i] = mh_block_config_default();
        blocks[i].d_model = D, blocks[i].num_heads = H, blocks[i].dim_feedforward = 40;
        blocks[i].order = MH_NORM_BEFORE, blocks[i].rope = true;
        blocks[i].window = i ? 3 : -1;
        pointers[i] = &blocks[i];
    }
    mh_stack_config stack = mh_stack_config_default();
    stack.layers = LAYERS, stack.blocks = pointers;
    mh_transformer *t = NULL;
    if (mh_transformer_create_blocks(context, &stack, NULL, true, &t))
        return NULL;
    nn_randomise(mh_transformer_parameters(t), 5);
    return t;
}

static mh_decoding *empty_decoding(mh_context *context, const mh_transformer *t, size_t sequences)
{
    mh_decoding_options o = mh_decoding_options_default();
    o.sequences = sequences;
    mh_decoding *d;
    test_ok(context, mh_decoding_create_empty(context, t, &o, &d));
    return d;
}

// ---- refusals -----------------------------------------------------------------------------------

static void creation(void **state)
{
    mh_context *c = *state;
    mh_transformer *t = language_model(c);
    const mh_transformer_config config = nn_transformer_config(MH_DECODER, D, H, 40, 1);
    mh_transformer *decoder = nn_transformer(c, &config, 1);
    mh_decoding_options o = mh_decoding_options_default();
    mh_decoding *d;
    test_refused(c, mh_decoding_create_empty(c, decoder, NULL, &d), MH_ERROR_ARGUMENT,
                 "transformer: expected an encoder");
    assert_null(d);
    o.cache_dtype = MH_I32;
    test_refused(c, mh_decoding_create_empty(c, t, &o, &d), MH_ERROR_UNSUPPORTED,
                 "cache_dtype: found i32");
    o.cache_dtype = (mh_dtype)99;
    test_refused(c, mh_decoding_create_empty(c, t, &o, &d), MH_ERROR_UNSUPPORTED, "cache_dtype");
    o = mh_decoding_options_default();
    o.sequences = SIZE_MAX;
    test_refused(c, mh_decoding_create_empty(c, t, &o, &d), MH_ERROR_ARGUMENT, "sequences: found");
    o.struct_size = 3;
    test_refused(c, mh_decoding_create_empty(c, t, &o, &d), MH_ERROR_ARGUMENT, "struct_size");
    test_refused(c, mh_decoding_create_causal(c, t, 0, &d), MH_ERROR_ARGUMENT,
                 "sequences: found 0");
    test_ok(c, mh_decoding_create_empty(c, t, NULL, &d));
    assert_int_equal(mh_decoding_sequences(d), 1);
    mh_decoding_free(d);
    mh_transformer_free(t);
    mh_transformer_free(decoder);
}

static void steps(void **state)
{
    mh_context *c = *state;
    mh_transformer *t = language_model(c);
    mh_decoding *d = empty_decoding(c, t, 2);
    float *x = nn_floats(1, ROWS * D), *y = nn_floats(2, ROWS * (D + 1));
    const mh_tensor tgt = mh_tensor_2d(x, MH_F32, ROWS, D);
    mh_tensor out = mh_tensor_2d(y, MH_F32, ROWS, D);
    static const struct {
        int64_t starts[3];
        const char *word;
    } wrong[] = {
        {{1, 3, ROWS}, "starts: found 1 to 6"},     {{0, 3, ROWS - 1}, "expected 0 to 6, the rows"},
        {{0, 3, ROWS + 1}, "starts: found 0 to 7"}, {{0, ROWS + 1, ROWS}, "starts[2]: found 6"},
        {{0, -1, ROWS}, "starts[1]: found -1"},     {{-1, 2, ROWS}, "starts: found -1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        test_refused(c, mh_decoding_step_packed(c, d, wrong[i].starts, NULL, 0, &tgt, &out),
                     MH_ERROR_ARGUMENT, wrong[i].word);
    const int64_t starts[] = {0, 2, ROWS};
    mh_tensor other = mh_tensor_2d(y, MH_F32, ROWS, D + 1);
    test_refused(c, mh_decoding_step_packed(c, d, starts, NULL, 0, &other, &out), MH_ERROR_ARGUMENT,
                 "tgt: found");
    test_refused(c, mh_decoding_step_packed(c, d, starts, NULL, 0, &tgt, &other), MH_ERROR_ARGUMENT,
                 "output: found");
    other = mh_tensor_2d(y, MH_F32, ROWS - 1, D);
    test_refused(c, mh_decoding_step_packed(c, d, starts, NULL, 0, &tgt, &other), MH_ERROR_ARGUMENT,
                 "tgt, output: found");
    other = mh_tensor_3d(y, MH_F32, 1, ROWS, D);
    test_refused(c, mh_decoding_step_packed(c, d, starts, NULL, 0, &tgt, &other), MH_ERROR_ARGUMENT,
                 "tgt, output: found ranks 2 and 3");
    other = mh_tensor_2d(x + 1, MH_F32, ROWS - 1, D);
    const int64_t fewer[] = {0, 2, ROWS - 1};
    const mh_tensor part = mh_tensor_2d(x, MH_F32, ROWS - 1, D);
    test_refused(c, mh_decoding_step_packed(c, d, fewer, NULL, 0, &part, &other), MH_ERROR_ARGUMENT,
                 "overlaps");
    test_refused(c, mh_decoding_extend(c, d, SIZE_MAX), MH_ERROR_ARGUMENT, "count: found");
    assert_int_equal(mh_decoding_sequences(d), 2);
    assert_int_equal(mh_decoding_length(d, 0) + mh_decoding_length(d, 1), 0);
    test_ok(c, mh_decoding_step_packed(c, d, starts, NULL, 0, &tgt, &out));
    assert_int_equal(mh_decoding_length(d, 0), 2);
    assert_int_equal(mh_decoding_length(d, 1), ROWS - 2);
    assert_int_equal(mh_decoding_length(d, 2), 0); // no such sequence
    mh_decoding_free(d);
    mh_transformer_free(t);
    free(x);
    free(y);
}

// Without sequences or rows there is nothing to do, which is fine.
static void nothing(void **state)
{
    mh_context *c = *state;
    mh_transformer *t = language_model(c);
    mh_decoding *d = empty_decoding(c, t, 0);
    float x[D] = {0};
    mh_tensor none = mh_tensor_2d(x, MH_F32, 0, D), row = mh_tensor_2d(x, MH_F32, 1, D);
    test_ok(c, mh_decoding_step_packed(c, d, (int64_t[]){0}, NULL, 0, &none, &none));
    test_refused(c, mh_decoding_step_packed(c, d, (int64_t[]){0}, NULL, 0, &row, &row),
                 MH_ERROR_ARGUMENT, "starts: found 0 to 0 for 0 sequences");
    test_ok(c, mh_decoding_select(c, d, NULL, 0));
    test_refused(c, mh_decoding_select(c, d, (size_t[]){0}, 1), MH_ERROR_ARGUMENT, "parents[0]");
    test_ok(c, mh_decoding_extend(c, d, 2));
    test_ok(c, mh_decoding_step_packed(c, d, (int64_t[]){0, 0, 0}, NULL, 0, &none, &none));
    test_ok(c, mh_decoding_step_packed(c, d, (int64_t[]){0, 0, 1}, NULL, 0, &row, &row));
    assert_int_equal(mh_decoding_length(d, 0), 0);
    assert_int_equal(mh_decoding_length(d, 1), 1);
    test_refused(c, mh_decoding_select(c, d, NULL, 2), MH_ERROR_ARGUMENT, "parents");
    mh_decoding_free(d);
    mh_transformer_free(t);
}

// New sequences of a decoder would have no memory.
static void memories(void **state)
{
    mh_context *c = *state;
    const mh_transformer_config config = nn_transformer_config(MH_DECODER, D, H, 40, 1);
    mh_transformer *t = nn_transformer(c, &config, 1);
    float *x = nn_floats(1, 4 * D);
    const mh_tensor memory = mh_tensor_3d(x, MH_F32, 4, 1, D);
    mh_decoding *d;
    test_ok(c, mh_decoding_create(c, t, &memory, NULL, 2, &d));
    test_refused(c, mh_decoding_extend(c, d, 1), MH_ERROR_ARGUMENT, "found one with a memory");
    assert_int_equal(mh_decoding_sequences(d), 2);
    mh_decoding_free(d);
    mh_transformer_free(t);
    free(x);
}

// Weights of packed rows: sequences in turn, as wide as the longest; the bits of each alone.
static void taps(void **state)
{
    enum { FIRST = 2, SECOND = 4 };
    mh_context *c = *state;
    mh_transformer *t = language_model(c);
    mh_decoding *d = empty_decoding(c, t, 2);
    float *x = nn_floats(3, ROWS * D), *y = nn_floats(4, ROWS * D);
    float weights[2 * H * SECOND * SECOND], alone[H * SECOND * SECOND], q[H * ROWS * D / H];
    const int64_t starts[] = {0, FIRST, ROWS};
    const mh_tensor tgt = mh_tensor_2d(x, MH_F32, ROWS, D);
    mh_tensor out = mh_tensor_2d(y, MH_F32, ROWS, D);
    mh_tap tap = mh_tap_make(MH_TAP_ENCODER, 1);
    tap.weights = mh_tensor_4d(weights, MH_F32, 2, H, SECOND, SECOND);
    tap.q = mh_tensor_4d(q, MH_F32, 1, H, ROWS, D / H);
    test_ok(c, mh_decoding_step_packed(c, d, starts, &tap, 1, &tgt, &out));
    for (size_t b = 0; b < 2; b++) {
        const size_t n = (size_t)(starts[b + 1] - starts[b]);
        const mh_tensor src = mh_tensor_slice(tgt, 0, (size_t)starts[b], n);
        mh_tensor result = mh_tensor_slice(out, 0, (size_t)starts[b], n);
        mh_transformer_options o = mh_transformer_options_default();
        mh_tap same = mh_tap_make(MH_TAP_ENCODER, 1);
        same.weights = mh_tensor_4d(alone, MH_F32, 1, H, n, n);
        o.src_causal = true, o.taps = &same, o.tap_count = 1;
        test_ok(c, mh_transformer_forward(c, t, &o, &src, NULL, &result));
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < n; i++)
                assert_memory_equal(weights + ((b * H + h) * SECOND + i) * SECOND,
                                    alone + (h * n + i) * n, n * sizeof(float));
    }
    tap.weights.shape[0] = 1;
    test_refused(c, mh_decoding_step_packed(c, d, starts, &tap, 1, &tgt, &out), MH_ERROR_ARGUMENT,
                 "weights");
    assert_int_equal(mh_decoding_length(d, 1), SECOND);
    mh_decoding_free(d);
    mh_transformer_free(t);
    free(x);
    free(y);
}

// ---- failing memory -----------------------------------------------------------------------------

typedef struct storage {
    float x[ROWS * D], expected[ROWS * D];
    size_t failures; // of any call
    size_t broken;   // of these, those after which the decoding is unusable
} storage;

static mh_status add_two(mh_context *context, mh_decoding *d, float *out)
{
    (void)out;
    return mh_decoding_extend(context, d, 2);
}

// Three tokens of the first sequence and one of the second.
static float *input;
static mh_status three_and_one(mh_context *context, mh_decoding *d, float *out)
{
    const int64_t starts[] = {0, 3, 4};
    const mh_tensor tgt = mh_tensor_2d(input, MH_F32, 4, D);
    mh_tensor result = mh_tensor_2d(out, MH_F32, 4, D);
    return mh_decoding_step_packed(context, d, starts, NULL, 0, &tgt, &result);
}

// Only the second goes on.
static mh_status keep_second(mh_context *context, mh_decoding *d, float *out)
{
    (void)out;
    return mh_decoding_select(context, d, (size_t[]){1}, 1);
}

static mh_status branch(mh_context *context, mh_decoding *d, float *out)
{
    (void)out;
    return mh_decoding_select(context, d, (size_t[]){0, 0}, 2);
}

static mh_status two_and_none(mh_context *context, mh_decoding *d, float *out)
{
    const int64_t starts[] = {0, 2, 2};
    const mh_tensor tgt = mh_tensor_2d(input + 4 * D, MH_F32, 2, D);
    mh_tensor result = mh_tensor_2d(out + 4 * D, MH_F32, 2, D);
    return mh_decoding_step_packed(context, d, starts, NULL, 0, &tgt, &result);
}

// A call that runs out of memory has changed nothing, and works the second time; except a reorder
// that branches, which may leave the decoding unusable, and then says so.
static mh_status use_decoding(mh_context *context, void *user)
{
    mh_status (*const calls[])(mh_context *, mh_decoding *, float *) = {
        add_two, three_and_one, keep_second, branch, two_and_none};
    storage *s = user;
    float out[ROWS * D];
    mh_status first = MH_OK, status;
    mh_transformer *t = language_model(context);
    mh_decoding_options o = mh_decoding_options_default();
    mh_decoding *d = NULL;
    o.sequences = 0;
    input = s->x;
    if (!t)
        return MH_ERROR_MEMORY;
    status = mh_decoding_create_empty(context, t, &o, &d);
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !status; i++) {
        const size_t before = mh_decoding_sequences(d), length = mh_decoding_length(d, 0);
        status = calls[i](context, d, out);
        if (!status)
            continue;
        first = status;
        s->failures++;
        assert_int_equal(mh_decoding_sequences(d), before);
        const mh_status again = calls[i](context, d, out);
        if (again == MH_ERROR_MEMORY) {
            assert_true(calls[i] == branch);
            s->broken++;
            break;
        }
        assert_true(calls[i] != two_and_none || mh_decoding_length(d, 0) == length + 2);
        status = again;
    }
    if (!status)
        assert_memory_equal(out, s->expected, sizeof out);
    mh_decoding_free(d);
    mh_transformer_free(t);
    return first ? first : status;
}

static void every_allocation_may_fail(void **state)
{
    mh_context *c = *state;
    storage *s = calloc(1, sizeof *s);
    float *x = nn_floats(7, ROWS * D);
    memcpy(s->x, x, sizeof s->x);
    free(x);
    // Two sequences: rows 0 to 2; and 3, then 4 and 5.
    mh_transformer *t = language_model(c);
    for (size_t b = 0; b < 2; b++) {
        const mh_tensor src = mh_tensor_2d(s->x + b * 3 * D, MH_F32, 3, D);
        mh_tensor out = mh_tensor_2d(s->expected + b * 3 * D, MH_F32, 3, D);
        mh_transformer_options o = mh_transformer_options_default();
        o.src_causal = true;
        test_ok(c, mh_transformer_forward(c, t, &o, &src, NULL, &out));
    }
    mh_transformer_free(t);
    test_failing_allocations(mh_context_isa(c), 1, use_decoding, s);
    print_message("%zu calls failed, %zu for good\n", s->failures, s->broken);
    assert_true(s->failures > 10);
    free(s);
}

// ---- how much memory ----------------------------------------------------------------------------

static size_t held_after(mh_context *c, mh_decoding *d, size_t tokens, size_t segment)
{
    float *x = nn_floats(9, segment * D);
    for (size_t done = 0; done < tokens; done += segment) {
        const int64_t starts[] = {0, (int64_t)segment};
        mh_tensor rows = mh_tensor_2d(x, MH_F32, segment, D);
        test_ok(c, mh_decoding_step_packed(c, d, starts, NULL, 0, &rows, &rows));
    }
    free(x);
    return mh_decoding_bytes(d);
}

// A prompt of 4,096 tokens in segments holds its keys and values, and the workspace of a segment;
// where a layer has a window, the last tokens only. A dropped sequence holds nothing.
static void memory_of_prompts(void **state)
{
    enum { PROMPT = 4096, SEGMENT = 256 };
    mh_context *c = *state;
    mh_transformer *t = language_model(c);
    const size_t keys = 2 * PROMPT * D * sizeof(float); // of the layer without a window
    mh_decoding *d = empty_decoding(c, t, 1), *narrow;
    const size_t one = held_after(c, d, SEGMENT, SEGMENT), all = held_after(c, d, PROMPT, SEGMENT);
    print_message("%zu bytes after %d tokens, %zu after %d more\n", one, SEGMENT, all, PROMPT);
    assert_true(all - one > keys && all - one < keys * 5 / 3); // heads of width 8 are padded to 16
    mh_decoding_options o = mh_decoding_options_default();
    o.cache_dtype = MH_BF16;
    test_ok(c, mh_decoding_create_empty(c, t, &o, &narrow));
    const size_t half = held_after(c, narrow, SEGMENT, SEGMENT);
    const size_t rest = held_after(c, narrow, PROMPT, SEGMENT) - half;
    print_message("bf16: %zu bytes for %d more\n", rest, PROMPT);
    assert_true(rest < (all - one) * 5 / 8);
    test_ok(c, mh_decoding_select(c, d, NULL, 0));
    assert_true(mh_decoding_bytes(d) < one);
    mh_decoding_free(narrow);
    mh_decoding_free(d);
    mh_transformer_free(t);
}

// Once warm, steps allocate nothing until a cache needs another block.
static void steps_do_not_allocate(void **state)
{
    (void)state;
    enum { SEQUENCES = 5 };
    test_memory memory = {0};
    mh_context_options options = mh_context_options_default();
    mh_context *c = NULL;
    options.threads = 2;
    options.allocator = test_allocator(&memory);
    assert_int_equal(mh_context_create(&options, &c, NULL, 0), MH_OK);
    mh_transformer *t = language_model(c);
    mh_decoding *d = empty_decoding(c, t, SEQUENCES);
    float *x = nn_floats(9, (SEQUENCES + 39) * D);
    size_t before = 0;
    for (size_t i = 0; i < 20; i++) { // a prompt of 40 for the first, then one for each, or none
        int64_t starts[SEQUENCES + 1] = {0};
        for (size_t b = 0; b < SEQUENCES; b++)
            starts[b + 1] = starts[b] + (i == 0 && b == 0              ? 40
                                         : i > 2 && b == i % SEQUENCES ? 0
                                                                       : 1);
        mh_tensor rows = mh_tensor_2d(x, MH_F32, (size_t)starts[SEQUENCES], D);
        if (i == 2)
            before = memory.calls;
        if (i == 12)
            test_ok(c, mh_decoding_select(c, d, (size_t[]){0, 1, 2, 3, 4}, SEQUENCES));
        test_ok(c, mh_decoding_step_packed(c, d, starts, NULL, 0, &rows, &rows));
        if (i == 13)
            assert_int_equal(memory.calls, before);
    }
    free(x);
    mh_decoding_free(d);
    mh_transformer_free(t);
    mh_context_free(c);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation),
        cmocka_unit_test(steps),
        cmocka_unit_test(nothing),
        cmocka_unit_test(memories),
        cmocka_unit_test(taps),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(memory_of_prompts),
        cmocka_unit_test(steps_do_not_allocate),
    };
    return cmocka_run_group_tests(tests, test_open_context, test_close_context);
}
