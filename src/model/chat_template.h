// SPDX-License-Identifier: MIT
// Chat templates: programs in Jinja that write a conversation as a model was trained on it.
#ifndef MH_MODEL_CHAT_TEMPLATE_H
#define MH_MODEL_CHAT_TEMPLATE_H

#include "model/model_internal.h"

// The model's template: chat_template.jinja, or chat_template of tokenizer_config.json.
mh_status mh_model_read_chat_template(mh_context *context, const char *directory, mh_model *model);

// Copies a template, as a GGUF file has it.
mh_status mh_model_set_chat_template(mh_context *context, mh_model *model, const char *text,
                                     size_t size);

// The template of a name, NULL if there is none.
const char *mh_chat_source(const char *name);

// The name of the format that a template writes; "other" if it is none of those.
const char *mh_chat_name(const char *source);

// Replaces `text` by the conversation, as the template in `source` writes it. Tokens without bytes
// are undefined. Errors as mh_model_chat.
mh_status mh_chat_render(mh_context *context, mh_text source, mh_text bos, mh_text eos,
                         const mh_chat_message *messages, size_t count, mh_buffer *text);

#endif
