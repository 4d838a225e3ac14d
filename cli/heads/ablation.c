// SPDX-License-Identifier: MIT
// What a model loses without each head, without all heads of a layer, and with more and more of
// them off; see heads_parts.h.
#include "heads_parts.h"
#include "messages.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A measurement of many.
typedef struct measuring {
    const text_arguments *a;
    const head_texts *t;
    ablation *found;
    bool *off;        // (rows, heads)
    mh_text *outputs; // (texts): of translations
    size_t done, total;
} measuring;

void ablation_row_name(const ablation *a, size_t row, char name[24])
{
    static const char *const kinds[] = {"enc", "dec", "cross"};
    const size_t first[] = {0, a->encoder, a->encoder + a->decoder};
    const int kind = row < first[1] ? 0 : row < first[2] ? 1 : 2;
    if (a->decoder == 0)
        snprintf(name, 24, "%zu", row);
    else
        snprintf(name, 24, "%s.%zu", kinds[kind], row - first[kind]);
}

// ---- one measurement ----------------------------------------------------------------------------

static mh_status measure_bleu(const measuring *m, double *bleu)
{
    mh_context *context = m->a->context;
    mh_translate_options options = mh_translate_options_default();
    mh_bleu_score score = mh_bleu_score_default();
    mh_translations *translations;
    options.beam = 1;
    options.disabled_heads = m->off;
    mh_status status = mh_translate(context, m->t->translator, &options, m->t->sources, m->t->count,
                                    &translations);
    if (status)
        return status;
    for (size_t i = 0; i < m->t->count; i++)
        m->outputs[i] = mh_translations_at(translations, i, 0)->text;
    status = mh_bleu(context, m->outputs, m->t->targets, m->t->count, 1, false, &score);
    *bleu = score.score;
    mh_translations_free(translations);
    return status;
}

static int complain_loss(const text_arguments *a, mh_status status)
{
    const int code = complain_status(a->context, status, NULL);
    return status == MH_ERROR_ARGUMENT || status == MH_ERROR_UNSUPPORTED ? EXIT_INPUT : code;
}

static int measure(measuring *m, head_loss *loss)
{
    double sum;
    size_t tokens;
    mh_status status = mh_model_text_loss(m->a->context, m->a->model, m->off, m->t->sources,
                                          m->t->targets, m->t->count, &sum, &tokens);
    if (!status && m->found->has_bleu)
        status = measure_bleu(m, &loss->bleu);
    if (status)
        return complain_loss(m->a, status);
    if (tokens == 0) {
        complain("the texts have no tokens to predict, expected texts of 2 or more");
        return EXIT_INPUT;
    }
    loss->loss = sum / (double)tokens;
    m->found->tokens = tokens;
    progress_show(++m->done, m->total, "measurements");
    return EXIT_DONE;
}

// With all heads on, but these; of them, `kept` is on.
enum { NONE_KEPT = -1 };
static int measure_without(measuring *m, size_t first, size_t count, ptrdiff_t kept,
                           head_loss *loss)
{
    memset(m->off, 0, m->found->rows * m->found->heads * sizeof *m->off);
    for (size_t i = first; i < first + count; i++)
        m->off[i] = (ptrdiff_t)i != kept;
    return measure(m, loss);
}

// ---- all of them --------------------------------------------------------------------------------

typedef struct ranked {
    double loss;
    size_t head;
} ranked;

static int compare_losses(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->loss < y->loss   ? -1
           : x->loss > y->loss ? 1
           : x->head < y->head ? -1
                               : x->head > y->head;
}

// The head whose absence costs least first.
static int rank_heads(ablation *found)
{
    const size_t count = found->rows * found->heads;
    ranked *list = malloc(count * sizeof *list);
    if (!list) {
        complain("out of memory for %zu heads", count);
        return EXIT_MEMORY;
    }
    for (size_t i = 0; i < count; i++)
        list[i] = (ranked){found->each[i].loss, i};
    qsort(list, count, sizeof *list, compare_losses);
    for (size_t i = 0; i < count; i++)
        found->order[i] = list[i].head;
    free(list);
    return EXIT_DONE;
}

static int measure_curve(measuring *m)
{
    ablation *found = m->found;
    const size_t count = found->rows * found->heads;
    int code = rank_heads(found);
    memset(m->off, 0, count * sizeof *m->off);
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        m->off[found->order[i]] = true;
        code = measure(m, &found->curve[i]);
    }
    return code;
}

static int measure_all(measuring *m)
{
    ablation *found = m->found;
    const size_t count = found->rows * found->heads;
    const size_t H = found->heads;
    int code = measure_without(m, 0, 0, NONE_KEPT, &found->all_on);
    for (size_t i = 0; i < count && code == EXIT_DONE; i++)
        code = measure_without(m, i, 1, NONE_KEPT, &found->each[i]);
    for (size_t row = 0; row < found->rows && code == EXIT_DONE; row++)
        code = measure_without(m, row * H, H, NONE_KEPT, &found->layers[row]);
    for (size_t i = 0; i < count && found->alone && code == EXIT_DONE; i++)
        code = measure_without(m, i / H * H, H, (ptrdiff_t)i, &found->alone[i]);
    if (code == EXIT_DONE && found->order)
        code = measure_curve(m);
    progress_clear();
    return code;
}

static int take_memory(measuring *m, const ablation_options *o)
{
    ablation *found = m->found;
    const size_t count = found->rows * found->heads;
    found->each = calloc(count, sizeof *found->each);
    found->layers = calloc(found->rows, sizeof *found->layers);
    found->alone = o->alone ? calloc(count, sizeof *found->alone) : NULL;
    found->order = o->curve ? calloc(count, sizeof *found->order) : NULL;
    found->curve = o->curve ? calloc(count, sizeof *found->curve) : NULL;
    m->off = calloc(count, sizeof *m->off);
    m->outputs = calloc(m->t->count, sizeof *m->outputs);
    if (found->each && found->layers && (!o->alone || found->alone) &&
        (!o->curve || (found->order && found->curve)) && m->off && m->outputs)
        return EXIT_DONE;
    complain("out of memory for %zu heads", count);
    return EXIT_MEMORY;
}

static int check_ablation(const text_arguments *a, bool bleu)
{
    const mh_text_loss kind = mh_model_text_loss_kind(a->model);
    if (kind == MH_LOSS_NONE) {
        complain("--ablate: this model has no loss on texts, expected one that generates, "
                 "translates or fills masks");
        return EXIT_INPUT;
    }
    if (bleu && kind != MH_LOSS_TARGET) {
        complain("--bleu is for models that translate");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

int find_ablation(const text_arguments *a, const head_texts *t, const ablation_options *o,
                  ablation *found)
{
    const mh_model_info *info = mh_model_describe(a->model);
    *found = (ablation){.kind = mh_model_text_loss_kind(a->model),
                        .rows = info->layers + 2 * info->decoder_layers,
                        .heads = info->heads,
                        .encoder = info->layers,
                        .decoder = info->decoder_layers,
                        .texts = t->count,
                        .has_bleu = o->bleu};
    measuring m = {.a = a, .t = t, .found = found};
    const size_t count = found->rows * found->heads;
    m.total = 1 + count + found->rows + (o->alone ? count : 0) + (o->curve ? count : 0);
    int code = check_ablation(a, o->bleu);
    if (code == EXIT_DONE)
        code = take_memory(&m, o);
    if (code == EXIT_DONE)
        code = measure_all(&m);
    free(m.outputs);
    free(m.off);
    return code;
}

void ablation_free(ablation *a)
{
    free(a->each);
    free(a->layers);
    free(a->alone);
    free(a->order);
    free(a->curve);
}
