// SPDX-License-Identifier: MIT
// State of `multihead encoder` and `multihead decoder`, shared by their files: the options that
// both have are in stack_options.c, the sizes and parameters of the module in stack_model.c, its
// inputs in stack_inputs.c, the computation step by step in stack_trace.c and stack_layer.c, and
// what is printed in stack_show.c.
//
// Letters: B batch, T tokens, S rows of the memory, D width, H heads, E = D/H, F feed-forward.
#ifndef CLI_STACK_H
#define CLI_STACK_H

#include "arguments.h"
#include "arrays.h"
#include "outputs.h"
#include "steps/steps.h"

#include <multihead/nn.h>

enum { INPUT_X, INPUT_MEMORY, INPUT_COUNT };
enum { OUTPUT_OUT, OUTPUT_WEIGHTS, OUTPUT_COUNT };
enum { MOST_VALUE_ROWS = 96 };

// Values of one token after a step, saved until the table of steps is complete.
typedef struct value_row {
    const char *key, *label; // in JSON; for people
    int head;                // -1: none
    float values[STEPS_VALUES];
    size_t count; // of the whole row
} value_row;

typedef struct stack {
    common_options common;
    bool decoder;
    const char *model, *prefix; // a file or NULL: random parameters; of their names, or NULL
    bool no_verify, activation_given;
    mh_transformer_config config;
    size_t layers; // 0: a layer by itself, not a stack of layers
    size_t ffn;    // 0: as in the file, or 4 D
    size_t shown_layer;
    ptrdiff_t token;    // whose values are shown; -1: not given
    size_t shown_token; // the same, once T is known
    bool causal, not_causal;
    bool trace, values, no_times, json;
    int64_t random[2], random_memory[2]; // B, T and B, S; 0: from files
    uint64_t seed;
    array inputs[INPUT_COUNT];
    output outputs[OUTPUT_COUNT];

    mh_context *context;
    mh_transformer *module;
    mh_tensor x, memory; // as the module takes them; memory of decoders only
    size_t B, T, S;
    bool batched;

    step_table table;
    value_row rows[MOST_VALUE_ROWS];
    size_t row_count;
} stack;

// ---- stack_options.c ----------------------------------------------------------------------------

extern const struct argp stack_argp; // child of both commands' argp; its input is the stack

// All of a command. Returns an exit code.
int stack_run(const command *c, bool decoder, int argc, char **argv);

// Keys of options that only one command has.
enum {
    STACK_KEY_INPUT = 0x100, // + the index of an input
    STACK_KEY_CAUSAL = 0x180,
    STACK_KEY_NOT_CAUSAL,
    STACK_KEY_OWN = 0x200, // those of stack_options.c
};
error_t stack_parse_own(int key, char *argument, struct argp_state *state);

// ---- stack_model.c ------------------------------------------------------------------------------

// The module: sizes from the file or from options, parameters from the file or at random.
int stack_make_module(stack *s);

// A parameter of a layer, such as "self_attn.in_proj_weight"; data NULL if it has none.
mh_tensor stack_parameter(const stack *s, size_t layer, const char *name);
// One after the layers, such as "norm.weight".
mh_tensor stack_last_parameter(const stack *s, const char *name);

// ---- stack_inputs.c -----------------------------------------------------------------------------

int stack_read_inputs(stack *s);
int stack_allocate_outputs(stack *s);

// ---- stack_trace.c ------------------------------------------------------------------------------

// Whether self-attention has the causal mask.
static inline bool stack_is_causal(const stack *s)
{
    return s->decoder ? !s->not_causal : s->causal;
}

// Options of a forward pass.
mh_transformer_options stack_options(const stack *s);

// Computes all layers step by step and shows them; then in one call, which is what fills the
// output, and compares the two.
int stack_trace(stack *s);

// ---- stack_show.c -------------------------------------------------------------------------------

void stack_show_begin(stack *s);
void stack_show_steps_end(const stack *s);
void stack_show_values(const stack *s);
void stack_show_fused(const stack *s, double seconds, double difference);
void stack_show_shapes(const stack *s);

// Adds values of the shown token of the first sequence; row is of that token. Ignored once there
// are MOST_VALUE_ROWS.
void stack_save_row(stack *s, const char *key, const char *label, int head, const float *row,
                    ptrdiff_t stride, size_t count);

#endif
