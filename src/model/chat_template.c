// SPDX-License-Identifier: MIT
// The chat template of a model: where it is, and conversations as it writes them.
#include "model/chat_template.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/jinja.h"
#include "model/json_file.h"
#include "support/buffer.h"
#include <stdio.h>
#include <string.h>

#define TEMPLATE_NAMES "chatml, llama3, gemma, mistral and zephyr"

// ---- files --------------------------------------------------------------------------------------

// A template that cannot write a single message is not supported.
static mh_status find_chat_name(mh_context *context, mh_model *model)
{
    const mh_text source = {model->chat_template, model->chat_template_bytes - 1};
    const mh_text token = {"<s>", 3};
    const mh_chat_message message = {MH_CHAT_USER, {"a", 1}};
    mh_buffer text = {0};
    mh_status status = mh_chat_render(context, source, token, token, &message, 1, &text);
    mh_buffer_free(context, &text);
    model->chat_name = status ? NULL : mh_chat_name(model->chat_template);
    return status == MH_ERROR_MEMORY ? status : MH_OK;
}

mh_status mh_model_set_chat_template(mh_context *context, mh_model *model, const char *text,
                                     size_t size)
{
    char *copy = mh_alloc(context, size + 1);
    if (!copy)
        return MH_ERROR_MEMORY;
    if (size)
        memcpy(copy, text, size);
    copy[size] = 0;
    mh_free(context, model->chat_template, model->chat_template_bytes);
    model->chat_template = copy;
    model->chat_template_bytes = size + 1;
    return find_chat_name(context, model);
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

static const char *const role_names[] = {"system", "user", "assistant"};

static mh_status check_messages(mh_context *context, const mh_chat_message *messages, size_t count)
{
    if (count == 0)
        return mh_fail(context, MH_ERROR_ARGUMENT, "messages: found none, expected one or more");
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
    }
    return MH_OK;
}

static mh_status set_member(mh_context *context, mh_result_arena *arena, mh_jinja_value dict,
                            const char *name, mh_jinja_value value)
{
    return mh_jinja_set(context, arena, dict.dict, (mh_text){name, strlen(name)}, value);
}

static mh_status list_messages(mh_context *context, mh_result_arena *arena,
                               const mh_chat_message *messages, size_t count, mh_jinja_value *list)
{
    *list = mh_jinja_new_list(context, arena);
    for (size_t i = 0; i < count && list->kind; i++) {
        const mh_jinja_value message = mh_jinja_new_dict(context, arena);
        const char *role = role_names[messages[i].role];
        const mh_text content = messages[i].content;
        if (!message.kind)
            return MH_ERROR_MEMORY;
        MH_TRY(set_member(context, arena, message, "role",
                          mh_jinja_string((mh_text){role, strlen(role)})));
        MH_TRY(set_member(context, arena, message, "content",
                          mh_jinja_string(content.size ? content : (mh_text){"", 0})));
        MH_TRY(mh_jinja_append(context, arena, list->list, message));
    }
    return list->kind ? MH_OK : MH_ERROR_MEMORY;
}

// What Hugging Face's apply_chat_template gives a template.
static mh_status set_variables(mh_context *context, mh_result_arena *arena, mh_text bos,
                               mh_text eos, mh_jinja_value messages, mh_jinja_value *variables)
{
    *variables = mh_jinja_new_dict(context, arena);
    if (!variables->kind)
        return MH_ERROR_MEMORY;
    MH_TRY(set_member(context, arena, *variables, "messages", messages));
    MH_TRY(set_member(context, arena, *variables, "tools", mh_jinja_none()));
    MH_TRY(set_member(context, arena, *variables, "documents", mh_jinja_none()));
    MH_TRY(set_member(context, arena, *variables, "add_generation_prompt", mh_jinja_boolean(true)));
    if (bos.size)
        MH_TRY(set_member(context, arena, *variables, "bos_token", mh_jinja_string(bos)));
    return eos.size ? set_member(context, arena, *variables, "eos_token", mh_jinja_string(eos))
                    : MH_OK;
}

static mh_status render_in(mh_context *context, mh_result_arena *arena, mh_text source, mh_text bos,
                           mh_text eos, const mh_chat_message *messages, size_t count,
                           mh_buffer *text)
{
    const mh_jinja *parsed;
    mh_jinja_value list, variables;
    MH_TRY(mh_jinja_parse(context, arena, source, &parsed));
    MH_TRY(list_messages(context, arena, messages, count, &list));
    MH_TRY(set_variables(context, arena, bos, eos, list, &variables));
    return mh_jinja_render(context, arena, parsed, variables.dict, text);
}

mh_status mh_chat_render(mh_context *context, mh_text source, mh_text bos, mh_text eos,
                         const mh_chat_message *messages, size_t count, mh_buffer *text)
{
    mh_result_arena arena = {.allocator = mh_context_allocator(context)};
    MH_TRY(check_messages(context, messages, count));
    mh_status status = render_in(context, &arena, source, bos, eos, messages, count, text);
    mh_result_free(&arena);
    return status;
}

// ---- a model's ----------------------------------------------------------------------------------

static mh_status choose_template(mh_context *context, const mh_model *model, const char *name,
                                 mh_text *source)
{
    const char *found = name ? mh_chat_source(name) : model->chat_template;
    if (!found && name)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "chat template: found \"%s\", expected one of " TEMPLATE_NAMES, name);
    if (!found)
        return mh_fail(
            context, MH_ERROR_UNSUPPORTED,
            "this model has no chat template; one can be chosen by name: " TEMPLATE_NAMES);
    *source = (mh_text){found, name ? strlen(found) : model->chat_template_bytes - 1};
    return MH_OK;
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
    enum { LONGEST = 300 };
    mh_text source;
    MH_TRY(MH_NEED(context, {"model", model}, {"messages", mh_array(messages, count)},
                   {"text", text}));
    MH_TRY(choose_template(context, model, name, &source));
    const mh_tokenizer *t = model->tokenizer;
    mh_status status =
        mh_chat_render(context, source, special_name(model, t ? mh_tokenizer_bos(t) : -1),
                       special_name(model, t ? mh_tokenizer_eos(t) : -1), messages, count, text);
    if (status != MH_ERROR_UNSUPPORTED)
        return status;
    char why[LONGEST];
    snprintf(why, sizeof why, "%s", mh_error_message(context));
    return mh_fail(context, status, "%s; another one can be chosen by name: " TEMPLATE_NAMES, why);
}

const char *mh_model_chat_template(const mh_model *model) { return model->chat_name; }
