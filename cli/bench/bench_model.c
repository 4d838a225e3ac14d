// SPDX-License-Identifier: MIT
// multihead bench model: the blocks of a well-known model with random weights. forward is a pass
// over B sequences of T tokens, causal in decoder-only models, of the encoder alone in
// encoder-decoders. decode is one more token per sequence, from a KV cache of T tokens, or from a
// source of T tokens; its limit is the bandwidth of reading weights and cache. Embeddings and the
// output layer are not part of it.
#include "bench_model.h"
#include "messages.h"

#include <string.h>

// A decoding starts again after this many steps, so that its cache keeps about its length.
enum { MOST_STEPS = 256 };

// Longest memory to measure the bandwidth with: beyond the caches it does not depend on the size.
static const double most_footprint = 1e9;

enum { INPUT, OUTPUT, TOKEN, NEXT, TENSORS };

typedef struct model_case {
    const bench *bench;
    bench_blocks blocks;
    mh_tensor tensors[TENSORS]; // (B, T, D), (B, T, D), (B, 1, D), (B, 1, D)
    size_t sizes[TENSORS];
    mh_decoding *decoding;
    size_t steps;
} model_case;

static bool has_decoder(const model_preset *p) { return p->family->causal || p->decoder_layers; }

// ---- work ---------------------------------------------------------------------------------------

static mh_status model_forward_once(void *arg)
{
    model_case *m = arg;
    const model_preset *p = m->bench->preset;
    mh_transformer_options options = mh_transformer_options_default();
    options.src_causal = p->family->causal;
    if (p->decoder_layers)
        return mh_transformer_encode(m->bench->context, m->blocks.transformer, &options,
                                     &m->tensors[INPUT], &m->tensors[OUTPUT]);
    return mh_transformer_forward(m->bench->context, m->blocks.transformer, &options,
                                  &m->tensors[INPUT], NULL, &m->tensors[OUTPUT]);
}

static mh_status start_decoding(model_case *m)
{
    mh_context *context = m->bench->context;
    mh_decoding_free(m->decoding);
    m->decoding = NULL;
    m->steps = 0;
    if (m->bench->preset->decoder_layers)
        return mh_decoding_create(context, m->blocks.transformer, &m->tensors[OUTPUT], NULL, 1,
                                  &m->decoding);
    mh_status status = mh_decoding_create_causal(context, m->blocks.transformer,
                                                 m->tensors[INPUT].shape[0], &m->decoding);
    if (status == MH_OK)
        status = mh_decoding_step(context, m->decoding, NULL, 0, &m->tensors[INPUT],
                                  &m->tensors[OUTPUT]);
    return status;
}

static mh_status model_decode_once(void *arg)
{
    model_case *m = arg;
    mh_status status = MH_OK;
    if (m->steps == MOST_STEPS)
        status = start_decoding(m);
    m->steps++;
    if (status == MH_OK)
        status = mh_decoding_step(m->bench->context, m->decoding, NULL, 0, &m->tensors[TOKEN],
                                  &m->tensors[NEXT]);
    return status;
}

// ---- measurement --------------------------------------------------------------------------------

static double model_forward_flops(const model_preset *p, const bench_case *c, size_t layers)
{
    const double keys = p->family->causal ? ((double)c->T + 1) / 2 : (double)c->T;
    return (double)(c->B * c->T * layers) *
           (2 * (double)preset_block_matrices(p, false) + preset_attention_flops(p, keys));
}

static int model_measure_forward(bench *b, const bench_case *c, mh_dtype dtype, model_case *m)
{
    const model_preset *p = b->preset;
    const size_t layers = m->blocks.layers;
    bench_result result = {.suite = &model_suite,
                           .of = c,
                           .dtype = dtype,
                           .pass = "forward",
                           .flops = model_forward_flops(p, c, layers),
                           .bytes = (double)(layers * preset_block_matrices(p, false)) *
                                        m->blocks.bytes_per_number +
                                    (double)(m->sizes[INPUT] + m->sizes[OUTPUT]),
                           .tokens = c->B * c->T,
                           .layers = layers,
                           .decoder_layers = 0};
    return bench_measure(b, model_forward_once, m, &result);
}

// Keys and values of T tokens are in the cache: the sequence's own, or the source's.
static int model_measure_decode(bench *b, const bench_case *c, mh_dtype dtype, model_case *m)
{
    const model_preset *p = b->preset;
    const bool cross = p->decoder_layers > 0;
    const size_t layers = cross ? m->blocks.decoder_layers : m->blocks.layers;
    const size_t matrices = layers * preset_block_matrices(p, cross);
    const double cached = 2 * (double)(c->B * c->T * layers) *
                          (double)(preset_kv_heads(p) * preset_head_dim(p)) * sizeof(float);
    bench_result result = {.suite = &model_suite,
                           .of = c,
                           .dtype = dtype,
                           .pass = "decode",
                           .bytes = (double)matrices * m->blocks.bytes_per_number + cached,
                           .tokens = c->B,
                           .layers = cross ? 0 : layers,
                           .decoder_layers = cross ? layers : 0};
    result.flops = (double)c->B * (2 * (double)matrices +
                                   (double)layers * preset_attention_flops(p, (double)c->T + 1));
    result.footprint = (size_t)(result.bytes < most_footprint ? result.bytes : most_footprint);
    mh_status status = cross ? model_forward_once(m) : MH_OK; // the source, encoded
    if (status == MH_OK)
        status = start_decoding(m);
    if (status != MH_OK)
        return complain_status(b->context, status, c->name);
    return bench_measure(b, model_decode_once, m, &result);
}

static int model_set_up(const bench *b, const bench_case *c, mh_dtype dtype, model_case *m)
{
    const size_t whole[3] = {c->B, c->T, b->preset->d_model}, token[3] = {c->B, 1, whole[2]};
    m->bench = b;
    int code = bench_create_blocks(b, c, dtype == MH_BF16 ? MH_PRECISION_BF16 : MH_PRECISION_F32,
                                   &m->blocks);
    for (int i = 0; i < TENSORS && code == EXIT_DONE; i++)
        code = bench_tensor(b, c, MH_F32, 3, i < TOKEN ? whole : token,
                            i == INPUT || i == TOKEN ? (uint32_t)i + 1 : 0, &m->tensors[i],
                            &m->sizes[i]);
    return code;
}

static int model_run_case(bench *b, const bench_case *c, mh_dtype dtype)
{
    model_case m;
    memset(&m, 0, sizeof m);
    int code = model_set_up(b, c, dtype, &m);
    if (code == EXIT_DONE && b->passes & PASS_FORWARD)
        code = model_measure_forward(b, c, dtype, &m);
    if (code == EXIT_DONE && b->passes & PASS_DECODE && has_decoder(b->preset))
        code = model_measure_decode(b, c, dtype, &m);
    mh_decoding_free(m.decoding);
    mh_transformer_free(m.blocks.transformer);
    for (int i = 0; i < TENSORS; i++)
        mh_free(b->context, m.tensors[i].data, m.sizes[i]);
    return code;
}

// ---- options ------------------------------------------------------------------------------------

void bench_check_model(struct argp_state *state, const bench *b)
{
    const model_preset *p = b->preset;
    if (b->suite != &model_suite) {
        if (p || b->batch || b->length || b->layers)
            argp_error(state, "--preset, --batch, --length and --layers are for bench model");
        return;
    }
    if (!p)
        argp_error(state, "--preset is missing; multihead info --presets lists all names");
    if (b->shape_count || b->filter)
        argp_error(state, "bench model has no cases: not with --shape or --case");
    if (b->dtypes[0] == MH_F16)
        argp_error(state, "--dtype: found 'f16', expected f32 or bf16 for bench model");
    if (p && b->layers > p->layers)
        argp_error(state, "--layers: found %zu, expected at most %zu, the layers of %s", b->layers,
                   p->layers, p->model);
    if (p && b->passes == PASS_DECODE && !has_decoder(p))
        argp_error(state, "--pass: found 'decode', which %s does not have", p->model);
}

// The one case: the preset. Texts have 512 tokens, or 128 with --quick, images and sound their own
// length.
static size_t list_preset(const bench *b, bench_case *c)
{
    const model_preset *p = b->preset;
    if (!p)
        return 0;
    const size_t longest = preset_source_length(p), length = b->quick ? 128 : 512;
    const bool fixed = p->family->source || p->family->patch;
    *c = (bench_case){.B = b->batch ? b->batch : 1,
                      .H = p->heads,
                      .G = preset_kv_heads(p),
                      .T = b->length                   ? b->length
                           : fixed || longest < length ? longest
                                                       : length,
                      .E = preset_head_dim(p),
                      .causal = p->family->causal};
    c->S = c->T;
    snprintf(c->name, sizeof c->name, "%s", p->name);
    return 1;
}

static double model_no_flops(const bench_case *c)
{
    (void)c; // no case is left out by --quick
    return 0;
}

const suite model_suite = {
    .name = "model",
    .shapes = "",
    .limit = "FMA peak measured meanwhile; decoding, of the read bandwidth",
    .passes = PASS_FORWARD | PASS_DECODE,
    .flops = model_no_flops,
    .list = list_preset,
    .run = model_run_case,
};
