// SPDX-License-Identifier: MIT
// Validation of a translator on all ranks: each measures the loss of some batches and translates
// some sentences, and the leader scores all. Losses are summed in the order of batches, and a
// translation does not depend on the others, so that the scores are those of one process.
#include "train/task_translation.h"

#include "base/compiler.h"
#include "train/run_ranks.h"
#include "train/valid_batches.h"

// ---- loss ---------------------------------------------------------------------------------------

static mh_status measure_losses(mh_run *run, double *losses)
{
    const size_t end = mh_valid_batches_first(run, run->ranks.rank + 1);
    for (size_t b = mh_valid_batches_first(run, run->ranks.rank); b < end; b++)
        MH_TRY(mh_validation_loss(run->context, run->translator, &run->valid, run->memory, b,
                                  &losses[b]));
    return MH_OK;
}

static mh_status sum_losses(mh_run *run, double *losses, double *loss)
{
    const mh_batches *plan = &run->valid.batches;
    MH_TRY(mh_valid_batches_sum(run, losses, 1, loss));
    *loss /=
        (double)mh_target_tokens(&run->valid.examples, plan->examples, plan->starts[plan->count]);
    return MH_OK;
}

// ---- translations -------------------------------------------------------------------------------

typedef struct listener {
    mh_run *run;
    mh_validation_fn told;
    bool stopped;
} listener;

static bool pass_on(void *user, size_t done, size_t total)
{
    listener *l = user;
    l->stopped |= !l->told(l->run, (double)done / (double)total);
    return !l->stopped;
}

// Sentences of a rank: rank, rank + ranks, ..., so that each has long and short ones.
static size_t count_of(const mh_run *run, size_t rank)
{
    const size_t all = run->valid.corpus.count, R = run->ranks.ranks;
    return all / R + (rank < all % R);
}

static mh_status translate_own(mh_run *run, listener *l, mh_translations **translations)
{
    mh_translate_options options = mh_translate_options_default();
    const size_t count = count_of(run, run->ranks.rank), bytes = count * sizeof(mh_text);
    if (count == 0)
        return MH_OK;
    mh_text *own = mh_alloc(run->context, bytes);
    if (!own)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        own[i] = run->valid.corpus.sources[run->ranks.rank + i * run->ranks.ranks];
    options.beam = 1;
    options.progress = pass_on;
    options.progress_user = l;
    mh_status status =
        mh_translate(run->context, run->translator, &options, own, count, translations);
    mh_free(run->context, own, bytes);
    return status;
}

// A model whose parameters have diverged may find no translation.
static mh_text text_of(const mh_translations *translations, size_t i)
{
    const mh_translation *t = translations ? mh_translations_at(translations, i, 0) : NULL;
    return t ? (mh_text){t->text.bytes, t->text.size} : (mh_text){"", 0};
}

// ---- gathering texts ----------------------------------------------------------------------------

// All texts of all ranks: sizes (ranks, sentences of each), and their bytes in the same order.
typedef struct gathered {
    uint64_t *sizes;
    char *bytes;
    size_t sizes_capacity, bytes_capacity;
} gathered;

static mh_status gather_sizes(mh_run *run, const mh_translations *own, gathered *g)
{
    MH_TRY(mh_run_agree_memory(run, mh_grow(run->context, &g->sizes, &g->sizes_capacity,
                                            run->valid.corpus.count, sizeof *g->sizes)));
    run->starts[0] = 0;
    for (size_t r = 0; r < run->ranks.ranks; r++)
        run->starts[r + 1] = run->starts[r] + count_of(run, r) * sizeof *g->sizes;
    uint64_t *to = g->sizes + run->starts[run->ranks.rank] / sizeof *g->sizes;
    for (size_t i = 0; i < count_of(run, run->ranks.rank); i++)
        to[i] = text_of(own, i).size;
    return mh_run_gather(run, g->sizes);
}

static mh_status gather_bytes(mh_run *run, const mh_translations *own, gathered *g)
{
    size_t k = 0, total = 0;
    for (size_t i = 0; i < run->valid.corpus.count; i++)
        total += g->sizes[i];
    MH_TRY(mh_run_agree_memory(run,
                               mh_grow(run->context, &g->bytes, &g->bytes_capacity, total + 1, 1)));
    run->starts[0] = 0; // after the ranks have agreed, which uses it
    for (size_t r = 0; r < run->ranks.ranks; r++) {
        run->starts[r + 1] = run->starts[r];
        for (size_t i = 0; i < count_of(run, r); i++)
            run->starts[r + 1] += g->sizes[k++];
    }
    char *to = g->bytes + run->starts[run->ranks.rank];
    for (size_t i = 0; i < count_of(run, run->ranks.rank); i++) {
        const mh_text text = text_of(own, i);
        memcpy(to, text.bytes, text.size);
        to += text.size;
    }
    return mh_run_gather(run, g->bytes);
}

// The leader's scores of all texts.
static mh_status score_gathered(mh_run *run, const gathered *g, mh_validation_score *score)
{
    const size_t count = run->valid.corpus.count, R = run->ranks.ranks;
    mh_text *found = mh_alloc(run->context, count * sizeof *found);
    const char *from = g->bytes;
    if (!found)
        return MH_ERROR_MEMORY;
    for (size_t r = 0, k = 0; r < R; r++)
        for (size_t i = 0; i < count_of(run, r); i++, k++) {
            found[r + i * R] = (mh_text){from, g->sizes[k]};
            from += g->sizes[k];
        }
    mh_status status = mh_validation_scores(run->context, &run->valid.corpus, found, score);
    mh_free(run->context, found, count * sizeof *found);
    return status;
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status validate(mh_run *run, listener *l, double *losses, mh_translations **own,
                          gathered *g, mh_validation_score *score)
{
    mh_status status = losses ? measure_losses(run, losses) : MH_ERROR_MEMORY;
    if (!status)
        status = translate_own(run, l, own);
    MH_TRY(mh_run_agree(run, status));
    MH_TRY(sum_losses(run, losses, &score->loss));
    MH_TRY(gather_sizes(run, *own, g));
    MH_TRY(gather_bytes(run, *own, g));
    return l->stopped || !mh_run_leads(run) ? MH_OK : score_gathered(run, g, score);
}

mh_status mh_translation_validate(mh_run *run, mh_validation_fn told, mh_validation_score *score,
                                  bool *stopped)
{
    listener l = {run, told, false};
    gathered g = {0};
    mh_translations *own = NULL;
    const size_t bytes = run->valid.batches.count * sizeof(double);
    double *losses = mh_alloc(run->context, bytes);
    const mh_status status = validate(run, &l, losses, &own, &g, score);
    *stopped = l.stopped;
    mh_translations_free(own);
    mh_free(run->context, losses, bytes);
    mh_shrink(run->context, &g.sizes, &g.sizes_capacity, sizeof *g.sizes);
    mh_shrink(run->context, &g.bytes, &g.bytes_capacity, 1);
    return status;
}
