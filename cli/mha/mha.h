// SPDX-License-Identifier: MIT
// State of `multihead mha`, shared by its files: the options and the control flow are in cmd_mha.c,
// their checks in mha_checks.c, the files of a model in mha_files.c, the layer in them in
// mha_layer.c or, with --layer, in layer.c, the module's sizes and parameters in mha_module.c,
// presets in mha_presets.c, the input arrays in mha_inputs.c, the computation step by step in
// mha_trace.c, and the printing of its steps in mha_show.c.
//
// Letters: B batch, T queries, S keys, N width of the input, D of the model, H heads, G key/value
// heads, E = D/H.
#ifndef CLI_MHA_H
#define CLI_MHA_H

#include "arguments.h"
#include "arrays.h"
#include "outputs.h"
#include "presets/presets.h"
#include "steps/steps.h"

#include <multihead/nn.h>

enum {
    INPUT_QUERY,
    INPUT_KEY,
    INPUT_VALUE,
    INPUT_PADDING, // --key-padding-mask
    INPUT_MASK,    // --attn-mask
    INPUT_COUNT,
};

enum { OUTPUT_OUT, OUTPUT_WEIGHTS, OUTPUT_COUNT };
enum { MHA_HEADS_SHOWN = 16 }; // with their values

typedef struct mha {
    common_options common;
    const char *model;     // a file or a directory; NULL: random parameters
    char *model_directory; // of a model given by its name, or NULL; for free()
    char *model_file;      // the file with the parameters, once it is found; for free()
    const char *prefix;    // of their names, or NULL
    bool whole_model;      // --layer: one layer of a model, with the model's settings
    size_t layer;
    const char *stack; // of that layer; NULL: the only one
    bool gemma;        // norms are stored as w, of 1 + w
    bool relative_bias;
    double relative_distance;
    float *bias_table; // (buckets, H), or NULL; for free()
    size_t buckets;
    mh_rope_scaling scaling; // config.rope_scaling
    bool no_verify;          // checksums are not checked
    const model_preset *preset;
    mh_mha_config config; // as given; complete once the module is made
    int64_t random[2];    // B, T; 0: from files
    uint64_t seed;
    mh_causal causal;
    bool seeded, rope_base, per_head, trace, values, json, no_times, list_presets;
    bool heads_given;
    ptrdiff_t token;  // whose values are shown; -1: not given
    size_t shown;     // the same, once T is known
    bool scores_kept; // the scores of that query, if there is a mask
    float scores[MHA_HEADS_SHOWN][STEPS_VALUES];
    bool shapes; // no other output: print the shapes of output and weights
    array inputs[INPUT_COUNT];
    output outputs[OUTPUT_COUNT];

    mh_context *context;
    mh_mha *module;
    mh_mha_options options;         // points into inputs
    mh_attention_options attention; // options.attention
    mh_tensor query, key, value;
    step_table table;
    bool batched;          // query has three dimensions
    size_t B, T, S, extra; // extra: learned keys that are added to the S
} mha;

static inline void set_size(size_t *size, size_t found) // unless it is given
{
    if (*size == 0)
        *size = found;
}

// ---- mha_checks.c -------------------------------------------------------------------------------

// Which options go together; argp_error() if they do not.
void mha_check_options(struct argp_state *state, mha *m);

// ---- mha_presets.c ------------------------------------------------------------------------------

// The preset whose layers a model has, by the model's name in any spelling; its sizes; and a table
// of all presets on stdout.
const model_preset *find_layer_preset(struct argp_state *state, const char *name);
void set_preset_sizes(const model_preset *p, mh_mha_config *config);
void print_presets(bool json);

// ---- mha_files.c --------------------------------------------------------------------------------

// Finds the file of m->model, and the number of heads in config.json next to it unless it is given.
int mha_find_files(mha *m);

// ---- mha_layer.c --------------------------------------------------------------------------------

// Fills in the sizes of m->config that were not given, from the shapes in m->model_file.
int mha_read_sizes(mha *m);

// ---- mha_module.c -------------------------------------------------------------------------------

// Creates the module and fills its parameters, from the file or at random; m->config is complete
// afterwards. Like all functions here that return int: an exit code, after reporting errors.
int mha_make_module(mha *m);

// ---- mha_inputs.c -------------------------------------------------------------------------------

// Opens, checks and converts all inputs, or draws them, and puts them into m and m->options.
int mha_read_inputs(mha *m);

// Memory for the outputs; weights only if they are requested.
int mha_allocate_outputs(mha *m);

// ---- mha_trace.c --------------------------------------------------------------------------------

// Computes everything step by step and shows it; then in one call, which is what fills the
// outputs, and compares the two.
int mha_trace(mha *m);

// ---- mha_show.c ---------------------------------------------------------------------------------

// An introduction; then each step: its name, the resulting tensor and its name, and the formula.
// seconds < 0: a view of the same memory, nothing was computed; NAN: nothing happened. A step may
// show several tensors. Finally the module as a whole.
void show_begin(mha *m);
void show_step(mha *m, const char *step, const char *name, const mh_tensor *tensor, double seconds,
               const char *how);
void show_steps_end(const mha *m);
void show_module(const mha *m, double seconds, double difference);

// The shapes of output and weights, if no other output is requested.
void show_shapes(const mha *m);

// Keeps the masked scores (B, H, T, S) of query m->shown for show_values.
void keep_scores(mha *m, const mh_tensor *scores);

// Between the last two: the values of query m->shown of the first sequence: attention (B, H, T, S),
// heads (B, H, T, E), merged (B, T, H E) and out (B, T, D).
void show_values(const mha *m, const mh_tensor *input, const mh_tensor *attention,
                 const mh_tensor *heads, const mh_tensor *merged, const mh_tensor *out);

#endif
