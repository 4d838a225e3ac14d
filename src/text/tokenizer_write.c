// SPDX-License-Identifier: MIT
// Writes tokenizer.json for Hugging Face's tokenizers, one token or merge per line. Merges are
// "left right", the syntax that every version reads.
#include "base/argument_check.h"
#include "support/buffer.h"
#include "support/file.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/words.h"

#include <stdio.h>

static void put_number(mh_appender *o, size_t number) { mh_append_format(o, "%zu", number); }

// The escaped content of a JSON string.
static void json_put_escaped(mh_appender *o, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char escaped[8];
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            mh_append(o, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\%c", c));
        else if (c < 0x20)
            mh_append(o, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
        else
            mh_append(o, bytes + i, 1);
    }
}

// A token's key in the vocabulary: text in byte-level characters, or a special token's name.
static void put_token(mh_appender *o, const mh_tokenizer *t, size_t id)
{
    const char *bytes = mh_token_bytes(t, id);
    if (t->tokens[id].kind == MH_TOKEN_SPECIAL) {
        json_put_escaped(o, bytes, t->tokens[id].size);
        return;
    }
    for (size_t i = 0; i < t->tokens[id].size; i++) {
        char character[4];
        json_put_escaped(o, character,
                         mh_utf8_encode(mh_byte_character((unsigned char)bytes[i]), character));
    }
}

static void put_added_tokens(mh_appender *o, const mh_tokenizer *t)
{
    const char *joint = "\n";
    mh_append_string(o, "  \"added_tokens\": [");
    for (size_t id = 0; id < t->count; id++) {
        if (t->tokens[id].kind != MH_TOKEN_SPECIAL)
            continue;
        mh_append_string(o, joint);
        mh_append_string(o, "    {\"id\": ");
        put_number(o, id);
        mh_append_string(o, ", \"content\": \"");
        put_token(o, t, id);
        mh_append_string(o, "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                            "\"normalized\": false, \"special\": true}");
        joint = ",\n";
    }
    mh_append_string(o, "\n  ],\n");
}

static void put_model(mh_appender *o, const mh_tokenizer *t)
{
    mh_append_string(o, "  \"model\": {\n"
                        "    \"type\": \"BPE\",\n"
                        "    \"dropout\": null,\n"
                        "    \"unk_token\": null,\n"
                        "    \"continuing_subword_prefix\": null,\n"
                        "    \"end_of_word_suffix\": null,\n"
                        "    \"fuse_unk\": false,\n"
                        "    \"byte_fallback\": false,\n"
                        "    \"ignore_merges\": false,\n"
                        "    \"vocab\": {");
    for (size_t id = 0; id < t->count; id++) {
        mh_append_string(o, id == 0 ? "\n      \"" : ",\n      \"");
        put_token(o, t, id);
        mh_append_string(o, "\": ");
        put_number(o, id);
    }
    mh_append_string(o, "\n    },\n    \"merges\": [");
    for (size_t i = 0; i < t->merge_count; i++) {
        mh_append_string(o, i == 0 ? "\n      \"" : ",\n      \"");
        put_token(o, t, t->merges[i].left);
        mh_append_string(o, " ");
        put_token(o, t, t->merges[i].right);
        mh_append_string(o, "\"");
    }
    mh_append_string(o, t->merge_count == 0 ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n");
}

static void put_tokenizer(mh_appender *o, const mh_tokenizer *t)
{
    mh_append_string(o, "{\n"
                        "  \"version\": \"1.0\",\n"
                        "  \"truncation\": null,\n"
                        "  \"padding\": null,\n");
    put_added_tokens(o, t);
    mh_append_string(o, "  \"normalizer\": {\"type\": \"NFC\"},\n"
                        "  \"pre_tokenizer\": {\n"
                        "    \"type\": \"Sequence\",\n"
                        "    \"pretokenizers\": [\n"
                        "      {\"type\": \"Split\", \"pattern\": {\"Regex\": \"");
    json_put_escaped(o, MH_WORD_PATTERN, sizeof MH_WORD_PATTERN - 1);
    mh_append_string(o, "\"}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                        "      {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                        "\"trim_offsets\": true, \"use_regex\": false}\n"
                        "    ]\n"
                        "  },\n"
                        "  \"post_processor\": null,\n"
                        "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                        "\"trim_offsets\": true, \"use_regex\": false},\n");
    put_model(o, t);
}

mh_status mh_tokenizer_write(mh_context *context, const mh_tokenizer *t, mh_buffer *to)
{
    mh_appender o = {.context = context};
    if (!t->own)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "save: the tokenizer has other components than ours");
    put_tokenizer(&o, t);
    return mh_append_finish(&o, MH_OK, to);
}

mh_status mh_tokenizer_save(mh_context *context, const mh_tokenizer *t, const char *path)
{
    if (MH_NEED(context, {"tokenizer", t}, {"path", path}))
        return MH_ERROR_ARGUMENT;
    mh_buffer text = {0};
    mh_status status = mh_tokenizer_write(context, t, &text);
    if (status == MH_OK)
        status = mh_file_replace(context, path, text.data, text.size);
    mh_buffer_free(context, &text);
    return status;
}
