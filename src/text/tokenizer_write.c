// SPDX-License-Identifier: MIT
// Writes tokenizer.json for Hugging Face's tokenizers, one token or merge per line. Merges are
// "left right", the syntax that every version reads.
#include "base/argument_check.h"
#include "support/file.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/words.h"

#include <stdio.h>

typedef struct output {
    mh_file_writer *writer;
    mh_status status; // of the first write that failed
} output;

static void json_put(output *o, const char *bytes, size_t size)
{
    if (o->status == MH_OK)
        o->status = mh_file_write(o->writer, bytes, size);
}

static void put_string(output *o, const char *string) { json_put(o, string, strlen(string)); }

static void put_number(output *o, size_t number)
{
    char digits[24];
    json_put(o, digits, (size_t)snprintf(digits, sizeof digits, "%zu", number));
}

// The escaped content of a JSON string.
static void json_put_escaped(output *o, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char escaped[8];
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            json_put(o, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\%c", c));
        else if (c < 0x20)
            json_put(o, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
        else
            json_put(o, bytes + i, 1);
    }
}

// A token's key in the vocabulary: text in byte-level characters, or a special token's name.
static void put_token(output *o, const mh_tokenizer *t, size_t id)
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

static void put_added_tokens(output *o, const mh_tokenizer *t)
{
    const char *joint = "\n";
    put_string(o, "  \"added_tokens\": [");
    for (size_t id = 0; id < t->count; id++) {
        if (t->tokens[id].kind != MH_TOKEN_SPECIAL)
            continue;
        put_string(o, joint);
        put_string(o, "    {\"id\": ");
        put_number(o, id);
        put_string(o, ", \"content\": \"");
        put_token(o, t, id);
        put_string(o, "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                      "\"normalized\": false, \"special\": true}");
        joint = ",\n";
    }
    put_string(o, "\n  ],\n");
}

static void put_model(output *o, const mh_tokenizer *t)
{
    put_string(o, "  \"model\": {\n"
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
        put_string(o, id == 0 ? "\n      \"" : ",\n      \"");
        put_token(o, t, id);
        put_string(o, "\": ");
        put_number(o, id);
    }
    put_string(o, "\n    },\n    \"merges\": [");
    for (size_t i = 0; i < t->merge_count; i++) {
        put_string(o, i == 0 ? "\n      \"" : ",\n      \"");
        put_token(o, t, t->merges[i].left);
        put_string(o, " ");
        put_token(o, t, t->merges[i].right);
        put_string(o, "\"");
    }
    put_string(o, t->merge_count == 0 ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n");
}

static void put_tokenizer(output *o, const mh_tokenizer *t)
{
    put_string(o, "{\n"
                  "  \"version\": \"1.0\",\n"
                  "  \"truncation\": null,\n"
                  "  \"padding\": null,\n");
    put_added_tokens(o, t);
    put_string(o, "  \"normalizer\": {\"type\": \"NFC\"},\n"
                  "  \"pre_tokenizer\": {\n"
                  "    \"type\": \"Sequence\",\n"
                  "    \"pretokenizers\": [\n"
                  "      {\"type\": \"Split\", \"pattern\": {\"Regex\": \"");
    json_put_escaped(o, MH_WORD_PATTERN, sizeof MH_WORD_PATTERN - 1);
    put_string(o, "\"}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                  "      {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": true, \"use_regex\": false}\n"
                  "    ]\n"
                  "  },\n"
                  "  \"post_processor\": null,\n"
                  "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": true, \"use_regex\": false},\n");
    put_model(o, t);
}

mh_status mh_tokenizer_save(mh_context *context, const mh_tokenizer *t, const char *path)
{
    if (MH_NEED(context, {"tokenizer", t}, {"path", path}))
        return MH_ERROR_ARGUMENT;
    if (!t->own)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "save: the tokenizer has other components than ours");
    output o = {0};
    mh_status status = mh_file_begin(context, path, &o.writer);
    if (status != MH_OK)
        return status;
    put_tokenizer(&o, t);
    if (o.status == MH_OK)
        return mh_file_commit(o.writer);
    mh_file_abandon(o.writer);
    return o.status;
}
