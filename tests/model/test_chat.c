// SPDX-License-Identifier: MIT
// Chat templates write what jinja2 writes (tests/goldens/make_chat_templates.py); what is not
// supported is refused.
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

static void expect_text(mh_text template, const json_t *conversation, const json_t *expected)
{
    mh_chat_message messages[8];
    const size_t count = read_messages(conversation, messages);
    mh_buffer text = {0};
    mh_status status = mh_chat_render(context, template, (mh_text){"<s>", 3}, (mh_text){"</s>", 4},
                                      messages, count, &text);
    if (json_is_null(expected)) {
        if (status != MH_ERROR_UNSUPPORTED && status != MH_ERROR_ARGUMENT)
            fail_msg("%s: found \"%s\", expected an error", template.bytes, text.data);
    } else {
        if (status)
            fail_msg("%s: %s", template.bytes, mh_error_message(context));
        assert_string_equal(text.data ? text.data : "", json_string_value(expected));
        assert_int_equal(text.size, json_string_length(expected));
    }
    mh_buffer_free(context, &text);
}

static void templates_write_what_jinja_does(void **state)
{
    (void)state;
    const json_t *conversations = json_object_get(goldens, "conversations");
    const json_t *known = json_object_get(goldens, "known");
    assert_true(json_array_size(known) > 70);
    for (size_t i = 0; i < json_array_size(known); i++) {
        const json_t *entry = json_array_get(known, i);
        const mh_text template = text_of(json_object_get(entry, "template"));
        assert_string_equal(mh_chat_name(template.bytes),
                            json_string_value(json_object_get(entry, "name")));
        for (size_t j = 0; j < json_array_size(conversations); j++)
            expect_text(template, json_array_get(conversations, j),
                        json_array_get(json_object_get(entry, "texts"), j));
    }
}

static void others_are_refused(void **state)
{
    (void)state;
    const json_t *refused = json_object_get(goldens, "refused");
    const mh_chat_message message = {MH_CHAT_USER, {"a", 1}};
    const mh_text none = {"", 0};
    assert_true(json_array_size(refused) > 30);
    for (size_t i = 0; i < json_array_size(refused); i++) {
        const json_t *entry = json_array_get(refused, i);
        const mh_text template = text_of(json_object_get(entry, "template"));
        const char *expected = json_string_value(json_object_get(entry, "message"));
        mh_buffer text = {0};
        mh_status status = mh_chat_render(context, template, none, none, &message, 1, &text);
        if (status != MH_ERROR_UNSUPPORTED || !strstr(mh_error_message(context), expected))
            fail_msg("%.60s: found \"%s\", expected \"%s\"", template.bytes,
                     status ? mh_error_message(context) : text.data, expected);
        assert_null(text.data);
    }
}

// Templates end: what one step compares or lists counts, too.
static void long_steps_count(void **state)
{
    (void)state;
    enum { NAMES = 4000, EACH = 32 };
    static const char *const works[] = {
        // lists of 16^7 numbers
        "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(7) %}"
        "{% set n.a = n.a + n.a %}{% set n.b = n.b + n.b %}"
        "{% set n.a = [n.a, n.a, n.a, n.a, n.a, n.a, n.a, n.a] %}"
        "{% set n.b = [n.b, n.b, n.b, n.b, n.b, n.b, n.b, n.b] %}{% endfor %}{{ n.a == n.b }}",
        "{% set n = namespace(a='x') %}{% for i in range(19) %}{% set n.a = n.a ~ n.a %}"
        "{% endfor %}{% set b = n.a ~ '' %}"
        "{% for i in range(9999) %}{% if n.a == b %}{% endif %}{% endfor %}",
        "{% for i in range(50000) %}{{ unknown }}{% endfor %}",
        "{% for i in range(50000) %}{% if 'k' in d %}{% endif %}{% endfor %}",
        "{% for i in range(2000) %}{% for k in d %}{% break %}{% endfor %}{% endfor %}",
        "{% for i in range(2000) %}{% set x = d.items() %}{% endfor %}",
        "{% for i in range(2000) %}{% set x = d.keys() | list %}{% endfor %}",
    };
    const mh_chat_message message = {MH_CHAT_USER, {"a", 1}};
    const mh_text none = {"", 0};
    const size_t room = 2 * NAMES * EACH + 1024;
    char *template = malloc(room), *end = template;
    assert_non_null(template);
    for (int i = 0; i < NAMES; i++)
        end += sprintf(end, "{%% set v%04d = 1 %%}", i);
    end += sprintf(end, "{%% set d = {");
    for (int i = 0; i < NAMES; i++)
        end += sprintf(end, "'k%04d': 1, ", i);
    end += sprintf(end, "} %%}");
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        mh_buffer text = {0};
        strcpy(end, works[i]);
        const mh_status status = mh_chat_render(context, (mh_text){template, strlen(template)},
                                                none, none, &message, 1, &text);
        if (status != MH_ERROR_UNSUPPORTED || !strstr(mh_error_message(context), "too many steps"))
            fail_msg("%s: found \"%s\", expected too many steps", works[i],
                     status ? mh_error_message(context) : text.data);
    }
    free(template);
}

// Every prefix of a template: nothing is read beyond the end.
static void parts_of_templates(void **state)
{
    (void)state;
    const json_t *known = json_object_get(goldens, "known");
    const mh_chat_message message = {MH_CHAT_USER, {"a", 1}};
    const mh_text none = {"", 0};
    for (size_t i = 0; i < json_array_size(known); i++) {
        const mh_text template = text_of(json_object_get(json_array_get(known, i), "template"));
        for (size_t size = 0; size < template.size; size += 1 + size / 16) {
            char *part = malloc(size + 1); // exactly as long, for sanitizers
            mh_buffer text = {0};
            memcpy(part, template.bytes, size);
            mh_status status =
                mh_chat_render(context, (mh_text){part, size}, none, none, &message, 1, &text);
            assert_true(status == MH_OK || status == MH_ERROR_UNSUPPORTED ||
                        status == MH_ERROR_ARGUMENT);
            mh_buffer_free(context, &text);
            free(part);
        }
    }
}

// What --template NAME writes, with and without a system message.
static void names_stand_for_templates(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } expected[] = {
        {"chatml",
         "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>"
         "assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
        {"llama3",
         "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user"
         "<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA"
         "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>"
         "assistant<|end_header_id|>\n\n"},
        {"gemma",
         "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
         "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n"},
        {"mistral", "<s> [INST] S\n\nU [/INST] A</s> [INST] V [/INST]"},
        {"zephyr", "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\nA</s>\n<|user|>\nV</s>\n"
                   "<|assistant|>\n"},
    };
    const mh_chat_message messages[] = {{MH_CHAT_SYSTEM, {"S", 1}},
                                        {MH_CHAT_USER, {"U", 1}},
                                        {MH_CHAT_ASSISTANT, {"A", 1}},
                                        {MH_CHAT_USER, {"V", 1}}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const char *source = mh_chat_source(expected[i].name);
        assert_non_null(source);
        assert_string_equal(mh_chat_name(source), expected[i].name);
        mh_buffer text = {0};
        test_ok(context,
                mh_chat_render(context, (mh_text){source, strlen(source)}, (mh_text){"<s>", 3},
                               (mh_text){"</s>", 4}, messages, 4, &text));
        assert_string_equal(text.data, expected[i].text);
        test_ok(context,
                mh_chat_render(context, (mh_text){source, strlen(source)}, (mh_text){"", 0},
                               (mh_text){"", 0}, messages + 1, 1, &text));
        assert_non_null(strstr(text.data, "U"));
        mh_buffer_free(context, &text);
    }
    assert_null(mh_chat_source("vicuna"));
}

static void messages_are_checked(void **state)
{
    (void)state;
    const mh_text template = {mh_chat_source("mistral"), strlen(mh_chat_source("mistral"))};
    const mh_text none = {"", 0};
    const mh_chat_message two[] = {{MH_CHAT_USER, {"a", 1}}, {MH_CHAT_USER, {"b", 1}}};
    const mh_chat_message late[] = {{MH_CHAT_USER, {"a", 1}}, {MH_CHAT_SYSTEM, {"b", 1}}};
    const mh_chat_message alone[] = {{MH_CHAT_SYSTEM, {"a", 1}}};
    const mh_chat_message bad[] = {{MH_CHAT_USER, {"\xFF", 1}}};
    const struct {
        const mh_chat_message *messages;
        size_t count;
        mh_status status;
        const char *message;
    } cases[] = {{two, 2, MH_ERROR_ARGUMENT, "must alternate"},
                 {late, 2, MH_ERROR_ARGUMENT, "messages[1].role"},
                 {two, 0, MH_ERROR_ARGUMENT, "found none"},
                 {alone, 1, MH_ERROR_ARGUMENT, "message of the user is missing"},
                 {bad, 1, MH_ERROR_FORMAT, "UTF-8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mh_buffer text = {0};
        test_refused(
            context,
            mh_chat_render(context, template, none, none, cases[i].messages, cases[i].count, &text),
            cases[i].status, cases[i].message);
        assert_null(text.data);
    }
}

// A long conversation is no endless one.
static void long_conversations(void **state)
{
    (void)state;
    enum { COUNT = 20001 };
    const mh_text template = {mh_chat_source("gemma"), strlen(mh_chat_source("gemma"))};
    mh_chat_message *messages = malloc(COUNT * sizeof *messages);
    mh_buffer text = {0};
    for (size_t i = 0; i < COUNT; i++)
        messages[i] = (mh_chat_message){i % 2 ? MH_CHAT_ASSISTANT : MH_CHAT_USER, {"ab", 2}};
    test_ok(context, mh_chat_render(context, template, (mh_text){"", 0}, (mh_text){"", 0}, messages,
                                    COUNT, &text));
    assert_true(text.size > COUNT * sizeof "<start_of_turn>user\nab<end_of_turn>");
    mh_buffer_free(context, &text);
    free(messages);
}

static mh_status render_all(mh_context *own, void *user)
{
    const mh_chat_message messages[] = {{MH_CHAT_SYSTEM, {"S", 1}}, {MH_CHAT_USER, {"U", 1}}};
    const mh_text template = text_of(user);
    mh_buffer text = {0};
    mh_status status = mh_chat_render(own, template, (mh_text){"<s>", 3}, (mh_text){"</s>", 4},
                                      messages, 2, &text);
    mh_buffer_free(own, &text);
    return status;
}

static void memory_that_runs_out(void **state)
{
    (void)state;
    json_t *template = json_string(
        "{% macro f(a) %}{{ a | replace('a', 'b') }}{% endmacro %}{% for m in messages %}"
        "{% set x = [m.role, f('a')] | join %}{{ x }}{{ m | tojson }}{{ x.split('s') | list | "
        "length }}"
        "{% endfor %}");
    assert_true(test_failing_allocations(NULL, 1, render_all, template) > 3);
    json_decref(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_write_what_jinja_does),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(long_steps_count),
        cmocka_unit_test(parts_of_templates),
        cmocka_unit_test(names_stand_for_templates),
        cmocka_unit_test(messages_are_checked),
        cmocka_unit_test(long_conversations),
        cmocka_unit_test(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, open_goldens, close_goldens);
}
