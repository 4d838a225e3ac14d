// SPDX-License-Identifier: MIT
// Tiles of a cache: whatever the panels, what was written is what is read, in every way of reading,
// and after moving to a tile with more slots.
#include "base/half.h"
#include "ops/cache/kv_internal.h"
#include "ops/row_io.h"
#include "ref/ref_tensor.h"
#include "support.h"

enum { E = 20, EV = 72, COUNT = 13, MOST_BYTES = 64 * (20 + 80) * 4 };

typedef struct fixture {
    mh_kernels kernels;
    mh_kv_layout layout;
    test_tensor k, v; // (1, 1, COUNT, E), (1, 1, COUNT, EV), what the cache can hold exactly
    _Alignas(64) char tile[MOST_BYTES], larger[MOST_BYTES];
    _Alignas(64) float keys[E * 64], values[64 * 80];
} fixture;

static void setup(fixture *f, mh_dtype dtype, size_t panel)
{
    test_rng rng = {11};
    assert_non_null(mh_kernels_init(&f->kernels, NULL));
    f->kernels.attention.panel = panel;
    f->kernels.bf16 = f->kernels.f32; // no operands of a layout of their own, which are one tile
    f->layout = mh_kv_layout_of(&f->kernels, dtype, E, EV);
    f->k = test_tensor_dense(dtype, 4, (size_t[]){1, 1, COUNT, E});
    f->v = test_tensor_dense(dtype, 4, (size_t[]){1, 1, COUNT, EV});
    test_fill_normal(&rng, &f->k.view, 1);
    test_fill_normal(&rng, &f->v.view, 1);
    memset(f->tile, 0x7F, sizeof f->tile); // a large number, NaN as bf16
    memset(f->larger, 0x7F, sizeof f->larger);
}

static void teardown(fixture *f)
{
    test_tensor_free(&f->k);
    test_tensor_free(&f->v);
}

// At once, in two pieces or one by one.
static void write_pieces(fixture *f, size_t piece)
{
    for (size_t first = 0; first < COUNT; first += piece) {
        const size_t at[3] = {0, 0, first};
        assert_true(mh_kv_layout_write(
            &f->layout, &f->kernels, first, mh_smaller(piece, COUNT - first), &f->k.view,
            mh_element(&f->k.view, 3, at), &f->v.view, mh_element(&f->v.view, 3, at), 16, f->tile));
    }
}

static float number_of(mh_row_type type, const mh_panels *p, size_t row, size_t column)
{
    const size_t start = column / p->width * p->width, size = type == MH_ROW_F32 ? 4 : 2;
    const char *panel = mh_panel_at(p, start, size);
    const void *at = panel + (row * mh_panel_columns(p, start) + column - start) * size;
    uint16_t half;
    float x;
    if (type == MH_ROW_F32) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    memcpy(&half, at, sizeof half);
    return type == MH_ROW_BF16 ? mh_bf16_to_float(half) : mh_f16_to_float(half);
}

static void check_tile(fixture *f, size_t slots, const void *tile, mh_kv_reading reading)
{
    const mh_kv_tile t = mh_kv_layout_read(&f->layout, &f->kernels, COUNT, slots, tile, true,
                                           reading, f->keys, f->values);
    if (reading == MH_KV_ROWS) {
        assert_int_equal(t.keys.width, t.keys.columns);
        assert_int_equal(t.values.width, t.values.columns);
    }
    assert_true(reading == MH_KV_STORED || t.type == MH_ROW_F32);
    for (size_t j = 0; j < COUNT; j++) {
        for (size_t e = 0; e < E; e++)
            assert_true(number_of(t.type, &t.keys, e, j) ==
                        (float)ref_get(&f->k.view, (size_t[]){0, 0, j, e}));
        for (size_t e = 0; e < 80; e++)
            assert_true(number_of(t.type, &t.values, j, e) ==
                        (e < EV ? (float)ref_get(&f->v.view, (size_t[]){0, 0, j, e}) : 0));
    }
}

static void tiles(void **state)
{
    (void)state;
    static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};
    static const size_t panels[] = {16, 32, 64, MH_WHOLE_ROWS}, pieces[] = {COUNT, 7, 1};
    static const mh_kv_reading readings[] = {MH_KV_ROWS, MH_KV_F32, MH_KV_STORED};
    static fixture f;
    for (size_t i = 0; i < 3 * 4 * 3; i++) {
        setup(&f, dtypes[i % 3], panels[i / 3 % 4]);
        write_pieces(&f, pieces[i / 12]);
        for (size_t slots = 32; slots <= 64; slots *= 2) {
            mh_kv_layout_copy(&f.layout, COUNT, 16, f.tile, slots, f.larger);
            for (size_t r = 0; r < 3; r++) {
                check_tile(&f, 16, f.tile, readings[r]);
                check_tile(&f, slots, f.larger, readings[r]);
            }
        }
        teardown(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
