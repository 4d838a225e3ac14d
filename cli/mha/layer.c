// SPDX-License-Identifier: MIT
// One attention layer of a whole model: its sizes from the shapes of its tensors, its settings from
// config.json, its parameters into the module.
#include "layer.h"
#include "layer_names.h"
#include "messages.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PART_Q, PART_K, PART_V, PART_OUT, PARTS };

// A tensor of the layer, as (out, in).
typedef struct layer_part {
    bool there;
    size_t index;
    mh_tensor tensor;
} layer_part;

typedef struct layer_parts {
    const mh_tensor_file *file;
    const attention_names *names;
    const char *base;
    layer_part weights[PARTS], biases[PARTS]; // k and v are not there if q has all three
} layer_parts;

// ---- search -------------------------------------------------------------------------------------

static void list_stacks(const attention_search *s, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < s->count && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s%s%zu %s", i ? ", " : "",
                             s->stacks[i].name, *s->stacks[i].name ? " with " : "",
                             s->stacks[i].layers, plural(s->stacks[i].layers, "layer", "layers"));
}

// The stack to take: the one that is asked for, or the only one.
static int choose_stack(const mha *m, const attention_search *s, size_t *chosen)
{
    char there[256];
    list_stacks(s, there, sizeof there);
    if (s->count == 0) {
        complain("--layer: %s has no attention layers by the names of a known model (see "
                 "docs/guide/mha.md); --prefix takes one layer with PyTorch's names",
                 m->model_file);
        return EXIT_INPUT;
    }
    if (!m->stack && s->count > 1) {
        complain("--stack is missing: the model has %s", there);
        return EXIT_USAGE;
    }
    *chosen = 0;
    while (m->stack && *chosen < s->count && strcmp(s->stacks[*chosen].name, m->stack) != 0)
        ++*chosen;
    if (*chosen == s->count) {
        complain("--stack %s: the model has %s%s", m->stack, there,
                 *s->stacks[0].name ? "" : " in one stack");
        return EXIT_USAGE;
    }
    if (!s->stacks[*chosen].names) {
        complain("--layer: found %zu, but the model has %zu %s, from 0", m->layer,
                 s->stacks[*chosen].layers, plural(s->stacks[*chosen].layers, "layer", "layers"));
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static layer_part find_part(const layer_parts *p, const char *stem, const char *kind)
{
    layer_part part = {0};
    part.there = stem && find_layer_tensor(p->file, p->base, stem, kind, &part.index, &part.tensor);
    if (part.there && (p->names->features & LAYER_IN_OUT) && part.tensor.rank == 2)
        part.tensor = mh_tensor_swap(part.tensor, 0, 1);
    return part;
}

static int find_parts(layer_parts *p)
{
    const attention_names *n = p->names;
    const char *const stems[PARTS] = {n->q, n->k, n->v, n->out};
    for (int i = 0; i < PARTS; i++) {
        p->weights[i] = find_part(p, stems[i], "weight");
        p->biases[i] = find_part(p, stems[i], "bias");
        const layer_part *w = &p->weights[i], *b = &p->biases[i];
        if (!stems[i])
            continue;
        if (!w->there || w->tensor.rank != 2 || mh_tensor_count(&w->tensor) == 0) {
            complain("--layer: the matrix %s%s.weight is %s", p->base, stems[i],
                     w->there ? "not a matrix" : "missing");
            return EXIT_INPUT;
        }
        if (b->there && (b->tensor.rank != 1 || b->tensor.shape[0] != w->tensor.shape[0])) {
            complain("--layer: %s%s.bias: expected %zu elements, the rows of the matrix", p->base,
                     stems[i], w->tensor.shape[0]);
            return EXIT_INPUT;
        }
    }
    return EXIT_DONE;
}

// ---- sizes --------------------------------------------------------------------------------------

static int refuse_sizes(const layer_parts *p, const char *what)
{
    complain("--layer: %s: %s", p->base, what);
    return EXIT_INPUT;
}

static size_t rows_of(const layer_parts *p, int part) { return p->weights[part].tensor.shape[0]; }

static size_t columns_of(const layer_parts *p, int part)
{
    return p->weights[p->weights[part].there ? part : PART_Q].tensor.shape[1];
}

// Rows of q, k and v; one matrix has a third each.
static void split_rows(const layer_parts *p, size_t rows[3])
{
    for (int i = 0; i < 3; i++)
        rows[i] = p->names->k ? rows_of(p, i) : rows_of(p, PART_Q) / 3;
}

static int set_widths(const layer_parts *p, mha *m)
{
    mh_mha_config *c = &m->config;
    size_t rows[3];
    split_rows(p, rows);
    const size_t H = c->num_heads, E = rows[0] / H, G = E ? rows[1] / E : 0,
                 Ev = G ? rows[2] / G : 0;
    if (H * E != rows[0] || (!p->names->k && rows_of(p, PART_Q) % 3)) {
        complain("--heads: found %zu, expected a divisor of %zu, the rows of %s%s", H, rows[0],
                 p->base, p->names->q);
        return m->heads_given ? EXIT_USAGE : EXIT_INPUT;
    }
    if (G * E != rows[1] || G * Ev != rows[2] || G == 0 || Ev == 0 || H % G)
        return refuse_sizes(p, "k and v do not have as many rows as heads of q's width");
    if (columns_of(p, PART_OUT) != H * Ev)
        return refuse_sizes(p, "the output projection does not have as many columns as v's heads");
    if (columns_of(p, PART_K) != columns_of(p, PART_Q) ||
        columns_of(p, PART_V) != columns_of(p, PART_Q))
        return refuse_sizes(p, "q, k and v have different columns");
    c->embed_dim = rows_of(p, PART_OUT);
    c->input_dim = c->kdim = c->vdim = columns_of(p, PART_Q);
    c->kv_heads = G;
    c->head_dim = H * E == c->embed_dim ? 0 : E;
    c->value_dim = Ev == E ? 0 : Ev;
    return EXIT_DONE;
}

static void set_biases(const layer_parts *p, mh_mha_config *c)
{
    static const unsigned bits[3] = {MH_BIAS_Q, MH_BIAS_K, MH_BIAS_V};
    c->bias = p->biases[PART_OUT].there;
    c->no_out_bias = !p->biases[PART_OUT].there;
    for (int i = 0; i < 3; i++) {
        const bool there = p->biases[p->names->k ? i : PART_Q].there;
        c->bias |= there;
        c->missing_bias |= there ? 0 : bits[i];
    }
    if (!c->bias)
        c->missing_bias = 0, c->no_out_bias = false;
}

static int set_norms(const layer_parts *p, mha *m)
{
    const size_t E =
        m->config.head_dim ? m->config.head_dim : m->config.embed_dim / m->config.num_heads;
    const layer_part q = find_part(p, "q_norm", "weight"), k = find_part(p, "k_norm", "weight");
    if (!q.there && !k.there)
        return EXIT_DONE;
    if (!q.there || !k.there || mh_tensor_count(&q.tensor) != E ||
        mh_tensor_count(&k.tensor) != E || find_part(p, "q_norm", "bias").there)
        return refuse_sizes(p, "q_norm and k_norm: expected RMS norms of one head's width");
    m->config.qk_norm = true;
    return EXIT_DONE;
}

// Heads are given, in config.json, or known.
static int set_heads(const layer_parts *p, json_t *config, mha *m)
{
    size_t rows[3];
    split_rows(p, rows);
    if (!m->config.num_heads && config)
        read_layer_heads(config, p->names->stack, m);
    if (!m->config.num_heads && (p->names->features & LAYER_HEADS_OF_64))
        m->config.num_heads = rows[0] / 64;
    if (m->config.num_heads)
        return EXIT_DONE;
    complain("--heads is missing: it cannot be inferred from widths, and %s",
             config ? "config.json does not have it" : "there is no config.json");
    return EXIT_USAGE;
}

static int set_config(const layer_parts *p, json_t *config, mha *m)
{
    const unsigned features = p->names->features;
    int code = set_heads(p, config, m);
    if (code == EXIT_DONE)
        code = set_widths(p, m);
    if (code != EXIT_DONE)
        return code;
    size_t rows[3];
    split_rows(p, rows);
    set_biases(p, &m->config);
    if (features & LAYER_INTERLEAVED)
        m->config.qkv = MH_QKV_INTERLEAVED;
    if (features & LAYER_UNSCALED)
        m->config.scale = 1;
    if ((features & LAYER_CAUSAL) && m->causal == MH_CAUSAL_NONE)
        m->causal = MH_CAUSAL_BOTTOM_RIGHT;
    m->relative_bias = features & LAYER_UNSCALED && strcmp(p->names->stack, "cross") != 0;
    code = set_norms(p, m);
    if (code == EXIT_DONE && config)
        code = read_layer_config(config, p->names->stack, rows[0] / m->config.num_heads, m);
    return code;
}

// The trace shows the steps of nn.MultiheadAttention, RoPE and grouped heads.
static int check_trace(const mha *m)
{
    const mh_mha_config *c = &m->config;
    const char *what = c->head_dim || c->value_dim        ? "heads of another width than D/H"
                       : c->qk_norm                       ? "norms of q and k"
                       : c->rope_width || c->rope_scaling ? "partial or scaled rotary positions"
                       : c->softcap > 0 || c->window >= 0 ? "a softcap or window"
                       : !isnan((double)c->scale)         ? "another scale than 1/sqrt(E)"
                       : m->relative_bias                 ? "a relative position bias"
                                                          : NULL;
    if (!m->trace || !what)
        return EXIT_DONE;
    complain("--trace: this layer has %s, which the trace does not show", what);
    return EXIT_USAGE;
}

// ---- the two calls ------------------------------------------------------------------------------

// Opens the file and finds the layer's tensors in it.
static int open_layer(const mha *m, attention_search *search, mh_tensor_file **file, layer_parts *p)
{
    size_t chosen;
    mh_status status = mh_tensor_file_open(m->context, m->model_file, file);
    if (status != MH_OK)
        return complain_status(m->context, status, "--model");
    *search = (attention_search){.layer = m->layer, .stack = m->stack};
    find_attention_layers(*file, search);
    int code = choose_stack(m, search, &chosen);
    if (code != EXIT_DONE)
        return code;
    *p = (layer_parts){
        .file = *file, .names = search->stacks[chosen].names, .base = search->stacks[chosen].base};
    return find_parts(p);
}

int layer_find(mha *m)
{
    attention_search search;
    mh_tensor_file *file = NULL;
    layer_parts p;
    int code = open_layer(m, &search, &file, &p);
    json_t *config = code == EXIT_DONE ? mha_read_config(m, &code) : NULL;
    if (code == EXIT_DONE)
        code = set_config(&p, config, m);
    if (code == EXIT_DONE)
        code = check_trace(m);
    json_decref(config);
    mh_tensor_file_free(file);
    return code;
}

// Copies a tensor into rows of a parameter.
static mh_status copy_part(const mha *m, const layer_parts *p, const layer_part *part,
                           const char *name, size_t first)
{
    const mh_parameters *parameters = mh_mha_parameters(m->module);
    const mh_parameter *parameter = mh_parameters_find(parameters, name);
    if (!part->there || !parameter)
        return MH_OK;
    mh_tensor to = mh_parameter_view(parameter, parameters->values);
    to = mh_tensor_slice(to, 0, first, part->tensor.shape[0]);
    if ((p->names->features & LAYER_IN_OUT) && to.rank == 2)
        to = mh_tensor_swap(to, 0, 1);
    return mh_tensor_file_read(m->context, p->file, part->index, &to);
}

static mh_status copy_norm(const mha *m, const layer_parts *p, const char *stem)
{
    char name[32];
    const layer_part part = find_part(p, stem, "weight");
    const mh_parameters *parameters = mh_mha_parameters(m->module);
    snprintf(name, sizeof name, "%s.weight", stem);
    const mh_parameter *norm = mh_parameters_find(parameters, name);
    mh_status status = copy_part(m, p, &part, name, 0);
    for (size_t i = 0; norm && m->gemma && i < norm->count; i++)
        parameters->values[norm->offset + i] += 1; // stored as w, of 1 + w
    return status;
}

static mh_status copy_parts(const mha *m, const layer_parts *p)
{
    size_t first = 0;
    mh_status status = MH_OK;
    for (int i = 0; i < 3 && status == MH_OK; i++) {
        if (!p->weights[i].there)
            continue;
        status = copy_part(m, p, &p->weights[i], "in_proj_weight", first);
        if (status == MH_OK)
            status = copy_part(m, p, &p->biases[i], "in_proj_bias", first);
        first += rows_of(p, i);
    }
    if (status == MH_OK)
        status = copy_part(m, p, &p->weights[PART_OUT], "out_proj.weight", 0);
    if (status == MH_OK)
        status = copy_part(m, p, &p->biases[PART_OUT], "out_proj.bias", 0);
    if (status == MH_OK && m->config.qk_norm)
        status = copy_norm(m, p, "q_norm");
    if (status == MH_OK && m->config.qk_norm)
        status = copy_norm(m, p, "k_norm");
    return status;
}

int layer_load(mha *m)
{
    attention_search search;
    mh_tensor_file *file = NULL;
    layer_parts p;
    int code = open_layer(m, &search, &file, &p);
    mh_status status = code == EXIT_DONE ? copy_parts(m, &p) : MH_OK;
    if (status != MH_OK)
        code = complain_status(m->context, status, "--layer");
    if (code == EXIT_DONE && m->relative_bias)
        code = layer_load_bias(m, file, p.base);
    mh_tensor_file_free(file);
    return code;
}
