// SPDX-License-Identifier: MIT
// The module of `multihead mha`: its sizes come from a preset, from options, or from the shapes in
// the file of its parameters; its parameters from that file or from a seed.
#include "messages.h"
#include "mha.h"
#include "progress.h"

#include <multihead/model.h>
#include <stdio.h>
#include <string.h>

// ---- presets ----------------------------------------------------------------------------------

const preset presets[] = {
    {"transformer-base", "Transformer-base", 512, 8},
    {"bert-base", "BERT-Base", 768, 12},
    {"bert-large", "BERT-Large", 1024, 16},
    {"gpt2-small", "GPT-2 Small", 768, 12},
    {"gpt2-large", "GPT-2 Large", 1280, 20},
    {"gpt3", "GPT-3 175B", 12288, 96},
    {"vit-b-16", "ViT-B/16", 768, 12},
    {"whisper-tiny", "Whisper-tiny", 384, 6},
    {NULL, NULL, 0, 0},
};
enum { PRESETS = sizeof presets / sizeof *presets - 1 };

const preset *find_preset(struct argp_state *state, const char *name)
{
    choice choices[PRESETS + 1] = {{NULL, 0}};
    for (int i = 0; i < PRESETS; i++)
        choices[i] = (choice){presets[i].name, i};
    return &presets[parse_choice(state, "--preset", name, choices)];
}

// in_proj (3D, D) and its bias, out_proj (D, D) and its bias.
static size_t preset_parameters(const preset *p) { return 4 * p->embed_dim * (p->embed_dim + 1); }

void print_presets(bool json)
{
    if (!json)
        printf("%-17s %-17s %6s %6s %6s %12s %10s %10s\n", "preset", "one layer of", "D", "heads",
               "E", "parameters", "f32", "bf16");
    for (const preset *p = presets; p->name; p++) {
        const size_t count = preset_parameters(p), E = p->embed_dim / p->heads;
        if (json)
            printf("{\"preset\": \"%s\", \"model\": \"%s\", \"embed_dim\": %zu, \"heads\": %zu, "
                   "\"head_dim\": %zu, \"parameters\": %zu, \"bytes_f32\": %zu, \"bytes_bf16\": "
                   "%zu}\n",
                   p->name, p->model, p->embed_dim, p->heads, E, count, 4 * count, 2 * count);
        else
            printf("%-17s %-17s %6zu %6zu %6zu %12zu %7.1f MB %7.1f MB\n", p->name, p->model,
                   p->embed_dim, p->heads, E, count, 4e-6 * (double)count, 2e-6 * (double)count);
    }
}

// ---- what a file tells about its module -------------------------------------------------------

// The names of the projections, by kind of file; mh_parameters_load has the last word on them.
typedef struct names {
    const char *q, *k, *v, *out; // k and v NULL: one matrix for all three
    const char *bias, *out_bias;
} names;

static const names known_names[] = {
    {"in_proj_weight", NULL, NULL, "out_proj.weight", "in_proj_bias", "out_proj.bias"},
    {"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight", "in_proj_bias",
     "out_proj.bias"},
    {"W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight", "W_q.bias", "W_o.bias"},
    {"q_linear.weight", "k_linear.weight", "v_linear.weight", "out_linear.weight", "q_linear.bias",
     "out_linear.bias"},
    {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_proj.bias",
     "o_proj.bias"},
    {"qkv_layer.weight", NULL, NULL, "linear_layer.weight", "qkv_layer.bias", "linear_layer.bias"},
};

// A file, and what the names of the layer's parameters begin with in it.
typedef struct layer_file {
    const mh_tensor_file *file;
    const char *prefix;
} layer_file;

static bool find(const layer_file *f, const char *name, mh_tensor *tensor)
{
    char full[512];
    const int size = snprintf(full, sizeof full, "%s%s", f->prefix, name);
    return size > 0 && (size_t)size < sizeof full && mh_tensor_file_find(f->file, full, tensor);
}

static bool has(const layer_file *f, const char *name)
{
    mh_tensor ignored;
    return find(f, name, &ignored);
}

// The columns or rows (dim 1 or 0) of a matrix, 0 if it is not there.
static size_t size_in(const layer_file *f, const char *name, int dim)
{
    mh_tensor t;
    bool found = name && find(f, name, &t) && t.rank == 2;
    return found ? t.shape[dim] : 0;
}

static void set_size(size_t *size, size_t found)
{
    if (*size == 0)
        *size = found;
}

// G from the rows that make keys; H if that does not come out even.
static size_t kv_heads_in(const layer_file *file, const names *n, const mh_mha_config *c)
{
    const size_t E = c->embed_dim / c->num_heads;
    const size_t rows = size_in(file, n->k ? n->k : n->q, 0);
    const size_t kv = n->k ? rows : rows > c->embed_dim ? (rows - c->embed_dim) / 2 : 0;
    return E && kv >= E && kv % E == 0 && c->num_heads % (kv / E) == 0 ? kv / E : c->num_heads;
}

// Fills in the sizes that were not given as options. What does not fit is found when it is loaded.
static void read_sizes(const layer_file *file, mh_mha_config *c)
{
    for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++) {
        const names *n = &known_names[i];
        if (!has(file, n->q))
            continue;
        set_size(&c->embed_dim, size_in(file, n->out, 0));
        set_size(&c->input_dim, size_in(file, n->q, 1));
        set_size(&c->kdim, size_in(file, n->k, 1));
        set_size(&c->vdim, size_in(file, n->v, 1));
        set_size(&c->kv_heads, kv_heads_in(file, n, c));
        c->bias = has(file, n->bias) || has(file, n->out_bias);
        c->add_bias_kv = has(file, "bias_k");
        c->sinks = has(file, "sinks");
        return;
    }
}

// Widths may ask for any amount of memory; beyond a little they get what the file's numbers
// justify.
static int check_numbers(const mha *m, const mh_tensor_file *file)
{
    const double little = 1 << 24;
    const mh_mha_config *c = &m->config;
    const double D = (double)c->embed_dim, keys = D * (double)c->kv_heads / (double)c->num_heads;
    const double expected =
        D * (D + (double)c->input_dim) + keys * ((double)c->kdim + (double)c->vdim);
    double found = 0;
    mh_tensor tensor;
    for (size_t i = 0; mh_tensor_file_at(file, i, &tensor); i++)
        found += (double)mh_tensor_count(&tensor);
    if (found >= expected || expected <= little)
        return EXIT_DONE;
    complain("--model %s: found %.0f numbers, expected at least %.0f for a width of %.0f", m->model,
             found, expected, D);
    return EXIT_INPUT;
}

static int read_config(mha *m)
{
    mh_tensor_file *file;
    mh_status status = mh_tensor_file_open(m->context, m->model, &file);
    if (status != MH_OK)
        return complain_status(m->context, status, "--model");
    const layer_file layer = {file, m->prefix ? m->prefix : ""};
    read_sizes(&layer, &m->config);
    const int code = check_numbers(m, file);
    mh_tensor_file_free(file);
    if (m->config.embed_dim)
        return code;
    complain("--model %s: no parameters of an attention layer are known by these names; expected "
             "in_proj_weight and out_proj.weight as PyTorch has them, or W_q, W_k, W_v, W_o or "
             "the like (docs/mha.md)%s",
             m->model,
             m->prefix ? ", behind --prefix"
                       : "; of a part of a larger model, --prefix says where");
    return EXIT_INPUT;
}

// ---- making it --------------------------------------------------------------------------------

static int fill_parameters(mha *m)
{
    const mh_parameters *parameters = mh_mha_parameters(m->module);
    if (!m->model) {
        char text[64];
        snprintf(text, sizeof text, "drawing %zu parameters at random", parameters->floats);
        progress_text(text); // a layer of GPT-3 takes many seconds
        mh_parameters_init(parameters, m->seed);
        progress_clear();
        return EXIT_DONE;
    }
    mh_parameters_options options = mh_parameters_options_default();
    options.prefix = m->prefix;
    options.qkv = m->config.qkv;
    options.num_heads = m->config.num_heads;
    mh_status status = mh_parameters_load(m->context, parameters, m->model, &options);
    return status == MH_OK ? EXIT_DONE : complain_status(m->context, status, "--model");
}

int mha_make_module(mha *m)
{
    mh_mha_config *c = &m->config;
    if (m->preset) {
        c->embed_dim = m->preset->embed_dim;
        c->num_heads = m->preset->heads;
    }
    int code = m->model ? read_config(m) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    set_size(&c->input_dim, c->embed_dim);
    set_size(&c->kdim, c->input_dim);
    set_size(&c->vdim, c->input_dim);
    set_size(&c->kv_heads, c->num_heads);
    if (c->embed_dim % c->num_heads) {
        complain("--heads: found %zu, expected a divisor of %zu, the width in --model %s",
                 c->num_heads, c->embed_dim, m->model);
        return EXIT_USAGE;
    }
    if (c->alibi && c->add_bias_kv) {
        complain("--alibi is not for a learned key, as --model %s has one (bias_k)", m->model);
        return EXIT_USAGE;
    }
    mh_status status = mh_mha_create(m->context, c, &m->module);
    if (status != MH_OK)
        return complain_status(m->context, status, NULL);
    return fill_parameters(m);
}
