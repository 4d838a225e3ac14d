// SPDX-License-Identifier: MIT
// The chat template of a model: where it is, and conversations as it writes them.
#include "model/chat_template.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/json_file.h"
#include "support/buffer.h"
#include "text/utf8.h"
#include <string.h>

#define TEMPLATE_NAMES "chatml, llama3, gemma, mistral and zephyr"

// ---- files --------------------------------------------------------------------------------------

mh_status mh_model_set_chat_template(mh_context *context, mh_model *model, const char *text,
                                     size_t size)
{
    mh_chat chat;
    MH_TRY(mh_chat_recognise(context, text, size, &chat));
    mh_buffer_free(context, &chat.default_system);
    char *copy = mh_alloc(context, size + 1);
    if (!copy)
        return MH_ERROR_MEMORY;
    if (size)
        memcpy(copy, text, size);
    copy[size] = 0;
    mh_free(context, model->chat_template, model->chat_template_bytes);
    model->chat_template = copy;
    model->chat_template_bytes = size + 1;
    model->chat_name = chat.form ? chat.form->name : NULL;
    return MH_OK;
}

// A string, or a list of {"name", "template"}, of which "default" is meant.
static const json_t *find_template(const json_t *value)
{
    if (json_is_string(value))
        return value;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_object_get(entry, "template");
    }
    return NULL;
}

static mh_status read_template_file(mh_context *context, const char *path, mh_model *model)
{
    mh_mapping mapping = {0};
    MH_TRY(mh_file_map(context, path, &mapping));
    mh_status status = MH_OK;
    if (mapping.size > MH_JSON_FILE_MAX)
        status = mh_fail(context, MH_ERROR_FORMAT, "%s: found %zu bytes, expected at most %d", path,
                         mapping.size, MH_JSON_FILE_MAX);
    else
        status = mh_model_set_chat_template(context, model, mapping.data, mapping.size);
    mh_file_unmap(&mapping);
    return status;
}

mh_status mh_model_read_chat_template(mh_context *context, const char *directory, mh_model *model)
{
    char path[MH_PATH_BYTES];
    mh_json_file file;
    MH_TRY(mh_path_join(context, directory, "chat_template.jinja", path));
    if (mh_file_exists(path))
        return read_template_file(context, path, model);
    MH_TRY(mh_json_file_open_optional(context, directory, "tokenizer_config.json", path, &file));
    const json_t *text = find_template(json_object_get(file.root, "chat_template"));
    mh_status status = MH_OK;
    if (json_is_string(text))
        status = mh_model_set_chat_template(context, model, json_string_value(text),
                                            json_string_length(text));
    mh_json_file_close(&file);
    return status;
}

// ---- rendering ----------------------------------------------------------------------------------

// Without whitespace at both ends, as Python's str.strip().
static mh_text strip(mh_text text)
{
    size_t length;
    while (text.size > 0 && mh_is_space(mh_utf8_decode(text.bytes, &length))) {
        text.bytes += length;
        text.size -= length;
    }
    for (size_t at = text.size; at > 0;) {
        do
            at--;
        while (at > 0 && (text.bytes[at] & 0xC0) == 0x80);
        if (!mh_is_space(mh_utf8_decode(text.bytes + at, &length)))
            break;
        text.size = at;
    }
    return text;
}

typedef struct chat_parts {
    mh_text content, bos, eos, system; // \1 to \4
} chat_parts;

static void put_form(mh_appender *to, const char *form, const chat_parts *p)
{
    for (; *form; form++) {
        const mh_text *part = *form == '\1'   ? &p->content
                              : *form == '\2' ? &p->bos
                              : *form == '\3' ? &p->eos
                              : *form == '\4' ? &p->system
                                              : NULL;
        mh_append(to, part ? part->bytes : form, part ? part->size : 1);
    }
}

static mh_status check_messages(mh_context *context, const mh_chat_form *form,
                                const mh_chat_message *messages, size_t count)
{
    if (count == 0)
        return mh_fail(context, MH_ERROR_ARGUMENT, "messages: found none, expected one or more");
    const size_t first = messages[0].role == MH_CHAT_SYSTEM;
    if (first && !form->system && !form->first_user)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "the model's chat template, %s, does not allow a system message",
                       form->name);
    if (first && !form->system && count == 1)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "messages: found a system message only, expected one of the user behind it");
    for (size_t i = 0; i < count; i++) {
        const mh_chat_role role = messages[i].role;
        const mh_text text = messages[i].content;
        if ((role != MH_CHAT_USER && role != MH_CHAT_ASSISTANT && i > 0) ||
            role > MH_CHAT_ASSISTANT)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "messages[%zu].role: found %d, expected a user or an assistant", i,
                           (int)role);
        if (text.size > 0 && !text.bytes)
            return mh_fail(context, MH_ERROR_ARGUMENT, "messages[%zu].content: found NULL", i);
        if (mh_utf8_valid(text.bytes, text.size) < text.size)
            return mh_fail(context, MH_ERROR_FORMAT, "messages[%zu]: is not valid UTF-8", i);
        if (i >= first && form->alternates && (role == MH_CHAT_USER) != ((i - first) % 2 == 0))
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "messages[%zu].role: expected user and assistant in turn", i);
    }
    return MH_OK;
}

static void put_message(mh_appender *to, const mh_chat_form *form, const mh_chat_message *message,
                        bool first, chat_parts *parts)
{
    parts->content = form->trims ? strip(message->content) : message->content;
    if (message->role == MH_CHAT_SYSTEM && form->system)
        put_form(to, form->system, parts);
    else if (message->role == MH_CHAT_SYSTEM)
        parts->system = message->content;
    else if (message->role == MH_CHAT_ASSISTANT)
        put_form(to, form->assistant, parts);
    else
        put_form(to, first && parts->system.bytes ? form->first_user : form->user, parts);
}

mh_status mh_chat_render(mh_context *context, const mh_chat *chat, mh_text bos, mh_text eos,
                         const mh_chat_message *messages, size_t count, mh_buffer *text)
{
    const mh_chat_form *form = chat->form;
    MH_TRY(check_messages(context, form, messages, count));
    mh_appender to = {.context = context};
    chat_parts parts = {.bos = bos, .eos = eos};
    const bool system = messages[0].role == MH_CHAT_SYSTEM;
    put_form(&to, form->begin, &parts);
    if (!system && chat->default_system.data) {
        const mh_chat_message message = {MH_CHAT_SYSTEM,
                                         {chat->default_system.data, chat->default_system.size}};
        put_message(&to, form, &message, false, &parts);
    }
    for (size_t i = 0; i < count; i++)
        put_message(&to, form, &messages[i], i == system, &parts);
    put_form(&to, form->ask, &parts);
    mh_buffer made = {0};
    MH_TRY(mh_append_finish(&to, MH_OK, &made));
    mh_buffer_free(context, text);
    *text = made;
    return MH_OK;
}

// ---- a model's ----------------------------------------------------------------------------------

static mh_status choose_template(mh_context *context, const mh_model *model, const char *name,
                                 mh_chat *chat)
{
    *chat = (mh_chat){0};
    if (name) {
        chat->form = mh_chat_find(name);
        return chat->form
                   ? MH_OK
                   : mh_fail(context, MH_ERROR_ARGUMENT,
                             "chat template: found \"%s\", expected one of " TEMPLATE_NAMES, name);
    }
    if (!model->chat_template)
        return mh_fail(
            context, MH_ERROR_UNSUPPORTED,
            "this model has no chat template; one can be chosen by name: " TEMPLATE_NAMES);
    MH_TRY(mh_chat_recognise(context, model->chat_template, model->chat_template_bytes - 1, chat));
    if (chat->form)
        return MH_OK;
    return mh_fail(context, MH_ERROR_UNSUPPORTED,
                   "this model's chat template is not one of those that are known: " TEMPLATE_NAMES
                   "; one can be chosen by name");
}

static mh_text special_name(const mh_model *model, int32_t id)
{
    mh_text name = {"", 0};
    if (model->tokenizer && id >= 0)
        mh_tokenizer_name(model->tokenizer, id, &name);
    return name;
}

mh_status mh_model_chat(mh_context *context, const mh_model *model, const char *name,
                        const mh_chat_message *messages, size_t count, mh_buffer *text)
{
    mh_chat chat;
    MH_TRY(MH_NEED(context, {"model", model}, {"messages", mh_array(messages, count)},
                   {"text", text}));
    MH_TRY(choose_template(context, model, name, &chat));
    const mh_tokenizer *t = model->tokenizer;
    mh_status status =
        mh_chat_render(context, &chat, special_name(model, t ? mh_tokenizer_bos(t) : -1),
                       special_name(model, t ? mh_tokenizer_eos(t) : -1), messages, count, text);
    mh_buffer_free(context, &chat.default_system);
    return status;
}

const char *mh_model_chat_template(const mh_model *model) { return model->chat_name; }
