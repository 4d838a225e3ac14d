// SPDX-License-Identifier: MIT
// Tapes: memory that grows and is kept.
#include "nn/tape.h"
#include "base/context.h"
#include <stdatomic.h>

mh_status mh_tape_create(mh_context *context, mh_tape **tape)
{
    if (mh_need(context, tape, "tape"))
        return MH_ERROR_ARGUMENT;
    *tape = mh_alloc(context, sizeof **tape);
    if (!*tape)
        return MH_ERROR_MEMORY;
    **tape = (mh_tape){.allocator = context->allocator};
    return MH_OK;
}

uint64_t mh_new_identity(void)
{
    static atomic_uint_least64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

static void empty(mh_tape *tape)
{
    if (tape->memory)
        tape->allocator.release(tape->allocator.user, tape->memory, tape->size);
    tape->memory = NULL;
    tape->size = 0;
    tape->owner = 0;
}

static bool allocate(mh_tape *tape, size_t size)
{
    tape->memory = tape->allocator.alloc(tape->allocator.user, size, MH_ARENA_ALIGNMENT);
    tape->size = tape->memory ? size : 0;
    return tape->memory;
}

void mh_tape_free(mh_tape *tape)
{
    if (!tape)
        return;
    empty(tape);
    tape->allocator.release(tape->allocator.user, tape, sizeof *tape);
}

size_t mh_tape_bytes(const mh_tape *tape) { return tape->size; }

mh_status mh_tape_begin(mh_context *context, mh_tape *tape, mh_arena *arena)
{
    const size_t needed = arena->used;
    if (arena->overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "tape: its size does not fit in memory");
    if (!tape) {
        char *memory = mh_context_module_scratch(context, needed);
        *arena = (mh_arena){.base = memory, .size = needed};
        return memory ? MH_OK : MH_ERROR_MEMORY;
    }
    tape->owner = 0;
    if (tape->size < needed) {
        // A quarter more than before: batches differ by less, and fresh memory is slow.
        const size_t generous = tape->size + tape->size / 4;
        empty(tape);
        if (generous <= needed || !allocate(tape, generous))
            allocate(tape, needed);
        if (!tape->memory)
            return mh_fail(context, MH_ERROR_MEMORY, "tape: out of memory for %zu bytes", needed);
    }
    *arena = (mh_arena){.base = tape->memory, .size = tape->size};
    return MH_OK;
}
