// SPDX-License-Identifier: MIT
// Labels by probability; see labels.h.
#include "pretrained/labels.h"

#include <math.h>
#include <multihead/layers.h>
#include <stdio.h>
#include <stdlib.h>

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

static mh_status list_labels(mh_context *context, const mh_model *model, const float *logits,
                             label_list *found)
{
    const size_t labels = mh_model_describe(model)->labels;
    const size_t top = labels < LABELS_SHOWN ? labels : LABELS_SHOWN;
    int32_t ids[LABELS_SHOWN];
    double probabilities[LABELS_SHOWN];
    const mh_status status = labels_rank(context, logits, labels, top, ids, probabilities);
    for (size_t i = 0; !status && i < top && ids[i] >= 0; i++) {
        const char *name = mh_model_label(model, (size_t)ids[i]);
        snprintf(found->numbers[i], LABEL_NUMBER, "label %d", (int)ids[i]);
        found->labels[i] = (mh_trace_label){name ? name : found->numbers[i], probabilities[i]};
        found->count++;
    }
    return status;
}

mh_status labels_predict(mh_context *context, const mh_model *model, const mh_model_input *input,
                         size_t rows, label_list *found)
{
    const mh_model_info *info = mh_model_describe(model);
    float *memory = calloc(rows * info->d_model + info->labels, sizeof *memory);
    found->count = 0;
    if (!memory)
        return MH_ERROR_MEMORY;
    float *logits = memory + rows * info->d_model;
    mh_tensor hidden = mh_tensor_2d(memory, MH_F32, rows, info->d_model);
    mh_tensor scores = mh_tensor_2d(logits, MH_F32, 1, info->labels);
    mh_status status = mh_model_hidden(context, model, input, &hidden);
    if (!status)
        status = mh_model_classify(context, model, input, &hidden, &scores);
    if (!status)
        status = list_labels(context, model, logits, found);
    free(memory);
    return status;
}
