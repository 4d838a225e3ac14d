// SPDX-License-Identifier: MIT
// What the tests of readers have in common: files that must be refused, and memory that runs out at
// every place.
#ifndef MH_TESTS_PARSER_SUPPORT_H
#define MH_TESTS_PARSER_SUPPORT_H

#include "file_support.h"
#include "support.h"

// Parses `b` as the file `name`, which must be refused with `word` and its name, without memory
// being taken for what it promises; frees it. `memory` is the context's.
void test_parse_refused(mh_context *context, scarce *memory, const char *name, blob b,
                        const char *word);

// Fails the n-th allocation from `source`, then all from the n-th, in `work`, for n = 1, 1 + step,
// ... as long as there is one; nothing may be left in `memory`.
void test_out_of_memory(mh_context *context, const scarce *memory, scarce *source, size_t step,
                        mh_status (*work)(void));

#endif
