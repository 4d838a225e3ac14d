// SPDX-License-Identifier: MIT
// The training loss: the cross-entropy of a batch of sentence pairs, and its gradients.
#ifndef MH_MODEL_TRANSLATOR_LOSS_H
#define MH_MODEL_TRANSLATOR_LOSS_H

#include <multihead/translator.h>

// Packed sentences, without padding; sequence b has rows starts[b] to starts[b + 1] - 1. Source:
// tokens and </s>. Target: the decoder's input, <s> and tokens, and its expected output, tokens and
// </s>.
typedef struct mh_pair_batch {
    size_t sequences;
    const int32_t *source, *source_positions;
    const int32_t *given, *wanted, *target_positions;
    const int64_t *source_starts, *target_starts; // (sequences + 1)
} mh_pair_batch;

typedef struct mh_loss_options {
    float label_smoothing;
    float *gradients;     // NULL: only the loss; else gradients of scale * loss are added
    bool fresh;           // gradients are written instead of added
    float gradient_scale; // 1 / tokens makes the loss a mean
    bool training;        // dropout
    uint64_t seed;
    uint32_t step;
    mh_gradients_ready_fn ready; // NULL; else called when layers of the Transformer are finished
    void *ready_user;
} mh_loss_options;

// Memory that is reused from batch to batch.
typedef struct mh_loss_memory mh_loss_memory;
mh_status mh_loss_memory_create(mh_context *context, mh_loss_memory **memory);
void mh_loss_memory_free(mh_loss_memory *memory); // NULL is allowed

// *loss: the sum over all expected tokens. Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
mh_status mh_translator_loss(mh_context *context, const mh_translator *translator,
                             const mh_loss_options *options, const mh_pair_batch *batch,
                             mh_loss_memory *memory, double *loss);

#endif
