// SPDX-License-Identifier: MIT
// Blocks with random weights; see bench_model.h. Each layer has matrices of its own, as in a model,
// so that decoding reads all of them from memory; their values repeat.
#include "arrays.h"
#include "bench_model.h"
#include "messages.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Of the available memory, the rest being for activations and other processes.
static const double used_part = 0.6;

// Uniform in [-SPREAD, SPREAD): the standard deviation of GPT-2's initial weights, 0.02, which
// keeps scores in the range where softmax is not one-hot.
static const float spread = 0.035f;

// ---- memory -------------------------------------------------------------------------------------

// The number after `key` in a file, -1 if there is none.
static double read_number(const char *path, const char *key)
{
    char line[256];
    double value = -1;
    FILE *file = fopen(path, "r");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lf", &value) != 1)
            value = -1;
    if (file)
        fclose(file);
    return value;
}

// Bytes that can be allocated without swapping: of the machine, and of the control group that
// containers are limited by.
static double available_memory(void)
{
    double bytes = read_number("/proc/meminfo", "MemAvailable:") * 1024;
    if (bytes < 0)
        bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double most = read_number("/sys/fs/cgroup/memory.max", "");
    const double used = read_number("/sys/fs/cgroup/memory.current", "");
    if (most >= 0 && used >= 0 && most - used < bytes)
        bytes = most > used ? most - used : 0;
    return bytes;
}

static size_t largest_matrix(const model_preset *p)
{
    const size_t in = (p->heads + 2 * preset_kv_heads(p)) * preset_head_dim(p);
    const size_t up = (p->family->gated ? 2 : 1) * p->ffn;
    return (up > in ? up : in) * p->d_model;
}

// Packed matrices of one layer of each stack; in a decoder's, keys and values of the memory, too.
static double packed_layer_bytes(const model_preset *p, double bytes_per_number)
{
    size_t numbers = preset_block_matrices(p, false);
    if (p->decoder_layers)
        numbers += preset_block_matrices(p, true) +
                   2 * p->d_model * preset_kv_heads(p) * preset_head_dim(p);
    return (double)numbers * bytes_per_number;
}

// Input, output, and what a layer computes for all tokens at once.
static double activation_bytes(const model_preset *p, const bench_case *c)
{
    const size_t widths = 6 * p->d_model + 4 * p->heads * preset_head_dim(p) + 3 * p->ffn;
    return 4 * (double)(c->B * c->T) * (double)widths +
           4 * (double)(c->B * c->T) * (double)preset_cache_size(p);
}

static int choose_layers(const bench *b, const bench_case *c, bench_blocks *blocks)
{
    const model_preset *p = b->preset;
    const double available = available_memory(),
                 each = packed_layer_bytes(p, blocks->bytes_per_number);
    const double rest =
        used_part * available - 4 * (double)largest_matrix(p) - activation_bytes(p, c);
    size_t fit = p->layers;
    if (b->layers)
        fit = b->layers;
    else if (rest < each) {
        complain("%s: found %.1f GB of available memory, of which a layer and its input need more "
                 "than %.0f %%; with --layers 1 it is tried nevertheless",
                 p->name, available * 1e-9, 100 * used_part);
        return EXIT_MEMORY;
    } else if (rest < each * (double)p->layers) {
        fit = (size_t)(rest / each);
        note("%s: %zu of %zu layers, which fit in %.0f %% of %.1f GB of available memory", p->name,
             fit, p->layers, 100 * used_part, available * 1e-9);
    }
    blocks->layers = fit;
    blocks->decoder_layers = fit < p->decoder_layers ? fit : p->decoder_layers;
    return EXIT_DONE;
}

// ---- weights ------------------------------------------------------------------------------------

// Packs all matrices from the same array of random numbers.
static mh_status pack_matrices(mh_context *context, mh_transformer *transformer, float *numbers)
{
    const mh_parameters *parameters = mh_transformer_parameters(transformer);
    mh_status status = MH_OK;
    mh_parameters_init(parameters, 1);
    for (size_t i = 0; i < parameters->count && status == MH_OK; i++) {
        const mh_parameter *w = &parameters->list[i];
        if (w->rank != 2)
            continue;
        const mh_tensor matrix = mh_tensor_2d(numbers, MH_F32, w->shape[0], w->shape[1]);
        progress_line((double)i / (double)parameters->count, "packing random weights");
        status = mh_transformer_pack(context, transformer, w->name, &matrix);
    }
    progress_clear();
    return status;
}

// An encoder's stack, and with decoder_layers a decoder's; blocks are the same in all layers.
static mh_status create_random_stacks(mh_context *context, const model_preset *p,
                                      mh_precision precision, const mh_block_config **list,
                                      bench_blocks *blocks)
{
    const mh_block_config block = preset_block(p, false, precision);
    const mh_block_config cross = preset_block(p, true, precision);
    mh_stack_config encoder = mh_stack_config_default(), decoder = encoder;
    encoder.layers = blocks->layers;
    encoder.blocks = list;
    decoder.layers = blocks->decoder_layers;
    decoder.blocks = list + blocks->layers;
    encoder.final_norm = decoder.final_norm = p->family->final_norm;
    for (size_t i = 0; i < blocks->layers + blocks->decoder_layers; i++)
        list[i] = i < blocks->layers ? &block : &cross;
    return mh_transformer_create_blocks(context, &encoder, decoder.layers ? &decoder : NULL, false,
                                        &blocks->transformer);
}

static mh_status create_random_blocks(mh_context *context, const model_preset *p,
                                      mh_precision precision, float *numbers, bench_blocks *blocks)
{
    const size_t layers = blocks->layers + blocks->decoder_layers;
    const mh_block_config **list = calloc(layers, sizeof *list);
    if (!list)
        return MH_ERROR_MEMORY;
    mh_status status = create_random_stacks(context, p, precision, list, blocks);
    free(list);
    return status == MH_OK ? pack_matrices(context, blocks->transformer, numbers) : status;
}

// Whether bf16 matrices are packed as bf16 depends on the level: a small block tells.
static mh_status probe_bytes(mh_context *context, mh_precision precision, bench_blocks *blocks)
{
    enum { WIDTH = 128 };
    static const preset_family family = {.norm = MH_NORM_LAYER};
    static float zeros[3 * WIDTH * WIDTH];
    const model_preset p = {.family = &family, .d_model = WIDTH, .heads = 1, .ffn = WIDTH};
    bench_blocks probe = {.layers = 1};
    mh_status status = create_random_blocks(context, &p, precision, zeros, &probe);
    if (status == MH_OK)
        blocks->bytes_per_number = (double)mh_transformer_bytes(probe.transformer) /
                                   (double)preset_block_matrices(&p, false);
    mh_transformer_free(probe.transformer);
    return status;
}

int bench_create_blocks(const bench *b, const bench_case *c, mh_precision precision,
                        bench_blocks *blocks)
{
    const size_t largest = largest_matrix(b->preset);
    mh_status status = probe_bytes(b->context, precision, blocks);
    if (status != MH_OK)
        return complain_status(b->context, status, c->name);
    mh_tensor numbers = {0};
    size_t size = 0;
    int code = choose_layers(b, c, blocks);
    if (code == EXIT_DONE)
        code = bench_tensor(b, c, MH_F32, 1, &largest, 1, &numbers, &size);
    if (code != EXIT_DONE)
        return code;
    float *values = numbers.data;
    for (size_t i = 0; i < largest; i++)
        values[i] *= spread;
    status = create_random_blocks(b->context, b->preset, precision, values, blocks);
    mh_free(b->context, values, size);
    return status == MH_OK ? EXIT_DONE : complain_status(b->context, status, c->name);
}
