// SPDX-License-Identifier: MIT
// What the tests of readers have in common: a context whose memory may run out at every place, a
// file in a folder of its own, files that must be refused, cut, damaged, or find no room.
#ifndef MH_TESTS_PARSER_SUPPORT_H
#define MH_TESTS_PARSER_SUPPORT_H

#include "file_support.h"
#include "support.h"

// One of each for all tests of a program.
extern mh_context *context;
extern scarce memory;      // the context's
extern scarce json_memory; // jansson's
extern char folder[64];    // "" without parser_place
extern char path[96];      // a file in it

// cmocka's set-up and tear-down, which fails if memory or a temporary file is left behind.
int parser_set_up(void **state);
int parser_tear_down(void **state);

// parser_set_up, and a folder for the file `name`; `log` may be NULL.
int parser_place(const char *name, mh_log_fn log);

// Fails the test unless dtype, shape and every bit are equal; a bool is 0 or not.
void same_elements(const mh_tensor *found, const mh_tensor *expected);

// Parses `b` as the file `name`, which must be refused with `word` and its name, without memory
// being taken for what it promises; frees it.
void test_parse_refused(const char *name, blob b, const char *word);

// Parses `b`, a correct tensor file, cut everywhere, which is refused, and with each of its bits
// flipped, which may be; frees it.
void test_cuts_refused(blob b);
void test_flips_survived(blob b);

// Fails the n-th allocation from `source`, then all from the n-th, in `work`, for n = 1, 1 + step,
// ... as long as there is one; nothing may be left in `memory`.
void test_out_of_memory(scarce *source, size_t step, mh_status (*work)(void));

// `write` replaces the file at `path` by one of more than 100,000 bytes, which find no room: it
// says so, and leaves the old file.
void test_no_room(mh_status (*write)(void));

#endif
