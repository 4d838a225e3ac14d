// SPDX-License-Identifier: MIT
// The encoder stage: sentences are packed, without padding; the result is padded, as the decoder
// requires of its memory.
#include "base/arena.h"
#include "base/size_math.h"
#include "model/translate_search.h"
#include "model/translator_internal.h"

typedef struct packed {
    size_t rows;
    int32_t *ids;    // (rows)
    int64_t *starts; // (count + 1)
    float *y;        // (rows, D)
} packed;

static void translate_encode_layout(packed *p, size_t count, size_t D, mh_arena *arena)
{
    p->ids = mh_arena_take(arena, p->rows, sizeof *p->ids);
    p->starts = mh_arena_take(arena, count + 1, sizeof *p->starts);
    p->y = mh_arena_take(arena, p->rows * D, sizeof *p->y);
}

static void translate_encode_pack(const mh_translator *t, mh_segment *const *segments, size_t count,
                                  packed *p)
{
    const mh_source_template *c = &t->source;
    size_t row = 0;
    for (size_t b = 0; b < count; b++) {
        p->starts[b] = (int64_t)row;
        memcpy(p->ids + row, c->before, c->before_count * sizeof *p->ids);
        row += c->before_count;
        memcpy(p->ids + row, segments[b]->ids, segments[b]->count * sizeof *p->ids);
        row += segments[b]->count;
        memcpy(p->ids + row, c->after, c->after_count * sizeof *p->ids);
        row += c->after_count;
    }
    p->starts[count] = (int64_t)row;
}

// The rows of sentence b to (b, 0 ...); the rest is 0.
static void translate_encode_spread(const packed *p, const mh_tensor *rows)
{
    const size_t each = rows->shape[1] * rows->shape[2], D = rows->shape[2];
    for (size_t b = 0; b < rows->shape[0]; b++) {
        const size_t first = (size_t)p->starts[b], floats = ((size_t)p->starts[b + 1] - first) * D;
        float *to = (float *)rows->data + b * each;
        memcpy(to, p->y + first * D, floats * sizeof *to);
        memset(to + floats, 0, (each - floats) * sizeof *to);
    }
}

// (count, S, D) for the longest.
static bool make_memory(mh_context *context, const mh_translator *t, mh_segment *const *segments,
                        size_t count, mh_memory *m)
{
    size_t S = 0;
    for (size_t b = 0; b < count; b++)
        S = mh_larger(S, mh_segment_rows(t, segments[b]));
    const size_t floats = mh_round_up(S * count * t->config.d_model, 2);
    m->size = floats * sizeof(float) + count * sizeof *m->lengths;
    m->block = mh_alloc(context, m->size);
    if (!m->block)
        return false;
    m->rows = mh_tensor_3d(m->block, MH_F32, count, S, t->config.d_model);
    m->lengths = (int64_t *)((float *)m->block + floats);
    for (size_t b = 0; b < count; b++)
        m->lengths[b] = (int64_t)mh_segment_rows(t, segments[b]);
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
        p.rows += mh_segment_rows(t, segments[b]);
    mh_arena arena = {0};
    translate_encode_layout(&p, count, t->config.d_model, &arena);
    const size_t size = arena.used;
    void *block = mh_alloc(context, size);
    if (!block)
        return MH_ERROR_MEMORY;
    arena = (mh_arena){.base = block, .size = size};
    translate_encode_layout(&p, count, t->config.d_model, &arena);
    translate_encode_pack(t, segments, count, &p);
    const mh_source_batch batch = {count, p.starts, p.ids, options->disabled_heads};
    mh_tensor y = mh_tensor_2d(p.y, MH_F32, p.rows, t->config.d_model);
    mh_status status = t->run->encode(context, t, weights, &batch, &y);
    if (!status && !make_memory(context, t, segments, count, memory))
        status = MH_ERROR_MEMORY;
    if (!status)
        translate_encode_spread(&p, &memory->rows);
    mh_free(context, block, size);
    return status;
}

void mh_memory_free(mh_context *context, mh_memory *memory)
{
    mh_free(context, memory->block, memory->size);
    *memory = (mh_memory){0};
}
