// SPDX-License-Identifier: MIT
// Translation on several ranks. Rank 0 reads lines and sends a block of them to all; rank r
// translates lines r, r + ranks, ... and prints them into memory; rank 0 writes the results of all
// in the order of lines. A translation does not depend on the others in its batch, so the output is
// that of one process.
#include "messages.h"
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A block of lines, and where their results are.
typedef struct block {
    size_t count;
    uint64_t *sizes; // (count) of the lines; then of the results, rank by rank
    char *bytes;     // of all lines; then of all results
    mh_text *own;    // (count / ranks + 1)
    size_t *starts;  // (ranks + 1)
} block;

static void must(const translate *t, mh_status status) { ranks_must(&t->ranks, status); }

static void *must_have(const translate *t, void *memory)
{
    return ranks_must_have(&t->ranks, memory);
}

static size_t count_of(const translate *t, size_t count, size_t rank)
{
    return count / t->ranks.ranks + (rank < count % t->ranks.ranks);
}

// ---- sending lines ------------------------------------------------------------------------------

static void share_lines(const translate *t, const mh_text *texts, block *b)
{
    size_t bytes = 0;
    b->sizes = must_have(t, calloc(b->count, sizeof *b->sizes));
    for (size_t i = 0; i < b->count && texts; i++)
        b->sizes[i] = texts[i].size;
    must(t, mh_communicator_broadcast(&t->ranks, b->sizes, b->count * sizeof *b->sizes));
    for (size_t i = 0; i < b->count; i++)
        bytes += b->sizes[i];
    b->bytes = must_have(t, malloc(bytes + 1));
    char *to = b->bytes;
    for (size_t i = 0; i < b->count && texts; to += texts[i++].size)
        memcpy(to, texts[i].bytes, texts[i].size);
    must(t, mh_communicator_broadcast(&t->ranks, b->bytes, bytes));
}

static void take_own(const translate *t, block *b)
{
    const char *from = b->bytes;
    size_t n = 0;
    b->own = must_have(t, malloc((b->count / t->ranks.ranks + 1) * sizeof *b->own));
    for (size_t i = 0; i < b->count; from += b->sizes[i++])
        if (i % t->ranks.ranks == t->ranks.rank)
            b->own[n++] = (mh_text){from, b->sizes[i]};
}

// ---- results ------------------------------------------------------------------------------------

// Afterwards sizes and bytes are those of all results, rank by rank.
static void gather_results(const translate *t, const uint64_t *sizes, const char *bytes, block *b)
{
    const size_t R = t->ranks.ranks, rank = t->ranks.rank;
    b->starts[0] = 0;
    for (size_t r = 0; r < R; r++)
        b->starts[r + 1] = b->starts[r] + count_of(t, b->count, r) * sizeof *sizes;
    memcpy((char *)b->sizes + b->starts[rank], sizes, b->starts[rank + 1] - b->starts[rank]);
    must(t, mh_communicator_gather(&t->ranks, b->sizes, b->starts));
    for (size_t r = 0, k = 0; r < R; r++) {
        b->starts[r + 1] = b->starts[r];
        for (size_t i = 0; i < count_of(t, b->count, r); i++)
            b->starts[r + 1] += b->sizes[k++];
    }
    free(b->bytes);
    b->bytes = must_have(t, malloc(b->starts[R] + 1));
    memcpy(b->bytes + b->starts[rank], bytes, b->starts[rank + 1] - b->starts[rank]);
    must(t, mh_communicator_gather(&t->ranks, b->bytes, b->starts));
}

// Writes all results in the order of lines.
static void write_results(const translate *t, block *b, FILE *to)
{
    const size_t R = t->ranks.ranks;
    const uint64_t *sizes = b->sizes;
    size_t *first = must_have(t, calloc(R, sizeof *first)); // of the rank's sizes
    for (size_t r = 1; r < R; r++)
        first[r] = first[r - 1] + count_of(t, b->count, r - 1);
    for (size_t i = 0; i < b->count; i++) {
        const size_t r = i % R, size = sizes[first[r]++];
        fwrite(b->bytes + b->starts[r], 1, size, to);
        b->starts[r] += size;
    }
    free(first);
}

// Translates the own lines in one call, and prints them into memory one by one.
static int translate_to_memory(translate *t, block *b, uint64_t *sizes, char **bytes)
{
    const size_t count = count_of(t, b->count, t->ranks.rank), base = t->number;
    size_t size = 0, before = 0;
    FILE *const to = t->printing.to;
    t->printing.to = must_have(t, open_memstream(bytes, &size));
    t->ends = sizes;
    t->number = base + t->ranks.rank;
    t->step = t->ranks.ranks;
    const int code = count ? translate_texts(t, b->own, count) : EXIT_DONE;
    if (fclose(t->printing.to) != 0) // `ends` may be beyond what is there
        must_have(t, NULL);
    t->ends = NULL;
    t->printing.to = to;
    t->number = base + b->count;
    t->step = 1;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) { // from ends to sizes
        const size_t end = sizes[i];
        sizes[i] = end - before;
        before = end;
    }
    return code;
}

static int translate_share_of_block(translate *t, const mh_text *texts, size_t count)
{
    char *bytes = NULL;
    block b = {.count = count,
               .starts = must_have(t, calloc(t->ranks.ranks + 1, sizeof *b.starts))};
    share_lines(t, texts, &b);
    take_own(t, &b);
    uint64_t *sizes = must_have(t, calloc(count / t->ranks.ranks + 1, sizeof *sizes));
    const int code = ranks_agree(&t->ranks, translate_to_memory(t, &b, sizes, &bytes));
    if (code == EXIT_DONE)
        gather_results(t, sizes, bytes, &b);
    if (code == EXIT_DONE && t->ranks.rank == 0)
        write_results(t, &b, t->printing.to);
    free(bytes);
    free(sizes);
    free(b.sizes);
    free(b.bytes);
    free(b.own);
    free(b.starts);
    return code;
}

// What the leader sends first.
typedef struct head {
    uint64_t count;  // of lines; 0: the end
    uint64_t number; // of lines before these
    int64_t code;    // at the end
} head;

int translate_share(translate *t, const mh_text *texts, size_t count)
{
    head h = {count, t->number, EXIT_DONE};
    must(t, mh_communicator_broadcast(&t->ranks, &h, sizeof h));
    const int code = translate_share_of_block(t, texts, count);
    t->failed = code != EXIT_DONE;
    return code;
}

void translate_end(const translate *t, int code)
{
    head h = {0, t->number, code};
    if (!t->failed) // else the others have ended, too
        must(t, mh_communicator_broadcast(&t->ranks, &h, sizeof h));
}

int translate_follow(translate *t)
{
    for (;;) {
        head h;
        must(t, mh_communicator_broadcast(&t->ranks, &h, sizeof h));
        t->number = h.number;
        const int code = h.count ? translate_share_of_block(t, NULL, h.count) : (int)h.code;
        if (h.count == 0 || code != EXIT_DONE)
            return code;
    }
}
