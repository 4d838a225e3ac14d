// SPDX-License-Identifier: MIT
// A random number from the system: for names of temporary files and seeds of hash tables, never for
// results.
#ifndef MH_SUPPORT_ENTROPY_H
#define MH_SUPPORT_ENTROPY_H

#include <stdint.h>

uint64_t mh_entropy(void); // thread-safe

#endif
