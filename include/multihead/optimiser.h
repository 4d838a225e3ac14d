// SPDX-License-Identifier: MIT
// multihead/optimiser.h: one step of an optimiser on flat arrays of f32, and the norm of all
// gradients. Elements are split across threads; results are bitwise identical for any number of
// them.
//
// Stability: stable (base.h).
#ifndef MULTIHEAD_OPTIMISER_H
#define MULTIHEAD_OPTIMISER_H

#include <multihead/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mh_adamw_options {
    size_t struct_size;    // sizeof(mh_adamw_options)
    double learning_rate;  // 1e-3
    double beta1, beta2;   // 0.9, 0.999; 0 to less than 1
    double epsilon;        // 1e-8
    double weight_decay;   // 1e-2: decoupled, p shrinks by learning_rate * weight_decay
    double gradient_scale; // 1: gradients are multiplied by it first, for example for clipping
} mh_adamw_options;

static inline mh_adamw_options mh_adamw_options_default(void)
{
    mh_adamw_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.learning_rate = 1e-3;
    options.beta1 = 0.9;
    options.beta2 = 0.999;
    options.epsilon = 1e-8;
    options.weight_decay = 1e-2;
    options.gradient_scale = 1;
    return options;
}

// Step number `step` = 1, 2, ... of AdamW, as in torch.optim.AdamW:
//     p = p (1 - lr decay);  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//     p = p - lr / (1 - beta1^step) m / (sqrt(v / (1 - beta2^step)) + epsilon).
// All arrays (n), none of which overlap; m and v start at 0 and belong to the caller. Errors:
// MH_ERROR_ARGUMENT.
MH_API MH_MUST_CHECK mh_status mh_adamw_step(mh_context *context, const mh_adamw_options *options,
                                             uint64_t step, size_t n, const float *gradient,
                                             float *parameter, float *m, float *v);

typedef struct mh_sgd_options {
    size_t struct_size;    // sizeof(mh_sgd_options)
    double learning_rate;  // 1e-3
    double momentum;       // 0: none
    double weight_decay;   // 0: added to the gradient
    bool nesterov;         // false; needs momentum
    double gradient_scale; // 1
} mh_sgd_options;

static inline mh_sgd_options mh_sgd_options_default(void)
{
    mh_sgd_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.learning_rate = 1e-3;
    options.gradient_scale = 1;
    return options;
}

// One step of SGD, as in torch.optim.SGD:
//     g = g + decay p;  velocity = momentum velocity + g;
//     p = p - lr (velocity, or with nesterov g + momentum velocity, or without momentum g).
// All arrays (n), none of which overlap; velocity starts at 0, NULL without momentum. Errors:
// MH_ERROR_ARGUMENT.
MH_API MH_MUST_CHECK mh_status mh_sgd_step(mh_context *context, const mh_sgd_options *options,
                                           size_t n, const float *gradient, float *parameter,
                                           float *velocity);

// norm = sqrt(sum of squares) over `arrays` arrays, array i of n[i] elements; in double, in blocks
// of 4096 elements from each array's start. Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_gradient_norm(mh_context *context, size_t arrays, const size_t *n,
                                                const float *const *gradients, double *norm);

// The factor that scales gradients of this norm to at most max_norm, as in PyTorch's
// clip_grad_norm_: min(1, max_norm / (norm + 1e-6)); NaN if the norm is NaN. For gradient_scale
// above, or for mh_scale_gradients.
MH_API double mh_clip_factor(double norm, double max_norm);

// gradient = factor * gradient, in place. Errors: MH_ERROR_ARGUMENT.
MH_API MH_MUST_CHECK mh_status mh_scale_gradients(mh_context *context, double factor, size_t n,
                                                  float *gradient);

#ifdef __cplusplus
}
#endif
#endif
