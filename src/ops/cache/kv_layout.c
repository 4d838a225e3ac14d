// SPDX-License-Identifier: MIT
// Writing, copying and reading a tile of cached keys and values.
//
// Only the written part of a tile is ever read, in whole vectors of keys: writing the first key of
// a vector sets the others to 0. So a new tile need not be cleared; a sentence of ten words uses
// ten of 64 slots, and clearing all of them took as long as attending to them.
#include "base/half.h"
#include "base/size_math.h"
#include "ops/cache/kv_internal.h"
#include "ops/row_io.h"
#include <string.h>

enum { VECTOR = MH_MAX_LANES };

mh_kv_layout mh_kv_layout_of(const mh_kernels *kernels, mh_dtype dtype, size_t key_width,
                             size_t value_width)
{
    mh_kv_layout layout = {.dtype = dtype, .key_width = key_width, .value_width = value_width};
    layout.value_stride = mh_round_up(value_width, VECTOR);
    layout.element = mh_dtype_size(dtype);
    layout.key_rows = key_width;
    layout.panel = kernels->attention.panel;
    if (dtype == MH_BF16 && kernels->bf16.set_b_column) {
        layout.gemm = kernels->bf16;
        layout.key_rows = mh_round_up(key_width, layout.gemm.step);
    }
    return layout;
}

static bool is_operand(const mh_kv_layout *layout) { return layout->gemm.set_b_column != NULL; }

// Packed operands are for long sequences, and hold whole steps of values: one size is enough.
size_t mh_kv_layout_min_slots(const mh_kv_layout *layout)
{
    return is_operand(layout) ? MH_KEY_TILE : VECTOR;
}

size_t mh_kv_layout_bytes(const mh_kv_layout *layout, size_t slots)
{
    return slots * (layout->key_rows + layout->value_stride) * layout->element;
}

static mh_panels keys_of(const mh_kv_layout *layout, size_t slots, const void *tile)
{
    return (mh_panels){tile, layout->key_rows, slots, mh_smaller(layout->panel, slots)};
}

static mh_panels values_of(const mh_kv_layout *layout, size_t slots, const void *tile)
{
    const size_t stride = layout->value_stride;
    return (mh_panels){(const char *)tile + slots * layout->key_rows * layout->element, slots,
                       stride, mh_smaller(layout->panel, stride)};
}

// The address of an element.
static void *element_of(const mh_kv_layout *layout, const mh_panels *p, size_t row, size_t column)
{
    const size_t start = column / p->width * p->width;
    const size_t at = row * mh_panel_columns(p, start) + (column - start);
    return (char *)mh_panel_at(p, start, layout->element) + at * layout->element;
}

// ---- f32 ----------------------------------------------------------------------------------------

// Keys (count, E) into columns of a tile.
static void write_keys(const mh_kv_layout *layout, const mh_kernels *kernels, size_t first,
                       size_t count, const float *k, ptrdiff_t stride, const mh_panels *keys)
{
    const size_t E = layout->key_width;
    for (size_t i = 0, run; i < count; i += run, k += (ptrdiff_t)run * stride) {
        float *to = element_of(layout, keys, 0, first + i);
        run = (first + i) % VECTOR ? 1 : mh_smaller(count - i, VECTOR);
        if ((first + i) % VECTOR == 0)
            kernels->matrix.transpose(run, E, k, stride, to, keys->width);
        for (size_t e = 0; e < E && (first + i) % VECTOR; e++)
            to[e * keys->width] = k[e];
    }
}

static bool write_values(const mh_kv_layout *layout, const mh_kernels *kernels, size_t first,
                         size_t count, const float *v, ptrdiff_t stride, const mh_panels *values)
{
    const size_t Ev = layout->value_width;
    bool finite = true;
    for (size_t c = 0; c < Ev; c += values->width) {
        const size_t width = mh_panel_columns(values, c), columns = mh_smaller(width, Ev - c);
        const size_t written = mh_round_up(columns, kernels->lanes);
        float *to = element_of(layout, values, first, c);
        for (size_t i = 0; i < count && written < width; i++)
            memset(to + i * width + written, 0, (width - written) * sizeof *to);
        finite &= kernels->matrix.pack_rows(count, columns, v + c, stride, to, width);
    }
    return finite;
}

// ---- bf16 and f16 -------------------------------------------------------------------------------

static bool all_finite(const mh_kv_layout *layout, const mh_kernels *kernels, size_t n,
                       const uint16_t *x)
{
    const uint16_t exponent = layout->dtype == MH_BF16 ? MH_BF16_EXPONENT : MH_F16_EXPONENT;
    return kernels->elementwise.all_finite_16bit(n, exponent, x);
}

// One token.
static bool write_narrow(const mh_kv_layout *layout, const mh_kernels *kernels, size_t slot,
                         const float *k, const float *v, const mh_panels *keys,
                         const mh_panels *values)
{
    const size_t E = layout->key_width, Ev = layout->value_width;
    uint16_t row[MH_MAX_HEAD_DIM], *to = element_of(layout, keys, 0, slot);
    mh_row_write(kernels, layout->dtype, row, 1, E, k);
    for (size_t e = 0; e < E && slot % VECTOR == 0; e++)
        memset(to + e * keys->width, 0, VECTOR * sizeof *to);
    for (size_t e = 0; e < E; e++)
        to[e * keys->width] = row[e];
    mh_row_write(kernels, layout->dtype, row, 1, Ev, v);
    memset(row + Ev, 0, (layout->value_stride - Ev) * sizeof *row);
    for (size_t c = 0; c < Ev; c += values->width)
        memcpy(element_of(layout, values, slot, c), row + c,
               mh_panel_columns(values, c) * sizeof *row);
    return all_finite(layout, kernels, Ev, row); // rounding may overflow to inf
}

// ---- bf16 as packed operands --------------------------------------------------------------------

// One token. A GEMM reads whole steps of values, so those not written yet have to be 0.
static bool write_operand(const mh_kv_layout *layout, const mh_kernels *kernels, size_t slot,
                          const float *k, const float *v, void *tile)
{
    const size_t E = layout->key_width, Ev = layout->value_width;
    uint16_t row[MH_MAX_HEAD_DIM];
    if (slot == 0)
        memset(tile, 0, mh_kv_layout_bytes(layout, MH_KEY_TILE));
    mh_row_write(kernels, layout->dtype, row, 1, E, k);
    layout->gemm.set_b_column(E, row, slot, tile, MH_KEY_TILE);
    mh_row_write(kernels, layout->dtype, row, 1, Ev, v);
    layout->gemm.set_b_row(Ev, row, slot, (void *)values_of(layout, MH_KEY_TILE, tile).data,
                           layout->value_stride);
    return all_finite(layout, kernels, Ev, row);
}

mh_kv_operands mh_kv_layout_operands(const mh_kv_layout *layout, const mh_gemm *gemm,
                                     const void *tile, bool finite)
{
    if (!is_operand(layout) || gemm->gemm != layout->gemm.gemm)
        return (mh_kv_operands){0};
    return (mh_kv_operands){tile, values_of(layout, MH_KEY_TILE, tile).data, finite};
}

// ---- tiles --------------------------------------------------------------------------------------

static bool kv_layout_is_plain(const mh_tensor *t)
{
    return t->dtype == MH_F32 && t->stride[3] == 1;
}

bool mh_kv_layout_write(const mh_kv_layout *layout, const mh_kernels *kernels, size_t first,
                        size_t count, const mh_tensor *keys, const void *k, const mh_tensor *values,
                        const void *v, size_t slots, void *tile)
{
    const size_t E = layout->key_width, Ev = layout->value_width;
    float key[MH_MAX_HEAD_DIM], value[MH_MAX_HEAD_DIM];
    const mh_panels all_keys = keys_of(layout, slots, tile);
    const mh_panels all_values = values_of(layout, slots, tile);
    if (layout->dtype == MH_F32 && kv_layout_is_plain(keys) && kv_layout_is_plain(values)) {
        write_keys(layout, kernels, first, count, k, keys->stride[2], &all_keys);
        return write_values(layout, kernels, first, count, v, values->stride[2], &all_values);
    }
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        mh_row_read(kernels, keys->dtype, mh_row_offset(keys, k, (ptrdiff_t)i * keys->stride[2]),
                    keys->stride[3], E, key);
        mh_row_read(kernels, values->dtype,
                    mh_row_offset(values, v, (ptrdiff_t)i * values->stride[2]), values->stride[3],
                    Ev, value);
        if (layout->dtype != MH_F32) {
            finite &=
                is_operand(layout)
                    ? write_operand(layout, kernels, first + i, key, value, tile)
                    : write_narrow(layout, kernels, first + i, key, value, &all_keys, &all_values);
            continue;
        }
        write_keys(layout, kernels, first + i, 1, key, (ptrdiff_t)E, &all_keys);
        finite &= write_values(layout, kernels, first + i, 1, value, (ptrdiff_t)Ev, &all_values);
    }
    return finite;
}

// Copies the first rows and columns of panels to others, whose width is a multiple of theirs:
// converted to f32 if `kernels` is not NULL, otherwise unchanged.
static void move_panels(const mh_kv_layout *layout, const mh_kernels *kernels, size_t rows,
                        size_t columns, const mh_panels *from, const mh_panels *to)
{
    const size_t size = kernels ? sizeof(float) : layout->element;
    for (size_t c = 0; c < columns; c += from->width) {
        const size_t start = c / to->width * to->width;
        const size_t from_width = mh_panel_columns(from, c);
        const size_t to_width = mh_panel_columns(to, start);
        const size_t used = mh_smaller(from_width, columns - c);
        const bool gaps = used < from_width || used < to_width;
        const size_t runs = gaps ? rows : 1, run = gaps ? used : rows * used;
        const char *source = mh_panel_at(from, c, layout->element);
        char *target = (char *)mh_panel_at(to, start, size) + (c - start) * size;
        for (size_t r = 0; r < runs; r++) {
            if (kernels)
                mh_row_read(kernels, layout->dtype, source, 1, run, (float *)(void *)target);
            else
                memcpy(target, source, run * size);
            source += from_width * layout->element, target += to_width * size;
        }
    }
}

void mh_kv_layout_copy(const mh_kv_layout *layout, size_t count, size_t from_slots,
                       const void *from, size_t to_slots, void *to)
{
    if (is_operand(layout)) {
        memcpy(to, from, mh_kv_layout_bytes(layout, MH_KEY_TILE));
        return;
    }
    const mh_panels keys = keys_of(layout, from_slots, from),
                    new_keys = keys_of(layout, to_slots, to);
    const mh_panels values = values_of(layout, from_slots, from);
    const mh_panels new_values = values_of(layout, to_slots, to);
    move_panels(layout, NULL, layout->key_width, mh_round_up(count, VECTOR), &keys, &new_keys);
    move_panels(layout, NULL, count, layout->value_stride, &values, &new_values);
}

mh_kv_tile mh_kv_layout_read(const mh_kv_layout *layout, const mh_kernels *kernels, size_t count,
                             size_t slots, const void *tile, bool finite, mh_kv_reading reading,
                             float *keys, float *values)
{
    const size_t E = layout->key_width, width = layout->value_stride;
    const size_t used = mh_round_up(count, VECTOR);
    const mh_panels rows_of_keys = {keys, E, MH_KEY_TILE, MH_KEY_TILE};
    const mh_panels rows_of_values = {values, MH_KEY_TILE, width, width};
    mh_kv_tile t = {keys_of(layout, slots, tile), values_of(layout, slots, tile), finite,
                    mh_row_type_of(layout->dtype)};
    const bool in_rows = t.keys.width == t.keys.columns && t.values.width == t.values.columns;
    if (!is_operand(layout) && ((reading == MH_KV_STORED && finite) ||
                                (layout->dtype == MH_F32 && (reading != MH_KV_ROWS || in_rows))))
        return t;
    mh_kv_tile wide = {rows_of_keys, rows_of_values, finite, MH_ROW_F32};
    if (is_operand(layout)) {
        layout->gemm.unpack_b(E, used, tile, MH_KEY_TILE, keys, MH_KEY_TILE);
        layout->gemm.unpack_b(count, width, t.values.data, width, values, width);
        return wide;
    }
    if (reading != MH_KV_ROWS) {
        wide.keys = (mh_panels){keys, E, t.keys.columns, t.keys.width};
        wide.values = (mh_panels){values, t.values.rows, width, t.values.width};
    }
    move_panels(layout, kernels, E, used, &t.keys, &wide.keys);
    move_panels(layout, kernels, count, width, &t.values, &wide.values);
    return wide;
}
