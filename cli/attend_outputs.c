// SPDX-License-Identifier: MIT
// The outputs of `multihead attend`: memory for them before anything is computed, and writing them
// after all of it is.
#include "attend.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>

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
                             [OUTPUT_DMASK] = {mask->rank, mask->shape}};
    const bool gradients = a->inputs[INPUT_GRAD_OUT].spec;
    for (int i = 0; i < OUTPUT_COUNT; i++) {
        output *o = &a->outputs[i];
        bool needed = i == OUTPUT_OUT || (i == OUTPUT_LSE && gradients);
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

// The tensor with the leading dimensions that q did not have left out.
static mh_tensor as_user_sees(const attend *a, const mh_tensor *t)
{
    int left_out = 4 - a->query_rank;
    return mh_tensor_view(t->data, t->dtype, t->rank - left_out, t->shape + left_out);
}

static void say_written(const attend *a, int failed)
{
    char list[1024] = "";
    for (int i = 0; i < failed; i++) {
        size_t used = strlen(list);
        if (a->outputs[i].path)
            snprintf(list + used, sizeof list - used, " %s %s", a->outputs[i].option,
                     a->outputs[i].path);
    }
    if (*list)
        complain("written and complete are only:%s", list);
}

int attend_save_outputs(const attend *a)
{
    int code = EXIT_DONE;
    begin_saving();
    for (int i = 0; i < OUTPUT_COUNT && code == EXIT_DONE; i++) {
        const output *o = &a->outputs[i];
        if (!o->path)
            continue;
        mh_tensor tensor = i == OUTPUT_DMASK ? o->tensor : as_user_sees(a, &o->tensor);
        mh_status status = mh_npy_write(a->context, o->path, &tensor);
        if (status == MH_OK)
            continue;
        code = complain_status(a->context, status, o->option);
        code = code == EXIT_MEMORY ? code : EXIT_FAILED;
        say_written(a, i);
    }
    end_saving();
    return code;
}
