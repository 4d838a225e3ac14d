// SPDX-License-Identifier: MIT
// See trace_choices.h. Logits are computed for a few rows at a time: a vocabulary is large.
#include "model/trace_choices.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include <math.h>
#include <multihead/layers.h>
#include <multihead/ops.h>
#include <string.h>

enum { LIKELIEST = 5, ROWS_AT_ONCE = 16 };

static const char word_mark[] = "\xE2\x96\x81"; // U+2581

const char *mh_trace_token_name(mh_context *context, mh_result_arena *store,
                                const mh_tokenizer *tokenizer, int32_t id, bool *word_start,
                                bool *special)
{
    mh_text bytes = {"", 0};
    mh_token_kind kind = MH_TOKEN_SPECIAL;
    mh_tokenizer_token(tokenizer, id, &bytes, &kind);
    const size_t mark_size = sizeof word_mark - 1;
    const bool blank = kind == MH_TOKEN_TEXT && bytes.size > 0 && bytes.bytes[0] == ' ';
    const bool marked = kind == MH_TOKEN_TEXT && bytes.size >= mark_size &&
                        memcmp(bytes.bytes, word_mark, mark_size) == 0; // as SentencePiece does
    const size_t mark = blank ? mark_size : 0, rest = bytes.size - (blank ? 1 : 0);
    char *string = mh_result_take(context, store, mark + rest + 1, 1);
    if (!string)
        return NULL;
    memcpy(string, word_mark, mark);
    memcpy(string + mark, bytes.bytes + (blank ? 1 : 0), rest);
    string[mark + rest] = 0;
    if (special)
        *special = kind == MH_TOKEN_SPECIAL;
    if (word_start)
        *word_start = blank || marked || kind == MH_TOKEN_SPECIAL;
    return string;
}

typedef struct chooser {
    mh_context *context;
    const mh_choice_source *source;
    mh_result_arena *store;
    size_t T, K;
    const char **names; // (T, K)
    float *probability; // (T, K)
    float *taken;       // (T)
} chooser;

// Row t of the logits.
static mh_status choose_row(const chooser *c, const mh_tensor *row, size_t t, int32_t chosen)
{
    int32_t ids[LIKELIEST];
    double steps[LIKELIEST], taken = -INFINITY;
    const mh_tensor wanted = mh_tensor_1d(&chosen, MH_I32, 1);
    mh_tensor top = mh_tensor_2d(ids, MH_I32, 1, c->K),
              top_steps = mh_tensor_2d(steps, MH_F64, 1, c->K);
    mh_tensor found = mh_tensor_2d(&taken, MH_F64, 1, 1);
    mh_topk_options options = mh_topk_options_default();
    if (chosen >= 0) {
        options.wanted = &wanted;
        options.wanted_log_probabilities = &found;
    }
    MH_TRY(mh_log_softmax_topk(c->context, &options, row, &top, &top_steps));
    c->taken[t] = (float)exp(taken);
    for (size_t k = 0; k < c->K; k++) {
        const bool real = ids[k] >= 0 && steps[k] > -INFINITY;
        c->probability[t * c->K + k] = real ? (float)exp(steps[k]) : 0;
        c->names[t * c->K + k] = real
                                     ? mh_trace_token_name(c->context, c->store,
                                                           c->source->tokenizer, ids[k], NULL, NULL)
                                     : "";
        if (!c->names[t * c->K + k])
            return MH_ERROR_MEMORY;
    }
    return MH_OK;
}

static mh_status choose_all(const chooser *c, const mh_tensor *y, const int32_t *chosen,
                            float *memory)
{
    for (size_t first = 0; first < c->T; first += ROWS_AT_ONCE) {
        const size_t rows = mh_smaller(ROWS_AT_ONCE, c->T - first);
        const mh_tensor some = mh_tensor_slice(*y, 0, first, rows);
        mh_tensor logits = mh_tensor_2d(memory, MH_F32, rows, c->source->vocabulary);
        MH_TRY(c->source->logits(c->context, c->source->model, &some, &logits));
        for (size_t i = 0; i < rows; i++) {
            const mh_tensor row = mh_tensor_slice(logits, 0, i, 1);
            MH_TRY(choose_row(c, &row, first + i, chosen[first + i]));
        }
    }
    return MH_OK;
}

mh_status mh_trace_choices_fill(mh_context *context, mh_result_arena *store,
                                const mh_choice_source *source, const mh_tensor *y,
                                const int32_t *chosen, mh_trace_choices *choices)
{
    chooser c = {.context = context,
                 .source = source,
                 .store = store,
                 .T = y->shape[0],
                 .K = mh_smaller(LIKELIEST, source->vocabulary)};
    c.names = mh_result_take(context, store, c.T * c.K, sizeof *c.names);
    c.probability = mh_result_take(context, store, c.T * c.K, sizeof *c.probability);
    c.taken = mh_result_take(context, store, c.T, sizeof *c.taken);
    if (!c.names || !c.probability || !c.taken)
        return MH_ERROR_MEMORY;
    const size_t bytes = mh_smaller(ROWS_AT_ONCE, c.T) * source->vocabulary * sizeof(float);
    float *memory = mh_alloc(context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    const mh_status status = choose_all(&c, y, chosen, memory);
    mh_free(context, memory, bytes);
    if (!status)
        *choices = (mh_trace_choices){
            .count = c.K, .text = c.names, .probability = c.probability, .chosen = c.taken};
    return status;
}
