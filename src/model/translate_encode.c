// SPDX-License-Identifier: MIT
// The encoder stage: sentences are packed, without padding; the result is padded, as the decoder
// requires of its memory.
#include "base/arena.h"
#include "base/size_math.h"
#include "model/translate_search.h"
#include "model/translator_internal.h"

typedef struct packed {
    size_t rows;
    int32_t *ids, *positions; // (rows)
    int64_t *starts;          // (count + 1)
    float *x, *y;             // (rows, D)
} packed;

static void translate_encode_layout(packed *p, size_t count, size_t D, mh_arena *arena)
{
    p->ids = mh_arena_take(arena, p->rows, sizeof *p->ids);
    p->positions = mh_arena_take(arena, p->rows, sizeof *p->positions);
    p->starts = mh_arena_take(arena, count + 1, sizeof *p->starts);
    p->x = mh_arena_take(arena, p->rows * D, sizeof *p->x);
    p->y = mh_arena_take(arena, p->rows * D, sizeof *p->y);
}

static void translate_encode_pack(const mh_translator *t, mh_segment *const *segments, size_t count,
                                  packed *p)
{
    size_t row = 0;
    for (size_t b = 0; b < count; b++) {
        p->starts[b] = (int64_t)row;
        for (size_t i = 0; i <= segments[b]->count; i++, row++) {
            p->ids[row] =
                i < segments[b]->count ? segments[b]->ids[i] : mh_tokenizer_eos(t->tokenizer);
            p->positions[row] = (int32_t)i;
        }
    }
    p->starts[count] = (int64_t)row;
}

static mh_status translate_encode_encode(mh_context *context, const mh_translator *t,
                                         const mh_translator_weights *weights,
                                         const mh_translate_options *options, size_t count,
                                         const packed *p)
{
    mh_tensor x = mh_tensor_2d(p->x, MH_F32, p->rows, t->config.d_model);
    mh_tensor y = mh_tensor_2d(p->y, MH_F32, p->rows, t->config.d_model);
    mh_transformer_options o = mh_transformer_options_default();
    o.sequences = count;
    o.src_starts = p->starts;
    o.disabled_heads = options->disabled_heads;
    mh_status status = mh_translator_embed(context, t, p->ids, p->positions, &x, p->y);
    return status
               ? status
               : mh_transformer_encode_packed(context, t->transformer, weights->layers, &o, &x, &y);
}

// Row t of sentence b to (t, b); the rest is 0.
static void translate_encode_spread(const packed *p, size_t count, const mh_tensor *rows)
{
    const size_t D = rows->shape[2];
    float *to = rows->data;
    memset(to, 0, mh_tensor_count(rows) * sizeof *to);
    for (size_t b = 0; b < count; b++)
        for (size_t r = (size_t)p->starts[b]; r < (size_t)p->starts[b + 1]; r++)
            memcpy(to + ((r - (size_t)p->starts[b]) * count + b) * D, p->y + r * D, D * sizeof *to);
}

// (S, count, D) for the longest.
static bool make_memory(mh_context *context, const mh_translator *t, mh_segment *const *segments,
                        size_t count, mh_memory *m)
{
    size_t S = 0;
    for (size_t b = 0; b < count; b++)
        S = mh_larger(S, segments[b]->count + 1);
    const size_t floats = mh_round_up(S * count * t->config.d_model, 2);
    m->size = floats * sizeof(float) + count * sizeof *m->lengths;
    m->block = mh_alloc(context, m->size);
    if (!m->block)
        return false;
    m->rows = mh_tensor_3d(m->block, MH_F32, S, count, t->config.d_model);
    m->lengths = (int64_t *)((float *)m->block + floats);
    for (size_t b = 0; b < count; b++)
        m->lengths[b] = (int64_t)segments[b]->count + 1;
    return true;
}

mh_status mh_memory_create(mh_context *context, const mh_translator *t,
                           const mh_translator_weights *weights,
                           const mh_translate_options *options, mh_segment *const *segments,
                           size_t count, mh_memory *memory)
{
    *memory = (mh_memory){0};
    packed p = {0};
    for (size_t b = 0; b < count; b++)
        p.rows += segments[b]->count + 1;
    mh_arena arena = {0};
    translate_encode_layout(&p, count, t->config.d_model, &arena);
    const size_t size = arena.used;
    void *block = mh_alloc(context, size);
    if (!block)
        return MH_ERROR_MEMORY;
    arena = (mh_arena){.base = block, .size = size};
    translate_encode_layout(&p, count, t->config.d_model, &arena);
    translate_encode_pack(t, segments, count, &p);
    mh_status status = translate_encode_encode(context, t, weights, options, count, &p);
    if (!status && !make_memory(context, t, segments, count, memory))
        status = MH_ERROR_MEMORY;
    if (!status)
        translate_encode_spread(&p, count, &memory->rows);
    mh_free(context, block, size);
    return status;
}

void mh_memory_free(mh_context *context, mh_memory *memory)
{
    mh_free(context, memory->block, memory->size);
    *memory = (mh_memory){0};
}
