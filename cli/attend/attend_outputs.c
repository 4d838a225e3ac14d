// SPDX-License-Identifier: MIT
// The outputs of `multihead attend`: allocated before anything is computed, written after
// everything is.
#include "attend.h"
#include "steps/steps.h"

int attend_allocate_outputs(attend *a)
{
    const size_t *q = a->inputs[INPUT_Q].tensor.shape; // (B, H, T, E)
    const size_t out[] = {q[0], q[1], q[2], a->inputs[INPUT_V].tensor.shape[3]};
    const size_t weights[] = {q[0], q[1], q[2], a->inputs[INPUT_K].tensor.shape[2]};
    const mh_tensor *mask = &a->inputs[INPUT_MASK].tensor;
    const struct {
        int rank;
        const size_t *shape;
    } forms[OUTPUT_COUNT] = {[OUTPUT_OUT] = {4, out},
                             [OUTPUT_WEIGHTS] = {4, weights},
                             [OUTPUT_LSE] = {3, out},
                             [OUTPUT_DQ] = {4, q},
                             [OUTPUT_DK] = {4, a->inputs[INPUT_K].tensor.shape},
                             [OUTPUT_DV] = {4, a->inputs[INPUT_V].tensor.shape},
                             [OUTPUT_DMASK] = {mask->rank, mask->shape},
                             [OUTPUT_DSINKS] = {1, q + 1}};
    const bool gradients = a->inputs[INPUT_GRAD_OUT].spec;
    for (int i = 0; i < OUTPUT_COUNT; i++) {
        output *o = &a->outputs[i];
        const bool needed = i == OUTPUT_OUT || (i == OUTPUT_LSE && gradients);
        if (!o->path && !needed)
            continue;
        int code = array_allocate(a->context, o->option, MH_F32, forms[i].rank, forms[i].shape,
                                  &o->tensor, &o->size);
        if (code != EXIT_DONE)
            return code;
    }
    if (a->outputs[OUTPUT_WEIGHTS].path)
        a->options.weights = &a->outputs[OUTPUT_WEIGHTS].tensor;
    if (a->outputs[OUTPUT_LSE].path || gradients)
        a->options.lse = &a->outputs[OUTPUT_LSE].tensor;
    return EXIT_DONE;
}

// The tensor without the leading dimensions that q did not have; not for dmask and dsinks, which
// have the shape of mask and sinks.
static mh_tensor as_user_sees(const attend *a, const mh_tensor *t)
{
    int left_out = 4 - a->query_rank;
    return mh_tensor_view(t->data, t->dtype, t->rank - left_out, t->shape + left_out);
}

void attend_show_shapes(const attend *a)
{
    char shape[128];
    const mh_tensor out = as_user_sees(a, &a->outputs[OUTPUT_OUT].tensor);
    mh_tensor weights = as_user_sees(a, &a->inputs[INPUT_Q].tensor);
    weights.shape[weights.rank - 1] = a->inputs[INPUT_K].tensor.shape[2];
    const char *before = a->query_rank == 4   ? "batch, heads, "
                         : a->query_rank == 3 ? "heads, "
                                              : "";
    printf("output   %-22s %squeries, width\n", steps_shape_text(&out, false, shape, sizeof shape),
           before);
    printf("weights  %-22s %squeries, keys\n",
           steps_shape_text(&weights, false, shape, sizeof shape), before);
}

int attend_save_outputs(const attend *a)
{
    mh_tensor tensors[OUTPUT_COUNT];
    for (int i = 0; i < OUTPUT_COUNT; i++)
        tensors[i] = i >= OUTPUT_DMASK || !a->outputs[i].path
                         ? a->outputs[i].tensor
                         : as_user_sees(a, &a->outputs[i].tensor);
    return outputs_save(a->context, a->outputs, tensors, OUTPUT_COUNT);
}
