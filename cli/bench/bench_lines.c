// SPDX-License-Identifier: MIT
// What `multihead bench` prints: a table for people, or one JSON object per line.
#include "bench.h"
#include "report.h"

static bool is_matrix(const suite *s) { return s == &matmul_suite; }
static bool is_model(const suite *s) { return s == &model_suite; }

void bench_print_heading(const bench *b, const suite *s)
{
    if (b->json)
        return;
    size_t threads = mh_context_threads(b->context);
    printf("%s%s: %s kernels, %zu thread%s; %% is of the %s\n", b->done ? "\n" : "", s->name,
           mh_context_isa(b->context), threads, threads == 1 ? "" : "s", s->limit);
    if (is_model(s))
        printf("%-17s %4s %6s %7s", "case", "B", "T", "layers");
    else if (is_matrix(s))
        printf("%-14s %5s %5s %5s %-6s", "case", "M", "K", "N", "matrix");
    else
        printf("%-14s %3s %3s %3s %6s %6s %4s %-6s", "case", "B", "H", "G", "T", "S", "E", "mask");
    printf(" %-5s %-8s %7s %10s", "dtype", "pass", "threads", "ms");
    if (is_model(s))
        printf(" %10s", "tokens/s");
    printf(" %9s %8s %6s\n", "GFLOP/s", "GB/s", "%");
    fflush(stdout);
}

// Layers that run, of those of the stack.
static void print_layers(const bench *b, const bench_result *r)
{
    char text[32];
    if (r->decoder_layers)
        snprintf(text, sizeof text, "%zu/%zu", r->decoder_layers, b->preset->decoder_layers);
    else
        snprintf(text, sizeof text, "%zu/%zu", r->layers, b->preset->layers);
    printf("%-17s %4zu %6zu %7s", r->of->name, r->of->B, r->of->T, text);
}

static void bench_print_line(const bench *b, const bench_result *r, double gflops, double gbps)
{
    const bench_case *c = r->of;
    if (is_model(r->suite))
        print_layers(b, r);
    else if (is_matrix(r->suite))
        printf("%-14s %5zu %5zu %5zu %-6s", c->name, c->T, c->E, c->S,
               c->packed ? "packed" : "plain");
    else
        printf("%-14s %3zu %3zu %3zu %6zu %6zu %4zu %-6s", c->name, c->B, c->H, c->G, c->T, c->S,
               c->E, c->causal ? "causal" : "full");
    printf(" %-5s %-8s %7zu %10.3f", mh_dtype_name(r->dtype), r->pass,
           mh_context_threads(b->context), r->seconds * 1e3);
    if (is_model(r->suite))
        printf(" %10.1f", (double)r->tokens / r->seconds);
    printf(" %9.1f %8.1f %6.1f\n", gflops, gbps, 100 * (r->footprint ? gbps : gflops) / r->limit);
}

static void print_json(const bench *b, const bench_result *r, double gflops, double gbps)
{
    const bench_case *c = r->of;
    report out = report_begin(stdout, true, 0);
    report_text(&out, "case", "", c->name);
    report_count(&out, "B", "", c->B, "");
    report_count(&out, "H", "", c->H, "");
    report_count(&out, "G", "", c->G, "");
    report_count(&out, "T", "", c->T, "");
    report_count(&out, "S", "", c->S, "");
    report_count(&out, "E", "", c->E, "");
    report_flag(&out, "causal", "", c->causal);
    if (is_model(r->suite)) {
        report_count(&out, "layers", "", r->layers, "");
        report_count(&out, "decoder_layers", "", r->decoder_layers, "");
        report_count(&out, "model_layers", "", b->preset->layers, "");
        report_count(&out, "model_decoder_layers", "", b->preset->decoder_layers, "");
    }
    report_text(&out, "dtype", "", mh_dtype_name(r->dtype));
    report_text(&out, "pass", "", r->pass);
    report_count(&out, "threads", "", mh_context_threads(b->context), "");
    report_number(&out, "ms", "", r->seconds * 1e3, 6, "");
    if (is_model(r->suite))
        report_number(&out, "tokens_per_second", "", (double)r->tokens / r->seconds, 3, "");
    report_number(&out, "gflops", "", gflops, 3, "");
    report_number(&out, "gbps", "", gbps, 3, "");
    report_number(&out, "limit", "", r->limit, 3, "");
    report_number(&out, "percent", "", 100 * (r->footprint ? gbps : gflops) / r->limit, 2, "");
    report_text(&out, "isa", "", mh_context_isa(b->context));
    report_end(&out);
}

void bench_print_result(const bench *b, const bench_result *r)
{
    double gflops = r->flops / r->seconds * 1e-9, gbps = r->bytes / r->seconds * 1e-9;
    if (b->json)
        print_json(b, r, gflops, gbps);
    else
        bench_print_line(b, r, gflops, gbps);
    fflush(stdout); // each line is visible as soon as it is complete
}
