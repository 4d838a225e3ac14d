// SPDX-License-Identifier: MIT
// The chat templates that are known, in their normal form (chat_normalise.c). Of forms with the
// same name the first is the one that the name stands for.
#include "base/compiler.h"
#include "model/chat_template.h"
#include "support/buffer.h"
#include <string.h>

#define TURN_CHATML "<|im_start|>{{message.role}}\n{{message.content}}<|im_end|>\n{%endfor%}"
#define ASK_CHATML  "{%if add_generation_prompt%}<|im_start|>assistant\n{%endif%}"
#define SYSTEM_CHATML                                                                              \
    "{%if loop.first and messages[0].role!='system'%}<|im_start|>system\n*<|im_end|>\n{%endif%}"

#define WRITES_CHATML                                                                              \
    .begin = "", .system = "<|im_start|>system\n\1<|im_end|>\n",                                   \
    .user = "<|im_start|>user\n\1<|im_end|>\n",                                                    \
    .assistant = "<|im_start|>assistant\n\1<|im_end|>\n", .ask = "<|im_start|>assistant\n"

#define WRITES_LLAMA3                                                                              \
    .begin = "\2", .system = "<|start_header_id|>system<|end_header_id|>\n\n\1<|eot_id|>",         \
    .user = "<|start_header_id|>user<|end_header_id|>\n\n\1<|eot_id|>",                            \
    .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n\1<|eot_id|>",                  \
    .ask = "<|start_header_id|>assistant<|end_header_id|>\n\n"

#define LOOP_LLAMA3                                                                                \
    "{%set loop_messages=messages%}{%for message in loop_messages%}"                               \
    "{%set content='<|start_header_id|>'+message.role+'<|end_header_id|>\n\n'"                     \
    "+message.content|trim+'<|eot_id|>'%}"                                                         \
    "{%if loop.index0==0%}{%set content=bos_token+content%}{%endif%}{{content}}{%endfor%}"
#define ASKS_LLAMA3 "<|start_header_id|>assistant<|end_header_id|>\n\n"

#define ALTERNATES "{%if(message.role=='user')!=(loop.index0%2==0)%}{{raise_exception()}}{%endif%}"
#define ROLE_GEMMA                                                                                 \
    "{%if(message.role=='assistant')%}{%set role='model'%}{%else%}{%set "                          \
    "role=message.role%}{%endif%}"
#define ASK_GEMMA "{%if add_generation_prompt%}<start_of_turn>model\n{%endif%}"
#define WRITES_GEMMA                                                                               \
    .begin = "\2", .user = "<start_of_turn>user\n\1<end_of_turn>\n",                               \
    .assistant = "<start_of_turn>model\n\1<end_of_turn>\n", .ask = "<start_of_turn>model\n",       \
    .trims = true, .alternates = true

// Gemma 3: the system message begins the first one of the user, with this between the two.
#define NORMAL_GEMMA3(between)                                                                     \
    "{{bos_token}}{%if messages[0].role=='system'%}{%if messages[0].content is string%}"           \
    "{%set first_user_prefix=messages[0].content+'" between "'%}{%else%}"                          \
    "{%set first_user_prefix=messages[0].content[0].text+'" between "'%}{%endif%}"                 \
    "{%set loop_messages=messages[1:]%}{%else%}{%set first_user_prefix=''%}"                       \
    "{%set loop_messages=messages%}{%endif%}{%for message in loop_messages%}" ALTERNATES           \
        ROLE_GEMMA "<start_of_turn>{{role}}\n{{(first_user_prefix if loop.first else '')}}"        \
    "{%if message.content is string%}{{message.content|trim}}"                                     \
    "{%elif message.content is iterable%}{%for item in message.content%}"                          \
    "{%if item.type=='image'%}<start_of_image>{%elif item.type=='text'%}{{item.text|trim}}"        \
    "{%endif%}{%endfor%}{%else%}{{raise_exception()}}{%endif%}<end_of_turn>\n{%endfor%}" ASK_GEMMA

#define NORMAL_MISTRAL(between)                                                                    \
    "{{bos_token}}{%for message in messages%}" ALTERNATES                                          \
    "{%if message.role=='user'%}[INST] {{message.content}} [/INST]"                                \
    "{%elif message.role=='assistant'%}{{message.content}}{{eos_token}}" between                   \
    "{%else%}{{raise_exception()}}{%endif%}{%endfor%}"

#define NORMAL_ZEPHYR(line)                                                                        \
    "{%for message in messages%}"                                                                  \
    "{%if message.role=='user'%}<|user|>\n{{message.content}}{{eos_token}}" line                   \
    "{%elif message.role=='system'%}<|system|>\n{{message.content}}{{eos_token}}" line             \
    "{%elif message.role=='assistant'%}<|assistant|>\n{{message.content}}{{eos_token}}" line       \
    "{%endif%}{%if loop.last and add_generation_prompt%}<|assistant|>" line "{%endif%}{%endfor%}"
#define WRITES_ZEPHYR(line)                                                                        \
    .begin = "", .system = "<|system|>\n\1\3" line, .user = "<|user|>\n\1\3" line,                 \
    .assistant = "<|assistant|>\n\1\3" line, .ask = "<|assistant|>" line

static const mh_chat_form forms[] = {
    {.name = "chatml",
     .normal = "{%for message in messages%}" TURN_CHATML ASK_CHATML,
     WRITES_CHATML},
    // SmolLM, Qwen 1.5: with a system message of its own
    {.name = "chatml",
     .normal = "{%for message in messages%}" SYSTEM_CHATML TURN_CHATML ASK_CHATML,
     WRITES_CHATML},
    {.name = "chatml",
     .normal = "{%if not add_generation_prompt is defined%}{%set add_generation_prompt=false%}"
               "{%endif%}{%for message in messages%}" TURN_CHATML ASK_CHATML,
     WRITES_CHATML},
    {.name = "llama3",
     .normal = LOOP_LLAMA3 "{%if add_generation_prompt%}" ASKS_LLAMA3 "{%endif%}",
     WRITES_LLAMA3,
     .trims = true},
    {.name = "llama3", .normal = LOOP_LLAMA3 ASKS_LLAMA3, WRITES_LLAMA3, .trims = true},
    {.name = "llama3",
     .normal = "{{bos_token}}{%for message in messages%}<|start_header_id|>{{message.role}}"
               "<|end_header_id|>\n\n{{message.content}}<|eot_id|>{%endfor%}"
               "{%if add_generation_prompt%}" ASKS_LLAMA3 "{%endif%}",
     WRITES_LLAMA3},
    {.name = "gemma",
     .normal = NORMAL_GEMMA3("\n\n"),
     .first_user = "<start_of_turn>user\n\4\n\n\1<end_of_turn>\n",
     WRITES_GEMMA},
    {.name = "gemma",
     .normal = NORMAL_GEMMA3("\n"),
     .first_user = "<start_of_turn>user\n\4\n\1<end_of_turn>\n",
     WRITES_GEMMA},
    // Gemma 1 and 2 refuse system messages.
    {.name = "gemma",
     .normal =
         "{{bos_token}}{%if messages[0].role=='system'%}{{raise_exception()}}{%endif%}"
         "{%for message in messages%}" ALTERNATES ROLE_GEMMA
         "<start_of_turn>{{role}}\n{{message.content|trim}}<end_of_turn>\n{%endfor%}" ASK_GEMMA,
     WRITES_GEMMA},
    {.name = "mistral",
     .normal = "{%if messages[0].role=='system'%}{%set system_message=messages[0].content%}"
               "{%set loop_messages=messages[1:]%}{%else%}{%set loop_messages=messages%}{%endif%}"
               "{{bos_token}}{%for message in loop_messages%}" ALTERNATES
               "{%if message.role=='user'%}{%if loop.first and system_message is defined%}"
               " [INST] {{system_message}}\n\n{{message.content}} [/INST]{%else%}"
               " [INST] {{message.content}} [/INST]{%endif%}"
               "{%elif message.role=='assistant'%} {{message.content}}{{eos_token}}"
               "{%else%}{{raise_exception()}}{%endif%}{%endfor%}",
     .begin = "\2",
     .first_user = " [INST] \4\n\n\1 [/INST]",
     .user = " [INST] \1 [/INST]",
     .assistant = " \1\3",
     .ask = "",
     .alternates = true},
    {.name = "mistral",
     .normal = NORMAL_MISTRAL(" "),
     .begin = "\2",
     .user = "[INST] \1 [/INST]",
     .assistant = "\1\3 ",
     .ask = "",
     .alternates = true},
    {.name = "mistral",
     .normal = NORMAL_MISTRAL(""),
     .begin = "\2",
     .user = "[INST] \1 [/INST]",
     .assistant = "\1\3",
     .ask = "",
     .alternates = true},
    {.name = "zephyr", .normal = NORMAL_ZEPHYR("\n"), WRITES_ZEPHYR("\n")},
    {.name = "zephyr", .normal = NORMAL_ZEPHYR(""), WRITES_ZEPHYR("")},
};

const mh_chat_form *mh_chat_find(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

// Whether a text without tags can be a system message.
static bool has_tag(const char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++)
        if (text[i] == '{' && strchr("{%#", text[i + 1]))
            return true;
    return false;
}

// Compares with a form, in which * is the default system message, which goes to *system.
static bool matches(const char *normal, const mh_buffer *found, mh_text *system)
{
    const char *star = strchr(normal, '*');
    const size_t size = strlen(normal);
    *system = (mh_text){NULL, 0};
    if (!star)
        return found->size == size && memcmp(found->data, normal, size) == 0;
    const size_t before = (size_t)(star - normal), behind = size - before - 1;
    if (found->size < before + behind || memcmp(found->data, normal, before) != 0 ||
        memcmp(found->data + found->size - behind, star + 1, behind) != 0)
        return false;
    *system = (mh_text){found->data + before, found->size - before - behind};
    return !has_tag(system->bytes, system->size);
}

mh_status mh_chat_recognise(mh_context *context, const char *text, size_t size, mh_chat *chat)
{
    mh_buffer normal = {0};
    *chat = (mh_chat){0};
    mh_status status = mh_chat_normalise(context, text, size, &normal);
    if (status)
        return status == MH_ERROR_UNSUPPORTED ? MH_OK : status;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !chat->form && !status; i++) {
        mh_text system;
        if (!matches(forms[i].normal, &normal, &system))
            continue;
        chat->form = &forms[i];
        if (system.bytes &&
            !mh_buffer_append(context, &chat->default_system, system.bytes, system.size))
            status = MH_ERROR_MEMORY;
    }
    mh_buffer_free(context, &normal);
    return status;
}
