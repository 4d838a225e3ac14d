// SPDX-License-Identifier: MIT
// What a file says about the attention layer in it: its widths, and which prefixes have layers if
// the given one has none.
#include "messages.h"
#include "mha.h"

#include <stdio.h>
#include <string.h>

// The names of the projections, by kind of file; mh_parameters_load decides.
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

// A file, and the prefix of the layer's parameters in it.
typedef struct layer_file {
    const mh_tensor_file *file;
    const char *prefix;
} layer_file;

static bool mha_find_names(const layer_file *f, const char *name, mh_tensor *tensor)
{
    char full[512];
    const int size = snprintf(full, sizeof full, "%s%s", f->prefix, name);
    size_t i;
    return size > 0 && (size_t)size < sizeof full && mh_tensor_file_index(f->file, full, &i) &&
           mh_tensor_file_describe(f->file, i, tensor);
}

static bool has(const layer_file *f, const char *name)
{
    mh_tensor ignored;
    return mha_find_names(f, name, &ignored);
}

// The columns or rows (dim 1 or 0) of a matrix, 0 if it is missing.
static size_t size_in(const layer_file *f, const char *name, int dim)
{
    mh_tensor t;
    bool found = name && mha_find_names(f, name, &t) && t.rank == 2;
    return found ? t.shape[dim] : 0;
}

// G from the rows of the key projection; H if they are not divisible.
static size_t kv_heads_in(const layer_file *file, const names *n, const mh_mha_config *c)
{
    const size_t E = c->embed_dim / c->num_heads;
    const size_t rows = size_in(file, n->k ? n->k : n->q, 0);
    const size_t kv = n->k ? rows : rows > c->embed_dim ? (rows - c->embed_dim) / 2 : 0;
    return E && kv >= E && kv % E == 0 && c->num_heads % (kv / E) == 0 ? kv / E : c->num_heads;
}

// Fills in the sizes that were not given as options. Mismatches are found when it is loaded.
static bool read_sizes(const layer_file *file, mh_mha_config *c)
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
        return c->embed_dim > 0;
    }
    return false;
}

static int mha_check_numbers(const mha *m, const mh_tensor_file *file)
{
    const mh_mha_config *c = &m->config;
    const double D = (double)c->embed_dim, keys = D * (double)c->kv_heads / (double)c->num_heads;
    return array_check_elements(
        m->model_file, file,
        D * (D + (double)c->input_dim) + keys * ((double)c->kdim + (double)c->vdim), c->embed_dim);
}

// ---- other layers -------------------------------------------------------------------------------

enum { MOST_LISTED = 10 };

typedef struct listing {
    char text[2048];
    size_t used, count; // bytes of text; items, shown or not
} listing;

static void list_item(listing *l, const char *item, size_t length)
{
    if (l->count++ >= MOST_LISTED || length + 3 > sizeof l->text - l->used)
        return;
    l->used += (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s%.*s",
                                l->used ? ", " : "", (int)length, item);
}

// The length of a name before the projection of a query, SIZE_MAX if it is no such projection.
static size_t prefix_length(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++) {
        const size_t end = strlen(known_names[i].q);
        if (length < end || strcmp(name + length - end, known_names[i].q) != 0)
            continue;
        if (length == end || name[length - end - 1] == '.')
            return length - end;
    }
    return SIZE_MAX;
}

static bool looks_like_attention(const char *name)
{
    static const char *const words[] = {"attn",   "attention", "query", "qkv", "q_lin",
                                        "q_proj", ".q.",       ".k.",   ".v.", NULL};
    for (const char *const *word = words; *word; word++)
        if (strcasestr(name, *word))
            return true;
    return false;
}

typedef enum { LIST_PREFIXES, LIST_ATTENTION, LIST_ALL } list_what;

static listing mha_list_names(const mh_tensor_file *file, list_what what)
{
    listing l = {.used = 0};
    const char *name;
    for (size_t i = 0; (name = mh_tensor_file_name(file, i)); i++) {
        const size_t prefix = prefix_length(name);
        if (what == LIST_PREFIXES && prefix != SIZE_MAX && prefix > 0)
            list_item(&l, name, prefix);
        else if (what == LIST_ALL || (what == LIST_ATTENTION && looks_like_attention(name)))
            list_item(&l, name, strlen(name));
    }
    return l;
}

// Reports that there is no attention layer with the prefix, and what there is.
static int refuse_layer(const mha *m, const mh_tensor_file *file)
{
    const char *behind = m->prefix ? " with --prefix " : "", *prefix = m->prefix ? m->prefix : "";
    char more[64] = "";
    listing l = {.count = 0};
    list_what what = LIST_PREFIXES;
    for (; what <= LIST_ALL && !l.count; what += !l.count)
        l = mha_list_names(file, what);
    if (l.count > MOST_LISTED)
        snprintf(more, sizeof more, " ... (%zu in all)", l.count);
    if (what == LIST_PREFIXES)
        complain("--model %s: no attention layer%s%s, expected one of --prefix %s%s", m->model_file,
                 m->prefix ? behind : " without --prefix", prefix, l.text, more);
    else
        complain("--model %s: no attention layer%s%s by these names; expected in_proj_weight and "
                 "out_proj.weight as in PyTorch, or W_q, W_k, W_v, W_o or the like "
                 "(docs/guide/mha.md), or --layer for one of a whole model; found %s%s",
                 m->model_file, behind, prefix, l.count ? l.text : "no tensors", more);
    return EXIT_INPUT;
}

int mha_read_sizes(mha *m)
{
    mh_tensor_file *file;
    mh_status status = mh_tensor_file_open(m->context, m->model_file, &file);
    if (status != MH_OK)
        return complain_status(m->context, status, "--model");
    const layer_file layer = {file, m->prefix ? m->prefix : ""};
    const bool found = read_sizes(&layer, &m->config);
    int code = found || m->config.embed_dim ? mha_check_numbers(m, file) : refuse_layer(m, file);
    mh_tensor_file_free(file);
    return code;
}
