// SPDX-License-Identifier: MIT
// What the tests share: random numbers from a printed seed, tensors of random layout with
// guarded memory around them, one context for each instruction-set level, comparison within a
// bound.
//
// $MH_TEST_SEED   replaces the fixed seed of the random tests (a failure prints the one to use)
// $MH_TEST_CASES  replaces their number of cases
#ifndef MH_TESTS_SUPPORT_H
#define MH_TESTS_SUPPORT_H

#include <multihead/multihead.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> // wants the headers above

// ---- random numbers -------------------------------------------------------------------

typedef struct test_rng {
    uint64_t state;
} test_rng;

uint64_t test_seed(void); // $MH_TEST_SEED, or the fixed one
// $MH_TEST_CASES, or the usual number, but not more than $MH_TEST_CASES_MOST.
size_t test_cases(size_t usual);
uint64_t test_random(test_rng *rng);                         // 64 random bits
size_t test_between(test_rng *rng, size_t low, size_t high); // low..high, both included
bool test_chance(test_rng *rng, double probability);
double test_uniform(test_rng *rng, double low, double high);
double test_normal(test_rng *rng); // mean 0, variance 1, within +-6

// One of MH_F32, MH_BF16, MH_F16; f32 half of the time.
mh_dtype test_float_dtype(test_rng *rng);

// ---- contexts -------------------------------------------------------------------------

// The i-th level that is built in and that this CPU can run; NULL after the last.
const char *test_level(size_t i);

// A context of that level; the test fails if there is none. The caller frees it.
mh_context *test_context(const char *level, size_t threads);

// Runs `usual` random cases, or as many as the environment says, at every level, in turns with one
// thread and with three.
void test_run_cases(size_t usual, void (*run)(mh_context *context, uint64_t seed));

// Runs a check at every level and with each of f32, bf16 and f16, on contexts of so many threads.
void test_everywhere(size_t threads, void (*check)(mh_context *context, mh_dtype dtype));

// Runs a check for each level, and prints its name first.
void test_at_levels(void (*check)(const char *level));

// cmocka's set-up and tear-down: *state is a context of the best level with one thread.
int test_open_context(void **state);
int test_close_context(void **state);

// Fails the test with the context's message unless status is MH_OK.
void test_ok(mh_context *context, mh_status status);

// Fails the test unless `status` is as expected and the message contains `word`.
void test_refused(mh_context *context, mh_status status, mh_status expected, const char *word);

// Numbers get a decimal comma, until setlocale(LC_NUMERIC, "C"); skips the test where no locale has
// one.
void test_comma_locale(void);

// ---- memory ---------------------------------------------------------------------------

// Counts what goes through it, and fails the fail_at-th call (0: none).
typedef struct test_memory {
    size_t calls, fail_at, live;
} test_memory;
mh_allocator test_allocator(test_memory *memory);

// Calls `use` in a new context each time, in which allocation 1, 2, ... fails, until none does. It
// reports MH_ERROR_MEMORY or, as scratch memory that cannot grow by a quarter may still grow by
// what is needed, gets by without; works in the same context right after; and leaves nothing
// behind. Returns how often it reported.
size_t test_failing_allocations(const char *level, size_t threads,
                                mh_status (*use)(mh_context *context, void *user), void *user);

// ---- tensors --------------------------------------------------------------------------

// A view and the memory it is in. Between and around the elements there may be other bytes:
// NaN for inputs, so that reading them shows; for outputs a pattern, so that writing them does.
typedef struct test_tensor {
    mh_tensor view;
    unsigned char *bytes;
    size_t size;
} test_tensor;

// Dense in C order; every byte painted as an output's.
test_tensor test_tensor_dense(mh_dtype dtype, int rank, const size_t *shape);

// Random order of dimensions in memory, padding, negative strides; with `input`, now and then a
// dimension is broadcast by stride 0.
test_tensor test_tensor_random(test_rng *rng, mh_dtype dtype, int rank, const size_t *shape,
                               bool input);
void test_tensor_free(test_tensor *t); // all zeros is fine, so is twice

void test_fill_normal(test_rng *rng, const mh_tensor *t, double magnitude);
void test_fill_constant(const mh_tensor *t, double value);

// Paints every byte of an output; afterwards, whether only elements of the view have changed,
// and whether nothing at all has.
void test_paint(test_tensor *t);
bool test_guards_intact(const test_tensor *t);
bool test_untouched(const test_tensor *t);

// ---- comparison -----------------------------------------------------------------------

// The largest error that rounding `value` to dtype makes.
double test_rounding(mh_dtype dtype, double value);

// What is left of |found - expected| after rounding to dtype, over the bound: fine up to 1. 0 if
// both are NaN or the same infinity, +inf if only one is.
double test_error_ratio(double found, double expected, double bound, mh_dtype dtype);

// Whether two views of one shape and dtype have the same bits, those of NaNs, too; if not, `index`
// is the first place where they differ.
bool test_same_bits(const mh_tensor *a, const mh_tensor *b, size_t index[MH_MAX_RANK]);

// Maximum and root mean square of found - expected over n values.
typedef struct test_error {
    double max, rms;
} test_error;
test_error test_error_of(size_t n, const float *found, const double *expected);

#endif
