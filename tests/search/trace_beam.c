// SPDX-License-Identifier: MIT
// usage: trace_beam MODEL BEAM < sentences
// Beam search against greedy search, sentence by sentence. A translation that scores below the
// greedy one has one of two causes, which only the live hypotheses of each step tell apart:
//
//     pruned    the greedy prefix dropped out of the beam: the price of a narrow beam
//     stopped   it was still live when the search stopped: the stopping rule is wrong
//
// Prints both counts, and the decoder's steps and rows, which are what a search costs. Exit code 1
// if any was stopped.
#include "model/candidates.h"
#include "model/translate_search.h"

#include <stdio.h>
#include <stdlib.h>

enum { LINES_MAX = 100000 };

typedef struct tracer {
    mh_context *context;
    const mh_translator *t;
    mh_translator_weights weights;
    mh_translate_options options;
    size_t beam;
    size_t steps, rows, pruned, stopped;
    // of the sentence
    const mh_translation *greedy;
    bool live; // the greedy prefix is a live hypothesis, or was finished
    int32_t *tokens, *positions;
    size_t *parents;
    float *x, *y, *logits;
    mh_candidates candidates;
} tracer;

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fputs("trace_beam: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

static void check(mh_context *context, mh_status status)
{
    if (status) {
        fprintf(stderr, "trace_beam: %s\n", mh_error_message(context));
        exit(2);
    }
}

// ---- one sentence -------------------------------------------------------------------------------

static void score_next_tokens(tracer *tr, mh_decoding *decoding, const mh_beam *b)
{
    const size_t rows = b->live, D = tr->t->config.d_model;
    mh_tensor x = mh_tensor_2d(tr->x, MH_F32, rows, D), y = mh_tensor_2d(tr->y, MH_F32, rows, D);
    const mh_tensor in = mh_tensor_3d(tr->x, MH_F32, rows, 1, D);
    mh_tensor out = mh_tensor_3d(tr->y, MH_F32, rows, 1, D);
    mh_tensor logits = mh_tensor_2d(tr->logits, MH_F32, rows, mh_tokenizer_size(tr->t->tokenizer));
    for (size_t i = 0; i < rows; i++) {
        tr->tokens[i] =
            b->length ? b->hypotheses[i].ids[b->length - 1] : mh_tokenizer_bos(tr->t->tokenizer);
        tr->positions[i] = (int32_t)b->length;
    }
    check(tr->context,
          mh_translator_embed(tr->context, tr->t, tr->tokens, tr->positions, &x, tr->y));
    check(tr->context, mh_decoding_step(tr->context, decoding, NULL, 0, &in, &out));
    check(tr->context,
          mh_translator_logits(tr->context, tr->t, tr->weights.embedding, &y, &logits));
    check(tr->context, mh_candidates_find(tr->context, &tr->t->rules, b->length, &logits, tr->beam,
                                          &tr->candidates));
    tr->steps++;
    tr->rows += rows;
}

// Live ones have as many tokens as the beam is long; those of the step before, one less.
static bool has_greedy_prefix(const mh_beam *b, const mh_translation *greedy)
{
    for (size_t i = 0; i < b->width; i++)
        if (b->hypotheses[i].count == b->length && b->length <= greedy->count &&
            !memcmp(b->hypotheses[i].ids, greedy->ids, b->length * sizeof *greedy->ids))
            return true;
    return false;
}

static bool has_finished_greedy(const mh_beam *b, const mh_translation *greedy)
{
    for (size_t i = 0; i < b->finished; i++)
        if (b->best[i].count == greedy->count &&
            !memcmp(b->best[i].ids, greedy->ids, greedy->count * sizeof *greedy->ids))
            return true;
    return false;
}

static void search(tracer *tr, mh_decoding *decoding, mh_beam *b)
{
    while (b->live) {
        score_next_tokens(tr, decoding, b);
        mh_beam_advance(b, &tr->candidates, tr->parents);
        if (b->live)
            check(tr->context, mh_decoding_select(tr->context, decoding, tr->parents, b->live));
    }
}

// The search of mh_translate, with the beam in view.
static void trace(tracer *tr, const mh_translation *greedy, const mh_translation *found,
                  size_t most)
{
    mh_segment segment = {.ids = greedy->source->ids, .count = greedy->source->count};
    mh_segment *segments[] = {&segment};
    mh_memory memory;
    mh_decoding *decoding;
    mh_beam beam;
    check(tr->context,
          mh_memory_create(tr->context, tr->t, &tr->weights, &tr->options, segments, 1, &memory));
    check(tr->context,
          mh_decoding_create_packed(tr->context, tr->t->transformer, tr->weights.layers,
                                    &memory.rows, memory.lengths, 1, &decoding));
    if (!mh_beam_create(tr->context, tr->beam, 1, most, tr->options.length_penalty, &tr->t->rules,
                        &beam))
        check(tr->context, MH_ERROR_MEMORY);
    search(tr, decoding, &beam);
    const mh_hypothesis *best = &beam.best[0];
    if (best->count != found->count || best->score != found->score) {
        fputs("trace_beam: the search is not that of mh_translate\n", stderr);
        exit(2);
    }
    if (best->score < greedy->score - 1e-9) {
        const bool live = has_greedy_prefix(&beam, greedy) || has_finished_greedy(&beam, greedy);
        *(live ? &tr->stopped : &tr->pruned) += 1;
        printf("%s: %.4f %s | greedy: %.4f %s\n", live ? "stopped" : "pruned", found->score,
               found->text.bytes, greedy->score, greedy->text.bytes);
    }
    mh_beam_free(tr->context, &beam);
    mh_decoding_free(decoding);
    mh_memory_free(tr->context, &memory);
}

// ---- all sentences ------------------------------------------------------------------------------

static size_t longest(const tracer *tr, size_t tokens)
{
    const size_t wanted = (size_t)(tr->options.max_length_factor * (double)tokens) +
                          tr->options.max_length_constant + 1;
    return wanted < tr->t->config.max_length ? wanted : tr->t->config.max_length;
}

static void reserve(tracer *tr)
{
    const size_t rows = tr->beam, D = tr->t->config.d_model;
    tr->tokens = allocate(rows, sizeof *tr->tokens);
    tr->positions = allocate(rows, sizeof *tr->positions);
    tr->parents = allocate(rows, sizeof *tr->parents);
    tr->x = allocate(rows * D, sizeof *tr->x);
    tr->y = allocate(rows * D, sizeof *tr->y);
    tr->logits = allocate(rows * mh_tokenizer_size(tr->t->tokenizer), sizeof *tr->logits);
    mh_candidates *c = &tr->candidates;
    c->ids = allocate(rows * rows, sizeof *c->ids);
    c->log_probabilities = allocate(rows * rows, sizeof *c->log_probabilities);
    c->end = allocate(rows, sizeof *c->end);
}

static size_t read_lines(mh_text *texts)
{
    char line[65536];
    size_t count = 0;
    while (count < LINES_MAX && fgets(line, sizeof line, stdin)) {
        const size_t size = strcspn(line, "\r\n");
        char *copy = allocate(size + 1, 1);
        memcpy(copy, line, size);
        texts[count++] = (mh_text){copy, size};
    }
    return count;
}

int main(int argc, char **argv)
{
    static mh_text texts[LINES_MAX];
    tracer tr = {.options = mh_translate_options_default()};
    mh_translator *translator;
    mh_translations *greedy, *found;
    if (argc != 3 || (tr.beam = strtoul(argv[2], NULL, 10)) < 1)
        return fputs("usage: trace_beam MODEL BEAM < sentences\n", stderr), 2;
    const size_t count = read_lines(texts);
    check(NULL, mh_context_create(NULL, &tr.context, NULL, 0));
    check(tr.context, mh_translator_load(tr.context, argv[1], MH_PRECISION_NATIVE, &translator));
    tr.t = translator;
    tr.options.beam = 1;
    check(tr.context, mh_translate(tr.context, translator, &tr.options, texts, count, &greedy));
    tr.options.beam = tr.beam;
    check(tr.context, mh_translate(tr.context, translator, &tr.options, texts, count, &found));
    check(tr.context, mh_translator_weights_create(tr.context, translator, &tr.weights));
    reserve(&tr);
    size_t sentences = 0;
    for (size_t i = 0; i < count; i++) {
        const mh_translation *g = mh_translations_at(greedy, i, 0);
        if (g->source->count == 0 || g->source->count >= translator->config.max_length)
            continue;
        trace(&tr, g, mh_translations_at(found, i, 0), longest(&tr, g->source->count));
        sentences++;
    }
    printf("beam %zu: %zu sentences, %zu steps, %zu rows; below greedy: %zu stopped, %zu pruned\n",
           tr.beam, sentences, tr.steps, tr.rows, tr.stopped, tr.pruned);
    return tr.stopped > 0;
}
