// SPDX-License-Identifier: MIT
// The README.md of a model: its training and its scores; see model_card.h.
#include "train/model_card.h"

#include "support/buffer.h"
#include "support/file.h"
#include "support/grow.h"
#include "support/plain_numbers.h"
#include "train/checkpoint.h"
#include "train/model_name.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { MOST_POSITIONS = 1 << 24 }; // a model without a limit has more

typedef struct card {
    mh_context *context;
    mh_buffer text;
    mh_status status;
} card;

MH_PRINTF(2, 3) static void add(card *c, const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    const int size = vsnprintf(line, sizeof line, format, list);
    mh_plain_numbers_leave(saved);
    va_end(list);
    const size_t used = size < 0 ? 0 : (size_t)size < sizeof line ? (size_t)size : sizeof line - 1;
    if (!c->status && !mh_buffer_append(c->context, &c->text, line, used))
        c->status = MH_ERROR_MEMORY;
}

// The caller's texts may have any length.
static void model_card_add_text(card *c, const char *before, const char *text)
{
    add(c, "%s", before);
    if (!c->status && !mh_buffer_append(c->context, &c->text, text, strlen(text)))
        c->status = MH_ERROR_MEMORY;
    add(c, "\n\n");
}

static void add_model(card *c, const mh_train_options *o, const mh_model_info *none,
                      const mh_train_event *e)
{
    (void)none;
    const mh_translator_config *m = o->model;
    add(c, "# A translator\n\n"
           "Made with multihead. Use it:\n\n"
           "    multihead translate -m FOLDER \"text\"\n\n");
    add(c,
        "## Model\n\n"
        "Encoder-decoder Transformer, %zu + %zu layers of width %zu with %zu heads, "
        "feed-forward %zu (%s), %s; one table of %zu tokens for both languages and the output; "
        "%zu parameters; sentences of up to %zu tokens.\n\n",
        m->num_encoder_layers, m->num_decoder_layers, m->d_model, m->nhead, m->dim_feedforward,
        mh_activation_name(m->activation), m->norm_first ? "norm first" : "norm last",
        e->vocabulary, e->parameters, m->max_length);
}

static void add_vit(card *c, const mh_train_options *o, const mh_model_info *none,
                    const mh_train_event *e)
{
    (void)none;
    const mh_translator_config *m = o->model;
    add(c, "# A classifier of pictures\n\n"
           "Made with multihead. Use it:\n\n"
           "    multihead classify -m FOLDER picture.png\n\n");
    add(c,
        "## Model\n\n"
        "Vision Transformer, %zu layers of width %zu with %zu heads, feed-forward %zu, patches of "
        "%zu x %zu pixels; %zu labels; %zu parameters.\n\n",
        m->num_encoder_layers, m->d_model, m->nhead, m->dim_feedforward, o->patch_size,
        o->patch_size, e->vocabulary, e->parameters);
}

// As people write it; others as config.json does.
static const char *family_name(const char *family)
{
    static const char *const names[][2] = {
        {"gpt2", "GPT-2"}, {"llama", "Llama"}, {"bert", "BERT"}, {"distilbert", "DistilBERT"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(family, names[i][0]) == 0)
            return names[i][1];
    return family;
}

// Of a model that was there before, training may have read less than it can.
static void add_context(card *c, const mh_train_options *o, const mh_model_info *m)
{
    if (m->max_length != o->model->max_length && m->max_length <= MOST_POSITIONS)
        add(c, " (trained here on up to %zu)", o->model->max_length);
}

static void add_lm(card *c, const mh_train_options *o, const mh_model_info *m,
                   const mh_train_event *e)
{
    const size_t most = m->max_length > MOST_POSITIONS ? o->model->max_length : m->max_length;
    add(c, "# A language model\n\n"
           "Made with multihead. Use it:\n\n"
           "    multihead generate -m FOLDER \"text\"\n\n");
    add(c,
        "## Model\n\n"
        "%s, %zu layers of width %zu with %zu heads, feed-forward %zu, a context of %zu tokens",
        family_name(m->family), m->layers, m->d_model, m->heads, m->dim_feedforward, most);
    add_context(c, o, m);
    add(c, "; %zu tokens in the vocabulary%s; %zu parameters.\n\n", e->vocabulary,
        o->init ? "" : ", whose table is also the output's", e->parameters);
}

static void add_classifier(card *c, const mh_train_options *o, const mh_model_info *m,
                           const mh_train_event *e)
{
    add(c, "# A classifier of texts\n\n"
           "Made with multihead. Use it:\n\n"
           "    multihead classify -m FOLDER \"text\"\n\n");
    add(c,
        "## Model\n\n"
        "%s encoder, %zu layers of width %zu with %zu heads, feed-forward %zu, texts of up to %zu "
        "tokens",
        family_name(m->family), m->layers, m->d_model, m->heads, m->dim_feedforward, m->max_length);
    add_context(c, o, m);
    add(c, "; %zu labels; %zu parameters.\n\n", e->vocabulary, e->parameters);
}

static void add_start(card *c, const char *init)
{
    const mh_model_name m = mh_model_name_of(init);
    add(c, "The weights started from those of %.*s%s%.*s. ", (int)m.organisation.size,
        m.organisation.bytes, m.organisation.size ? "/" : "", (int)m.name.size, m.name.bytes);
}

static void add_training(card *c, const mh_train_options *o, const mh_train_event *e)
{
    static const char *const examples[] = {"sentence pairs", "pictures", "sequences of text",
                                           "texts"};
    static const char *const tokens[] = {"target tokens", "pictures", "tokens", "texts"};
    add(c, "## Training\n\n");
    if (o->command)
        model_card_add_text(c, "    ", o->command);
    add(c,
        "%zu %s; %" PRIu64 " updates (%.2f epochs, %" PRIu64 " %s), products in %s, seed %" PRIu64
        ". ",
        e->pairs, examples[o->task], e->update, (double)e->epoch + e->epoch_part, e->tokens,
        tokens[o->task], e->precision, o->seed);
    if (o->init)
        add_start(c, o->init);
    if (o->average > 1)
        add(c, "The weights are the mean of the last %zu saved ones. ", o->average);
    add(c, "The log is log.jsonl.\n\n");
    if (o->attribution)
        model_card_add_text(c, "## Data\n\n", o->attribution);
}

static void model_card_add_scores(card *c, const mh_train_options *o, const mh_train_event *e)
{
    if (!e->valid_pairs)
        return;
    if (o->task == MH_TASK_IMAGES || o->task == MH_TASK_CLASSIFICATION) {
        add(c,
            "## Validation\n\n%zu %s that are not in the training data:\n\n"
            "| loss | accuracy |\n|---|---|\n| %.3f | %.2f %% |\n",
            e->valid_pairs, o->task == MH_TASK_IMAGES ? "pictures" : "texts", e->valid_loss,
            100 * e->accuracy);
        return;
    }
    if (o->task == MH_TASK_LM) {
        add(c,
            "## Validation\n\nText that is not in the training data, %zu sequences:\n\n"
            "| loss | perplexity | bits per byte |\n|---|---|---|\n| %.3f | %.2f | %.3f |\n",
            e->valid_pairs, e->valid_loss, exp(e->valid_loss), e->bits_per_byte);
        return;
    }
    add(c,
        "## Validation\n\n"
        "%zu pairs that are not in the training data, greedy translations, scores as "
        "sacreBLEU's:\n\n"
        "| loss | BLEU | chrF2 | exact |\n|---|---|---|---|\n| %.3f | %.1f | %.1f | %.1f %% |\n",
        e->valid_pairs, e->valid_loss, e->bleu, e->chrf, 100 * e->exact);
}

mh_status mh_card_write(mh_context *context, const mh_train_options *options,
                        const mh_model_info *model, const mh_train_event *event)
{
    char path[MH_PATH_BYTES];
    card c = {.context = context};
    static void (*const models[])(card *, const mh_train_options *, const mh_model_info *,
                                  const mh_train_event *) = {add_model, add_vit, add_lm,
                                                             add_classifier};
    models[options->task](&c, options, model, event);
    add_training(&c, options, event);
    model_card_add_scores(&c, options, event);
    if (!c.status)
        c.status = mh_path_join(context, options->directory, "README.md", path);
    if (!c.status)
        c.status = mh_file_replace(context, path, c.text.data, c.text.size);
    mh_buffer_free(context, &c.text);
    return c.status;
}
