// SPDX-License-Identifier: MIT
// A decoding's inside: decoding.c makes it and keeps its sequences in order, decoding_step.c lets
// tokens through.
#ifndef MH_NN_DECODING_H
#define MH_NN_DECODING_H

#include "nn/packed_weights.h"
#include "nn/transformer.h"

struct mh_decoding {
    mh_allocator allocator;
    const mh_transformer *transformer;
    const mh_packed_weights *packed;
    mh_packed_weights *own; // the same, or NULL
    size_t sequences;
    size_t cache_count;   // 2 * layers
    mh_kv_cache **caches; // (cache_count): of the tokens, and of the memory or NULL
    mh_tape *tape;        // memory of a step
    bool broken;          // a reorder has failed halfway
    const bool *disabled; // (attentions, H) or NULL
};

// The layers at work: a decoder's, or those of an encoder that is alone.
static inline mh_stack mh_decoding_stack(const mh_transformer *t)
{
    return t->decoder_count ? mh_decoder_stack(t) : mh_encoder_stack(t);
}

// After a reorder that ran out of memory, layers disagree about which sequence is which.
mh_status mh_decoding_check_whole(mh_context *context, const mh_decoding *decoding);

#endif
