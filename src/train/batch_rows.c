// SPDX-License-Identifier: MIT
// A batch's rows: packed source sentences, and target sentences as decoder input (<s> a b c) and as
// expected output (a b c </s>).
#include "train/batch_rows.h"

#include "support/grow.h"

static size_t source_tokens(const mh_dataset *examples, const uint32_t *which, size_t count)
{
    size_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += mh_dataset_source(examples, which[i]).count;
    return tokens;
}

size_t mh_target_tokens(const mh_dataset *examples, const uint32_t *which, size_t count)
{
    size_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += mh_dataset_target(examples, which[i]).count;
    return tokens;
}

// Copies a sentence, sets its positions and the start of the next one.
static void batch_rows_put(mh_ids side, int32_t *ids, int32_t *positions, int64_t *starts, size_t b)
{
    const size_t first = (size_t)starts[b];
    memcpy(ids + first, side.ids, side.count * sizeof *ids);
    for (size_t i = 0; i < side.count; i++)
        positions[first + i] = (int32_t)i;
    starts[b + 1] = (int64_t)(first + side.count);
}

mh_status mh_batch_rows_fill(mh_context *context, const mh_dataset *examples, const uint32_t *which,
                             size_t count, int32_t bos, mh_batch_rows *rows, mh_pair_batch *batch)
{
    const size_t S = source_tokens(examples, which, count);
    const size_t T = mh_target_tokens(examples, which, count);
    if (!mh_grow(context, &rows->numbers, &rows->numbers_capacity, 2 * S + 3 * T,
                 sizeof *rows->numbers) ||
        !mh_grow(context, &rows->starts, &rows->starts_capacity, 2 * (count + 1),
                 sizeof *rows->starts))
        return MH_ERROR_MEMORY;
    int32_t *source = rows->numbers, *source_positions = source + S;
    int32_t *wanted = source_positions + S, *target_positions = wanted + T;
    int32_t *given = target_positions + T;
    int64_t *source_starts = rows->starts, *target_starts = source_starts + count + 1;
    source_starts[0] = target_starts[0] = 0;
    for (size_t b = 0; b < count; b++) {
        const mh_ids target = mh_dataset_target(examples, which[b]);
        const size_t first = (size_t)target_starts[b];
        batch_rows_put(mh_dataset_source(examples, which[b]), source, source_positions,
                       source_starts, b);
        batch_rows_put(target, wanted, target_positions, target_starts, b);
        given[first] = bos;
        memcpy(given + first + 1, target.ids, (target.count - 1) * sizeof *given);
    }
    *batch = (mh_pair_batch){count,  source,           source_positions, given,
                             wanted, target_positions, source_starts,    target_starts};
    return MH_OK;
}

void mh_batch_rows_free(mh_context *context, mh_batch_rows *rows)
{
    mh_shrink(context, &rows->numbers, &rows->numbers_capacity, sizeof *rows->numbers);
    mh_shrink(context, &rows->starts, &rows->starts_capacity, sizeof *rows->starts);
}
