// SPDX-License-Identifier: MIT
// What mh_linear and mh_linear_backward refuse: each message says what was found and expected.
#include "ops/gemm/gemm_internal.h"
#include "support.h"

static mh_context *context; // of the scalar level

static int make_context(void **state)
{
    (void)state;
    context = test_context("scalar", 1);
    return 0;
}

static int free_context(void **state)
{
    (void)state;
    mh_context_free(context);
    return 0;
}

// M = 3, K = 5, N = 4: good operands, of which each test spoils one.
typedef struct operands {
    float numbers[64];
    mh_tensor x, weight, y, bias, residual, before, relu;
    mh_linear_options options;
} operands;

static void make_operands(operands *p)
{
    memset(p, 0, sizeof *p);
    p->x = mh_tensor_2d(p->numbers, MH_F32, 3, 5);
    p->weight = mh_tensor_2d(p->numbers, MH_F32, 4, 5);
    p->y = mh_tensor_2d(p->numbers + 32, MH_F32, 3, 4);
    p->bias = mh_tensor_1d(p->numbers, MH_F32, 4);
    p->residual = mh_tensor_2d(p->numbers, MH_F32, 3, 4);
    p->before = mh_tensor_2d(p->numbers + 48, MH_F32, 3, 4);
    p->relu = p->residual;
    p->options = mh_linear_options_default();
    p->options.bias = &p->bias;
    p->options.residual = &p->residual;
    p->options.preactivation = &p->before;
}

static void expect(operands *p, mh_status status, const char *message)
{
    test_refused(context,
                 mh_linear_masked(context, &p->options, &p->relu, &p->x, &p->weight, &p->y), status,
                 message);
    make_operands(p);
}

static void wrong_operands(void **state)
{
    (void)state;
    operands p;
    make_operands(&p);
    test_ok(context, mh_linear(context, &p.options, &p.x, &p.weight, &p.y));
    p.x = mh_tensor_2d(p.numbers, MH_F32, 3, 6);
    expect(&p, MH_ERROR_ARGUMENT, "x: found f32 (3, 6), expected (M, 5) for weight (4, 5)");
    p.y = mh_tensor_2d(p.numbers, MH_F32, 4, 3);
    expect(&p, MH_ERROR_ARGUMENT, "y: found f32 (4, 3), expected (3, 4)");
    p.bias = mh_tensor_1d(p.numbers, MH_F32, 5);
    expect(&p, MH_ERROR_ARGUMENT,
           "bias: found 5 elements with stride 1, expected 4 contiguous ones");
    p.bias.stride[0] = 2;
    expect(&p, MH_ERROR_ARGUMENT, "bias: found 4 elements with stride 2");
    p.residual = mh_tensor_2d(p.numbers, MH_F32, 3, 5);
    expect(&p, MH_ERROR_ARGUMENT, "residual: found f32 (3, 5), expected (3, 4)");
    p.relu = mh_tensor_2d(p.numbers, MH_F32, 4, 4);
    expect(&p, MH_ERROR_ARGUMENT, "relu_output: found f32 (4, 4), expected (3, 4)");
    p.relu.dtype = MH_I32;
    expect(&p, MH_ERROR_UNSUPPORTED, "relu_output: found dtype i32, expected f32, bf16 or f16");
    mh_dropout_options dropout = mh_dropout_options_default();
    dropout.probability = 1;
    p.options.dropout = &dropout;
    expect(&p, MH_ERROR_ARGUMENT, "probability: found 1, expected 0 to less than 1");
    p.before = mh_tensor_2d(p.numbers, MH_F32, 3, 5);
    expect(&p, MH_ERROR_ARGUMENT, "preactivation: found f32 (3, 5), expected (3, 4)");
    p.weight.rank = 3;
    expect(&p, MH_ERROR_ARGUMENT, "weight");
    p.x.data = NULL;
    expect(&p, MH_ERROR_ARGUMENT, "x: data is NULL");
    p.weight.dtype = MH_I32;
    expect(&p, MH_ERROR_UNSUPPORTED, "weight: found dtype i32, expected f32, bf16 or f16");
    p.bias.dtype = MH_BF16;
    expect(&p, MH_ERROR_UNSUPPORTED, "bias: found dtype bf16, expected f32");
    p.before.dtype = MH_F16;
    expect(&p, MH_ERROR_UNSUPPORTED, "preactivation: found dtype f16, expected f32");
    p.y.dtype = MH_F64;
    expect(&p, MH_ERROR_UNSUPPORTED, "y: found dtype f64");
}

static void wrong_options(void **state)
{
    (void)state;
    operands p;
    make_operands(&p);
    const mh_activation odd = (mh_activation)17;
    p.options.struct_size = sizeof p.options + 1;
    expect(&p, MH_ERROR_ARGUMENT, "struct_size");
    p.options.struct_size = 0;
    expect(&p, MH_ERROR_ARGUMENT, "struct_size: found 0");
    p.options.precision = MH_PRECISION_NATIVE;
    expect(&p, MH_ERROR_ARGUMENT, "precision: found 4, expected 0 to 3");
    p.options.activation = &odd;
    expect(&p, MH_ERROR_ARGUMENT, "activation: found 17");
    assert_int_equal(mh_linear(NULL, NULL, &p.x, &p.weight, &p.y), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_linear_backward(NULL, NULL, &p.x, &p.weight, &p.y, NULL, NULL, NULL),
                     MH_ERROR_ARGUMENT);
}

static void wrong_packed(void **state)
{
    (void)state;
    operands p;
    make_operands(&p);
    mh_packed_matrix *packed = NULL;
    mh_tensor transposed = mh_tensor_swap(p.weight, 0, 1);
    test_ok(context, mh_matrix_pack(context, MH_PRECISION_AUTO, &transposed, &packed));
    p.options.packed = packed;
    expect(&p, MH_ERROR_ARGUMENT, "weight: expected NULL together with options.packed");
    p.options.packed = packed;
    for (size_t i = 1; test_level(i); i++) {
        mh_context *other = test_context(test_level(i), 1);
        test_refused(other, mh_linear(other, &p.options, &p.x, NULL, &p.y), MH_ERROR_ARGUMENT,
                     "packed at level scalar, expected this context's");
        test_refused(other, mh_matmul_packed(other, &p.x, packed, &p.y), MH_ERROR_ARGUMENT,
                     test_level(i));
        mh_context_free(other);
    }
    test_ok(context, mh_linear(context, &p.options, &p.x, NULL, &p.y));
    mh_packed_matrix_free(packed);

    transposed.dtype = MH_BF16;
    test_ok(context, mh_matrix_pack(context, MH_PRECISION_AUTO, &transposed, &packed));
    p.options.packed = packed;
    p.options.precision = MH_PRECISION_F32;
    test_refused(context, mh_linear(context, &p.options, &p.x, NULL, &p.y), MH_ERROR_ARGUMENT,
                 "packed: found a matrix packed for bf16");
    mh_packed_matrix_free(packed);

    test_refused(context, mh_matrix_pack(context, MH_PRECISION_NATIVE, &transposed, &packed),
                 MH_ERROR_ARGUMENT, "precision: found 4, expected 0 to 3");
    assert_null(packed);
    const size_t endless[2] = {(size_t)1 << 60, 1}; // its packed size would wrap
    transposed = mh_tensor_view(p.numbers, MH_F32, 2, endless);
    transposed.stride[0] = 0;
    test_refused(context, mh_matrix_pack(context, MH_PRECISION_AUTO, &transposed, &packed),
                 MH_ERROR_MEMORY, "memory");
    assert_null(packed);
}

static void wrong_gradients(void **state)
{
    (void)state;
    operands p;
    make_operands(&p);
    mh_tensor dx = mh_tensor_2d(p.numbers + 32, MH_F32, 5, 3);
    mh_tensor dw = mh_tensor_2d(p.numbers + 32, MH_F32, 5, 4), db = p.bias;
    test_refused(context, mh_linear_backward(context, NULL, &p.x, &p.weight, &p.y, &dx, NULL, NULL),
                 MH_ERROR_ARGUMENT, "dx: found f32 (5, 3), expected (3, 5)");
    test_refused(context, mh_linear_backward(context, NULL, &p.x, &p.weight, &p.y, NULL, &dw, NULL),
                 MH_ERROR_ARGUMENT, "dweight: found f32 (5, 4), expected (4, 5)");
    dw = p.weight, dw.dtype = MH_BF16;
    test_refused(context, mh_linear_backward(context, NULL, &p.x, &p.weight, &p.y, NULL, &dw, NULL),
                 MH_ERROR_UNSUPPORTED, "dweight: found dtype bf16, expected f32");
    db.shape[0] = 3;
    test_refused(context, mh_linear_backward(context, NULL, &p.x, &p.weight, &p.y, NULL, NULL, &db),
                 MH_ERROR_ARGUMENT, "dbias: found 3 elements");
    test_refused(context, mh_linear_backward(context, NULL, &p.x, &p.weight, &p.x, NULL, NULL, &db),
                 MH_ERROR_ARGUMENT, "dy: found f32 (3, 5), expected (3, 4)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_operands),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(wrong_packed),
        cmocka_unit_test(wrong_gradients),
    };
    return cmocka_run_group_tests(tests, make_context, free_context);
}
