// SPDX-License-Identifier: MIT
// The hash of each golden result at each instruction-set level; see test_golden.c, which prints
// this table anew with MH_GOLDEN_UPDATE=1. A change here is a change of bits: a decision, to be
// explained in the commit.
#ifndef MH_TESTS_GOLDEN_HASHES_H
#define MH_TESTS_GOLDEN_HASHES_H

#include <stdint.h>

typedef struct golden_hash {
    const char *level, *name;
    uint64_t hash;
} golden_hash;

static const golden_hash golden_hashes[] = {
    {"scalar", "attention_f32", 0x3DC8EEADCF662FDF},
    {"scalar", "attention_bf16", 0xCD9594AA850587A3},
    {"scalar", "attention_f16", 0xE4731E6266C20167},
    {"scalar", "attention_wide", 0x4FF47B31F76C1221},
    {"scalar", "attention_decode", 0xABA267BEACD3969E},
    {"scalar", "attention_capped", 0x20A811E7BF8ABCD8},
    {"scalar", "attention_alibi", 0x6B6236E8A7DD9567},
    {"scalar", "attention_masked", 0xB2A65F5B8DC42749},
    {"scalar", "matmul_f32", 0xCB596A4949257F23},
    {"scalar", "matmul_bf16", 0xC6782509D2798B18},
    {"scalar", "matmul_row", 0xCDAF2D2C41A3A715},
    {"scalar", "softmax_rows", 0x2DFA0980CCB0F36B},
    {"scalar", "softmax_columns", 0x03894064975377FD},
    {"scalar", "log_softmax_rows", 0x051DC129B47B6BCA},
    {"scalar", "linear_f32", 0x9898F1AC5D4BC44B},
    {"scalar", "linear_bf16", 0xD7E1734141D455A1},
    {"scalar", "linear_f32_as_bf16", 0x5533D503BE7054AF},
    {"avx2", "attention_f32", 0xA62168A6DA20B02E},
    {"avx2", "attention_bf16", 0x6AB56EB769D23E27},
    {"avx2", "attention_f16", 0x655FC1D928D0DA89},
    {"avx2", "attention_wide", 0x0DDB2EAC015CFAC9},
    {"avx2", "attention_decode", 0x8D6C61E5C6B7EBF3},
    {"avx2", "attention_capped", 0x216A4C05CAB5DB89},
    {"avx2", "attention_alibi", 0xCDAC3906253694EE},
    {"avx2", "attention_masked", 0x4A652B76BD3D0ABB},
    {"avx2", "matmul_f32", 0xF34C42A93A263B87},
    {"avx2", "matmul_bf16", 0xC6782509D2798B18},
    {"avx2", "matmul_row", 0x5197A1A14BC59FD7},
    {"avx2", "softmax_rows", 0xB12C59AC70195F3C},
    {"avx2", "softmax_columns", 0x3EC3F1DEAEAE39E2},
    {"avx2", "log_softmax_rows", 0x1A758D7936E525D6},
    {"avx2", "linear_f32", 0x2D7B33E08834688C},
    {"avx2", "linear_bf16", 0xD7E1734141D455A1},
    {"avx2", "linear_f32_as_bf16", 0x262B4057E440CB43},
    {"avx512", "attention_f32", 0x87D7BF72929EFDA5},
    {"avx512", "attention_bf16", 0xB953E5DCE74EC3E3},
    {"avx512", "attention_f16", 0x3375379F51A8BBBD},
    {"avx512", "attention_wide", 0x4AFDE64006C972CD},
    {"avx512", "attention_decode", 0xCECC46934562DCEE},
    {"avx512", "attention_capped", 0x4A81A365212B895E},
    {"avx512", "attention_alibi", 0x8657E1803521D5A3},
    {"avx512", "attention_masked", 0xD5EC6C98235A130D},
    {"avx512", "matmul_f32", 0xF34C42A93A263B87},
    {"avx512", "matmul_bf16", 0xC6782509D2798B18},
    {"avx512", "matmul_row", 0x5197A1A14BC59FD7},
    {"avx512", "softmax_rows", 0x8B4A89146E823368},
    {"avx512", "softmax_columns", 0x2488428311A422EE},
    {"avx512", "log_softmax_rows", 0x18B8DCB4CF62EDF7},
    {"avx512", "linear_f32", 0x2D7B33E08834688C},
    {"avx512", "linear_bf16", 0xD7E1734141D455A1},
    {"avx512", "linear_f32_as_bf16", 0x262B4057E440CB43},
    {"amx", "attention_f32", 0x87D7BF72929EFDA5},
    {"amx", "attention_bf16", 0xDAC1C87597DB6C4E},
    {"amx", "attention_f16", 0x3375379F51A8BBBD},
    {"amx", "attention_wide", 0x4AFDE64006C972CD},
    {"amx", "attention_decode", 0xCECC46934562DCEE},
    {"amx", "attention_capped", 0x4A81A365212B895E},
    {"amx", "attention_alibi", 0x8657E1803521D5A3},
    {"amx", "attention_masked", 0xD5EC6C98235A130D},
    {"amx", "matmul_f32", 0xF34C42A93A263B87},
    {"amx", "matmul_bf16", 0x809454E305B8398D},
    {"amx", "matmul_row", 0x5197A1A14BC59FD7},
    {"amx", "softmax_rows", 0x8B4A89146E823368},
    {"amx", "softmax_columns", 0x2488428311A422EE},
    {"amx", "log_softmax_rows", 0x18B8DCB4CF62EDF7},
    {"amx", "linear_f32", 0x2D7B33E08834688C},
    {"amx", "linear_bf16", 0xDB3D418525000307},
    {"amx", "linear_f32_as_bf16", 0xDCFD7D6AB5C86CFA},
};

#endif
