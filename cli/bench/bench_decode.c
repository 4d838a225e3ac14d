// SPDX-License-Identifier: MIT
// multihead bench decode: a step of text generation over the shapes of bench/shapes/decode.txt, one
// query per sequence over a KV cache. The cache is read once and there is little to compute, so the
// limit is memory bandwidth.
#include "bench.h"
#include "bench_shapes.h"
#include "messages.h"

#include <multihead/kv_cache.h>
#include <string.h>

enum { PIECE = 1024 }; // tokens appended at once: no second copy of a long cache

enum { Q, OUT, K, V, TENSORS };

typedef struct decode_case {
    mh_context *context;
    mh_attention_options options;
    mh_tensor tensors[TENSORS];
    size_t sizes[TENSORS];
    mh_kv_cache *cache;
} decode_case;

static mh_status step_once(void *arg)
{
    decode_case *d = arg;
    return mh_attention_cached(d->context, &d->options, &d->tensors[Q], d->cache, &d->tensors[OUT]);
}

// The same keys and values repeated, which does not affect the time.
static mh_status prefill(const bench_case *c, mh_dtype dtype, decode_case *d)
{
    mh_kv_cache_options options = mh_kv_cache_options_default();
    options.sequences = c->B;
    options.heads = c->G;
    options.key_width = c->E;
    options.dtype = dtype;
    mh_status status = mh_kv_cache_create(d->context, &options, &d->cache);
    size_t piece = 0;
    for (size_t done = 0; done < c->S && status == MH_OK; done += piece) {
        mh_tensor k = d->tensors[K], v = d->tensors[V];
        piece = c->S - done < PIECE ? c->S - done : PIECE;
        k.shape[2] = v.shape[2] = piece; // the strides stay
        status = mh_kv_cache_append(d->context, d->cache, NULL, &k, &v);
    }
    return status;
}

static int decode_set_up(const bench *b, const bench_case *c, mh_dtype dtype, decode_case *d)
{
    const size_t query[4] = {c->B, c->H, c->T, c->E};
    const size_t key[4] = {c->B, c->G, c->S < PIECE ? c->S : PIECE, c->E};
    d->context = b->context;
    d->options = mh_attention_options_default();
    if (c->causal)
        d->options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    int code = EXIT_DONE;
    for (int i = 0; i < TENSORS && code == EXIT_DONE; i++)
        code = bench_tensor(b, c, dtype, 4, i < K ? query : key, i == OUT ? 0 : (uint32_t)i + 1,
                            &d->tensors[i], &d->sizes[i]);
    mh_status status = code == EXIT_DONE ? prefill(c, dtype, d) : MH_OK;
    return status == MH_OK ? code : complain_status(b->context, status, c->name);
}

// Also used by --quick. Over B x G heads: query heads of a group share what is read.
static double cached(const bench_case *c)
{
    return 2 * (double)(c->B * c->G) * (double)c->S * (double)c->E;
}

static double decode_flops(const bench_case *c)
{
    return 4 * (double)(c->B * c->H) * (double)(c->T * c->S) * (double)c->E;
}

static int decode_run_case(bench *b, const bench_case *c, mh_dtype dtype)
{
    decode_case d;
    memset(&d, 0, sizeof d);
    int code = decode_set_up(b, c, dtype, &d);
    bench_result result = {.suite = &decode_suite,
                           .of = c,
                           .dtype = dtype,
                           .pass = "decode",
                           .flops = decode_flops(c),
                           .bytes = cached(c) * (double)mh_dtype_size(dtype)};
    result.footprint = (size_t)result.bytes;
    if (code == EXIT_DONE)
        code = bench_measure(b, step_once, &d, &result);
    mh_kv_cache_free(d.cache);
    for (int i = 0; i < TENSORS; i++)
        mh_free(b->context, d.tensors[i].data, d.sizes[i]);
    return code;
}

const suite decode_suite = {
    .name = "decode",
    .shapes = decode_shapes,
    .sizes = 6,
    .form = "B,H,G,T,S,E",
    .word = "causal",
    .limit = "bandwidth of reading as much memory, measured meanwhile",
    .passes = PASS_DECODE,
    .flops = decode_flops,
    .run = decode_run_case,
};
