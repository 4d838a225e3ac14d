// SPDX-License-Identifier: MIT
// A tensor's entry in the header of a safetensors file, from literals.
#ifndef MH_TESTS_SAFETENSORS_SUPPORT_H
#define MH_TESTS_SAFETENSORS_SUPPORT_H

#include "parser_support.h"

#define TENSOR(dtype, shape, begin, end)                                                           \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

#endif
