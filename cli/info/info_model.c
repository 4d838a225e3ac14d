// SPDX-License-Identifier: MIT
// multihead info -m: what a pretrained model's directory has, and what the model can do.
#include "info/info.h"
#include "messages.h"
#include "pretrained/text_arguments.h"
#include "report.h"

#include <multihead/generate.h>
#include <stdlib.h>
#include <string.h>

enum {
    MODEL_LABEL_WIDTH = 16,
    NO_LIMIT = 1 << 24 // tokens, where neither the model nor its tokenizer has one
};

// ---- abilities, pooling, special tokens ---------------------------------------------------------

static void list_abilities(unsigned abilities, char words[64])
{
    static const struct {
        unsigned ability;
        const char *name;
    } names[] = {{MH_CAN_EMBED, "embed"},          {MH_CAN_FILL, "fill"},
                 {MH_CAN_CLASSIFY, "classify"},    {MH_CAN_GENERATE, "generate"},
                 {MH_CAN_TRANSLATE, "translate"},  {MH_CAN_MATCH, "match"},
                 {MH_CAN_TRANSCRIBE, "transcribe"}};
    words[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (abilities & names[i].ability) {
            const size_t used = strlen(words);
            snprintf(words + used, 64 - used, "%s%s", used ? " " : "", names[i].name);
        }
}

static const char *pooling_name(mh_pooling pooling)
{
    static const char *const names[] = {"mean", "cls", "last", "max"};
    return names[pooling];
}

// "[PAD] [UNK] ...": the names of the special tokens, each once.
static void list_special_tokens(const mh_tokenizer *tokenizer, char *words, size_t size)
{
    int32_t shown[MH_ROLE_COUNT];
    size_t count = 0;
    words[0] = 0;
    for (int role = 0; role < MH_ROLE_COUNT; role++) {
        const int32_t id = mh_tokenizer_role(tokenizer, (mh_token_role)role);
        mh_text name;
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known = known || shown[i] == id;
        if (id < 0 || known || !mh_tokenizer_name(tokenizer, id, &name))
            continue;
        const size_t used = strlen(words);
        snprintf(words + used, size - used, "%s%.*s", used ? " " : "", (int)name.size, name.bytes);
        shown[count++] = id;
    }
}

static void report_tokenizer(report *r, const mh_model *model)
{
    const mh_tokenizer *tokenizer = mh_model_tokenizer(model);
    char special[512];
    if (!tokenizer) {
        if (!r->json)
            report_text(r, "tokenizer", "tokenizer", "none");
        return;
    }
    list_special_tokens(tokenizer, special, sizeof special);
    report_count(r, "tokenizer_size", "tokenizer", mh_tokenizer_size(tokenizer), "tokens");
    report_words(r, "special_tokens", "special tokens", special);
}

// ---- labels -------------------------------------------------------------------------------------

static void report_labels(report *r, const mh_model *model)
{
    enum { SHOWN = 20 };
    const size_t count = mh_model_describe(model)->labels;
    if (count == 0)
        return;
    report_count(r, "labels", "labels", count, "");
    if (r->json) {
        fputs(", \"label_names\": [", r->to);
        for (size_t i = 0; i < count; i++) {
            const char *label = mh_model_label(model, i);
            fputs(i ? ", " : "", r->to);
            put_json_string(r->to, label, strlen(label));
        }
        fputs("]", r->to);
        return;
    }
    for (size_t i = 0; i < count && i < SHOWN; i++)
        report_text(r, "", "", mh_model_label(model, i));
    if (count > SHOWN)
        report_text(r, "", "", "...");
}

// ---- generation ---------------------------------------------------------------------------------

static void report_if(report *r, const char *key, const char *label, double value)
{
    if (value > 0)
        report_number(r, key, label, value, 3, "");
}

// What generation_config.json asks for. `generate --model-defaults` follows it; `translate` and
// `transcribe` have options for it.
static void report_generation(report *r, const mh_model *model)
{
    const mh_generation_defaults *d = mh_model_generation_defaults(model);
    const char *template = mh_model_chat_template(model);
    if (!(mh_model_describe(model)->abilities &
          (MH_CAN_GENERATE | MH_CAN_TRANSLATE | MH_CAN_TRANSCRIBE)))
        return;
    if (template)
        report_text(r, "chat_template", "chat template", template);
    if (d->sample)
        report_flag(r, "do_sample", "samples", d->sample);
    report_if(r, "temperature", "temperature", d->temperature);
    if (d->top_k)
        report_count(r, "top_k", "top-k", d->top_k, "");
    report_if(r, "top_p", "top-p", d->top_p);
    report_if(r, "min_p", "min-p", d->min_p);
    report_if(r, "repetition_penalty", "penalty", d->repetition_penalty);
    report_if(r, "length_penalty", "length penalty", d->length_penalty);
    if (d->beam)
        report_count(r, "num_beams", "beam", d->beam, "");
    if (d->max_length)
        report_count(r, "max_length_generated", "longest text", d->max_length, "tokens");
    if (d->max_new_tokens)
        report_count(r, "max_new_tokens", "new tokens", d->max_new_tokens, "");
    if (*d->unsupported)
        report_words(r, "unsupported_settings", "not supported", d->unsupported);
}

// ---- all of it ----------------------------------------------------------------------------------

// What a model that reads pictures has in place of a vocabulary.
static void report_pictures(report *r, const mh_model_info *info)
{
    report_count(r, "image_size", "picture size", info->image_size, "pixels");
    report_count(r, "patch_size", "patch size", info->patch_size, "pixels");
    report_count(r, "image_channels", "channels", info->image_channels, "");
    report_count(r, "embedding_dim", "embeddings", info->embedding_dim, "");
}

static void report_sizes(report *r, const mh_model_info *info)
{
    report_count(r, "layers", "layers", info->layers, "");
    if (info->decoder_layers)
        report_count(r, "decoder_layers", "decoder layers", info->decoder_layers, "");
    report_count(r, "d_model", "d_model", info->d_model, "");
    report_count(r, "heads", "heads", info->heads, "");
    report_count(r, "kv_heads", "KV heads", info->kv_heads, "");
    report_count(r, "head_dim", "head width", info->head_dim, "");
    report_count(r, "dim_feedforward", "feed-forward", info->dim_feedforward, "");
    if (info->image_size)
        report_pictures(r, info);
    else
        report_count(r, "vocabulary", "vocabulary", info->vocabulary, "");
    if (info->target_vocabulary != info->vocabulary)
        report_count(r, "target_vocabulary", "of targets", info->target_vocabulary, "");
    if (!info->image_size && info->max_length == NO_LIMIT && !r->json)
        report_text(r, "max_length", "longest input", "no limit of its own");
    else if (!info->image_size)
        report_count(r, "max_length", "longest input", info->max_length, "tokens");
    report_count(r, "parameters", "parameters", info->parameters, "");
}

static void report_positions(report *r, const mh_model_info *info)
{
    if (info->rope_base > 0)
        report_number(r, "rope_base", "rotary base", info->rope_base, 0, "");
    if (*info->rope_scaling)
        report_text(r, "rope_scaling", "rotary scaling", info->rope_scaling);
    if (info->window_layers) {
        report_count(r, "window", "window", info->window, "tokens");
        report_count(r, "window_layers", "sliding layers", info->window_layers, "");
    }
}

// The second model, for texts.
static void report_text_tower(report *r, const mh_model_info *info)
{
    report_count(r, "text_layers", "text layers", info->layers, "");
    report_count(r, "text_d_model", "text d_model", info->d_model, "");
    report_count(r, "text_heads", "text heads", info->heads, "");
    report_count(r, "text_vocabulary", "vocabulary", info->vocabulary, "");
    report_count(r, "text_max_length", "longest text", info->max_length, "tokens");
}

static void report_model(report *r, const mh_model *model)
{
    const mh_model_info *info = mh_model_describe(model);
    char abilities[64];
    list_abilities(info->abilities, abilities);
    report_text(r, "family", "family", info->family);
    if (*info->architecture)
        report_text(r, "architecture", "architecture", info->architecture);
    report_words(r, "can", "can", abilities);
    report_sizes(r, info);
    report_positions(r, info);
    report_count(r, "file_bytes", "on disk", info->file_bytes, "bytes");
    report_count(r, "memory_bytes_f32", "memory, f32", info->memory_bytes, "bytes");
    report_count(r, "memory_bytes_bf16", "memory, bf16", info->memory_bytes_bf16, "bytes");
    report_flag(r, "causal", "causal", info->causal);
    report_text(r, "pooling", "pooling", pooling_name(info->pooling));
    report_flag(r, "normalize", "normalised", info->normalize);
    if (mh_model_text_tower(model))
        report_text_tower(r, mh_model_describe(mh_model_text_tower(model)));
    if (!info->image_size || mh_model_text_tower(model))
        report_tokenizer(r, info->image_size ? mh_model_text_tower(model) : model);
    report_generation(r, model);
    report_labels(r, model);
}

int show_model(const common_options *common, const char *name, bool json)
{
    char *directory = NULL;
    mh_context *context = NULL;
    mh_model *model = NULL;
    int code = open_model(common, name, NULL, &directory, &context, &model);
    if (code == EXIT_DONE) {
        report r = report_begin(stdout, json, MODEL_LABEL_WIDTH);
        report_model(&r, model);
        report_end(&r);
    }
    mh_model_free(model);
    mh_context_free(context);
    free(directory);
    return code;
}
