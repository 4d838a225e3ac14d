// SPDX-License-Identifier: MIT
// How the steps of `multihead mha --trace` are shown: a line each for people, or one JSON object
// for programs. Lines are printed as the steps complete: a large layer takes a while.
#include "messages.h"
#include "mha.h"
#include "terminal.h"

#include <math.h>
#include <unistd.h>

enum { MOST_SHOWN = 6, MOST_HEADS = 16 };

// "(30, 5, 1024)", in JSON "[30, 5, 1024]".
static const char *shape_text(const mh_tensor *t, bool json, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, json ? "[" : "(");
    for (int d = 0; d < t->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", d ? ", " : "", t->shape[d]);
    if (used < size)
        snprintf(text + used, size - used, json ? "]" : ")");
    return text;
}

static const char *mha_time_text(double seconds, char *text, size_t size)
{
    if (isnan(seconds))
        snprintf(text, size, "%s", "");
    else if (seconds < 0)
        snprintf(text, size, "a view");
    else if (seconds < 1e-3)
        snprintf(text, size, "%.1f us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(text, size, "%.1f ms", 1e3 * seconds);
    else
        snprintf(text, size, "%.2f s", seconds);
    return text;
}

// Whether a line with all columns exceeds the terminal: the description then gets its own line.
static bool is_narrow(void)
{
    enum { LONGEST_LINE = 115 };
    return isatty(STDOUT_FILENO) && terminal_width(STDOUT_FILENO) < LONGEST_LINE;
}

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

void show_begin(const mha *m)
{
    const mh_mha_config *c = &m->config;
    const size_t parameters = mh_mha_parameters(m->module)->floats;
    const double bytes = 4.0 * (double)parameters;
    char grouped[64] = "";
    if (m->json) {
        begin_json(m);
        return;
    }
    if (m->preset)
        printf("One attention layer of %s. ", m->preset->model);
    if (c->kv_heads < c->num_heads)
        snprintf(grouped, sizeof grouped, ", G = %zu of key and value", c->kv_heads);
    printf("Multi-head attention: N = %zu %s per token in, D = %zu out;\n"
           "H = %zu %s of width E = D/H = %zu%s; %zu parameters, %.1f %s in f32.\n",
           c->input_dim, plural(c->input_dim, "value", "values"), c->embed_dim, c->num_heads,
           plural(c->num_heads, "head", "heads"), c->embed_dim / c->num_heads, grouped, parameters,
           bytes < 1e6 ? bytes / 1e3 : bytes / 1e6, bytes < 1e6 ? "kB" : "MB");
    printf("Here: B = %zu %s, T = %zu %s, S = %zu %s%s. Shapes are batch first.\n\n", m->B,
           plural(m->B, "sequence", "sequences"), m->T, plural(m->T, "query", "queries"), m->S,
           plural(m->S, "key", "keys"), m->extra ? " and a learned one" : "");
    printf("%-18s %-10s %-22s %s%s\n", "step", "tensor", "shape", m->no_times ? "" : "time       ",
           is_narrow() ? "" : "what happens");
}

void show_step(mha *m, const char *step, const char *name, const mh_tensor *tensor, double seconds,
               const char *how)
{
    char shape[128], time[32];
    const bool first = !m->shown_step, again = !first && strcmp(m->shown_step, step) == 0;
    m->shown_step = step;
    shape_text(tensor, m->json, shape, sizeof shape);
    if (m->json) {
        printf("%s{\"step\": \"%s\", \"tensor\": \"%s\", \"shape\": %s, \"formula\": \"%s\", ",
               first ? "" : ", ", step, name, shape, how);
        if (!m->no_times && seconds >= 0)
            printf("\"seconds\": %.9f, ", seconds);
        printf("\"view\": %s}", seconds < 0 ? "true" : "false");
        return;
    }
    printf("%-18s %-10s %-22s ", again ? "" : step, name, shape);
    if (!m->no_times)
        printf("%-10s ", mha_time_text(seconds, time, sizeof time));
    printf(is_narrow() ? "\n    %s\n" : "%s\n", how);
    fflush(stdout);
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
    printf(
        "\nThe same in one call, mh_mha_forward, which never materialises the (B,H,T,S) scores:\n");
    if (m->no_times)
        printf("equal up to rounding.\n");
    else
        printf("%s; largest difference from the steps above: %.1e\n",
               mha_time_text(seconds, time, sizeof time), difference);
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
        snprintf(heads, sizeof heads, "; mean of %zu %s", H, plural(H, "head", "heads"));
    printf("output   %-22s %s\n", shape_text(out, false, shape, sizeof shape), layout);
    printf("weights  %-22s %s%squeries, keys%s\n", shape_text(weights, false, shape, sizeof shape),
           m->batched ? "batch, " : "", m->per_head ? "heads, " : "", heads);
}

// ---- values -------------------------------------------------------------------------------------

// The first values of a row.
static void show_row(bool json, const float *row, ptrdiff_t step, size_t count)
{
    const size_t shown = count < MOST_SHOWN ? count : MOST_SHOWN;
    printf(json ? "[" : "");
    for (size_t i = 0; i < shown; i++) {
        const double x = (double)row[(ptrdiff_t)i * step];
        if (!json)
            printf(" %7.3f", x);
        else
            printf(isfinite(x) ? "%s%.6g" : "%snull", i ? ", " : "", x);
    }
    printf("%s", json ? "]" : "");
    if (!json && shown < count)
        printf(" ... (%zu)", count);
}

// The last row of the first sequence of (B, T, width).
static const float *last_row(const mh_tensor *t)
{
    return (const float *)t->data + (ptrdiff_t)(t->shape[1] - 1) * t->stride[1];
}

static const float *head_row(const mh_tensor *t, size_t h)
{
    return (const float *)t->data + (ptrdiff_t)h * t->stride[1] +
           (ptrdiff_t)(t->shape[2] - 1) * t->stride[2];
}

static void show_heads(const mha *m, const mh_tensor *attention, const mh_tensor *heads)
{
    const size_t H = m->config.num_heads, shown = H < MOST_HEADS ? H : MOST_HEADS;
    for (size_t h = 0; h < shown; h++) {
        const float *weights = head_row(attention, h), *heard = head_row(heads, h);
        if (m->json)
            printf("%s{\"weights\": ", h ? ", " : "");
        else
            printf("  head %-3zu attends", h);
        show_row(m->json, weights, attention->stride[3], attention->shape[3]);
        printf(m->json ? ", \"output\": " : "\n           output ");
        show_row(m->json, heard, heads->stride[3], heads->shape[3]);
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
    show_row(m->json, last_row(t), t->stride[2], t->shape[2]);
    if (!m->json)
        printf("\n");
}

void show_values(const mha *m, const mh_tensor *input, const mh_tensor *attention,
                 const mh_tensor *heads, const mh_tensor *merged, const mh_tensor *out)
{
    if (m->B == 0 || m->T == 0)
        return;
    if (m->json)
        printf(", \"values\": {\"sequence\": 0, \"token\": %zu", m->T - 1);
    else
        printf("\nValues of token %zu of sequence 0:\n", m->T - 1);
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
