// SPDX-License-Identifier: MIT
// The tests' helpers; see support.h.
#include "support.h"

#include "ref/ref_tensor.h"

#include <locale.h>

enum {
    PAINT = 0x7B,  // a loud finite number in f32, bf16 and f16
    POISON = 0xFF, // NaN in f32, bf16 and f16
    GUARD = 256,   // bytes on either side of an output
};

// ---- random numbers -------------------------------------------------------------------

static uint64_t environment_number(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : usual;
}

uint64_t test_seed(void) { return environment_number("MH_TEST_SEED", 20170612); }

size_t test_cases(size_t usual)
{
    const size_t most = (size_t)environment_number("MH_TEST_CASES_MOST", usual);
    return (size_t)environment_number("MH_TEST_CASES", most < usual ? most : usual);
}

// splitmix64: any seed is a good one.
uint64_t test_random(test_rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t test_between(test_rng *rng, size_t low, size_t high)
{
    return low + (size_t)(test_random(rng) % (high - low + 1));
}

double test_uniform(test_rng *rng, double low, double high)
{
    return low + (high - low) * ((double)(test_random(rng) >> 11) * 0x1p-53);
}

bool test_chance(test_rng *rng, double probability)
{
    return test_uniform(rng, 0, 1) < probability;
}

// The sum of 12 uniform numbers, less its mean, has variance 1: four 16-bit pieces from each of
// three draws.
double test_normal(test_rng *rng)
{
    double sum = 0;
    for (int draw = 0; draw < 3; draw++) {
        uint64_t bits = test_random(rng);
        for (int piece = 0; piece < 4; piece++, bits >>= 16)
            sum += (double)(bits & 0xFFFF) * 0x1p-16;
    }
    return sum - 6;
}

mh_dtype test_float_dtype(test_rng *rng)
{
    static const mh_dtype dtypes[] = {MH_F32, MH_F32, MH_BF16, MH_F16};
    return dtypes[test_between(rng, 0, 3)];
}

// ---- contexts -------------------------------------------------------------------------

const char *test_level(size_t i)
{
    for (const char *const *level = mh_isa_levels(); *level; level++)
        if (mh_isa_supported(*level) && i-- == 0)
            return *level;
    return NULL;
}

mh_context *test_context(const char *level, size_t threads)
{
    mh_context_options options = mh_context_options_default();
    options.isa = level;
    options.threads = threads;
    mh_context *context = NULL;
    char error[512];
    if (mh_context_create(&options, &context, error, sizeof error) != MH_OK)
        fail_msg("no context for %s with %zu threads: %s", level, threads, error);
    return context;
}

void test_run_cases(size_t usual, void (*run)(mh_context *context, uint64_t seed))
{
    for (size_t level = 0; test_level(level); level++) {
        mh_context *contexts[2] = {test_context(test_level(level), 1),
                                   test_context(test_level(level), 3)};
        for (size_t n = 0; n < test_cases(usual); n++)
            run(contexts[n % 2], test_seed() + n);
        mh_context_free(contexts[0]);
        mh_context_free(contexts[1]);
    }
}

void test_everywhere(size_t threads, void (*check)(mh_context *context, mh_dtype dtype))
{
    static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), threads);
        for (size_t d = 0; d < 3; d++)
            check(context, dtypes[d]);
        mh_context_free(context);
    }
}

void test_at_levels(void (*check)(const char *level))
{
    for (size_t level = 0; test_level(level); level++) {
        print_message("%s\n", test_level(level));
        check(test_level(level));
    }
}

int test_open_context(void **state)
{
    *state = test_context(NULL, 1);
    return 0;
}

int test_close_context(void **state)
{
    mh_context_free(*state);
    return 0;
}

void test_ok(mh_context *context, mh_status status)
{
    if (status != MH_OK)
        fail_msg("%s: %s", mh_status_name(status), mh_error_message(context));
}

void test_refused(mh_context *context, mh_status status, mh_status expected, const char *word)
{
    if (status != expected)
        fail_msg("expected \"%s\" about %s, found \"%s\"", mh_status_name(expected), word,
                 mh_status_name(status));
    if (!strstr(mh_error_message(context), word))
        fail_msg("the message should name %s: \"%s\"", word, mh_error_message(context));
}

void test_comma_locale(void)
{
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        return;
    print_message("no locale with a decimal comma here\n");
    skip();
}

// ---- memory ---------------------------------------------------------------------------

static void *count_alloc(void *user, size_t size, size_t alignment)
{
    test_memory *m = user;
    void *memory = NULL;
    if (++m->calls == m->fail_at || posix_memalign(&memory, alignment, size) != 0)
        return NULL;
    m->live += size;
    return memory;
}

static void count_release(void *user, void *memory, size_t size)
{
    test_memory *m = user;
    m->live -= memory ? size : 0;
    free(memory);
}

mh_allocator test_allocator(test_memory *memory)
{
    return (mh_allocator){count_alloc, count_release, memory};
}

size_t test_failing_allocations(const char *level, size_t threads,
                                mh_status (*use)(mh_context *context, void *user), void *user)
{
    bool failed = true;
    size_t n = 0, reported = 0;
    while (failed) {
        test_memory memory = {.fail_at = ++n};
        mh_context_options options = mh_context_options_default();
        mh_context *context = NULL;
        options.isa = level;
        options.threads = threads;
        options.allocator = test_allocator(&memory);
        mh_status status = mh_context_create(&options, &context, NULL, 0);
        if (!status)
            status = use(context, user);
        failed = memory.calls >= n;
        reported += status != MH_OK;
        assert_true(status == MH_OK || (failed && status == MH_ERROR_MEMORY));
        if (context && status) {
            assert_true(strlen(mh_error_message(context)) > 0);
            test_ok(context, use(context, user)); // it was only that once
        }
        mh_context_free(context);
        assert_int_equal(memory.live, 0);
    }
    print_message("%zu allocations failed in turn, %zu with an error\n", n - 1, reported);
    assert_true(reported + 5 >= n - 1);
    return reported;
}

// ---- tensors --------------------------------------------------------------------------

// Memory for the elements from offset `low` to `high` (in elements, both included) of a view
// whose first element is at 0.
static void allocate(test_tensor *t, ptrdiff_t low, ptrdiff_t high, size_t guard)
{
    size_t element = mh_dtype_size(t->view.dtype);
    t->size = (size_t)(high - low + 1) * element + 2 * guard;
    t->bytes = ref_alloc(t->size, 1);
    t->view.data = t->bytes + guard + (size_t)-low * element;
}

test_tensor test_tensor_dense(mh_dtype dtype, int rank, const size_t *shape)
{
    test_tensor t = {.view = {.dtype = dtype, .rank = rank}};
    ptrdiff_t count = 1;
    for (int d = rank - 1; d >= 0; d--) {
        t.view.shape[d] = shape[d];
        t.view.stride[d] = count;
        count *= (ptrdiff_t)shape[d];
    }
    allocate(&t, 0, count > 0 ? count - 1 : 0, GUARD);
    test_paint(&t);
    return t;
}

static void shuffle(test_rng *rng, int n, int *order)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)test_between(rng, 0, (size_t)i), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

test_tensor test_tensor_random(test_rng *rng, mh_dtype dtype, int rank, const size_t *shape,
                               bool input)
{
    test_tensor t = {.view = {.dtype = dtype, .rank = rank}};
    int order[MH_MAX_RANK];
    shuffle(rng, rank, order);
    if (test_chance(rng, 0.6)) // mostly the usual thing: the last dimension is contiguous
        for (int d = 0; d < rank; d++)
            if (order[d] == rank - 1) {
                order[d] = order[0];
                order[0] = rank - 1;
            }
    bool plain = test_chance(rng, 0.4); // only the order is unusual
    ptrdiff_t step = 1, low = 0, high = 0;
    for (int place = 0; place < rank; place++) {
        int d = order[place];
        ptrdiff_t extent = (ptrdiff_t)(shape[d] ? shape[d] : 1);
        bool contiguous = place == 0 && test_chance(rng, 0.7);
        if (!plain && !contiguous)
            step += (ptrdiff_t)test_between(rng, 0, 5);
        bool negative = !plain && !contiguous && test_chance(rng, 0.15);
        t.view.shape[d] = shape[d];
        t.view.stride[d] = negative ? -step : step;
        if (input && !plain && test_chance(rng, 0.05)) {
            t.view.stride[d] = 0;
            continue;
        }
        *(negative ? &low : &high) += t.view.stride[d] * (extent - 1);
        step *= extent;
    }
    allocate(&t, low, high, input ? 0 : GUARD);
    memset(t.bytes, input ? POISON : PAINT, t.size);
    return t;
}

void test_tensor_free(test_tensor *t)
{
    free(t->bytes);
    memset(t, 0, sizeof *t);
}

void test_fill_normal(test_rng *rng, const mh_tensor *t, double magnitude)
{
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(t))
        do
            ref_set(t, index, magnitude * test_normal(rng));
        while (ref_next(t, index));
}

void test_fill_constant(const mh_tensor *t, double value)
{
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(t))
        do
            ref_set(t, index, value);
        while (ref_next(t, index));
}

void test_paint(test_tensor *t) { memset(t->bytes, PAINT, t->size); }

static bool all_painted(const unsigned char *bytes, size_t size)
{
    return size == 0 || (bytes[0] == PAINT && memcmp(bytes, bytes + 1, size - 1) == 0);
}

bool test_untouched(const test_tensor *t) { return all_painted(t->bytes, t->size); }

// A copy in which the view's elements are painted over must be all paint.
bool test_guards_intact(const test_tensor *t)
{
    unsigned char *copy = ref_alloc(t->size, 1);
    memcpy(copy, t->bytes, t->size);
    size_t element = mh_dtype_size(t->view.dtype), index[MH_MAX_RANK] = {0};
    if (ref_count(&t->view))
        do {
            ptrdiff_t offset = (unsigned char *)t->view.data - t->bytes;
            for (int d = 0; d < t->view.rank; d++)
                offset += (ptrdiff_t)index[d] * t->view.stride[d] * (ptrdiff_t)element;
            memset(copy + offset, PAINT, element);
        } while (ref_next(&t->view, index));
    bool intact = all_painted(copy, t->size);
    free(copy);
    return intact;
}

// ---- comparison -----------------------------------------------------------------------

double test_rounding(mh_dtype dtype, double value)
{
    switch (dtype) {
    case MH_BF16:
        return 0x1p-8 * fabs(value) + 0x1p-134;
    case MH_F16:
        return 0x1p-11 * fabs(value) + 0x1p-25;
    default:
        return 0x1p-24 * fabs(value) + 0x1p-150;
    }
}

double test_error_ratio(double found, double expected, double bound, mh_dtype dtype)
{
    if (isnan(found) && isnan(expected))
        return 0;
    if (found == expected)
        return 0;
    double error = fabs(found - expected) - test_rounding(dtype, expected);
    if (!isfinite(error) || isnan(bound))
        return INFINITY;
    return error <= 0 ? 0 : error / bound;
}

bool test_same_bits(const mh_tensor *a, const mh_tensor *b, size_t index[MH_MAX_RANK])
{
    const ptrdiff_t element = (ptrdiff_t)mh_dtype_size(a->dtype);
    memset(index, 0, MH_MAX_RANK * sizeof *index);
    assert_true(mh_tensor_same_shape(a, b));
    if (ref_count(a))
        do {
            ptrdiff_t at_a = 0, at_b = 0;
            for (int d = 0; d < a->rank; d++) {
                at_a += (ptrdiff_t)index[d] * a->stride[d] * element;
                at_b += (ptrdiff_t)index[d] * b->stride[d] * element;
            }
            if (memcmp((char *)a->data + at_a, (char *)b->data + at_b, (size_t)element) != 0)
                return false;
        } while (ref_next(a, index));
    return true;
}

test_error test_error_of(size_t n, const float *found, const double *expected)
{
    test_error e = {0, 0};
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)found[i] - expected[i]);
        e.max = fmax(e.max, difference); // passes over a NaN, but rms does not
        squares += difference * difference;
    }
    e.rms = sqrt(squares / (double)n);
    return e;
}
