// SPDX-License-Identifier: MIT
// The power spectrum of 400 real samples.
//
// Even samples are real parts and odd ones imaginary parts of N = 200 complex numbers z, whose DFT
// is computed by Stockham's passes of radix 4, 2, 5 and 5: with n values left to transform at
// stride s (n s = N), m = n / r, w = exp(-2 pi i / N),
//
//     y[q + s (r p + k)] = sum over t < r of x[q + s (p + m t)] w^(k (p s + t N / r))
//
// for p < m, q < s, k < r; then n = m, s = r s. Sums of radix 5 by their formula take 25 products
// instead of fewer by symmetries: a tenth of a millisecond per second of sound. The spectrum of the
// real samples is
//
//     X[k] = (Z[k] + conj Z[N - k]) / 2 - i exp(-2 pi i k / 400) (Z[k] - conj Z[N - k]) / 2.
#include "audio/audio_internal.h"
#include "base/trig.h"
#include <string.h>

enum { HALF = MH_DFT_SIZE / 2 };

struct mh_dft {
    float cosine[MH_DFT_SIZE], sine[MH_DFT_SIZE]; // of -k / 400 turns
};

mh_dft *mh_dft_create(mh_context *context)
{
    mh_dft *dft = mh_alloc(context, sizeof *dft);
    for (int k = 0; dft && k < MH_DFT_SIZE; k++) {
        dft->cosine[k] = (float)mh_cos_turns(k / (double)MH_DFT_SIZE);
        dft->sine[k] = (float)-mh_sin_turns(k / (double)MH_DFT_SIZE);
    }
    return dft;
}

void mh_dft_free(mh_context *context, mh_dft *dft) { mh_free(context, dft, dft ? sizeof *dft : 0); }

// A complex array.
typedef struct lane_array {
    mh_lanes *re, *im;
} lane_array;

// sum over t < r of x[first + step t] root^(k (base + t N / r)), the roots being of 1/200 turn.
static void sum_roots(const mh_dft *dft, lane_array x, size_t first, size_t step, size_t r,
                      size_t k, size_t base, float *restrict re, float *restrict im)
{
    for (size_t t = 0; t < r; t++) {
        const size_t turn = 2 * (k * (base + t * (HALF / r)) % HALF);
        const float c = dft->cosine[turn], s = dft->sine[turn];
        const float *a = x.re[first + step * t], *b = x.im[first + step * t];
        for (size_t l = 0; l < MH_DFT_LANES; l++) {
            re[l] += a[l] * c - b[l] * s;
            im[l] += a[l] * s + b[l] * c;
        }
    }
}

static void stockham_pass(const mh_dft *dft, size_t r, size_t n, size_t s, lane_array x,
                          lane_array y)
{
    const size_t m = n / r;
    for (size_t p = 0; p < m; p++)
        for (size_t k = 0; k < r; k++)
            for (size_t q = 0; q < s; q++) {
                mh_lanes re = {0}, im = {0};
                sum_roots(dft, x, q + s * p, s * m, r, k, p * s, re, im);
                memcpy(y.re[q + s * (r * p + k)], re, sizeof re);
                memcpy(y.im[q + s * (r * p + k)], im, sizeof im);
            }
}

static void split_power(const mh_dft *dft, lane_array z, size_t k, float *restrict power)
{
    const size_t i = k % HALF, j = (HALF - k) % HALF;
    const float c = dft->cosine[k], s = dft->sine[k];
    for (size_t l = 0; l < MH_DFT_LANES; l++) {
        const float even_re = 0.5f * (z.re[i][l] + z.re[j][l]);
        const float even_im = 0.5f * (z.im[i][l] - z.im[j][l]);
        const float odd_re = 0.5f * (z.im[i][l] + z.im[j][l]);
        const float odd_im = -0.5f * (z.re[i][l] - z.re[j][l]);
        const float re = even_re + (odd_re * c - odd_im * s);
        const float im = even_im + (odd_re * s + odd_im * c);
        power[l] = re * re + im * im;
    }
}

void mh_dft_power(const mh_dft *dft, const mh_lanes *x, mh_lanes *power, mh_lanes *scratch)
{
    static const size_t radices[] = {4, 2, 5, 5};
    lane_array from = {scratch, scratch + HALF};
    lane_array to = {scratch + 2 * HALF, scratch + 3 * HALF};
    for (size_t i = 0; i < HALF; i++) {
        memcpy(from.re[i], x[2 * i], sizeof *x);
        memcpy(from.im[i], x[2 * i + 1], sizeof *x);
    }
    size_t n = HALF, s = 1;
    for (size_t i = 0; i < sizeof radices / sizeof *radices; i++) {
        stockham_pass(dft, radices[i], n, s, from, to);
        const lane_array made = to;
        to = from;
        from = made;
        n /= radices[i];
        s *= radices[i];
    }
    for (size_t k = 0; k < MH_DFT_BINS; k++)
        split_power(dft, from, k, power[k]);
}
