// SPDX-License-Identifier: MIT
// Chat templates by name, for models that have none of their own or one that is not supported, and
// the name of a template by the markers that it writes.
#include "model/chat_template.h"
#include <string.h>

#define ALTERNATING                                                                                \
    "{% set system = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}"    \
    "{% set messages = messages[1:] if messages[0].role == 'system' else messages %}"              \
    "{% if not messages %}{{ raise_exception('a message of the user is missing') }}{% endif %}"    \
    "{{ bos_token }}{% for message in messages %}"                                                 \
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"                                  \
    "{{ raise_exception('messages of user and assistant must alternate') }}{% endif %}"            \
    "{% set content = (system if loop.first else '') + message.content | trim %}"

static const struct {
    const char *name, *marker, *source;
} forms[] = {
    {"chatml", "<|im_start|>",
     "{% for message in messages %}<|im_start|>{{ message.role }}\n"
     "{{ message.content }}<|im_end|>{{ '\n' }}{% endfor %}<|im_start|>assistant\n\n"},
    {"llama3", "<|start_header_id|>",
     "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message.role }}"
     "<|end_header_id|>\n\n{{ message.content | trim }}<|eot_id|>{% endfor %}"
     "<|start_header_id|>assistant<|end_header_id|>\n\n\n"},
    {"gemma", "<start_of_turn>",
     ALTERNATING "<start_of_turn>{{ 'user' if message.role == 'user' else 'model' }}\n"
                 "{{ content }}<end_of_turn>{{ '\n' }}{% endfor %}<start_of_turn>model\n\n"},
    {"mistral", "[INST]",
     ALTERNATING "{{ ' [INST] ' + content + ' [/INST]' if message.role == 'user' else ' ' + "
                 "content }}{{ eos_token if message.role != 'user' }}{% endfor %}"},
    {"zephyr", "<|assistant|>",
     "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}{{ eos_token }}"
     "{{ '\n' }}{% endfor %}<|assistant|>\n\n"},
};

const char *mh_chat_source(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0)
            return forms[i].source;
    return NULL;
}

const char *mh_chat_name(const char *source)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strstr(source, forms[i].marker))
            return forms[i].name;
    return "other";
}
