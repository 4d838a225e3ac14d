// SPDX-License-Identifier: MIT
// The loss of a model on texts; see heads.h. Texts become sequences with a wanted token per row, or
// none:
//
//     causal          the  cat sat          masked, pass 0 of 7   [CLS] [MASK] cat sat [SEP]
//     wanted          cat  sat  -                                   -    the    -   -    -
//
// which are run in batches; only rows with a wanted token go through the language model's head.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/model_internal.h"
#include "support/grow.h"

#include <multihead/heads.h>

enum {
    BATCH_ROWS = 1024, // rows of a batch, unless one text has more
    LOGIT_ROWS = 64,   // of a block of logits
    MASK_PASSES = 7,   // about 15 % of the tokens are masked, as in BERT's training
    UNWANTED = -100,
};

typedef struct loss_pass {
    mh_context *context;
    const mh_model *model;
    const bool *disabled;
    int32_t mask;           // the id of [MASK], -1 if there is none
    size_t rows, sequences; // of the batch so far
    int32_t *ids, *types;   // (rows)
    int32_t *wanted;        // (rows)
    int64_t *starts;        // (sequences + 1)
    size_t row_room[3], starts_room;
    float *hidden; // (rows, D)
    size_t hidden_room;
    float *logits; // (LOGIT_ROWS, V)
    double loss;
    size_t tokens;
} loss_pass;

mh_text_loss mh_model_text_loss_kind(const mh_model *model)
{
    const unsigned abilities = model ? model->info.abilities : 0;
    return abilities & MH_CAN_TRANSLATE  ? MH_LOSS_TARGET
           : abilities & MH_CAN_GENERATE ? MH_LOSS_NEXT_TOKEN
           : abilities & MH_CAN_FILL     ? MH_LOSS_MASKED
                                         : MH_LOSS_NONE;
}

// ---- a batch ------------------------------------------------------------------------------------

static bool reserve_rows(loss_pass *p, size_t more)
{
    int32_t **lists[] = {&p->ids, &p->types, &p->wanted};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!mh_grow(p->context, lists[i], &p->row_room[i], p->rows + more, sizeof(int32_t)))
            return false;
    return mh_grow(p->context, &p->starts, &p->starts_room, p->sequences + 2, sizeof *p->starts);
}

// Moves the rows that have a wanted token to the front, and their number.
static size_t gather_wanted(const loss_pass *p, size_t width)
{
    size_t count = 0;
    for (size_t row = 0; row < p->rows; row++) {
        if (p->wanted[row] == UNWANTED)
            continue;
        memmove(p->hidden + count * width, p->hidden + row * width, width * sizeof *p->hidden);
        p->wanted[count++] = p->wanted[row];
    }
    return count;
}

static mh_status add_losses(loss_pass *p, size_t count)
{
    const size_t D = p->model->info.d_model, V = p->model->info.vocabulary;
    mh_cross_entropy_options options = mh_cross_entropy_options_default();
    options.reduction = MH_REDUCTION_SUM;
    for (size_t first = 0; first < count; first += LOGIT_ROWS) {
        const size_t rows = mh_smaller(LOGIT_ROWS, count - first);
        const mh_tensor hidden = mh_tensor_2d(p->hidden + first * D, MH_F32, rows, D);
        const mh_tensor wanted = mh_tensor_1d(p->wanted + first, MH_I32, rows);
        mh_tensor logits = mh_tensor_2d(p->logits, MH_F32, rows, V);
        double loss;
        MH_TRY(mh_model_logits(p->context, p->model, &hidden, &logits));
        MH_TRY(mh_cross_entropy(p->context, &options, &logits, &wanted, &loss, NULL, NULL));
        p->loss += loss;
    }
    p->tokens += count;
    return MH_OK;
}

static mh_status run_batch(loss_pass *p)
{
    const size_t D = p->model->info.d_model;
    if (p->sequences == 0)
        return MH_OK;
    if (!mh_grow(p->context, &p->hidden, &p->hidden_room, p->rows, D * sizeof *p->hidden))
        return MH_ERROR_MEMORY;
    mh_tensor hidden = mh_tensor_2d(p->hidden, MH_F32, p->rows, D);
    mh_model_input input = mh_model_input_default();
    input.sequences = p->sequences;
    input.starts = p->starts;
    input.ids = p->ids;
    input.types = p->types;
    input.disabled_heads = p->disabled;
    MH_TRY(mh_model_hidden(p->context, p->model, &input, &hidden));
    MH_TRY(add_losses(p, gather_wanted(p, D)));
    p->rows = p->sequences = 0;
    return MH_OK;
}

// ---- sequences ----------------------------------------------------------------------------------

// A text in which pass `pass` of `passes` predicts tokens; with one pass, the next ones. Rows
// without any are left out.
static mh_status add_sequence(loss_pass *p, const mh_encoding *e, size_t pass, size_t passes)
{
    size_t predicted = 0;
    if (p->rows > 0 && p->rows + e->count > BATCH_ROWS)
        MH_TRY(run_batch(p));
    if (!reserve_rows(p, e->count))
        return MH_ERROR_MEMORY;
    for (size_t i = 0, ordinal = 0; i < e->count; i++) {
        int32_t *wanted = &p->wanted[p->rows + i];
        const bool masked = passes > 1 && !e->special[i] && ordinal++ % passes == pass;
        p->ids[p->rows + i] = masked ? p->mask : e->ids[i];
        p->types[p->rows + i] = e->types[i] < p->model->description.types ? e->types[i] : 0;
        *wanted = masked ? e->ids[i] : passes == 1 && i + 1 < e->count ? e->ids[i + 1] : UNWANTED;
        predicted += *wanted != UNWANTED;
    }
    if (predicted == 0)
        return MH_OK;
    p->starts[0] = 0;
    p->rows += e->count;
    p->starts[++p->sequences] = (int64_t)p->rows;
    return MH_OK;
}

static mh_status add_texts(loss_pass *p, const mh_model_texts *texts, size_t count)
{
    const size_t passes = mh_model_text_loss_kind(p->model) == MH_LOSS_MASKED ? MASK_PASSES : 1;
    for (size_t i = 0; i < count; i++)
        for (size_t pass = 0; pass < passes; pass++)
            MH_TRY(add_sequence(p, mh_model_texts_encoding(texts, i), pass, passes));
    return run_batch(p);
}

static mh_status predict_tokens(loss_pass *p, const mh_text *texts, size_t count)
{
    const size_t bytes = LOGIT_ROWS * p->model->info.vocabulary * sizeof *p->logits;
    mh_model_texts *encoded;
    MH_TRY(mh_model_encode(p->context, p->model, false, texts, count, &encoded));
    p->logits = mh_alloc(p->context, bytes);
    mh_status status = p->logits ? add_texts(p, encoded, count) : MH_ERROR_MEMORY;
    mh_free(p->context, p->logits, bytes);
    mh_shrink(p->context, &p->hidden, &p->hidden_room, p->model->info.d_model * sizeof(float));
    mh_shrink(p->context, &p->ids, &p->row_room[0], sizeof *p->ids);
    mh_shrink(p->context, &p->types, &p->row_room[1], sizeof *p->types);
    mh_shrink(p->context, &p->wanted, &p->row_room[2], sizeof *p->wanted);
    mh_shrink(p->context, &p->starts, &p->starts_room, sizeof *p->starts);
    mh_model_texts_free(p->context, encoded);
    return status;
}

// ---- targets ------------------------------------------------------------------------------------

static mh_status score_targets(loss_pass *p, const mh_text *texts, const mh_text *targets,
                               size_t count)
{
    mh_translator *translator;
    mh_translations *scored = NULL;
    mh_translate_options options = mh_translate_options_default();
    options.disabled_heads = p->disabled;
    MH_TRY(mh_translator_from_model(p->context, p->model, &translator));
    mh_status status =
        mh_score_translations(p->context, translator, &options, texts, targets, count, &scored);
    for (size_t i = 0; i < count && !status; i++) {
        const mh_translation *t = mh_translations_at(scored, i, 0);
        p->loss -= t->log_probability;
        p->tokens += t->count + 1;
    }
    mh_translations_free(scored);
    mh_translator_free(translator);
    return status;
}

// ---- the interface ------------------------------------------------------------------------------

mh_status mh_model_text_loss(mh_context *context, const mh_model *model, const bool *disabled_heads,
                             const mh_text *texts, const mh_text *targets, size_t count,
                             double *loss, size_t *tokens)
{
    MH_TRY(MH_NEED(context, {"model", model}, {"texts", mh_array(texts, count)}, {"loss", loss},
                   {"tokens", tokens}));
    loss_pass p = {.context = context, .model = model, .disabled = disabled_heads};
    const mh_text_loss kind = mh_model_text_loss_kind(model);
    if (kind == MH_LOSS_NONE)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "this model has no loss on texts: it predicts no tokens");
    if (kind == MH_LOSS_TARGET)
        MH_TRY(mh_need(context, mh_array(targets, count), "targets"));
    MH_TRY(mh_model_need_tokenizer(context, model));
    p.mask = mh_tokenizer_role(model->tokenizer, MH_ROLE_MASK);
    if (kind == MH_LOSS_MASKED && p.mask < 0)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "this model's tokenizer has no mask token");
    mh_status status = kind == MH_LOSS_TARGET ? score_targets(&p, texts, targets, count)
                                              : predict_tokens(&p, texts, count);
    if (status)
        return status;
    *loss = p.loss;
    *tokens = p.tokens;
    return MH_OK;
}
