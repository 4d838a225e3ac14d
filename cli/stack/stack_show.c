// SPDX-License-Identifier: MIT
// What `multihead encoder` and `multihead decoder` print: an introduction, a table of steps, values
// of one token, and how far the steps are from the fused pass; as text, or as one JSON object.
#include "messages.h"
#include "stack.h"

#include <math.h>
#include <string.h>

enum { MOST_HEADS = 16 };

static const char *module_name(const stack *s)
{
    if (s->decoder)
        return s->layers ? "TransformerDecoder" : "TransformerDecoderLayer";
    return s->layers ? "TransformerEncoder" : "TransformerEncoderLayer";
}

static void begin_stack_json(const stack *s)
{
    const mh_transformer_config *c = &s->config;
    printf("{\"module\": \"%s\", \"layers\": %zu, \"d_model\": %zu, \"nhead\": %zu, "
           "\"head_dim\": %zu, \"dim_feedforward\": %zu, \"norm_first\": %s, \"causal\": %s, "
           "\"parameters\": %zu, \"batch\": %zu, \"tokens\": %zu, ",
           module_name(s), s->layers ? s->layers : 1, c->d_model, c->nhead, c->d_model / c->nhead,
           c->dim_feedforward, c->norm_first ? "true" : "false",
           stack_is_causal(s) ? "true" : "false", mh_transformer_parameters(s->module)->floats,
           s->B, s->T);
    if (s->decoder)
        printf("\"memory\": %zu, ", s->S);
    printf("\"layer\": %zu, \"steps\": [", s->shown_layer);
}

// Columns of the widest shape, (B, H, T, S) or (B, T, F), at least 15.
static int shape_width(const stack *s)
{
    char text[128];
    const size_t keys = s->S > s->T ? s->S : s->T, E = s->config.d_model / s->config.nhead;
    const mh_tensor scores =
        mh_tensor_4d(NULL, MH_F32, s->B, s->config.nhead, keys, keys > E ? keys : E);
    const int width = (int)strlen(steps_shape_text(&scores, false, text, sizeof text));
    return width > 15 ? width : 15;
}

void stack_show_begin(stack *s)
{
    const mh_transformer_config *c = &s->config;
    const size_t layers = s->layers ? s->layers : 1;
    s->table = (step_table){.json = s->json,
                            .no_times = s->no_times,
                            .step_width = 15,
                            .tensor_width = 9,
                            .shape_width = shape_width(s)};
    s->table.line_width = s->table.shape_width + 76; // with the longest formula
    if (s->json) {
        begin_stack_json(s);
        return;
    }
    printf("nn.%s: %zu %s of width D = %zu;\n"
           "H = %zu %s of width E = D/H = %zu, feed-forward F = %zu; %zu parameters.\n",
           module_name(s), layers, plural(layers, "layer", "layers"), c->d_model, c->nhead,
           plural(c->nhead, "head", "heads"), c->d_model / c->nhead, c->dim_feedforward,
           mh_transformer_parameters(s->module)->floats);
    printf("Here: B = %zu %s, T = %zu %s", s->B, plural(s->B, "sequence", "sequences"), s->T,
           plural(s->T, "token", "tokens"));
    if (s->decoder)
        printf(", S = %zu %s of memory", s->S, plural(s->S, "row", "rows"));
    printf(".\nShapes are batch first");
    if (s->batched && !c->batch_first)
        printf("; files, as in PyTorch, have (T, B, D) = (%zu, %zu, %zu)", s->T, s->B, c->d_model);
    printf(".\n\n");
    steps_head(&s->table);
}

void stack_show_steps_end(const stack *s)
{
    if (s->json)
        printf("]");
}

void stack_save_row(stack *s, const char *key, const char *label, int head, const float *row,
                    ptrdiff_t stride, size_t count)
{
    if (s->row_count == MOST_VALUE_ROWS || head >= MOST_HEADS)
        return;
    value_row *r = &s->rows[s->row_count++];
    *r = (value_row){.key = key, .label = label, .head = head, .count = count};
    for (size_t i = 0; i < count && i < STEPS_VALUES; i++)
        r->values[i] = row[(ptrdiff_t)i * stride];
}

// After the last row of the last head that is shown, how many are not.
static void show_more_heads(const stack *s, size_t i)
{
    const size_t H = s->config.nhead;
    const bool last = i + 1 == s->row_count || s->rows[i + 1].head != s->rows[i].head;
    if (s->rows[i].head == MOST_HEADS - 1 && last && H > MOST_HEADS)
        printf("  and %zu %s more\n", H - MOST_HEADS, plural(H - MOST_HEADS, "head", "heads"));
}

void stack_show_values(const stack *s)
{
    if (s->B == 0 || s->T == 0)
        return;
    if (s->json)
        printf(", \"values\": {\"sequence\": 0, \"token\": %zu, \"layer\": %zu, \"rows\": [",
               s->shown_token, s->shown_layer);
    else
        printf("\nValues of token %zu of sequence 0, layer %zu:\n", s->shown_token, s->shown_layer);
    for (size_t i = 0; i < s->row_count; i++) {
        const value_row *r = &s->rows[i];
        char label[64], head[24] = "";
        if (r->head >= 0)
            snprintf(head, sizeof head, "head %d ", r->head);
        snprintf(label, sizeof label, "%s%s", head, r->label);
        if (!s->json)
            printf("  %-18s", label);
        else if (r->head < 0)
            printf("%s{\"name\": \"%s\", \"values\": ", i ? ", " : "", r->key);
        else
            printf("%s{\"name\": \"%s\", \"head\": %d, \"values\": ", i ? ", " : "", r->key,
                   r->head);
        steps_row(s->json, r->values, 1, r->count);
        printf(s->json ? "}" : "\n");
        if (!s->json)
            show_more_heads(s, i);
    }
    if (s->json)
        printf("]}");
}

void stack_show_fused(const stack *s, double seconds, double difference)
{
    char time[32];
    if (s->json) {
        if (!s->no_times)
            printf(", \"fused_seconds\": %.9f", seconds);
        printf(", \"largest_difference\": ");
        printf(isfinite(difference) ? "%.3g" : "null", difference);
        printf("}\n");
        return;
    }
    printf("\nThe same in one call, mh_transformer_forward: q, k, v, weights and output of\n"
           "every attention and the output of every layer are equal up to rounding.\n");
    if (!s->no_times)
        printf("%s; largest difference from the steps above: %.1e\n",
               steps_time_text(seconds, time, sizeof time), difference);
}

void stack_show_shapes(const stack *s)
{
    char shape[128];
    const char *layout = !s->batched             ? "tokens, width"
                         : s->config.batch_first ? "batch, tokens, width"
                                                 : "tokens, batch, width";
    printf("output   %-22s %s\n",
           steps_shape_text(&s->outputs[OUTPUT_OUT].tensor, false, shape, sizeof shape), layout);
}
