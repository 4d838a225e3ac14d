// SPDX-License-Identifier: MIT
// The arrays of `multihead encoder` and `multihead decoder`: source or target, and memory, from
// files or at random, checked against the module and each other. All become f32 in C order.
#include "messages.h"
#include "stack.h"

static int draw(stack *s, int i, const int64_t random[2])
{
    const size_t B = (size_t)random[0], T = (size_t)random[1];
    const bool batch_first = s->config.batch_first;
    const size_t shape[3] = {batch_first ? B : T, batch_first ? T : B, s->config.d_model};
    array *in = &s->inputs[i];
    int code = array_allocate(s->context, i == INPUT_X ? "--random" : "--memory", MH_F32, 3, shape,
                              &in->tensor, &in->copy_size);
    if (code != EXIT_DONE)
        return code;
    in->copy = in->tensor.data;
    steps_draw(&in->tensor, s->seed + 1 + (uint64_t)i);
    return EXIT_DONE;
}

static int read_file(stack *s, array *in)
{
    int code = array_open(s->context, in);
    if (code != EXIT_DONE)
        return code;
    const int rank = in->tensor.rank;
    if (!array_is_float(in))
        return array_complain(in, "expected a float array");
    if (rank != 2 && rank != 3)
        return array_complain(in, "expected 3 dimensions %s, or 2 without the batch",
                              s->config.batch_first ? "(batch, length, width)"
                                                    : "(length, batch, width)");
    if (in->tensor.shape[rank - 1] != s->config.d_model)
        return array_complain(in, "width %zu, expected %zu, the module's",
                              in->tensor.shape[rank - 1], s->config.d_model);
    return array_convert(s->context, in, MH_F32, true);
}

static size_t stack_batch_of(const stack *s, const mh_tensor *t)
{
    return t->rank == 2 ? 1 : t->shape[s->config.batch_first ? 0 : 1];
}

static size_t stack_length_of(const stack *s, const mh_tensor *t)
{
    return t->shape[t->rank == 3 && s->config.batch_first ? 1 : 0];
}

static int check_memory(const stack *s)
{
    const array *memory = &s->inputs[INPUT_MEMORY];
    const size_t found = stack_batch_of(s, &memory->tensor);
    if (memory->spec && memory->tensor.rank != s->x.rank)
        return array_complain(memory, "expected %d dimensions as in the target", s->x.rank);
    if (found == s->B)
        return EXIT_DONE;
    complain("--memory: batch %zu, expected %zu as in the target", found, s->B);
    return memory->spec ? EXIT_INPUT : EXIT_USAGE;
}

static int take_memory(stack *s)
{
    const int64_t same[2] = {(int64_t)s->B, (int64_t)s->T};
    array *in = &s->inputs[INPUT_MEMORY];
    int code = in->spec ? read_file(s, in)
                        : draw(s, INPUT_MEMORY, s->random_memory[0] ? s->random_memory : same);
    if (code != EXIT_DONE)
        return code;
    if (!in->spec && !s->batched && s->B == 1) // as the target
        in->tensor = mh_tensor_2d(in->tensor.data, MH_F32, stack_length_of(s, &in->tensor),
                                  s->config.d_model);
    code = check_memory(s);
    s->memory = in->tensor;
    s->S = stack_length_of(s, &s->memory);
    return code;
}

int stack_read_inputs(stack *s)
{
    array *in = &s->inputs[INPUT_X];
    int code = in->spec ? read_file(s, in) : draw(s, INPUT_X, s->random);
    if (code != EXIT_DONE)
        return code;
    s->x = in->tensor;
    s->batched = s->x.rank == 3;
    s->B = stack_batch_of(s, &s->x);
    s->T = s->S = stack_length_of(s, &s->x);
    return s->decoder ? take_memory(s) : EXIT_DONE;
}

int stack_allocate_outputs(stack *s)
{
    const size_t weights[4] = {s->B, s->config.nhead, s->T, s->T};
    output *o = &s->outputs[OUTPUT_OUT], *w = &s->outputs[OUTPUT_WEIGHTS];
    int code =
        array_allocate(s->context, o->option, MH_F32, s->x.rank, s->x.shape, &o->tensor, &o->size);
    if (code == EXIT_DONE && w->path)
        code = array_allocate(s->context, w->option, MH_F32, 4, weights, &w->tensor, &w->size);
    return code;
}
