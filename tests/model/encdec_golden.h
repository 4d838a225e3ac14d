// SPDX-License-Identifier: MIT
// A golden encoder-decoder: the sources' tokens, and the targets'.
#ifndef MH_TESTS_ENCDEC_GOLDEN_H
#define MH_TESTS_ENCDEC_GOLDEN_H

#include "pretrained_golden.h"

static const char *const encdec_models[] = {"marian", "marian-separate", "bart", "mbart",
                                            "t5",     "t5-gated"};
enum { ENCDEC_MODELS = sizeof encdec_models / sizeof *encdec_models };

// The targets are a second set of tokens of the same model.
typedef struct encdec {
    golden source, target;
} encdec;

static inline encdec open_encdec(const char *name, bool trainable)
{
    encdec e = {.source = open_golden(name, trainable)};
    golden *s = &e.source, *t = &e.target;
    *t = (golden){.name = name,
                  .context = s->context,
                  .model = s->model,
                  .expected = s->expected,
                  .D = s->D,
                  .H = s->H,
                  .layers = mh_model_describe(s->model)->decoder_layers};
    assert_true(t->layers > 0);
    find_sequences(t, "in.decoder_input_ids", "in.decoder_attention_mask");
    t->hidden = calloc(t->rows * t->D, sizeof *t->hidden);
    return e;
}

static inline void close_encdec(encdec *e)
{
    free(e->target.hidden);
    close_golden(&e->source);
}

static inline mh_model_input input_of(const encdec *e)
{
    mh_model_input input = mh_model_input_default();
    input.sequences = e->source.B;
    input.starts = e->source.starts;
    input.ids = e->source.ids;
    input.target_starts = e->target.starts;
    input.target_ids = e->target.ids;
    return input;
}

static inline void run_hidden(const golden *g, const mh_model_input *input)
{
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    if (mh_model_hidden(g->context, g->model, input, &hidden))
        fail_msg("%s: %s", g->name, mh_error_message(g->context));
}

static inline float *logits_of(const golden *g)
{
    const size_t V = mh_model_describe(g->model)->target_vocabulary;
    float *out = calloc(g->rows * V, sizeof *out);
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    mh_tensor logits = mh_tensor_2d(out, MH_F32, g->rows, V);
    assert_int_equal(mh_model_logits(g->context, g->model, &hidden, &logits), MH_OK);
    return out;
}

static inline size_t longest_of(const golden *g)
{
    size_t longest = 0;
    for (size_t b = 0; b < g->B; b++)
        longest = g->length[b] > longest ? g->length[b] : longest;
    return longest;
}

#endif
