// SPDX-License-Identifier: MIT
// </s> is no candidate: it does not continue a hypothesis, but its log-probability is needed to
// finish one.
#include "model/candidates.h"
#include <multihead/layers.h>

mh_status mh_candidates_find(mh_context *context, const mh_tokenizer *tokenizer,
                             const mh_tensor *logits, size_t width, const mh_candidates *candidates)
{
    const size_t rows = logits->shape[0];
    int32_t special[] = {mh_tokenizer_pad(tokenizer), mh_tokenizer_bos(tokenizer),
                         mh_tokenizer_eos(tokenizer)};
    const mh_tensor excluded = mh_tensor_1d(special, MH_I32, 3);
    const mh_tensor wanted = mh_tensor_slice(excluded, 0, 2, 1);
    mh_tensor end = mh_tensor_2d(candidates->end, MH_F64, rows, 1);
    mh_tensor ids = mh_tensor_2d(candidates->ids, MH_I32, rows, width);
    mh_tensor log_probabilities = mh_tensor_2d(candidates->log_probabilities, MH_F64, rows, width);
    mh_topk_options options = mh_topk_options_default();
    options.excluded = &excluded;
    options.wanted = &wanted;
    options.wanted_log_probabilities = &end;
    return mh_log_softmax_topk(context, &options, logits, &ids, &log_probabilities);
}
