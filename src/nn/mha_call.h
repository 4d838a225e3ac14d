// SPDX-License-Identifier: MIT
// Internals of the multi-head attention module and its calls: mha_check.c converts the arguments to
// an mh_attention_call, mha.c runs it and saves it on the tape, mha_grad.c restores it.
#ifndef MH_NN_MHA_CALL_H
#define MH_NN_MHA_CALL_H

#include "nn/attention_layer_internal.h"
#include "nn/flatten.h"

struct mh_mha {
    mh_allocator allocator;
    uint64_t identity; // not 0; never reused, unlike addresses
    mh_attention_layer layer;
    mh_parameters parameters;
};

// What a call keeps on its tape.
typedef struct mh_mha_saved {
    float *inputs[3];  // copies of query, key, value, where their rows are not evenly spaced
    float *output;     // the same for the output, and in backward for its gradient
    float *dinputs[3]; // and for the inputs' gradients
    mh_batch queries, keys;
    int first[3];         // for each input, the first one that is the same
    size_t mask_bytes[2]; // of the padding mask and the mask
    bool has_rule;
    mh_attention_saved attention;
} mh_mha_saved;

// The first of query, key and value that is the same as input i.
static inline int mh_first_like(const mh_tensor *const inputs[3], int i)
{
    int first = 0;
    while (first < i && !mh_same_rows(inputs[first], inputs[i]))
        first++;
    return first;
}

// The size of a mask, saved to compare; 0 for none.
static inline size_t mh_mask_bytes(const mh_tensor *mask)
{
    return mask ? mh_tensor_count(mask) * mh_dtype_size(mask->dtype) + 1 : 0;
}

// The memory for a dense copy, if t needs one.
static inline float *mh_dense_memory(const mh_tensor *t, float *memory)
{
    return mh_rows_flat(t) ? NULL : memory;
}

// A copy of the options, or of the defaults for NULL; checks that the module supports them.
mh_status mh_mha_check_options(mh_context *context, const mh_mha *mha,
                               const mh_mha_options *options, mh_mha_options *own,
                               mh_attention_options *attention);

// Checks query, key and value, the output (or its gradient) and the masks against the module and
// each other; fills in the pass, and the call except its rows and weights.
mh_status mh_mha_check_call(mh_context *context, const mh_mha *mha, const mh_mha_options *options,
                            const mh_tensor *inputs[3], const char *output_name,
                            const mh_tensor *output, mh_pass *pass, mh_attention_call *call);

#endif
