// SPDX-License-Identifier: MIT
// multihead bench matmul: c = a b over the shapes of bench/shapes/matmul.txt. With few rows
// every element of b is read once, so the limit is memory bandwidth.
#include "bench.h"
#include "bench_shapes.h"
#include "messages.h"

#include <multihead/ops.h>
#include <string.h>

enum { A, B, C, TENSORS };
enum { FEW_ROWS = 4 };

typedef struct matmul_case {
    mh_context *context;
    mh_tensor tensors[TENSORS];
    size_t sizes[TENSORS];
    mh_packed_matrix *packed;
} matmul_case;

static mh_status gemm_stream(void *arg)
{
    matmul_case *m = arg;
    return mh_matmul(m->context, &m->tensors[A], &m->tensors[B], &m->tensors[C]);
}

static mh_status gemm_packed_stream(void *arg)
{
    matmul_case *m = arg;
    return mh_matmul_packed(m->context, &m->tensors[A], m->packed, &m->tensors[C]);
}

static double matmul_flops(const bench_case *c)
{
    return 2 * (double)c->T * (double)c->E * (double)c->S;
}

static int matmul_set_up(const bench *b, const bench_case *c, mh_dtype dtype, matmul_case *m)
{
    const size_t shapes[TENSORS][2] = {{c->T, c->E}, {c->E, c->S}, {c->T, c->S}};
    const uint32_t seeds[TENSORS] = {1, 2, 0};
    m->context = b->context;
    int code = EXIT_DONE;
    for (int i = 0; i < TENSORS && code == EXIT_DONE; i++)
        code = bench_tensor(b, c, dtype, 2, shapes[i], seeds[i], &m->tensors[i], &m->sizes[i]);
    mh_status status = MH_OK;
    if (code == EXIT_DONE && c->packed)
        status = mh_matrix_pack(b->context, MH_PRECISION_AUTO, &m->tensors[B], &m->packed);
    return status == MH_OK ? code : complain_status(b->context, status, c->name);
}

static int matmul_run_case(bench *b, const bench_case *c, mh_dtype dtype)
{
    matmul_case m;
    memset(&m, 0, sizeof m);
    int code = matmul_set_up(b, c, dtype, &m);
    bench_result result = {.suite = &matmul_suite,
                           .of = c,
                           .dtype = dtype,
                           .pass = "forward",
                           .flops = matmul_flops(c),
                           .bytes = (double)m.sizes[A] + (double)m.sizes[B] + (double)m.sizes[C],
                           .footprint = c->T <= FEW_ROWS ? m.sizes[B] : 0};
    if (code == EXIT_DONE)
        code = bench_measure(b, c->packed ? gemm_packed_stream : gemm_stream, &m, &result);
    mh_packed_matrix_free(m.packed);
    for (int i = 0; i < TENSORS; i++)
        mh_free(b->context, m.tensors[i].data, m.sizes[i]);
    return code;
}

const suite matmul_suite = {
    .name = "matmul",
    .shapes = matmul_shapes,
    .sizes = 3,
    .form = "M,K,N",
    .word = "packed",
    .limit = "FMA peak measured meanwhile; with up to four rows, of the read bandwidth",
    .passes = PASS_FORWARD,
    .flops = matmul_flops,
    .run = matmul_run_case,
};
