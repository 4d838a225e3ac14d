// SPDX-License-Identifier: MIT
// Joins segments to translations: decodes tokens, and concatenates the segments of a text.
// Translation r of a text consists of translation r of its segments, or the last that they have.
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/translate_internal.h"
#include "model/translator_internal.h"
#include "support/buffer.h"
#include "support/grow.h"

typedef struct joiner {
    mh_context *context;
    const mh_translator *translator;
    mh_result_arena *store;
    mh_buffer segment; // its text
    mh_buffer text;    // of all
} joiner;

static size_t rank_of(const mh_segment *segment, size_t rank)
{
    return mh_smaller(rank, segment->found - 1);
}

// ---- text ---------------------------------------------------------------------------------------

// Appends a segment's text, and its token ends in the whole text.
static mh_status translate_assemble_add_text(joiner *j, const mh_hypothesis *h, size_t *ends)
{
    if (j->text.size > 0 && !mh_buffer_append(j->context, &j->text, " ", 1))
        return MH_ERROR_MEMORY;
    MH_TRY(
        mh_translator_detokenize(j->context, j->translator, h->ids, h->count, &j->segment, ends));
    for (size_t i = 0; i < h->count; i++)
        ends[i] += j->text.size;
    return mh_buffer_append(j->context, &j->text, j->segment.data, j->segment.size)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

// ---- all parts ----------------------------------------------------------------------------------

static mh_status join_tokens(joiner *j, const mh_segment *segments, size_t count, size_t rank,
                             mh_translation *t)
{
    for (size_t p = 0; p < count; p++)
        t->count += segments[p].best[rank_of(&segments[p], rank)].count;
    int32_t *ids = mh_result_take(j->context, j->store, t->count, sizeof *ids);
    size_t *ends = mh_result_take(j->context, j->store, t->count, sizeof *ends), place = 0;
    mh_status status = ids && ends ? MH_OK : MH_ERROR_MEMORY;
    j->text.size = 0;
    for (size_t p = 0; p < count && !status; p++) {
        const mh_hypothesis *h = &segments[p].best[rank_of(&segments[p], rank)];
        memcpy(ids + place, h->ids, h->count * sizeof *ids);
        status = translate_assemble_add_text(j, h, ends + place);
        place += h->count;
        t->log_probability += h->log_probability;
        t->score += h->score / (double)count;
    }
    if (!status && !mh_buffer_append(j->context, &j->text, "", 1))
        status = MH_ERROR_MEMORY;
    if (status)
        return status;
    t->ids = ids;
    t->ends = ends;
    t->text.size = j->text.size - 1;
    t->text.bytes = mh_result_copy(j->context, j->store, j->text.data, j->text.size, 1);
    return t->text.bytes ? MH_OK : MH_ERROR_MEMORY;
}

// Each segment's rows attend to its own tokens only.
static mh_status join_attention(joiner *j, const mh_segment *segments, size_t count, size_t rank,
                                mh_translation *t)
{
    const size_t S = t->source->count;
    float *rows = mh_result_take(j->context, j->store, t->count * S, sizeof *rows);
    if (!rows)
        return MH_ERROR_MEMORY;
    memset(rows, 0, t->count * S * sizeof *rows);
    t->attention = rows;
    for (size_t p = 0; p < count; p++) {
        const mh_segment *segment = &segments[p];
        const size_t r = rank_of(segment, rank);
        for (size_t i = 0; i < segment->best[r].count; i++, rows += S)
            memcpy(rows + segment->first, segment->attention[r] + i * segment->count,
                   segment->count * sizeof *rows);
    }
    return MH_OK;
}

static mh_status join_text(joiner *j, const mh_segment *segments, size_t count, size_t n_best,
                           const mh_tokens *source, mh_translation *list, size_t *found)
{
    size_t most = count ? 0 : 1; // an empty text has one translation
    for (size_t p = 0; p < count; p++) {
        if (!segments[p].found)
            return MH_OK;
        most = mh_larger(most, segments[p].found);
    }
    mh_status status = MH_OK;
    for (size_t rank = 0; rank < mh_smaller(most, n_best) && !status; rank++) {
        list[rank] = (mh_translation){.source = source};
        status = join_tokens(j, segments, count, rank, &list[rank]);
        if (count == 1) {
            list[rank].token_log_probabilities = segments[0].steps;
            list[rank].top_ids = segments[0].top_ids;
            list[rank].top_log_probs = segments[0].top_steps;
            list[rank].top_count = segments[0].top_count;
        }
        if (!status && count && segments[0].attention)
            status = join_attention(j, segments, count, rank, &list[rank]);
    }
    *found = status ? 0 : mh_smaller(most, n_best);
    return status;
}

mh_status mh_translate_assemble(mh_context *context, const mh_translator *translator,
                                const mh_segment_list *segments, mh_translations *t)
{
    joiner j = {.context = context, .translator = translator, .store = &t->store};
    mh_status status = MH_OK;
    size_t first = 0;
    for (size_t i = 0; i < t->count && !status; i++) {
        size_t end = first;
        while (end < segments->count && segments->items[end].text == i)
            end++;
        // without segments there is no list to point into
        const mh_segment *own = end > first ? &segments->items[first] : NULL;
        status = join_text(&j, own, end - first, t->n_best, &t->sources[i], t->list + i * t->n_best,
                           &t->found[i]);
        first = end;
    }
    mh_buffer_free(context, &j.segment);
    mh_buffer_free(context, &j.text);
    return status;
}
