// SPDX-License-Identifier: MIT
// Sharded attention has the bits of one process, for any number of ranks, order, scheme and
// options, forward and backward; it sends what explain says; and where one rank cannot go on, all
// say so.
//
// $MH_TEST_CASES option sets at the best level, a tenth of them at the others, each with one number
// of ranks, order and scheme in turn, or with every number of ranks and both schemes if
// $MH_TEST_ALL_RANKS is set.
#include "sharded_case.h"

enum { MOST_RANKS = SHARDED_RANKS_MOST };

static void check_ranks(sharded_case *s)
{
    rank_traffic traffic[MOST_RANKS];
    char why[2048];
    for (size_t r = 0; r < s->ranks; r++)
        sharded_case_make_shard(s, r);
    thread_ranks_run(s->ranks, sharded_case_run, s, traffic);
    for (size_t r = 0; r < s->ranks; r++) {
        if (!sharded_case_is_right(s, r, &traffic[r], why, sizeof why))
            fail_msg("%s", why);
        sharded_case_free_shard(s, r);
    }
}

static void check_case(mh_context *context, uint64_t seed, size_t turn, size_t work)
{
    static sharded_case s;
    sharded_case_create(context, &s, seed, work);
    const bool all = getenv("MH_TEST_ALL_RANKS");
    for (size_t ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int scheme = 0; scheme < 2; scheme++)
            if (all || turn % (2 * MOST_RANKS) == (ranks - 1) * 2 + (size_t)scheme) {
                s.ranks = ranks, s.sharding.scheme = (mh_shard_scheme)scheme;
                check_ranks(&s);
            }
    sharded_case_free(&s);
}

static void test_bits_of_one_process(void **state)
{
    (void)state;
    const size_t cases = test_cases(200);
    size_t levels = 0;
    while (test_level(levels))
        levels++;
    for (size_t level = 0; level < levels; level++) {
        const bool best = level + 1 == levels;
        mh_context *context = test_context(test_level(level), 2);
        for (size_t n = 0; n < (best ? cases : (cases + 9) / 10); n++)
            check_case(context, test_seed() + n, n, best ? 200000000 : 24000000);
        mh_context_free(context);
    }
}

// ---- positions ----------------------------------------------------------------------------------

// Every position is on one rank, rows ascend, and chunks are balanced.
static void test_positions(void **state)
{
    (void)state;
    static unsigned char seen[20000];
    test_rng rng = {7};
    for (int n = 0; n < 300; n++) {
        mh_sharding s = mh_sharding_default();
        const size_t length = test_between(&rng, 0, n % 2 ? 20000 : 3000);
        const size_t ranks = test_between(&rng, 1, 9);
        s.order = test_chance(&rng, 0.5) ? MH_SHARD_ZIGZAG : MH_SHARD_CONTIGUOUS;
        if (s.order == MH_SHARD_ZIGZAG)
            s.chunk = test_between(&rng, 0, 2) * MH_SHARD_UNIT;
        memset(seen, 0, sizeof seen);
        size_t all = 0;
        for (size_t r = 0; r < ranks; r++) {
            const size_t rows = mh_shard_length(&s, length, ranks, r);
            size_t before = 0;
            for (size_t i = 0; i < rows; i++) {
                const size_t position = mh_shard_position(&s, length, ranks, r, i);
                assert_true(position < length && !seen[position]++);
                assert_true(i == 0 || position > before);
                before = position;
            }
            assert_int_equal(mh_shard_position(&s, length, ranks, r, rows), length);
            all += rows;
        }
        assert_int_equal(all, length);
    }
    mh_sharding wrong = mh_sharding_default();
    assert_int_equal(mh_shard_length(NULL, 10, 2, 0), 0);
    assert_int_equal(mh_shard_length(&wrong, 10, 2, 2), 0);
    wrong.chunk = 100;
    assert_int_equal(mh_shard_length(&wrong, 10, 2, 0), 0);
    wrong.chunk = MH_SHARD_UNIT;
    assert_int_equal(mh_shard_length(&wrong, 10, 2, 0), 10);
    wrong.order = MH_SHARD_CONTIGUOUS; // in which there are no chunks to choose
    assert_int_equal(mh_shard_length(&wrong, 10, 2, 0), 0);
    wrong.chunk = 0;
    wrong.order = (mh_shard_order)2;
    assert_int_equal(mh_shard_length(&wrong, 10, 2, 0), 0);
}

// ---- messages -----------------------------------------------------------------------------------

// A call of f32 tensors of 4 query and 2 key/value heads, E = 8, whose data does not matter.
typedef struct plain_case {
    mh_sharding sharding;
    mh_attention_options options;
    mh_context_options contexts;
    size_t rows_off; // of rank 1's q, for a wrong argument
    size_t cancels;  // 1 + the rank that is cancelled
    bool backward, planned;
    mh_status status[MOST_RANKS];
    char message[MOST_RANKS][256];
    mh_sharded_plan plans[MOST_RANKS];
} plain_case;

enum { HEADS = 4, GROUPS = 2, WIDTH = 8 };

static mh_tensor plain_tensor(size_t heads, size_t rows, size_t width)
{
    float *data = calloc(heads * rows * width + 1, sizeof *data);
    assert_non_null(data);
    return mh_tensor_4d(data, MH_F32, 1, heads, rows, width);
}

static void run_plain(const mh_communicator *c, void *user)
{
    plain_case *p = user;
    const mh_sharding *s = &p->sharding;
    const size_t t =
        mh_shard_length(s, s->queries, c->ranks, c->rank) + (c->rank == 1 ? p->rows_off : 0);
    const size_t n = mh_shard_length(s, s->keys, c->ranks, c->rank);
    mh_tensor x[] = {plain_tensor(HEADS, t, WIDTH),  plain_tensor(GROUPS, n, WIDTH),
                     plain_tensor(GROUPS, n, WIDTH), plain_tensor(HEADS, t, WIDTH),
                     plain_tensor(HEADS, t, 1),      plain_tensor(HEADS, t, WIDTH),
                     plain_tensor(HEADS, t, WIDTH),  plain_tensor(GROUPS, n, WIDTH),
                     plain_tensor(GROUPS, n, WIDTH)};
    mh_context *context;
    assert_int_equal(mh_context_create(&p->contexts, &context, NULL, 0), MH_OK);
    mh_attention_options options = p->options;
    mh_attention_gradients gradients = mh_attention_gradients_default();
    gradients.dq = &x[6], gradients.dk = &x[7], gradients.dv = &x[8];
    x[4].rank = 3;
    options.lse = &x[4];
    p->plans[c->rank] = mh_sharded_plan_default();
    mh_status status = MH_OK;
    if (p->planned)
        status = mh_sharded_attention_explain(context, c, s, &options, &x[0], &x[1], &x[2], &x[3],
                                              p->backward, &p->plans[c->rank]);
    if (p->cancels == c->rank + 1)
        mh_context_cancel(context);
    if (!status)
        status = p->backward ? mh_sharded_attention_backward(context, c, s, &options, &x[0], &x[1],
                                                             &x[2], &x[3], &x[5], &gradients)
                             : mh_sharded_attention_forward(context, c, s, &options, &x[0], &x[1],
                                                            &x[2], &x[3]);
    p->status[c->rank] = status;
    snprintf(p->message[c->rank], sizeof p->message[0], "%s", mh_error_message(context));
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        free(x[i].data);
    mh_context_free(context);
}

static plain_case make_plain(size_t length)
{
    plain_case p = {.sharding = mh_sharding_default(),
                    .options = mh_attention_options_default(),
                    .contexts = mh_context_options_default()};
    p.sharding.queries = p.sharding.keys = length;
    p.contexts.threads = 1;
    return p;
}

// Messages and bytes are as explain says; and what one would count by hand.
static void test_traffic(void **state)
{
    (void)state;
    enum { LENGTH = 6 * 512 + 100 };
    for (size_t n = 0; n < MOST_RANKS * 2 * 2 * 2 * 3; n++) {
        plain_case p = make_plain(LENGTH);
        rank_traffic traffic[MOST_RANKS];
        const size_t ranks = n % MOST_RANKS + 1;
        p.sharding.scheme = (mh_shard_scheme)(n / MOST_RANKS % 2);
        p.sharding.order = (mh_shard_order)(n / MOST_RANKS / 2 % 2);
        p.backward = n / MOST_RANKS / 4 % 2;
        p.planned = true;
        const size_t kind = n / MOST_RANKS / 8; // all keys, causal, window
        p.options.causal = kind ? MH_CAUSAL : MH_CAUSAL_NONE;
        p.options.window_left = kind == 2 ? 300 : -1;
        thread_ranks_run(ranks, run_plain, &p, traffic);
        uint64_t sent = 0, received = 0;
        bool all_hold = true;
        for (size_t r = 0; r < ranks; r++) {
            const mh_sharded_plan *plan = &p.plans[r];
            if (p.status[r])
                fail_msg("rank %zu: %s", r, p.message[r]);
            assert_int_equal(plan->messages_sent, traffic[r].messages_sent);
            assert_int_equal(plan->bytes_sent, traffic[r].bytes_sent);
            assert_int_equal(plan->messages_received, traffic[r].messages_received);
            assert_int_equal(plan->bytes_received, traffic[r].bytes_received);
            all_hold &= plan->query_rows > 0;
            sent += plan->bytes_sent, received += plan->bytes_received;
            assert_true(plan->balance > 0 && plan->balance <= 1);
        }
        assert_int_equal(sent, received);
        size_t rounds = 0;
        while ((size_t)1 << rounds < ranks)
            rounds++;
        const size_t keys = (size_t)LENGTH * GROUPS * 2 * WIDTH * sizeof(float); // all k and v
        if (p.sharding.scheme == MH_SHARD_RING && kind == 0 && !p.backward && all_hold)
            assert_int_equal(sent, keys * (ranks - 1) + ranks * rounds * 32);
        if (p.sharding.order == MH_SHARD_CONTIGUOUS && kind == 2 && !p.backward &&
            p.sharding.scheme == MH_SHARD_RING) // at most the 512 keys before a rank's own
            assert_true(sent <= ranks * (keys / 6 + rounds * 32));
    }
}

// ---- errors -------------------------------------------------------------------------------------

static void all_refuse(plain_case *p, size_t ranks, mh_status expected, size_t own,
                       const char *word)
{
    thread_ranks_run(ranks, run_plain, p, NULL);
    for (size_t r = 0; r < ranks; r++) {
        assert_int_equal(p->status[r], expected);
        if ((own == ranks || own == r) && !strstr(p->message[r], word))
            fail_msg("rank %zu: found \"%s\", expected \"%s\"", r, p->message[r], word);
        if (own < ranks && r != own && !strstr(p->message[r], "rank 1: "))
            fail_msg("rank %zu: found \"%s\", expected the other rank's error", r, p->message[r]);
    }
}

// A level of its own on the last rank.
static void run_other_level(const mh_communicator *c, void *user)
{
    plain_case own = *(plain_case *)user;
    own.contexts.isa = c->rank + 1 == c->ranks ? "scalar" : NULL;
    run_plain(c, &own);
    ((plain_case *)user)->status[c->rank] = own.status[c->rank];
    memcpy(((plain_case *)user)->message[c->rank], own.message[c->rank], sizeof own.message[0]);
}

// Sinks, or a mask, of its own on the last rank.
static void run_other_arrays(const mh_communicator *c, void *user)
{
    float sinks[HEADS] = {1, 2, 3, 4};
    bool live[2000] = {false};
    plain_case own = *(plain_case *)user;
    const bool last = c->rank + 1 == c->ranks;
    const mh_mask mask =
        mh_mask_make(last ? MH_MASK_DROP : MH_MASK_KEEP, mh_tensor_1d(live, MH_BOOL, 2000));
    if (own.options.mask_count)
        own.options.masks = &mask;
    else
        own.options.sinks = sinks;
    sinks[HEADS - 1] += last;
    run_plain(c, &own);
    ((plain_case *)user)->status[c->rank] = own.status[c->rank];
}

static void test_disagreement(void **state)
{
    (void)state;
    for (size_t ranks = 2; ranks <= 5; ranks++) {
        plain_case p = make_plain(2000);
        p.rows_off = 1; // rank 1 fails, the others say which rank did
        all_refuse(&p, ranks, MH_ERROR_ARGUMENT, 1, "dimension 2 (rank 1's of 2000 positions)");
        for (size_t masks = 0; masks < 2; masks++) {
            p = make_plain(2000);
            p.options.mask_count = masks;
            thread_ranks_run(ranks, run_other_arrays, &p, NULL);
            for (size_t r = 0; r < ranks; r++)
                assert_int_equal(p.status[r], MH_ERROR_ARGUMENT);
        }
        if (test_level(1)) {
            p = make_plain(2000);
            thread_ranks_run(ranks, run_other_level, &p, NULL);
            for (size_t r = 0; r < ranks; r++) {
                assert_int_equal(p.status[r], MH_ERROR_ARGUMENT);
                assert_non_null(strstr(p.message[r], "instruction-set levels"));
            }
        }
    }
}

static void test_unsupported(void **state)
{
    (void)state;
    float number;
    mh_tensor weights = mh_tensor_4d(&number, MH_F32, 1, 1, 1, 1);
    plain_case p = make_plain(1000);
    p.options.weights = &weights;
    all_refuse(&p, 2, MH_ERROR_UNSUPPORTED, 2, "weights: not available");
    p = make_plain(1000);
    p.options.sequences = 1;
    all_refuse(&p, 2, MH_ERROR_UNSUPPORTED, 2, "document ids");
    p = make_plain(1000);
    p.sharding.chunk = 100;
    p.sharding.queries = p.sharding.keys = 0;
    all_refuse(&p, 2, MH_ERROR_ARGUMENT, 2, "sharding.chunk: found 100, expected");
    p = make_plain(1000);
    p.options.window_left = -7;
    all_refuse(&p, 2, MH_ERROR_ARGUMENT, 2, "window_left: found -7");
}

// A cancelled rank goes on sending: the others have their results, or an error, but never wait.
static void test_cancelled(void **state)
{
    (void)state;
    for (int scheme = 0; scheme < 2; scheme++) {
        plain_case p = make_plain(3000);
        p.sharding.scheme = (mh_shard_scheme)scheme;
        p.cancels = 2;
        thread_ranks_run(3, run_plain, &p, NULL);
        for (size_t r = 0; r < 3; r++)
            assert_int_equal(p.status[r], r == 1 || scheme ? MH_ERROR_CANCELLED : MH_OK);
    }
}

static mh_status send_fails(void *user, size_t to, const void *data, size_t bytes,
                            mh_transfer *transfer)
{
    (void)user, (void)to, (void)data, (void)bytes, (void)transfer;
    return MH_ERROR_FILE;
}
static mh_status receive_nothing(void *user, size_t from, void *data, size_t bytes,
                                 mh_transfer *transfer)
{
    (void)user, (void)from, (void)data, (void)bytes, (void)transfer;
    return MH_OK;
}
static mh_status test_nothing(void *user, mh_transfer *transfer, bool wait, bool *done)
{
    (void)user, (void)transfer, (void)wait;
    *done = true;
    return MH_OK;
}

static void test_communicator(void **state)
{
    (void)state;
    plain_case p = make_plain(1000);
    mh_communicator c = mh_communicator_default();
    c.ranks = 2;
    run_plain(&c, &p);
    assert_int_equal(p.status[0], MH_ERROR_ARGUMENT);
    assert_non_null(strstr(p.message[0], "expected functions"));
    c.send = send_fails, c.receive = receive_nothing, c.test = test_nothing;
    run_plain(&c, &p);
    assert_int_equal(p.status[0], MH_ERROR_FILE);
    assert_non_null(strstr(p.message[0], "communicator: rank 0: file error"));
    c.rank = 2;
    p.sharding.queries = p.sharding.keys = 0;
    c.ranks = 2;
    mh_context *context = test_context(NULL, 1);
    mh_tensor none = mh_tensor_4d(NULL, MH_F32, 1, 1, 0, 1);
    test_refused(
        context,
        mh_sharded_attention_forward(context, &c, &p.sharding, NULL, &none, &none, &none, &none),
        MH_ERROR_ARGUMENT, "rank 2 of 2");
    mh_context_free(context);
}

// Of two ranks the second runs out of memory, at each of its allocations in turn.
static void run_with_memory(const mh_communicator *c, void *user)
{
    plain_case own = *(plain_case *)user;
    if (c->rank == 0)
        own.contexts.allocator = mh_context_options_default().allocator;
    run_plain(c, &own);
    ((plain_case *)user)->status[c->rank] = own.status[c->rank];
}

static void test_memory_of_one_rank(void **state)
{
    (void)state;
    for (int scheme = 0; scheme < 2; scheme++) {
        size_t failures = 0;
        for (size_t fail_at = 2;; fail_at++) {
            test_memory memory = {.fail_at = fail_at};
            plain_case p = make_plain(1500);
            p.sharding.scheme = (mh_shard_scheme)scheme;
            p.contexts.allocator = test_allocator(&memory);
            thread_ranks_run(2, run_with_memory, &p, NULL);
            assert_int_equal(p.status[1], p.status[0]);
            assert_true(p.status[1] == MH_OK || p.status[1] == MH_ERROR_MEMORY);
            assert_int_equal(memory.live, 0);
            failures += p.status[1] != MH_OK;
            if (memory.calls < fail_at)
                break;
        }
        assert_true(failures > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions),    cmocka_unit_test(test_bits_of_one_process),
        cmocka_unit_test(test_traffic),      cmocka_unit_test(test_disagreement),
        cmocka_unit_test(test_unsupported),  cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_communicator), cmocka_unit_test(test_memory_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
