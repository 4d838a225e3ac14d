// SPDX-License-Identifier: MIT
// What mh_attention_explain says against what mh_attention_forward then does, at every level. The
// workspace is counted by the context's allocator, tasks and threads by its parallel loop, and
// query tiles by a kernel table whose softmax steps count their calls: the softmax runs once per
// live tile, or, on an edge, once per smaller tile of at most f32.rows rows.
#include "attention_case.h"
#include "base/context.h"
#include "kernels/kernels.h"

enum { CASES = 300 };

// ---- counting -----------------------------------------------------------------------------------

static struct counts {
    size_t held, peak;     // bytes of the allocator
    size_t loops, tasks;   // parallel loops, and turns of the first one
    size_t passes, masked; // softmax steps, and those with masked or modified scores
    size_t scored, most;   // score_row since the last step; the most rows of a step
} counts;

static const mh_kernels *real;

static void *count_alloc(void *user, size_t size, size_t alignment)
{
    (void)user;
    counts.held += size;
    counts.peak = counts.held > counts.peak ? counts.held : counts.peak;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void count_release(void *user, void *memory, size_t size)
{
    (void)user;
    counts.held -= size;
    free(memory);
}

static void count_loop(void *user, size_t threads, size_t count, mh_task_fn task, void *arg)
{
    (void)user;
    if (counts.loops++ == 0)
        counts.tasks = count;
    for (size_t i = 0; i < count; i++)
        task(arg, i, i % threads);
}

static void count_pass(size_t m)
{
    counts.passes++;
    counts.masked += counts.scored > 0;
    counts.scored = 0;
    counts.most = m > counts.most ? m : counts.most;
}

static void count_score(const mh_score_map *map, size_t n, float *x)
{
    counts.scored++;
    real->attention.score_row(map, n, x);
}

static void count_step(const mh_softmax_step *step)
{
    count_pass(step->m);
    real->attention.softmax_step(step);
}

static void count_short(size_t m, size_t n, float scale, float *s, float *max, float *sum)
{
    count_pass(m);
    real->attention.short_softmax(m, n, scale, s, max, sum);
}

static mh_context *counting_context(const char *level, size_t threads)
{
    mh_context_options o = mh_context_options_default();
    mh_context *context;
    o.isa = level;
    o.threads = threads;
    o.allocator = (mh_allocator){.alloc = count_alloc, .release = count_release};
    o.parallel_for = count_loop;
    assert_int_equal(mh_context_create(&o, &context, NULL, 0), MH_OK);
    return context;
}

// ---- one call -----------------------------------------------------------------------------------

// Ways through the code that some case has taken.
static struct ways {
    bool straight, split, online, threads, serial, dead, edges, whole;
} seen;

static bool has_additive(const mh_attention_options *o)
{
    for (size_t i = 0; i < o->mask_count; i++)
        if (o->masks[i].kind == MH_MASK_ADD)
            return true;
    return false;
}

static void check_tiles(const mh_kernels *kernels, const mh_attention_options *o,
                        const mh_attention_plan *plan)
{
    const bool straight = plan->key_tile < MH_KEY_TILE;
    const uint64_t full = plan->tiles - plan->dead_tiles - plan->edge_tiles;
    const size_t smaller =
        straight ? 1 : (plan->query_rows + kernels->f32.rows - 1) / kernels->f32.rows;
    assert_true(counts.most <= plan->query_rows);
    assert_in_range(counts.passes, full + plan->edge_tiles, full + smaller * plan->edge_tiles);
    if (!(o->softcap > 0) && !o->alibi && !has_additive(o)) {
        assert_true(counts.masked <= smaller * plan->edge_tiles);
        assert_true(smaller > 1 || counts.masked == plan->edge_tiles);
    }
    seen.straight |= straight && counts.passes > 1;
    seen.online |= !straight && counts.passes > 1;
    seen.dead |= plan->dead_tiles > 0;
    seen.edges |= plan->edge_tiles > 0 && full > 0;
    seen.whole |= !straight && counts.most == plan->query_rows;
}

static void check_tasks(const mh_attention_plan *plan, bool weights)
{
    assert_int_equal(counts.loops > 0, plan->threads > 1); // a loop of one turn is no loop
    if (plan->threads > 1)
        assert_int_equal(counts.tasks, plan->tasks);
    seen.threads |= plan->threads > 1;
    seen.serial |= plan->threads == 1;
    seen.split |= counts.loops == 2 && !weights; // the second one merges
}

// Explains on one context and runs on another, whose scratch memory is still empty.
static void check_call(const char *level, size_t threads, bool small_tiles,
                       const mh_attention_options *options, const mh_tensor *q, const mh_tensor *k,
                       const mh_tensor *v, mh_tensor *out)
{
    mh_context *contexts[2];
    mh_kernels kernels;
    for (int i = 0; i < 2; i++) {
        contexts[i] = counting_context(level, threads);
        real = contexts[i]->kernels;
        kernels = *real;
        kernels.attention.score_row = count_score;
        kernels.attention.softmax_step = count_step;
        kernels.attention.short_softmax = count_short;
        kernels.attention.query_rows =
            small_tiles ? kernels.f32.rows : kernels.attention.query_rows;
        contexts[i]->kernels = &kernels;
    }
    mh_attention_plan plan = mh_attention_plan_default();
    test_ok(contexts[0], mh_attention_explain(contexts[0], options, q, k, v, out, &plan));
    const size_t before = counts.held;
    counts = (struct counts){.held = before, .peak = before};
    test_ok(contexts[1], mh_attention_forward(contexts[1], options, q, k, v, out));
    assert_int_equal(counts.peak - before, plan.workspace);
    check_tasks(&plan, options->weights != NULL);
    const bool halves = q->dtype == MH_BF16 && k->dtype == MH_BF16 && v->dtype == MH_BF16;
    if (!kernels.attention.softmax_tile || !(halves || options->precision == MH_PRECISION_BF16))
        check_tiles(&kernels, options, &plan);
    mh_context_free(contexts[0]);
    mh_context_free(contexts[1]);
}

// ---- calls --------------------------------------------------------------------------------------

static void random_calls(const char *level)
{
    static attention_case c;
    const size_t cases = test_cases(CASES);
    for (size_t n = 0; n < cases; n++) {
        attention_case_create(&c, test_seed() + n);
        check_call(level, n % 3 ? 3 : 1, n % 2, &c.options, &c.q.view, &c.k.view, &c.v.view,
                   &c.out.view);
        attention_case_free(&c);
    }
}

// Shapes that random cases hardly have: heads for many threads, few queries over many keys, whole
// tiles of queries, short sequences in one tile and in several.
static void chosen_calls(const char *level)
{
    static const struct {
        size_t B, H, G, T, S, E;
        mh_causal causal;
    } calls[] = {{2, 8, 8, 16, 16, 64, MH_CAUSAL_NONE}, {4, 16, 4, 30, 12, 64, MH_CAUSAL_NONE},
                 {1, 4, 1, 1, 9, 32, MH_CAUSAL_NONE},   {1, 8, 2, 1, 2100, 64, MH_CAUSAL_NONE},
                 {1, 2, 2, 7, 1500, 64, MH_CAUSAL},     {1, 2, 2, 192, 192, 64, MH_CAUSAL},
                 {1, 1, 1, 300, 700, 16, MH_CAUSAL},    {2, 2, 1, 96, 128, 32, MH_CAUSAL_NONE}};
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        const size_t queries[4] = {calls[n].B, calls[n].H, calls[n].T, calls[n].E};
        const size_t keys[4] = {calls[n].B, calls[n].G, calls[n].S, calls[n].E};
        test_tensor q = test_tensor_dense(MH_F32, 4, queries);
        test_tensor k = test_tensor_dense(MH_F32, 4, keys);
        test_tensor out = test_tensor_dense(MH_F32, 4, queries);
        test_rng rng = {n};
        test_fill_normal(&rng, &q.view, 1);
        test_fill_normal(&rng, &k.view, 1);
        mh_attention_options o = mh_attention_options_default();
        o.causal = calls[n].causal == MH_CAUSAL ? MH_CAUSAL_BOTTOM_RIGHT : MH_CAUSAL_NONE;
        for (size_t threads = 1; threads <= 4; threads += 3)
            for (int small = 0; small < 2; small++)
                check_call(level, threads, small, &o, &q.view, &k.view, &k.view, &out.view);
        test_tensor_free(&q);
        test_tensor_free(&k);
        test_tensor_free(&out);
    }
}

static void plans(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        random_calls(test_level(level));
        chosen_calls(test_level(level));
        assert_true(seen.straight && seen.split && seen.online && seen.threads && seen.serial &&
                    seen.dead && seen.edges && seen.whole);
        seen = (struct ways){0};
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
