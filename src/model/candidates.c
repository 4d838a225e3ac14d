// SPDX-License-Identifier: MIT
// </s> is no candidate: it does not continue a hypothesis, but its log-probability is needed to
// finish one.
#include "model/candidates.h"
#include "base/compiler.h"
#include <math.h>
#include <multihead/layers.h>

void mh_candidates_exclude(const mh_search_rules *rules, const mh_tensor *logits)
{
    if (!rules->renormalize)
        return;
    for (size_t r = 0; r < logits->shape[0]; r++)
        for (size_t i = 0; i + 1 < rules->excluded_count; i++)
            ((float *)logits->data)[r * logits->shape[1] + (size_t)rules->excluded[i]] = -INFINITY;
}

// The first token of all translations: nothing else is possible.
static void force_first(const mh_search_rules *rules, size_t rows, size_t width,
                        const mh_candidates *candidates)
{
    for (size_t r = 0; r < rows; r++) {
        candidates->end[r] = -INFINITY;
        for (size_t i = 0; i < width; i++) {
            candidates->ids[r * width + i] = i == 0 ? rules->first : -1;
            candidates->log_probabilities[r * width + i] = i == 0 ? 0 : -INFINITY;
        }
    }
}

mh_status mh_candidates_find(mh_context *context, const mh_search_rules *rules, size_t position,
                             const mh_tensor *logits, size_t width, const mh_candidates *candidates)
{
    const size_t rows = logits->shape[0], count = rules->excluded_count;
    const mh_tensor excluded = mh_tensor_1d((int32_t *)rules->excluded, MH_I32, count);
    const mh_tensor wanted = mh_tensor_slice(excluded, 0, count - 1, 1);
    mh_tensor end = mh_tensor_2d(candidates->end, MH_F64, rows, 1);
    mh_tensor ids = mh_tensor_2d(candidates->ids, MH_I32, rows, width);
    mh_tensor log_probabilities = mh_tensor_2d(candidates->log_probabilities, MH_F64, rows, width);
    mh_topk_options options = mh_topk_options_default();
    options.excluded = &excluded;
    options.wanted = &wanted;
    options.wanted_log_probabilities = &end;
    mh_candidates_exclude(rules, logits);
    MH_TRY(mh_log_softmax_topk(context, &options, logits, &ids, &log_probabilities));
    if (position == 0 && rules->first >= 0)
        force_first(rules, rows, width, candidates);
    return MH_OK;
}
