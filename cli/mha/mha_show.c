// SPDX-License-Identifier: MIT
// How the steps of `multihead mha --trace` are shown: a line each for people, or one JSON object
// for programs. Lines are printed as the steps complete: a large layer takes a while.
#include "messages.h"
#include "mha.h"

#include <math.h>
#include <string.h>

// ---- the steps ----------------------------------------------------------------------------------

static void begin_json(const mha *m)
{
    const mh_mha_config *c = &m->config;
    const size_t parameters = mh_mha_parameters(m->module)->floats;
    printf("{");
    if (m->preset)
        printf("\"preset\": \"%s\", ", m->preset->name);
    printf("\"embed_dim\": %zu, \"heads\": %zu, \"kv_heads\": %zu, \"head_dim\": %zu, "
           "\"input_dim\": %zu, "
           "\"kdim\": %zu, \"vdim\": %zu, \"qkv\": \"%s\", \"parameters\": %zu, \"bytes\": %zu, "
           "\"batch\": %zu, \"queries\": %zu, \"keys\": %zu, \"steps\": [",
           c->embed_dim, c->num_heads, c->kv_heads, c->embed_dim / c->num_heads, c->input_dim,
           c->kdim, c->vdim, c->qkv == MH_QKV_STACKED ? "stacked" : "interleaved", parameters,
           parameters * sizeof(float), m->B, m->T, m->S);
}

// Columns of the widest shape, (3, B, H, T, E) or (B, H, T, S), at least 15.
static int widest_shape(const mha *m)
{
    char text[128];
    const size_t H = m->config.num_heads, E = m->config.embed_dim / H;
    const size_t keys = m->S + m->extra, last = keys > E ? keys : E;
    const size_t length = m->S > m->T ? m->S : m->T;
    mh_tensor widest = {.rank = 5, .shape = {3, m->B, H, length, last}};
    const int width = (int)strlen(steps_shape_text(&widest, false, text, sizeof text));
    return width > 15 ? width : 15;
}

void show_begin(mha *m)
{
    const mh_mha_config *c = &m->config;
    const size_t parameters = mh_mha_parameters(m->module)->floats;
    const double bytes = 4.0 * (double)parameters;
    char grouped[64] = "";
    m->table = (step_table){.json = m->json,
                            .no_times = m->no_times,
                            .step_width = 18,
                            .tensor_width = 10,
                            .shape_width = widest_shape(m)};
    m->table.line_width = m->table.shape_width + 93; // with the longest formula
    if (m->json) {
        begin_json(m);
        return;
    }
    if (m->preset)
        printf("One attention layer of %s.\n", m->preset->model);
    if (c->kv_heads < c->num_heads)
        snprintf(grouped, sizeof grouped, ", G = %zu of key and value", c->kv_heads);
    printf("Multi-head attention: N = %zu %s per token in, D = %zu out;\n"
           "H = %zu %s of width E = D/H = %zu%s;%s%zu parameters, %.1f %s in f32.\n",
           c->input_dim, plural(c->input_dim, "value", "values"), c->embed_dim, c->num_heads,
           plural(c->num_heads, "head", "heads"), c->embed_dim / c->num_heads, grouped,
           *grouped ? "\n" : " ", parameters, bytes < 1e6 ? bytes / 1e3 : bytes / 1e6,
           bytes < 1e6 ? "kB" : "MB");
    printf("Here: B = %zu %s, T = %zu %s, S = %zu %s%s. Shapes are batch first", m->B,
           plural(m->B, "sequence", "sequences"), m->T, plural(m->T, "query", "queries"), m->S,
           plural(m->S, "key", "keys"), m->extra ? " and a learned one" : "");
    if (m->batched && !c->batch_first)
        printf(";\nfiles, as in PyTorch, have (T, B, N) = (%zu, %zu, %zu) in, (%zu, %zu, %zu) out",
               m->T, m->B, c->input_dim, m->T, m->B, c->embed_dim);
    printf(".\n\n");
    steps_head(&m->table);
}

void show_step(mha *m, const char *step, const char *name, const mh_tensor *tensor, double seconds,
               const char *how)
{
    steps_line(&m->table, step, name, tensor, seconds, how);
}

void show_steps_end(const mha *m)
{
    if (m->json)
        printf("]");
}

void show_module(const mha *m, double seconds, double difference)
{
    char time[32];
    if (m->json) {
        if (!m->no_times)
            printf(", \"module_seconds\": %.9f", seconds);
        printf(", \"largest_difference\": ");
        printf(isfinite(difference) ? "%.3g" : "null", difference);
        printf("}\n");
        return;
    }
    printf("\nThe same in one call, mh_mha_forward, which never stores the (B,H,T,S) scores:\n");
    if (m->no_times)
        printf("equal up to rounding.\n");
    else
        printf("%s; largest difference from the steps above: %.1e\n",
               steps_time_text(seconds, time, sizeof time), difference);
}

// ---- shapes alone -------------------------------------------------------------------------------

void show_shapes(const mha *m)
{
    const mh_tensor *out = &m->outputs[OUTPUT_OUT].tensor;
    const mh_tensor *weights = &m->outputs[OUTPUT_WEIGHTS].tensor;
    const size_t H = m->config.num_heads;
    const char *layout = !m->batched             ? "queries, width"
                         : m->config.batch_first ? "batch, queries, width"
                                                 : "queries, batch, width";
    char shape[128], heads[64] = "";
    if (!m->per_head)
        snprintf(heads, sizeof heads, H == 1 ? "; 1 head" : "; mean of %zu heads", H);
    printf("output   %-22s %s\n", steps_shape_text(out, false, shape, sizeof shape), layout);
    printf("weights  %-22s %s%squeries, keys%s\n",
           steps_shape_text(weights, false, shape, sizeof shape), m->batched ? "batch, " : "",
           m->per_head ? "heads, " : "", heads);
}

// ---- values -------------------------------------------------------------------------------------

// The shown row of the first sequence of (B, T, width).
static const float *token_row(const mha *m, const mh_tensor *t)
{
    return (const float *)t->data + (ptrdiff_t)m->shown * t->stride[1];
}

static const float *head_row(const mha *m, const mh_tensor *t, size_t h)
{
    return (const float *)t->data + (ptrdiff_t)h * t->stride[1] +
           (ptrdiff_t)m->shown * t->stride[2];
}

void keep_scores(mha *m, const mh_tensor *scores)
{
    const size_t H = m->config.num_heads, S = scores->shape[3];
    if (m->B == 0 || m->T == 0)
        return;
    m->scores_kept = true;
    for (size_t h = 0; h < H && h < MHA_HEADS_SHOWN; h++) {
        const float *row = head_row(m, scores, h);
        for (size_t j = 0; j < S && j < STEPS_VALUES; j++)
            m->scores[h][j] = row[(ptrdiff_t)j * scores->stride[3]];
    }
}

// What is before the weights of a head: its scores, if keys are masked.
static void show_head_begin(const mha *m, size_t h, size_t keys)
{
    const char *first = m->scores_kept ? "scores" : "weights";
    if (m->json)
        printf("%s{\"%s\": ", h ? ", " : "", first);
    else
        printf("  head %-3zu %-7s", h, m->scores_kept ? first : "attends");
    if (!m->scores_kept)
        return;
    steps_row(m->json, m->scores[h], 1, keys);
    printf(m->json ? ", \"weights\": " : "\n           attends");
}

static void show_heads(const mha *m, const mh_tensor *attention, const mh_tensor *heads)
{
    const size_t H = m->config.num_heads, shown = H < MHA_HEADS_SHOWN ? H : MHA_HEADS_SHOWN;
    for (size_t h = 0; h < shown; h++) {
        const float *weights = head_row(m, attention, h), *heard = head_row(m, heads, h);
        show_head_begin(m, h, attention->shape[3]);
        steps_row(m->json, weights, attention->stride[3], attention->shape[3]);
        printf(m->json ? ", \"output\": " : "\n           output ");
        steps_row(m->json, heard, heads->stride[3], heads->shape[3]);
        printf(m->json ? "}" : "\n");
    }
    if (!m->json && shown < H)
        printf("  and %zu %s more\n", H - shown, plural(H - shown, "head", "heads"));
}

static void show_vector(const mha *m, const char *key, const char *label, const mh_tensor *t)
{
    if (m->json)
        printf(", \"%s\": ", key);
    else
        printf("  %-16s", label);
    steps_row(m->json, token_row(m, t), t->stride[2], t->shape[2]);
    if (!m->json)
        printf("\n");
}

void show_values(const mha *m, const mh_tensor *input, const mh_tensor *attention,
                 const mh_tensor *heads, const mh_tensor *merged, const mh_tensor *out)
{
    if (m->B == 0 || m->T == 0)
        return;
    if (m->json)
        printf(", \"values\": {\"sequence\": 0, \"token\": %zu", m->shown);
    else
        printf("\nValues of token %zu of sequence 0:\n", m->shown);
    show_vector(m, "input", "input", input);
    if (m->json)
        printf(", \"heads\": [");
    show_heads(m, attention, heads);
    if (m->json)
        printf("]");
    show_vector(m, "concat", "concatenated", merged);
    show_vector(m, "out", "after Wo", out);
    if (m->json)
        printf("}");
}
