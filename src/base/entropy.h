// SPDX-License-Identifier: MIT
// A random number from the system: for names of temporary files and seeds of hash tables, never for
// results.
#ifndef MH_BASE_ENTROPY_H
#define MH_BASE_ENTROPY_H

#include <multihead/base.h>
#include <stdint.h>

MH_API uint64_t mh_entropy(void); // thread-safe

#endif
