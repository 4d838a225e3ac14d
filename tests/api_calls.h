// SPDX-License-Identifier: MIT
// Every public function that reads and writes tensors, with the tensors of a small call: for tests
// that have to cover all of them (overlap, strides, stack use).
#ifndef MH_TESTS_API_CALLS_H
#define MH_TESTS_API_CALLS_H

#include "api_objects.h"

enum { API_OPERANDS_MOST = 10, API_ROOM = 4096 };

typedef struct api_operand {
    const char *name;
    bool output;
    const char *may_be; // outputs that this input may be, each with a comma; NULL: none
    mh_dtype dtype;
    int rank;
    size_t shape[4];
} api_operand;

typedef struct api_call {
    const char *name;
    mh_status (*call)(const api_objects *a, const mh_tensor *t);
    api_operand operands[API_OPERANDS_MOST];
    bool arrays; // plain arrays, which have no strides
} api_call;

extern const api_call api_calls[];
extern const size_t api_call_count;

size_t api_operand_count(const api_call *call);

// Views of `call`'s operands, each in memory of its own; ids are 0. The next call overwrites it.
void api_call_tensors(const api_call *call, mh_tensor t[API_OPERANDS_MOST]);

#endif
