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
        const size_t before = tape->size;
        size_t size;
        empty(tape); // first: both at once might not fit
        tape->memory = mh_alloc_grown(&tape->allocator, before, needed, &size);
        if (!tape->memory)
            return mh_fail(context, MH_ERROR_MEMORY, "tape: out of memory for %zu bytes", needed);
        tape->size = size;
    }
    *arena = (mh_arena){.base = tape->memory, .size = tape->size};
    return MH_OK;
}
