// SPDX-License-Identifier: MIT
// Internals of a decoding: decoding.c creates it, decoding_sequences.c adds, drops and reorders
// sequences, decoding_step.c processes tokens.
#ifndef MH_NN_DECODING_H
#define MH_NN_DECODING_H

#include "nn/packed_weights.h"
#include "nn/transformer.h"

enum { MH_DECODING_SEQUENCES = 1 << 30 }; // at most

struct mh_decoding {
    mh_allocator allocator;
    const mh_transformer *transformer;
    const mh_packed_weights *packed;
    mh_packed_weights *own; // the same, or NULL
    size_t sequences;
    size_t *lengths; // (capacity): tokens of each sequence before the current step
    size_t capacity;
    mh_dtype dtype;       // of the caches
    size_t cache_count;   // 2 * layers
    mh_kv_cache **caches; // (cache_count): of the tokens, and of the memory or NULL
    mh_tape *tape;        // workspace of a step
    bool broken;          // a reorder failed halfway
    const bool *disabled; // (attentions, H) or NULL
};

// The blocks that decode: the decoder's, or the encoder's if there is no decoder.
static inline const mh_stack *mh_decoding_stack(const mh_transformer *t)
{
    return t->decoder.count ? &t->decoder : &t->encoder;
}

// Room for the lengths of `sequences` sequences. Error: MH_ERROR_MEMORY.
mh_status mh_decoding_reserve(mh_context *context, mh_decoding *decoding, size_t sequences);

// Fails after a reorder that ran out of memory: layers then disagree on the order of sequences.
mh_status mh_decoding_check_whole(mh_context *context, const mh_decoding *decoding);

#endif
