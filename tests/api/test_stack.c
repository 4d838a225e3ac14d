// SPDX-License-Identifier: MIT
// No public call needs more than 64 KiB of stack in the caller's thread, at any level: calls run in
// a thread whose stack is painted beforehand, and the lowest byte that has changed tells how deep
// they went. What the C library itself puts there (thread-local storage, starting the thread) is
// measured with a thread that does nothing.
#include "api_calls.h"

#include <math.h>
#include <multihead/sharded.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define SANITIZED 1
#endif
#endif

enum { LIMIT = 64 << 10, STACK = 1 << 20, PAGE = 1 << 16, PATTERN = 0xA5 };

// ---- a painted stack ----------------------------------------------------------------------------

typedef struct scene {
    const char *level;
    size_t threads;
    api_objects objects;
} scene;

typedef void (*act_fn)(scene *s);

typedef struct performance {
    act_fn act;
    scene *scene;
} performance;

static void *perform(void *arg)
{
    const performance *p = arg;
    p->act(p->scene);
    return NULL;
}

// The bytes of stack that a thread needs for this.
static size_t depth_of(act_fn act, scene *s)
{
    unsigned char *memory =
        mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory, PAGE, PROT_NONE), 0);
    unsigned char *stack = memory + PAGE;
    memset(stack, PATTERN, STACK);
    pthread_attr_t attributes;
    pthread_t thread;
    performance p = {act, s};
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, perform, &p), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    size_t untouched = 0;
    while (untouched < STACK && stack[untouched] == PATTERN)
        untouched++;
    munmap(memory, STACK + PAGE);
    return STACK - untouched;
}

// ---- what is called -----------------------------------------------------------------------------

static void nothing(scene *s) { (void)s; }

static void ok(scene *s, mh_status status)
{
    if (status != MH_OK) // no longjmp out of a foreign thread
        fprintf(stderr, "%s\n", mh_error_message(s->objects.context)), abort();
}

static void contexts(scene *s)
{
    mh_context *context;
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        abort();
    mh_context_free(context);
    (void)s;
}

static void every_function(scene *s)
{
    for (size_t i = 0; i < api_call_count; i++) {
        mh_tensor t[API_OPERANDS_MOST];
        api_call_tensors(&api_calls[i], t);
        ok(s, api_calls[i].call(&s->objects, t));
        for (size_t k = 0; k < api_operand_count(&api_calls[i]);
             k++) // what is not f32 is converted
            t[k].dtype = t[k].dtype == MH_F32 ? MH_BF16 : t[k].dtype;
        if (!api_calls[i].arrays)
            api_calls[i].call(&s->objects, t); // MH_ERROR_UNSUPPORTED for some
    }
}

enum { MOST_FLOATS = 1 << 20 };
static float floats[12][MOST_FLOATS];

typedef struct problem {
    size_t B, H, G, T, S, E;
    mh_dtype dtype;
    bool causal, dropout, weights, masked, packed;
} problem;

// Every path of attention: short sequences, tiles, chunks, few queries, masks, and their gradients.
static const problem problems[] = {
    {1, 4, 4, 10, 10, 64, MH_F32, false, false, false, false, false},
    {2, 4, 2, 13, 16, 512, MH_BF16, false, false, false, false, false},
    {2, 4, 2, 13, 9, 200, MH_F16, false, false, false, false, false},
    {1, 2, 1, 130, 700, 64, MH_F32, false, false, false, false, false},
    {1, 2, 2, 130, 130, 64, MH_F32, true, true, true, true, false},
    {1, 2, 2, 130, 130, 96, MH_BF16, true, true, true, true, false},
    {1, 2, 1, 70, 70, 1024, MH_F16, true, false, true, false, false},
    {1, 2, 1, 70, 70, 1024, MH_F32, false, true, false, true, false},
    {1, 1, 1, 1, 3000, 64, MH_F32, false, false, true, false, false},
    {1, 2, 1, 2, 3000, 64, MH_BF16, false, false, false, true, false},
    {1, 2, 2, 60, 60, 32, MH_F32, true, false, true, false, true},
};

static void attend(scene *s, const problem *p)
{
    mh_context *c = s->objects.context;
    static const int64_t starts[] = {0, 20, 60};
    const mh_tensor q = mh_tensor_4d(floats[0], p->dtype, p->B, p->H, p->T, p->E);
    const mh_tensor k = mh_tensor_4d(floats[1], p->dtype, p->B, p->G, p->S, p->E);
    const mh_tensor v = mh_tensor_4d(floats[2], p->dtype, p->B, p->G, p->S, p->E);
    mh_tensor out = mh_tensor_4d(floats[3], p->dtype, p->B, p->H, p->T, p->E);
    const mh_tensor dout = mh_tensor_4d(floats[4], p->dtype, p->B, p->H, p->T, p->E);
    mh_tensor dq = mh_tensor_4d(floats[5], p->dtype, p->B, p->H, p->T, p->E);
    mh_tensor dk = mh_tensor_4d(floats[6], p->dtype, p->B, p->G, p->S, p->E);
    mh_tensor dv = mh_tensor_4d(floats[7], p->dtype, p->B, p->G, p->S, p->E);
    mh_tensor lse = mh_tensor_3d(floats[8], MH_F32, p->B, p->H, p->T);
    const size_t sequences = p->packed ? 2 : p->B, longest = p->packed ? 40 : p->T;
    mh_tensor weights =
        mh_tensor_4d(floats[9], MH_F32, sequences, p->H, longest, p->packed ? 40 : p->S);
    const mh_mask mask = mh_mask_make(MH_MASK_ADD, mh_tensor_2d(floats[10], MH_F32, p->T, p->S));
    mh_tensor dmask = mh_tensor_2d(floats[11], MH_F32, p->T, p->S);
    mh_tensor *const dmasks[] = {&dmask};
    mh_attention_options o = mh_attention_options_default();
    mh_attention_gradients g = mh_attention_gradients_default();
    mh_attention_plan plan = mh_attention_plan_default();
    size_t bytes;
    o.causal = p->causal ? MH_CAUSAL : MH_CAUSAL_NONE;
    o.dropout = p->dropout ? 0.1f : 0;
    o.lse = &lse;
    o.weights = p->weights ? &weights : NULL;
    if (p->masked) {
        o.masks = &mask;
        o.mask_count = 1;
        g.dmasks = dmasks;
        o.softcap = 20;
        o.alibi = true;
    }
    if (p->packed) {
        o.sequences = 2;
        o.query_starts = o.key_starts = starts;
    }
    g.dq = &dq, g.dk = &dk, g.dv = &dv;
    ok(s, mh_attention_forward(c, &o, &q, &k, &v, &out));
    ok(s, mh_attention_explain(c, &o, &q, &k, &v, &out, &plan));
    ok(s, mh_attention_workspace(c, &o, &q, &k, &v, &out, &bytes));
    ok(s, mh_attention_backward(c, &o, &q, &k, &v, &out, &dout, &g));
    for (int scheme = 0; scheme < 2 && !p->packed && !p->weights; scheme++) {
        const mh_communicator alone = mh_communicator_default();
        mh_sharding sharding = mh_sharding_default();
        mh_sharded_plan sharded = mh_sharded_plan_default();
        sharding.queries = p->T, sharding.keys = p->S;
        sharding.scheme = (mh_shard_scheme)scheme;
        g.dmasks = NULL;
        ok(s, mh_sharded_attention_forward(c, &alone, &sharding, &o, &q, &k, &v, &out));
        ok(s, mh_sharded_attention_backward(c, &alone, &sharding, &o, &q, &k, &v, &out, &dout, &g));
        ok(s, mh_sharded_attention_explain(c, &alone, &sharding, &o, &q, &k, &v, &out, true,
                                           &sharded));
    }
}

static void attention(scene *s)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        attend(s, &problems[i]);
}

static void caches(scene *s)
{
    static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};
    mh_context *c = s->objects.context;
    for (size_t i = 0; i < 3; i++) {
        const mh_tensor kv = mh_tensor_4d(floats[0], MH_F32, 1, 2, 600, 128);
        const mh_tensor q = mh_tensor_4d(floats[1], MH_F32, 1, 4, 1, 128);
        mh_tensor out = mh_tensor_4d(floats[2], MH_F32, 1, 4, 1, 128);
        mh_kv_cache_options o = mh_kv_cache_options_default();
        mh_kv_cache *cache;
        const size_t parents[] = {0, 0};
        o.sequences = 1, o.heads = 2, o.key_width = 128, o.dtype = dtypes[i];
        ok(s, mh_kv_cache_create(c, &o, &cache));
        ok(s, mh_kv_cache_append(c, cache, NULL, &kv, &kv));
        ok(s, mh_attention_cached(c, NULL, &q, cache, &out));
        ok(s, mh_kv_cache_select(c, cache, parents, 2));
        mh_kv_cache_free(cache);
    }
}

static void products(scene *s)
{
    static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};
    for (size_t i = 0; i < 9; i++) {
        const mh_tensor a = mh_tensor_2d(floats[0], dtypes[i % 3], 300, 500);
        const mh_tensor b = mh_tensor_2d(floats[1], dtypes[i / 3], 500, 700);
        mh_tensor c = mh_tensor_2d(floats[2], dtypes[i % 3], 300, 700);
        mh_tensor row = mh_tensor_slice(a, 0, 0, 1), to = mh_tensor_slice(c, 0, 0, 1);
        ok(s, mh_matmul(s->objects.context, &a, &b, &c));
        ok(s, mh_matmul(s->objects.context, &row, &b, &to));
    }
}

static void objects_of_all_kinds(scene *s)
{
    api_objects again = {0};
    memcpy(again.directory, s->objects.directory, sizeof again.directory);
    api_objects_make(s->objects.context, &again);
    api_objects_free(&again);
}

static void files_and_text(scene *s)
{
    mh_context *c = s->objects.context;
    const api_objects *o = &s->objects;
    const mh_text texts[] = {{"un deux trois", 13}, {"one two three", 13}};
    const mh_trace *trace = mh_trace_file_trace(o->trace_file);
    mh_buffer bytes = {0};
    mh_tokens tokens = {0};
    mh_buffer text = {0};
    mh_bleu_score bleu = mh_bleu_score_default();
    double chrf;
    ok(s, mh_translator_save(c, o->translator, api_path(o, "model"), MH_F32));
    ok(s, mh_tokenizer_save(c, o->tokenizer, api_path(o, "tokenizer.json")));
    ok(s, mh_tokenizer_encode(c, o->tokenizer, texts[0].bytes, texts[0].size, &tokens));
    ok(s, mh_tokenizer_decode(c, o->tokenizer, tokens.ids, tokens.count, &text));
    ok(s, mh_bleu(c, &texts[0], &texts[1], 1, 1, true, &bleu));
    ok(s, mh_chrf(c, &texts[0], &texts[1], 1, 1, 2, true, &chrf));
    ok(s, mh_trace_write(c, api_path(o, "trace.safetensors"), trace));
    ok(s, mh_view_page(c, NULL, trace, &bytes));
    ok(s, mh_view_data(c, NULL, trace, &bytes));
    ok(s, mh_view_text(c, NULL, trace, &bytes));
    mh_buffer_free(c, &bytes);
    mh_tokens_free(c, &tokens);
    mh_buffer_free(c, &text);
    // Refusals print.
    mh_tensor_file *none;
    if (mh_tensor_file_open(c, "/nowhere/at/all", &none) == MH_OK)
        abort();
}

static void translation(scene *s)
{
    const mh_text texts[] = {{"un deux trois", 13}, {"trois. deux. un un un un un un un.", 33}};
    mh_translate_options o = mh_translate_options_default();
    mh_translations *found;
    o.attention = true;
    o.n_best = 2;
    ok(s, mh_translate(s->objects.context, s->objects.loaded_translator, &o, texts, 2, &found));
    mh_translations_free(found);
}

// A few updates, a validation, and the charts of the log.
static void training(scene *s)
{
    static const char *const left[] = {"config.json", "tokenizer.json", "model.safetensors",
                                       "README.md",   "log.jsonl",      "checkpoint.safetensors",
                                       "loss.svg"};
    mh_context *c = s->objects.context;
    const api_objects *a = &s->objects;
    mh_train_options o = mh_train_options_default();
    mh_train_result result = mh_train_result_default();
    mh_buffer bytes = {0};
    char data[96], directory[96], path[160];
    snprintf(data, sizeof data, "%s/data.tsv", a->directory);
    snprintf(directory, sizeof directory, "%s/run", a->directory);
    FILE *stream = fopen(data, "w");
    for (int i = 0; i < 20; i++)
        fprintf(stream, "un deux trois %d\tone two three %d\n", i, i);
    fclose(stream);
    o.data = o.valid = data;
    o.directory = directory;
    o.merges = 20;
    mh_translator_config model = mh_translator_config_default();
    model.d_model = 16, model.nhead = 2, model.dim_feedforward = 32;
    model.num_encoder_layers = model.num_decoder_layers = 1;
    o.model = &model;
    o.batch_tokens = 100;
    o.after = (mh_duration){3, MH_UPDATES};
    ok(s, mh_train(c, &o, &result));
    snprintf(path, sizeof path, "%s/log.jsonl", directory);
    ok(s, mh_view_curve(c, path, &bytes));
    ok(s, mh_view_curve_text(c, path, 60, &bytes));
    mh_buffer_free(c, &bytes);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, left[i]);
        unlink(path);
    }
    for (int i = 0; i < 10; i++) {
        snprintf(path, sizeof path, "%s/snapshot-%d.safetensors", directory, i);
        unlink(path);
    }
    rmdir(directory);
    unlink(data);
}

static const struct {
    const char *name;
    act_fn act;
} acts[] = {
    {"contexts", contexts},
    {"every function", every_function},
    {"attention", attention},
    {"caches", caches},
    {"products", products},
    {"objects", objects_of_all_kinds},
    {"files and text", files_and_text},
    {"translation", translation},
    {"training", training},
};

static void check_level(const char *level)
{
    scene s = {.level = level, .threads = 2};
    mh_context *context = test_context(level, s.threads);
    api_files_make(context, &s.objects);
    api_objects_make(context, &s.objects);
    const size_t idle = depth_of(nothing, &s);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        const size_t depth = depth_of(acts[i].act, &s) - idle;
        print_message("%s: %zu bytes\n", acts[i].name, depth);
        if (depth > LIMIT)
            fail_msg("%s at level %s: found %zu bytes of stack, expected at most %d", acts[i].name,
                     level, depth, LIMIT);
    }
    api_objects_free(&s.objects);
    mh_context_free(context);
    api_files_free(&s.objects);
}

static void calls_need_little_stack(void **state)
{
    (void)state;
#ifdef SANITIZED
    print_message("sanitizers make frames larger: not measured\n");
    skip();
#endif
    test_rng rng = {test_seed()};
    for (size_t i = 0; i < 12; i++)
        for (size_t k = 0; k < MOST_FLOATS; k++)
            floats[i][k] = (float)test_uniform(&rng, -1, 1);
    test_at_levels(check_level);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_need_little_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
