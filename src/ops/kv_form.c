// SPDX-License-Identifier: MIT
// Writing, copying and reading a tile of cached keys and values.
//
// Of a tile only what was written is ever looked at, in whole vectors of keys: the first key of a
// vector sets the others to 0. So a new tile need not be cleared; sentences of ten words have ten
// of 64 places in use, and clearing all took as long as attending to them.
#include "ops/kv_form.h"
#include "base/half.h"
#include "base/sizes.h"
#include "ops/rows.h"
#include <string.h>

enum { VECTOR = MH_MAX_LANES, MOST_WIDTH = 1024 };

mh_kv_form mh_kv_form_of(const mh_kernels *kernels, mh_dtype dtype, size_t key_width,
                         size_t value_width)
{
    mh_kv_form form = {.dtype = dtype, .key_width = key_width, .value_width = value_width};
    form.value_stride = mh_round_up(value_width, VECTOR);
    form.element = mh_dtype_size(dtype);
    form.key_rows = key_width;
    if (dtype == MH_BF16 && kernels->bf16.set_right_column) {
        form.product = kernels->bf16;
        form.key_rows = mh_round_up(key_width, form.product.step);
    }
    return form;
}

static bool is_operand(const mh_kv_form *form) { return form->product.set_right_column != NULL; }

// Operands are for long sequences, and have whole steps of values: one size will do.
size_t mh_kv_form_least_places(const mh_kv_form *form)
{
    return is_operand(form) ? MH_KEY_TILE : VECTOR;
}

size_t mh_kv_form_bytes(const mh_kv_form *form, size_t places)
{
    return places * (form->key_rows + form->value_stride) * form->element;
}

static void *values_of(const mh_kv_form *form, size_t places, const void *tile)
{
    return (char *)tile + places * form->key_rows * form->element;
}

// ---- f32 ----------------------------------------------------------------------------------------

// Keys (count, E) into columns of a tile.
static void write_keys(const mh_kv_form *form, const mh_kernels *kernels, size_t first,
                       size_t count, const float *k, ptrdiff_t stride, size_t places, float *tile)
{
    const size_t E = form->key_width;
    for (size_t i = 0, run; i < count; i += run, k += (ptrdiff_t)run * stride) {
        float *to = tile + first + i;
        run = (first + i) % VECTOR ? 1 : mh_smaller(count - i, VECTOR);
        if ((first + i) % VECTOR == 0)
            kernels->transpose(run, E, k, stride, to, places);
        for (size_t e = 0; e < E && (first + i) % VECTOR; e++)
            to[e * places] = k[e];
    }
}

static bool write_values(const mh_kv_form *form, const mh_kernels *kernels, size_t first,
                         size_t count, const float *v, ptrdiff_t stride, float *values)
{
    const size_t Ev = form->value_width, width = form->value_stride;
    const size_t written = mh_round_up(Ev, kernels->lanes);
    float *to = values + first * width;
    for (size_t i = 0; i < count && written < width; i++)
        memset(to + i * width + written, 0, (width - written) * sizeof *to);
    return kernels->pack_rows(count, Ev, v, stride, to, width);
}

// ---- bf16 and f16 -------------------------------------------------------------------------------

static bool all_finite(const mh_kv_form *form, const mh_kernels *kernels, size_t n,
                       const uint16_t *x)
{
    const uint16_t exponent = form->dtype == MH_BF16 ? MH_BF16_EXPONENT : MH_F16_EXPONENT;
    return kernels->finite_halves(n, exponent, x);
}

// One token.
static bool write_narrow(const mh_kv_form *form, const mh_kernels *kernels, size_t place,
                         const float *k, const float *v, size_t places, uint16_t *tile)
{
    const size_t E = form->key_width, Ev = form->value_width, width = form->value_stride;
    uint16_t key[MOST_WIDTH], *value = tile + E * places + place * width;
    mh_row_write(kernels, form->dtype, key, 1, E, k);
    for (size_t e = 0; e < E && place % VECTOR == 0; e++)
        memset(tile + e * places + place, 0, VECTOR * sizeof *tile);
    for (size_t e = 0; e < E; e++)
        tile[e * places + place] = key[e];
    mh_row_write(kernels, form->dtype, value, 1, Ev, v);
    memset(value + Ev, 0, (width - Ev) * sizeof *value);
    return all_finite(form, kernels, Ev, value); // rounding may have made an inf
}

// ---- bf16 as operands ---------------------------------------------------------------------------

// One token. A product takes whole steps of values, of which those that are not there have to be 0.
static bool write_operand(const mh_kv_form *form, const mh_kernels *kernels, size_t place,
                          const float *k, const float *v, void *tile)
{
    const size_t E = form->key_width, Ev = form->value_width;
    uint16_t row[MOST_WIDTH];
    if (place == 0)
        memset(tile, 0, mh_kv_form_bytes(form, MH_KEY_TILE));
    mh_row_write(kernels, form->dtype, row, 1, E, k);
    form->product.set_right_column(E, row, place, tile, MH_KEY_TILE);
    mh_row_write(kernels, form->dtype, row, 1, Ev, v);
    form->product.set_right_row(Ev, row, place, values_of(form, MH_KEY_TILE, tile),
                                form->value_stride);
    return all_finite(form, kernels, Ev, row);
}

mh_kv_operands mh_kv_form_operands(const mh_kv_form *form, const mh_product *product,
                                   const void *tile, bool finite)
{
    if (!is_operand(form) || product->multiply != form->product.multiply)
        return (mh_kv_operands){0};
    return (mh_kv_operands){tile, values_of(form, MH_KEY_TILE, tile), finite};
}

// ---- tiles --------------------------------------------------------------------------------------

static bool is_plain(const mh_tensor *t) { return t->dtype == MH_F32 && t->stride[3] == 1; }

bool mh_kv_form_write(const mh_kv_form *form, const mh_kernels *kernels, size_t first, size_t count,
                      const mh_tensor *keys, const void *k, const mh_tensor *values, const void *v,
                      size_t places, void *tile)
{
    const size_t E = form->key_width, Ev = form->value_width;
    float key[MOST_WIDTH], value[MOST_WIDTH], *stored = values_of(form, places, tile);
    if (form->dtype == MH_F32 && is_plain(keys) && is_plain(values)) {
        write_keys(form, kernels, first, count, k, keys->stride[2], places, tile);
        return write_values(form, kernels, first, count, v, values->stride[2], stored);
    }
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        mh_row_read(kernels, keys->dtype, mh_row_offset(keys, k, (ptrdiff_t)i * keys->stride[2]),
                    keys->stride[3], E, key);
        mh_row_read(kernels, values->dtype,
                    mh_row_offset(values, v, (ptrdiff_t)i * values->stride[2]), values->stride[3],
                    Ev, value);
        if (form->dtype != MH_F32) {
            finite &= is_operand(form)
                          ? write_operand(form, kernels, first + i, key, value, tile)
                          : write_narrow(form, kernels, first + i, key, value, places, tile);
            continue;
        }
        write_keys(form, kernels, first + i, 1, key, (ptrdiff_t)E, places, tile);
        finite &= write_values(form, kernels, first + i, 1, value, (ptrdiff_t)Ev, stored);
    }
    return finite;
}

void mh_kv_form_copy(const mh_kv_form *form, size_t count, size_t from_places, const void *from,
                     size_t to_places, void *to)
{
    const size_t used = mh_round_up(count, VECTOR) * form->element;
    if (is_operand(form)) {
        memcpy(to, from, mh_kv_form_bytes(form, MH_KEY_TILE));
        return;
    }
    for (size_t e = 0; e < form->key_width; e++)
        memcpy((char *)to + e * to_places * form->element,
               (const char *)from + e * from_places * form->element, used);
    memcpy(values_of(form, to_places, to), values_of(form, from_places, from),
           count * form->value_stride * form->element);
}

mh_kv_tile mh_kv_form_read(const mh_kv_form *form, const mh_kernels *kernels, size_t count,
                           size_t places, const void *tile, bool finite, bool as_stored,
                           float *keys, float *values)
{
    const size_t E = form->key_width, used = mh_round_up(count, VECTOR);
    const void *stored = values_of(form, places, tile);
    if (form->dtype == MH_F32 || (as_stored && finite && !is_operand(form)))
        return (mh_kv_tile){tile, places, stored, finite, mh_row_type_of(form->dtype)};
    if (is_operand(form)) {
        const size_t width = form->value_stride;
        form->product.unpack_right(E, used, tile, MH_KEY_TILE, keys, MH_KEY_TILE);
        form->product.unpack_right(count, width, stored, width, values, width);
        return (mh_kv_tile){keys, MH_KEY_TILE, values, finite, MH_ROW_F32};
    }
    for (size_t e = 0; e < E; e++)
        mh_row_read(kernels, form->dtype, (const uint16_t *)tile + e * places, 1, used,
                    keys + e * MH_KEY_TILE);
    mh_row_read(kernels, form->dtype, stored, 1, count * form->value_stride, values);
    return (mh_kv_tile){keys, MH_KEY_TILE, values, finite, MH_ROW_F32};
}
