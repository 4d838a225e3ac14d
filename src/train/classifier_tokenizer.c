// SPDX-License-Identifier: MIT
// See classifier_tokenizer.h.
#include "train/classifier_tokenizer.h"

#include "base/compiler.h"
#include "support/file.h"
#include "support/json_text.h"
#include "text/tokenizer_json.h"
#include "train/model_start.h"
#include "train/model_task.h"

// ---- bytes of tokenizer.json --------------------------------------------------------------------

static mh_status learn_tokenizer(mh_run *run, const mh_text *texts, size_t count, mh_buffer *json)
{
    mh_tokenizer *tokenizer;
    mh_tokenizer_options options = mh_tokenizer_options_default();
    options.merges = run->options->merges;
    MH_TRY(mh_tokenizer_train(run->context, &options, texts, count, &tokenizer));
    const mh_status status = mh_tokenizer_write(run->context, tokenizer, json);
    mh_tokenizer_free(tokenizer);
    return status;
}

static mh_status read_tokenizer(mh_run *run, mh_buffer *json)
{
    mh_mapping mapping;
    MH_TRY(mh_file_map(run->context, run->options->tokenizer, &mapping));
    const bool kept =
        mapping.size == 0 || mh_buffer_append(run->context, json, mapping.data, mapping.size);
    mh_file_unmap(&mapping);
    return kept ? MH_OK : MH_ERROR_MEMORY;
}

// ---- the template -------------------------------------------------------------------------------

typedef struct end_token {
    int32_t id; // -1: none
    mh_text name;
} end_token;

static end_token find_end(const mh_tokenizer *t, mh_token_role role, mh_token_role otherwise)
{
    const int32_t id = mh_tokenizer_role(t, role);
    end_token end = {id >= 0 ? id : mh_tokenizer_role(t, otherwise), {NULL, 0}};
    if (!mh_tokenizer_name(t, end.id, &end.name))
        end.id = -1;
    return end;
}

static end_token first_token(const mh_tokenizer *t)
{
    return find_end(t, MH_ROLE_CLS, MH_ROLE_BOS);
}

static end_token last_token(const mh_tokenizer *t) { return find_end(t, MH_ROLE_SEP, MH_ROLE_EOS); }

// Whether the tokenizer puts a token before a text.
static mh_status begins_texts(mh_run *run, bool *does)
{
    mh_encoding e = {0};
    const mh_status status =
        mh_tokenizer_encode_text(run->context, run->tokenizer, NULL, (mh_text){"a", 1}, NULL, &e);
    *does = !status && e.count && e.special[0];
    mh_encoding_free(run->context, &e);
    return status;
}

static json_t *put_end(end_token end, int type)
{
    return json_pack("{s{ss%si}}", "SpecialToken", "id", end.name.bytes, end.name.size, "type_id",
                     type);
}

static json_t *put_text(const char *text, int type)
{
    return json_pack("{s{sssi}}", "Sequence", "id", text, "type_id", type);
}

static json_t *describe_end(end_token end)
{
    return json_pack("{ss%s[i]s[s%]}", "id", end.name.bytes, end.name.size, "ids", end.id, "tokens",
                     end.name.bytes, end.name.size);
}

static json_t *make_template(end_token first, end_token last)
{
    return json_pack("{ss s[ooo] s[ooooo] s{s%o s%o}}", "type", "TemplateProcessing", "single",
                     put_end(first, 0), put_text("A", 0), put_end(last, 0), "pair",
                     put_end(first, 0), put_text("A", 0), put_end(last, 0), put_text("B", 1),
                     put_end(last, 1), "special_tokens", first.name.bytes, first.name.size,
                     describe_end(first), last.name.bytes, last.name.size, describe_end(last));
}

static mh_status parse_tokenizer(mh_run *run, const char *name, const mh_buffer *json)
{
    mh_tokenizer_free(run->tokenizer);
    return mh_tokenizer_parse(run->context, name, json->data, json->size, &run->tokenizer);
}

static mh_status add_template(mh_run *run, const mh_source *source, json_t *root)
{
    const end_token first = first_token(run->tokenizer), last = last_token(run->tokenizer);
    const json_t *post = json_object_get(root, "post_processor");
    if (post && !json_is_null(post))
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "post_processor puts no token before a text: expected one that does, "
                              "or none");
    if (first.id < 0 || last.id < 0)
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "no special token that %s a text: expected [CLS] and [SEP], or <s> "
                              "and </s>",
                              first.id < 0 ? "begins" : "ends");
    MH_TRY(mh_model_start_set(run, root, "post_processor", make_template(first, last)));
    MH_TRY(mh_model_start_dump(run, root, &run->tokenizer_json));
    return parse_tokenizer(run, source->name, &run->tokenizer_json);
}

// Parses the bytes, and keeps them, with a template.
static mh_status use_tokenizer(mh_run *run, const char *name, mh_buffer *json)
{
    const mh_source source = {run->context, name, (const unsigned char *)json->data, json->size};
    json_t *root = NULL;
    bool complete;
    MH_TRY(parse_tokenizer(run, name, json));
    MH_TRY(begins_texts(run, &complete));
    if (complete) {
        run->tokenizer_json = *json;
        *json = (mh_buffer){0};
        return MH_OK;
    }
    mh_status status = mh_tokenizer_json_tree(&source, &root);
    if (!status)
        status = add_template(run, &source, root);
    json_decref(root);
    return status;
}

// ---- both ---------------------------------------------------------------------------------------

mh_status mh_classifier_tokenizer_create(mh_run *run, const mh_text *texts, size_t count)
{
    char path[MH_PATH_BYTES];
    mh_buffer json = {0};
    const char *given = run->options->tokenizer;
    if (run->resumed) {
        MH_TRY(mh_path_join(run->context, run->options->directory, "tokenizer.json", path));
        return mh_tokenizer_load(run->context, path, &run->tokenizer);
    }
    mh_status status =
        given ? read_tokenizer(run, &json) : learn_tokenizer(run, texts, count, &json);
    if (!status)
        status = use_tokenizer(run, given ? given : "tokenizer.json", &json);
    mh_buffer_free(run->context, &json);
    return status;
}

// A member of tokenizer_config.json, unless the tokenizer has no such token.
static void put_role(mh_appender *to, const char *member, mh_text name)
{
    if (!name.bytes)
        return;
    mh_append_format(to, "  \"%s\": ", member);
    mh_append_json_bytes(to, name.bytes, name.size);
    mh_append_string(to, ",\n");
}

mh_status mh_classifier_tokenizer_save(mh_run *run)
{
    static const struct {
        const char *member;
        mh_token_role role, otherwise;
    } members[] = {
        {"bos_token", MH_ROLE_BOS, MH_ROLE_BOS},         {"eos_token", MH_ROLE_EOS, MH_ROLE_EOS},
        {"unk_token", MH_ROLE_UNKNOWN, MH_ROLE_UNKNOWN}, {"cls_token", MH_ROLE_CLS, MH_ROLE_BOS},
        {"sep_token", MH_ROLE_SEP, MH_ROLE_EOS},         {"pad_token", MH_ROLE_PAD, MH_ROLE_PAD},
        {"mask_token", MH_ROLE_MASK, MH_ROLE_MASK}};
    mh_appender to = {.context = run->context};
    mh_buffer text = {0};
    MH_TRY(mh_model_task_write(run, "tokenizer.json", &run->tokenizer_json));
    mh_append_string(&to, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        put_role(&to, members[i].member,
                 find_end(run->tokenizer, members[i].role, members[i].otherwise).name);
    mh_append_format(&to, "  \"model_max_length\": %zu\n}\n", run->options->model->max_length);
    mh_status status = mh_append_finish(&to, MH_OK, &text);
    if (!status)
        status = mh_model_task_write(run, "tokenizer_config.json", &text);
    mh_buffer_free(run->context, &text);
    return status;
}
