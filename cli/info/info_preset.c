// SPDX-License-Identifier: MIT
// multihead info --preset: what a well-known model's sizes amount to. Nothing is measured or
// allocated, so that models of any size can be shown.
#include "info/info.h"
#include "report.h"

#include <inttypes.h>
#include <string.h>

enum { LABEL_WIDTH = 20 };

// 124439808 as "124,439,808".
static const char *with_commas(uint64_t value, char text[32])
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    char *to = text;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return text;
}

// 497759232 and "B" as "497.8 MB".
static const char *with_prefix(double value, const char *unit, char text[32])
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    size_t i = 0;
    for (; value >= 999.95 && i + 1 < sizeof prefixes / sizeof *prefixes; i++)
        value /= 1000;
    snprintf(text, 32, "%.*f %s%s", i ? 1 : 0, value, prefixes[i], unit);
    return text;
}

// ---- sizes --------------------------------------------------------------------------------------

static const char *order_name(mh_norm_order order)
{
    return order == MH_NORM_BEFORE ? "before" : order == MH_NORM_AFTER ? "after" : "both";
}

static void print_sizes(const model_preset *p)
{
    const preset_family *f = p->family;
    const size_t G = preset_kv_heads(p);
    printf("%-*s%s, %s\n", LABEL_WIDTH, "model", p->model, f->kind);
    if (p->decoder_layers)
        printf("%-*s%zu of the encoder, %zu of the decoder\n", LABEL_WIDTH, "layers", p->layers,
               p->decoder_layers);
    else
        printf("%-*s%zu\n", LABEL_WIDTH, "layers", p->layers);
    printf("%-*s%zu\n", LABEL_WIDTH, "d_model", p->d_model);
    printf("%-*s%zu of width %zu", LABEL_WIDTH, "heads", p->heads, preset_head_dim(p));
    if (G != p->heads)
        printf(", %zu for keys and values", G);
    printf("\n%-*s%zu, %s%s\n", LABEL_WIDTH, "feed-forward", p->ffn,
           mh_activation_name(f->activation), f->gated ? ", gated" : "");
    printf("%-*s%s norm, %s\n", LABEL_WIDTH, "norms", f->norm == MH_NORM_RMS ? "RMS" : "layer",
           f->order == MH_NORM_BEFORE ? "before attention and feed-forward"
                                      : "after the residual sums");
    if (p->vocabulary)
        printf("%-*s%zu%s\n", LABEL_WIDTH, "vocabulary", p->vocabulary,
               !f->output ? ""
               : f->tied  ? ", output tied to the embeddings"
                          : ", output of its own");
    if (f->source)
        printf("%-*s%zu of the source, %zu of the target; %s\n", LABEL_WIDTH, "positions",
               f->source, p->positions, f->position);
    else
        printf("%-*s%zu, %s\n", LABEL_WIDTH, "positions", p->positions, f->position);
}

static void print_parameters(const preset_parameters *n)
{
    const struct {
        const char *part;
        size_t count;
    } parts[] = {
        {"embeddings", n->embeddings},
        {"attention", n->attention},
        {"feed-forward", n->feed_forward},
        {"norms", n->norms},
        {"head", n->head},
        {"total", n->total},
    };
    char text[32];
    printf("\n%-*s%19s\n", LABEL_WIDTH, "parameters", "count");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        printf("  %-*s%19s %6.1f %%\n", LABEL_WIDTH - 2, parts[i].part,
               with_commas(parts[i].count, text), 100 * (double)parts[i].count / (double)n->total);
}

static void print_bytes(const char *label, double numbers, bool int8)
{
    char text[32];
    printf("  %-*s%12s", LABEL_WIDTH - 2, label, with_prefix(4 * numbers, "B", text));
    printf("%12s", with_prefix(2 * numbers, "B", text));
    if (int8)
        printf("%12s", with_prefix(numbers, "B", text));
    printf("\n");
}

static void print_memory(const model_preset *p, const preset_parameters *n)
{
    const size_t cache = preset_cache_size(p);
    printf("\n%-*s%12s%12s%12s\n", LABEL_WIDTH, "memory", "f32", "bf16", "int8");
    print_bytes("weights", (double)n->total, true);
    if (!cache)
        return;
    print_bytes("KV cache per token", (double)cache, false);
    print_bytes("  at full length", (double)cache * (double)p->positions, false);
    if (p->decoder_layers)
        print_bytes("  of the source", (double)cache * (double)preset_source_length(p), false);
}

static void print_token(const char *label, preset_flops flops)
{
    char text[32];
    printf("  %-*s%12s", LABEL_WIDTH - 2, label, with_prefix(flops.products, "", text));
    printf("%12s", with_prefix(flops.attention, "", text));
    printf("%12s", with_prefix(flops.products + flops.attention, "", text));
    printf("%12s\n", with_prefix(3 * (flops.products + flops.attention), "", text));
}

static void print_flops(const model_preset *p)
{
    printf("\n%-*s%12s%12s%12s%12s\n", LABEL_WIDTH, "FLOPs per token", "products", "attention",
           "forward", "training");
    if (!p->decoder_layers) {
        print_token("at full length", preset_source_flops(p));
        return;
    }
    print_token("of the source", preset_source_flops(p));
    print_token("of the target", preset_target_flops(p));
}

// ---- JSON ---------------------------------------------------------------------------------------

static void report_sizes(report *r, const model_preset *p)
{
    const preset_family *f = p->family;
    report_text(r, "preset", "", p->name);
    report_text(r, "model", "", p->model);
    report_text(r, "kind", "", f->kind);
    report_count(r, "layers", "", p->layers, "");
    report_count(r, "decoder_layers", "", p->decoder_layers, "");
    report_count(r, "d_model", "", p->d_model, "");
    report_count(r, "heads", "", p->heads, "");
    report_count(r, "kv_heads", "", preset_kv_heads(p), "");
    report_count(r, "head_dim", "", preset_head_dim(p), "");
    report_count(r, "dim_feedforward", "", p->ffn, "");
    report_flag(r, "gated", "", f->gated);
    report_text(r, "activation", "", mh_activation_name(f->activation));
    report_text(r, "norm", "", f->norm == MH_NORM_RMS ? "rms" : "layer");
    report_text(r, "norm_order", "", order_name(f->order));
    report_count(r, "vocabulary", "", p->vocabulary, "");
    report_count(r, "positions", "", p->positions, "");
    report_count(r, "source_positions", "", preset_source_length(p), "");
    report_flag(r, "causal", "", f->causal);
    report_flag(r, "tied", "", f->tied);
}

static void report_flops(report *r, const model_preset *p)
{
    const preset_flops source = preset_source_flops(p), target = preset_target_flops(p);
    const double forward = source.products + source.attention;
    report_number(r, "flops_products", "", source.products, 0, "");
    report_number(r, "flops_attention", "", source.attention, 0, "");
    report_number(r, "flops_forward", "", forward, 0, "");
    report_number(r, "flops_training", "", 3 * forward, 0, "");
    if (!p->decoder_layers)
        return;
    const double decoder = target.products + target.attention;
    report_number(r, "target_flops_products", "", target.products, 0, "");
    report_number(r, "target_flops_attention", "", target.attention, 0, "");
    report_number(r, "target_flops_forward", "", decoder, 0, "");
    report_number(r, "target_flops_training", "", 3 * decoder, 0, "");
}

static void report_preset(const model_preset *p)
{
    const preset_parameters n = preset_count(p);
    const size_t cache = preset_cache_size(p);
    report r = report_begin(stdout, true, 0);
    report_sizes(&r, p);
    report_count(&r, "parameters", "", n.total, "");
    report_count(&r, "parameters_embeddings", "", n.embeddings, "");
    report_count(&r, "parameters_attention", "", n.attention, "");
    report_count(&r, "parameters_feed_forward", "", n.feed_forward, "");
    report_count(&r, "parameters_norms", "", n.norms, "");
    report_count(&r, "parameters_head", "", n.head, "");
    report_count(&r, "bytes_f32", "", 4 * (uint64_t)n.total, "");
    report_count(&r, "bytes_bf16", "", 2 * (uint64_t)n.total, "");
    report_count(&r, "bytes_int8", "", n.total, "");
    report_count(&r, "cache_bytes_f32", "", 4 * cache, "");
    report_count(&r, "cache_bytes_bf16", "", 2 * cache, "");
    report_flops(&r, p);
    report_end(&r);
}

void show_preset(const model_preset *p, bool json)
{
    if (json) {
        report_preset(p);
        return;
    }
    const preset_parameters n = preset_count(p);
    print_sizes(p);
    print_parameters(&n);
    print_memory(p, &n);
    print_flops(p);
}

void list_presets(bool json)
{
    char count[32], f32[32], bf16[32];
    if (!json)
        printf("%-17s %-17s %7s %6s %6s %6s %16s %10s %10s\n", "preset", "model", "layers", "D",
               "heads", "F", "parameters", "f32", "bf16");
    for (const model_preset *p = model_presets; p->name; p++) {
        if (json) {
            report_preset(p);
            continue;
        }
        char layers[24];
        const size_t total = preset_count(p).total;
        const int used = snprintf(layers, sizeof layers, "%zu", p->layers);
        if (p->decoder_layers)
            snprintf(layers + used, sizeof layers - (size_t)used, "+%zu", p->decoder_layers);
        printf("%-17s %-17s %7s %6zu %6zu %6zu %16s %10s %10s\n", p->name, p->model, layers,
               p->d_model, p->heads, p->ffn, with_commas(total, count),
               with_prefix(4 * (double)total, "B", f32), with_prefix(2 * (double)total, "B", bf16));
    }
}
