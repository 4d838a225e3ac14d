// SPDX-License-Identifier: MIT
// Chat templates of published models. They are programs in Jinja; these are recognised, not run:
// the text is brought into a normal form and compared with those of the templates that we know. A
// template that differs in anything but whitespace and spelling is unknown.
#ifndef MH_MODEL_CHAT_TEMPLATE_H
#define MH_MODEL_CHAT_TEMPLATE_H

#include "model/model_internal.h"

// The model's template: chat_template.jinja, or chat_template of tokenizer_config.json.
mh_status mh_model_read_chat_template(mh_context *context, const char *directory, mh_model *model);

// Copies a template, as a GGUF file has it.
mh_status mh_model_set_chat_template(mh_context *context, mh_model *model, const char *text,
                                     size_t size);

// How a known template writes messages. In these strings \1 is the content, \2 the
// beginning-of-text and \3 the end-of-text token, \4 the system message.
typedef struct mh_chat_form {
    const char *name;
    const char *normal; // its normal form, in which * is any text without a tag
    const char *begin;
    const char *system;     // NULL: not a message of its own
    const char *first_user; // the first user message with a system message; NULL: none is allowed
    const char *user, *assistant;
    const char *ask; // what comes before the answer
    bool trims;      // contents lose whitespace at both ends
    bool alternates; // user and assistant must
} mh_chat_form;

// A recognised template.
typedef struct mh_chat {
    const mh_chat_form *form;
    mh_buffer default_system; // data NULL: none
} mh_chat;

// Replaces `normal` by the normal form of a template. Errors: MH_ERROR_UNSUPPORTED (no template in
// Jinja's syntax), MH_ERROR_MEMORY.
mh_status mh_chat_normalise(mh_context *context, const char *text, size_t size, mh_buffer *normal);

// Recognises a template; form NULL: unknown.
mh_status mh_chat_recognise(mh_context *context, const char *text, size_t size, mh_chat *chat);

// The form of a name, NULL if there is none.
const mh_chat_form *mh_chat_find(const char *name);

// Replaces `text` by the conversation. Errors as mh_model_chat.
mh_status mh_chat_render(mh_context *context, const mh_chat *chat, mh_text bos, mh_text eos,
                         const mh_chat_message *messages, size_t count, mh_buffer *text);

#endif
