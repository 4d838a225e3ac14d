// SPDX-License-Identifier: MIT
// Objects keep their context's allocator, never the context: one of every kind is made, and they
// and the context are freed in many orders, with the C library's memory (where AddressSanitizer
// sees a use after free) and with an allocator that counts and overwrites what it gets back.
#include "api_objects.h"

enum { CONTEXT_FIRST, CONTEXT_LAST, RANDOM_ORDERS = 60, MOST = 64 };

// ---- memory that forgets ------------------------------------------------------------------------

typedef struct header {
    size_t size, offset; // of the block, and of its memory in the block
} header;

typedef struct strict_memory {
    size_t live; // blocks
    bool wrong_size;
} strict_memory;

static void *strict_alloc(void *user, size_t size, size_t alignment)
{
    strict_memory *m = user;
    void *block;
    const size_t offset = sizeof(header) > alignment ? sizeof(header) : alignment;
    if (posix_memalign(&block, alignment, size + offset) != 0)
        return NULL;
    char *memory = (char *)block + offset;
    memcpy(memory - sizeof(header), &(header){size, offset}, sizeof(header));
    m->live++;
    return memory;
}

static void strict_release(void *user, void *memory, size_t size)
{
    strict_memory *m = user;
    header h;
    memcpy(&h, (char *)memory - sizeof h, sizeof h);
    m->wrong_size |= h.size != size;
    m->live--;
    memset(memory, 0xA5, h.size);
    free((char *)memory - h.offset);
}

// ---- orders -------------------------------------------------------------------------------------

// Item `count` is the context.
static void choose_order(test_rng *rng, int kind, size_t count, size_t order[])
{
    for (size_t i = 0; i <= count; i++)
        order[i] = kind == CONTEXT_FIRST ? (i ? i - 1 : count) : i;
    for (size_t i = count; kind > CONTEXT_LAST && i > 0; i--) {
        const size_t j = test_between(rng, 0, i), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}

static void free_in_orders(const mh_context_options *options, strict_memory *memory)
{
    test_rng rng = {test_seed()};
    const int orders = (int)test_cases(RANDOM_ORDERS);
    api_objects objects = {0};
    size_t order[MOST];
    assert_true(api_object_kind_count < MOST);
    mh_context *files = test_context(NULL, 1);
    api_files_make(files, &objects);
    mh_context_free(files);
    for (int kind = 0; kind < orders; kind++) {
        mh_context *context;
        assert_int_equal(mh_context_create(options, &context, NULL, 0), MH_OK);
        api_objects_make(context, &objects);
        choose_order(&rng, kind, api_object_kind_count, order);
        for (size_t i = 0; i <= api_object_kind_count; i++) {
            if (order[i] == api_object_kind_count)
                mh_context_free(context);
            else
                api_object_kinds[order[i]].free(&objects);
        }
        if (memory && (memory->live || memory->wrong_size))
            fail_msg("order %d: %zu blocks are left, sizes are %s", kind, memory->live,
                     memory->wrong_size ? "wrong" : "right");
    }
    api_files_free(&objects);
}

static void any_order(void **state)
{
    (void)state;
    mh_context_options options = mh_context_options_default();
    options.threads = 2;
    free_in_orders(&options, NULL);
}

static void any_order_own_allocator(void **state)
{
    (void)state;
    strict_memory memory = {0};
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.allocator = (mh_allocator){strict_alloc, strict_release, &memory, false};
    free_in_orders(&options, &memory);
}

// What was loaded with one context is used with another, after the first has gone.
static void used_with_another_context(void **state)
{
    (void)state;
    api_objects objects = {0};
    mh_context *first = test_context(NULL, 1), *second = test_context(NULL, 1);
    const mh_text text = {"un deux", 7};
    mh_tokens tokens = {0};
    mh_tensor x;
    api_files_make(first, &objects);
    api_objects_make(first, &objects);
    mh_context_free(first);
    mh_translations_free(objects.translations);
    test_ok(second,
            mh_translate(second, objects.loaded_translator, NULL, &text, 1, &objects.translations));
    test_ok(second,
            mh_tokenizer_encode(second, objects.loaded_tokenizer, text.bytes, text.size, &tokens));
    assert_true(mh_tensor_file_at(objects.npy, 0, &x));
    test_ok(second, mh_trace_check(second, mh_trace_file_trace(objects.trace_file)));
    mh_tokens_free(second, &tokens);
    api_objects_free(&objects);
    mh_context_free(second);
    api_files_free(&objects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),
        cmocka_unit_test(any_order_own_allocator),
        cmocka_unit_test(used_with_another_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
