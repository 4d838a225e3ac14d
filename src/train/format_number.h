// SPDX-License-Identifier: MIT
// Numbers as text that round-trips exactly, independent of the locale.
#ifndef MH_TRAIN_FORMAT_NUMBER_H
#define MH_TRAIN_FORMAT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Digits only. False for anything else or on overflow.
bool mh_whole_parse(const char *text, uint64_t *number);

// The bits of a double as 16 hexadecimal digits, and back.
void mh_real_text(double number, char *text, size_t size);
bool mh_real_parse(const char *text, double *number);

// The shortest decimal that round-trips: 0.1, not 0.10000000000000001; of a float with `single`.
void mh_short_text(double number, bool single, char *text, size_t size);

#endif
