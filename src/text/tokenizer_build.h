// SPDX-License-Identifier: MIT
// How readers put a tokenizer together: tokens (tokenizer.h), then mh_build_vocabulary, components
// and added tokens in any order, then mh_build_finish. All of it fails with a message.
#ifndef MH_TEXT_TOKENIZER_BUILD_H
#define MH_TEXT_TOKENIZER_BUILD_H

#include "support/source.h"
#include "text/tokenizer.h"

typedef struct mh_build {
    const mh_source *source; // for messages, which begin with its name
    mh_tokenizer *t;
} mh_build;

// ---- tokens -------------------------------------------------------------------------------------

// A token of the model by its name. Byte-level: the key is decoded; a name that is not in the
// byte-level alphabet has none.
mh_status mh_build_token(const mh_build *b, int64_t id, mh_text name);
// After the last token.
mh_status mh_build_vocabulary(const mh_build *b);
// "left right" by names, after mh_build_vocabulary.
mh_status mh_build_merge(const mh_build *b, size_t rank, mh_text left, mh_text right);

// The id of a token that must exist; `what` names it in the message.
mh_status mh_build_find(const mh_build *b, const char *what, mh_text name, int32_t *id);

// A token that is found in text as it is. Its id is that of the model's token of this name, or one
// that is free.
mh_status mh_build_added(const mh_build *b, int64_t id, mh_text content, mh_added_token settings);

// A special token of this name, if it is in the vocabulary.
mh_status mh_build_special(const mh_build *b, const char *name, mh_token_role role);

// ---- components ---------------------------------------------------------------------------------

mh_status mh_build_component(const mh_build *b, mh_component_list *list, mh_component component);
mh_status mh_build_text(const mh_build *b, const char *bytes, size_t size, mh_span *span);

enum { MH_FIRST_TEXT = -1, MH_SECOND_TEXT = -2 };
mh_status mh_build_template(const mh_build *b, mh_template *form, int32_t id, uint8_t type);

// [first] A [last] and [first] A [last] [between] B [last]; -1: not there.
mh_status mh_build_templates(const mh_build *b, int32_t first, int32_t last, int32_t between,
                             uint8_t second_type);

// The components of tokenizers that we train.
mh_status mh_build_own(mh_context *context, mh_tokenizer *t);

// Roles by the usual names of special tokens, for those that are not known yet.
void mh_build_roles(mh_tokenizer *t);

// Builds all tables.
mh_status mh_build_finish(const mh_build *b);

// "name: " in front of the context's message.
mh_status mh_build_fail(const mh_build *b, mh_status status);

#endif
