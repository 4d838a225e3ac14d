// SPDX-License-Identifier: MIT
// ONNX's own cases: files in a folder of the test data, each run at every level.
#ifndef MH_TESTS_ONNX_SUPPORT_H
#define MH_TESTS_ONNX_SUPPORT_H

#include "support.h"

#include <multihead/io.h>

typedef void (*onnx_runner)(mh_context *context, const char *name, const mh_tensor_file *file);

// Every *.safetensors whose name starts with the prefix; there must be `expected` of them. Skips
// the test, with a message, where $MH_TEST_DATA is not set.
void onnx_run_cases(const char *prefix, onnx_runner run, size_t expected);

#endif
