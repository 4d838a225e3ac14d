// SPDX-License-Identifier: MIT
// Shared by the steps of `multihead encoder --trace` and `multihead decoder --trace`: what a layer
// computes, and what the fused forward pass computed for it.
#ifndef CLI_STACK_TRACE_H
#define CLI_STACK_TRACE_H

#include "stack.h"

enum { MOST_BUFFERS = 48 };

// One layer's attention in the fused pass, copied by a tap.
typedef struct fused_attention {
    mh_tensor q, k, v, weights, out; // (B, H, T, E), (B, H, S, E) twice, (B, H, T, S), (B, T, D)
    mh_tensor hidden;                // (B, T, D), of the layer; not of cross-attention
} fused_attention;

typedef struct stack_steps {
    stack *s;
    size_t layer;
    bool shown;  // this layer's steps
    mh_tensor x; // rows (T B, D), in the order of the input
    struct {
        void *data;
        size_t size;
    } buffers[MOST_BUFFERS]; // of one layer
    int buffer_count;
    double difference; // the largest between steps and fused result
} stack_steps;

// Memory for the rest of the layer.
int stack_take(stack_steps *t, const char *what, int rank, const size_t *shape, mh_tensor *tensor);
void stack_release(stack_steps *t);

int stack_check(const stack_steps *t, mh_status status, const char *step);

// Rows of tokens, in the order of the input's file, as (B, length, width).
mh_tensor stack_by_batch(const stack *s, const mh_tensor *rows, size_t length);

// A step, if this layer's are shown.
void stack_show_step(stack_steps *t, const char *step, const char *name, const mh_tensor *tensor,
                     double seconds, const char *formula);
// Whether this layer's values are to be shown: of the shown token of the first sequence.
bool stack_saves(const stack_steps *t);
void stack_save(stack_steps *t, const char *key, const char *label, const mh_tensor *rows);

// t->x becomes the layer's output. `fused`: its self-attention and, of a decoder, cross-attention.
int stack_trace_layer(stack_steps *t, const fused_attention *fused);

// y = LayerNorm(x) in new memory.
int stack_norm(stack_steps *t, const mh_tensor *x, const mh_tensor *weight, const mh_tensor *bias,
               mh_tensor *y);

#endif
