// SPDX-License-Identifier: MIT
// Collectives over ranks that are threads: what all have afterwards, and how much they send.
#include "support.h"
#include "thread_ranks.h"

enum { BYTES_MOST = 4096 };

typedef struct job {
    size_t starts[THREAD_RANKS_MOST + 1];
    size_t bytes; // of a broadcast
} job;

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 131 + i / 251 + 7); }

static void check_bytes(const unsigned char *data, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        assert_int_equal(data[i], byte_at(i));
}

static void gather(const mh_communicator *c, void *user)
{
    const job *j = user;
    unsigned char data[BYTES_MOST] = {0};
    for (size_t i = j->starts[c->rank]; i < j->starts[c->rank + 1]; i++)
        data[i] = byte_at(i);
    assert_int_equal(mh_communicator_gather(c, data, j->starts), MH_OK);
    check_bytes(data, 0, j->starts[c->ranks]);
    assert_int_equal(data[j->starts[c->ranks]], 0);
}

// Parts of any sizes, also none.
static void test_gather(void **state)
{
    rank_traffic traffic[THREAD_RANKS_MOST];
    (void)state;
    for (size_t ranks = 1; ranks <= THREAD_RANKS_MOST; ranks++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            test_rng rng = {seed};
            job j = {.starts = {0}};
            for (size_t r = 0; r < ranks; r++) {
                const size_t random = test_chance(&rng, 0.3) ? 0 : test_between(&rng, 1, 200);
                const size_t sizes[] = {r == ranks / 2, 50};
                j.starts[r + 1] = j.starts[r] + (seed < 2 ? sizes[seed] : random);
            }
            thread_ranks_run(ranks, gather, &j, traffic);
            for (size_t r = 0; r < ranks; r++) {
                const size_t own = j.starts[r + 1] - j.starts[r];
                assert_int_equal(traffic[r].bytes_received, j.starts[ranks] - own);
                if (seed == 1) // equal parts
                    assert_int_equal(traffic[r].bytes_sent, (ranks - 1) * 50);
                assert_true(traffic[r].messages_sent <= 2 * 4); // log2(16) steps
            }
        }
}

static void broadcast(const mh_communicator *c, void *user)
{
    const job *j = user;
    unsigned char data[BYTES_MOST] = {0};
    for (size_t i = 0; i < j->bytes && c->rank == 0; i++)
        data[i] = byte_at(i);
    assert_int_equal(mh_communicator_broadcast(c, data, j->bytes), MH_OK);
    check_bytes(data, 0, j->bytes);
}

static void test_broadcast(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= THREAD_RANKS_MOST; ranks++) {
        job j = {.bytes = ranks % 3 * 1000};
        thread_ranks_run(ranks, broadcast, &j, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_broadcast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
