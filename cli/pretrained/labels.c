// SPDX-License-Identifier: MIT
// Labels by probability; see labels.h.
#include "pretrained/labels.h"

#include <math.h>
#include <multihead/layers.h>

mh_status labels_rank(mh_context *context, const float *logits, size_t labels, size_t top,
                      int32_t *ids, double *probabilities)
{
    const mh_tensor from = mh_tensor_2d((void *)(uintptr_t)logits, MH_F32, 1, labels);
    mh_tensor to_ids = mh_tensor_2d(ids, MH_I32, 1, top);
    mh_tensor logps = mh_tensor_2d(probabilities, MH_F64, 1, top);
    const mh_status status = mh_log_softmax_topk(context, NULL, &from, &to_ids, &logps);
    for (size_t i = 0; i < top && !status; i++)
        probabilities[i] = exp(probabilities[i]);
    if (labels == 1)
        probabilities[0] = 1 / (1 + exp(-(double)logits[0]));
    return status;
}
