// SPDX-License-Identifier: MIT
// Chat templates: known ones are recognised and write what jinja2 writes
// (tests/goldens/make_chat_templates.py), others are not taken for known ones.
#include "model/chat_template.h"
#include "support.h"
#include <jansson.h>

static json_t *goldens;
static mh_context *context;

static int open_goldens(void **state)
{
    (void)state;
    goldens = json_load_file(MH_GOLDENS "/chat_templates.json", 0, NULL);
    context = test_context(NULL, 1);
    return goldens ? 0 : -1;
}

static int close_goldens(void **state)
{
    (void)state;
    json_decref(goldens);
    mh_context_free(context);
    return 0;
}

static mh_text text_of(const json_t *string)
{
    return (mh_text){json_string_value(string), json_string_length(string)};
}

static size_t read_messages(const json_t *conversation, mh_chat_message *messages)
{
    for (size_t i = 0; i < json_array_size(conversation); i++) {
        const json_t *message = json_array_get(conversation, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        messages[i] = (mh_chat_message){strcmp(role, "system") == 0 ? MH_CHAT_SYSTEM
                                        : strcmp(role, "user") == 0 ? MH_CHAT_USER
                                                                    : MH_CHAT_ASSISTANT,
                                        text_of(json_object_get(message, "content"))};
    }
    return json_array_size(conversation);
}

static void expect_text(const mh_chat *chat, const json_t *conversation, const json_t *expected)
{
    mh_chat_message messages[8];
    const size_t count = read_messages(conversation, messages);
    mh_buffer text = {0};
    mh_status status = mh_chat_render(context, chat, (mh_text){"<s>", 3}, (mh_text){"</s>", 4},
                                      messages, count, &text);
    if (json_is_null(expected)) {
        assert_int_equal(status, MH_ERROR_UNSUPPORTED);
        assert_non_null(strstr(mh_error_message(context), "system message"));
    } else {
        test_ok(context, status);
        assert_string_equal(text.data, json_string_value(expected));
        assert_int_equal(text.size, json_string_length(expected));
    }
    mh_buffer_free(context, &text);
}

static void known_templates_write_what_jinja_does(void **state)
{
    (void)state;
    const json_t *conversations = json_object_get(goldens, "conversations");
    const json_t *known = json_object_get(goldens, "known");
    assert_true(json_array_size(known) > 10);
    for (size_t i = 0; i < json_array_size(known); i++) {
        const json_t *entry = json_array_get(known, i);
        const mh_text template = text_of(json_object_get(entry, "template"));
        mh_chat chat;
        test_ok(context, mh_chat_recognise(context, template.bytes, template.size, &chat));
        if (!chat.form)
            fail_msg("template %zu is not recognised: %s", i, template.bytes);
        assert_string_equal(chat.form->name, json_string_value(json_object_get(entry, "name")));
        for (size_t j = 0; j < json_array_size(conversations); j++)
            expect_text(&chat, json_array_get(conversations, j),
                        json_array_get(json_object_get(entry, "texts"), j));
        mh_buffer_free(context, &chat.default_system);
    }
}

static void others_are_unknown(void **state)
{
    (void)state;
    const json_t *unknown = json_object_get(goldens, "unknown");
    assert_true(json_array_size(unknown) > 10);
    for (size_t i = 0; i < json_array_size(unknown); i++) {
        const mh_text template = text_of(json_array_get(unknown, i));
        mh_chat chat;
        test_ok(context, mh_chat_recognise(context, template.bytes, template.size, &chat));
        if (chat.form)
            fail_msg("template %zu is taken for %s: %s", i, chat.form->name, template.bytes);
    }
}

// Every prefix of a template, and every template without one of its bytes: nothing is read beyond
// the end, and nothing is taken for the whole.
static void parts_of_templates(void **state)
{
    (void)state;
    const json_t *known = json_object_get(goldens, "known");
    for (size_t i = 0; i < json_array_size(known); i++) {
        const mh_text template = text_of(json_object_get(json_array_get(known, i), "template"));
        for (size_t size = 0; size < template.size; size += 1 + size / 16) {
            char *part = malloc(size + 1); // exactly as long, for sanitizers
            mh_buffer normal = {0};
            memcpy(part, template.bytes, size);
            mh_status status = mh_chat_normalise(context, part, size, &normal);
            assert_true(status == MH_OK || status == MH_ERROR_UNSUPPORTED);
            mh_buffer_free(context, &normal);
            free(part);
        }
    }
}

static void names_stand_for_forms(void **state)
{
    (void)state;
    static const char *const names[] = {"chatml", "llama3", "gemma", "mistral", "zephyr"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_non_null(mh_chat_find(names[i]));
        const mh_chat chat = {.form = mh_chat_find(names[i])};
        const mh_chat_message messages[] = {{MH_CHAT_SYSTEM, {"S", 1}}, {MH_CHAT_USER, {"U", 1}}};
        mh_buffer text = {0};
        test_ok(context, mh_chat_render(context, &chat, (mh_text){"", 0}, (mh_text){"", 0},
                                        messages, 2, &text));
        assert_non_null(strstr(text.data, "S"));
        mh_buffer_free(context, &text);
    }
    assert_null(mh_chat_find("vicuna"));
}

static void messages_are_checked(void **state)
{
    (void)state;
    const mh_chat chat = {.form = mh_chat_find("mistral")};
    const mh_text none = {"", 0};
    const mh_chat_message two[] = {{MH_CHAT_USER, {"a", 1}}, {MH_CHAT_USER, {"b", 1}}};
    const mh_chat_message late[] = {{MH_CHAT_USER, {"a", 1}}, {MH_CHAT_SYSTEM, {"b", 1}}};
    const mh_chat_message alone[] = {{MH_CHAT_SYSTEM, {"a", 1}}};
    const mh_chat_message bad[] = {{MH_CHAT_USER, {"\xFF", 1}}};
    mh_buffer text = {0};
    assert_int_equal(mh_chat_render(context, &chat, none, none, two, 2, &text), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_chat_render(context, &chat, none, none, late, 2, &text), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_chat_render(context, &chat, none, none, two, 0, &text), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_chat_render(context, &chat, none, none, alone, 1, &text),
                     MH_ERROR_ARGUMENT);
    assert_int_equal(mh_chat_render(context, &chat, none, none, bad, 1, &text), MH_ERROR_FORMAT);
    assert_null(text.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_templates_write_what_jinja_does),
        cmocka_unit_test(others_are_unknown),
        cmocka_unit_test(parts_of_templates),
        cmocka_unit_test(names_stand_for_forms),
        cmocka_unit_test(messages_are_checked),
    };
    return cmocka_run_group_tests(tests, open_goldens, close_goldens);
}
