// SPDX-License-Identifier: MIT
// Tokenizers of every component against the tokenizers package: goldens/make_tokenizers.py.

#include "parser_support.h"
#include "text_support.h"

#include <jansson.h>

static mh_text text_of(const json_t *string)
{
    return (mh_text){json_string_value(string), json_string_length(string)};
}

static json_int_t at(const json_t *one, const char *list, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(one, list), i));
}

static void check_encoding(const char *name, const json_t *one, const mh_encoding *e)
{
    if (e->count != json_array_size(json_object_get(one, "ids")))
        fail_msg("%s: %zu tokens", name, e->count);
    for (size_t i = 0; i < e->count; i++) {
        const json_t *offsets = json_array_get(json_object_get(one, "offsets"), i);
        if (e->ids[i] != at(one, "ids", i) || e->types[i] != at(one, "types", i) ||
            e->words[i] != at(one, "words", i) ||
            e->begins[i] != json_integer_value(json_array_get(offsets, 0)) ||
            e->ends[i] != json_integer_value(json_array_get(offsets, 1)))
            fail_msg("%s: token %zu: id %d, bytes %u to %u, type %d, word %d", name, i, e->ids[i],
                     e->begins[i], e->ends[i], e->types[i], e->words[i]);
    }
}

// Token by token, the parts together are the whole, and each is valid.
static void check_stream(const mh_tokenizer *t, const mh_encoding *e, const mh_buffer *whole)
{
    mh_text_stream stream = {0};
    mh_buffer part = {0};
    size_t size = 0;
    for (size_t i = 0; i <= e->count; i++) {
        int32_t id = i < e->count ? e->ids[i] : -1;
        test_ok(context, mh_text_stream_next(context, t, true, id, &stream, &part));
        assert_int_equal(mh_utf8_valid(part.data, part.size), part.size);
        assert_true(size + part.size <= whole->size);
        if (part.size > 0)
            assert_memory_equal(whole->data + size, part.data, part.size);
        size += part.size;
    }
    assert_int_equal(size, whole->size);
    mh_text_stream_free(context, &stream);
    mh_buffer_free(context, &part);
}

static void check_case(const char *name, const mh_tokenizer *t, const json_t *one)
{
    mh_encoding e = {0};
    mh_buffer decoded = {0};
    const json_t *second = json_object_get(one, "pair");
    mh_text pair = text_of(second), wanted = text_of(json_object_get(one, "decoded"));
    test_ok(context,
            mh_tokenizer_encode_text(context, t, NULL, text_of(json_object_get(one, "text")),
                                     second ? &pair : NULL, &e));
    check_encoding(name, one, &e);
    test_ok(context, mh_tokenizer_decode_text(context, t, true, e.ids, e.count, &decoded));
    if (decoded.size != wanted.size ||
        (decoded.size > 0 && memcmp(decoded.data, wanted.bytes, wanted.size) != 0))
        fail_msg("%s: decoded \"%.*s\", expected \"%s\"", name, (int)decoded.size, decoded.data,
                 wanted.bytes);
    if (strcmp(name, "bpe unk") != 0) // its last token has no space behind it
        check_stream(t, &e, &decoded);
    mh_encoding_free(context, &e);
    mh_buffer_free(context, &decoded);
}

static void test_components(void **state)
{
    (void)state;
    json_t *entries = json_load_file(MH_GOLDENS "/tokenizers.json", 0, NULL), *entry, *one;
    size_t i, k;
    assert_true(json_array_size(entries) > 50);
    json_array_foreach(entries, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        char *file = json_dumps(json_object_get(entry, "tokenizer"), JSON_COMPACT);
        mh_tokenizer *t;
        assert_non_null(file);
        test_ok(context, mh_tokenizer_parse(context, name, file, strlen(file), &t));
        json_array_foreach(json_object_get(entry, "cases"), k, one) { check_case(name, t, one); }
        mh_tokenizer_free(t);
        free(file);
    }
    json_decref(entries);
}

static void test_sentencepiece(void **state)
{
    (void)state;
    blob file = blob_read(MH_GOLDENS "/tokenizer.spm");
    json_t *cases = json_load_file(MH_GOLDENS "/tokenizer_spm_cases.json", 0, NULL), *one;
    mh_encoding e = {0};
    mh_tokenizer *t;
    size_t i;
    test_ok(context, mh_tokenizer_parse_spm(context, "a.spm", file.bytes, file.size, &t));
    json_array_foreach(cases, i, one)
    {
        test_ok(context, mh_tokenizer_encode_text(context, t, NULL,
                                                  text_of(json_object_get(one, "text")), NULL, &e));
        assert_int_equal(e.count, json_array_size(json_object_get(one, "ids")));
        for (size_t k = 0; k < e.count; k++)
            assert_int_equal(e.ids[k], at(one, "ids", k));
    }
    mh_encoding_free(context, &e);
    mh_tokenizer_free(t);
    json_decref(cases);
    blob_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_components),
        cmocka_unit_test(test_sentencepiece),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
