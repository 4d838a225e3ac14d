// SPDX-License-Identifier: MIT
// Our side of tests/peers/check_chat_templates.py:
//
//     peer_chat CONVERSATIONS.json TEMPLATE.jinja...       one JSON object per conversation:
//     status, text
#include "model/chat_template.h"
#include "support/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_MESSAGES = 64 };

static mh_chat_message read_message(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    return (mh_chat_message){*role == 's'   ? MH_CHAT_SYSTEM
                             : *role == 'u' ? MH_CHAT_USER
                                            : MH_CHAT_ASSISTANT,
                             {json_string_value(content), json_string_length(content)}};
}

static void print_text(mh_context *context, mh_text template, const json_t *conversation)
{
    mh_chat_message messages[MOST_MESSAGES];
    const size_t count = json_array_size(conversation);
    mh_buffer text = {0};
    for (size_t i = 0; i < count && i < MOST_MESSAGES; i++)
        messages[i] = read_message(json_array_get(conversation, i));
    mh_status status = mh_chat_render(context, template, (mh_text){"<s>", 3}, (mh_text){"</s>", 4},
                                      messages, count, &text);
    json_t *line = json_pack("{s:i, s:s}", "status", (int)status, "text",
                             status      ? mh_error_message(context)
                             : text.data ? text.data
                                         : "");
    json_dumpf(line, stdout, 0);
    puts("");
    json_decref(line);
    mh_buffer_free(context, &text);
}

static void print_texts(mh_context *context, const char *path, const json_t *conversations)
{
    mh_mapping mapping = {0};
    if (mh_file_map(context, path, &mapping)) {
        fprintf(stderr, "peer_chat: %s\n", mh_error_message(context));
        exit(1);
    }
    for (size_t i = 0; i < json_array_size(conversations); i++)
        print_text(context, (mh_text){mapping.data, mapping.size},
                   json_array_get(conversations, i));
    mh_file_unmap(&mapping);
}

int main(int argc, char **argv)
{
    mh_context *context;
    json_t *conversations = argc > 1 ? json_load_file(argv[1], 0, NULL) : NULL;
    if (!conversations || mh_context_create(NULL, &context, NULL, 0)) {
        fputs("usage: peer_chat CONVERSATIONS.json TEMPLATE.jinja...\n", stderr);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        print_texts(context, argv[i], conversations);
    json_decref(conversations);
    mh_context_free(context);
    return 0;
}
