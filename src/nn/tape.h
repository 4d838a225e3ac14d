// SPDX-License-Identifier: MIT
// One block of memory for the activations that a forward pass saves for backward. A module lays it
// out in two passes (base/arena.h); it begins with the module's own struct of pointers into it.
#ifndef MH_NN_TAPE_H
#define MH_NN_TAPE_H

#include "base/arena.h"
#include <multihead/nn.h>

struct mh_tape {
    mh_allocator allocator;
    char *memory;
    size_t size;
    uint64_t owner; // the identity of the last forward's module, or 0: no forward pass is saved
};

// A number that no other module of this process has or had, not 0, unlike an address. Any thread.
uint64_t mh_new_identity(void);

// Memory of at least arena->used bytes, and *arena for the work pass in it: the tape's, or the
// context's if there is no tape. Previous contents are lost.
mh_status mh_tape_begin(mh_context *context, mh_tape *tape, mh_arena *arena);

#endif
