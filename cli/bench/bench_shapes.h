// SPDX-License-Identifier: MIT
// The text of bench/shapes/*.txt, built into the command: CMake turns each file into a string,
// so that the installed command needs no data files. See cli/CMakeLists.txt.
#ifndef CLI_BENCH_SHAPES_H
#define CLI_BENCH_SHAPES_H

extern const char attention_shapes[], decode_shapes[], matmul_shapes[];

#endif
