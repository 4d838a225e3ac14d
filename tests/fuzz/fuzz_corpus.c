// SPDX-License-Identifier: MIT
// Fuzzes the reader of sentence pairs, plain and gzip. Whatever comes, each line is either a pair
// of two clean sentences or reported (CSV is reported once), and a plain text takes memory in
// proportion to its size.
#include "fuzz_context.h"

#include "io/line_reader.h"
#include "text/utf8.h"
#include "train/corpus.h"

typedef struct reports {
    size_t count;
    bool csv;
} reports;

static void report(void *user, const char *file, size_t line, const char *why)
{
    reports *r = user;
    r->count++;
    r->csv |= line == 1 && strstr(why, "CSV");
    if (strcmp(file, "fuzz") != 0 || line < r->count || why[0] == '\0')
        abort();
}

static void check_side(mh_text side)
{
    size_t length;
    if (side.size == 0 || side.size > MH_LINE_MAX || memchr(side.bytes, '\n', side.size) ||
        memchr(side.bytes, '\t', side.size) || mh_utf8_valid(side.bytes, side.size) != side.size ||
        mh_is_space(mh_utf8_decode(side.bytes, &length)) || side.bytes[side.size - 1] == ' ')
        abort();
}

static void check_corpus(const mh_corpus *corpus, const reports *r)
{
    if (corpus->count == 0 || corpus->bad_lines < r->count ||
        (corpus->bad_lines > r->count && !r->csv))
        abort();
    for (size_t i = 0; i < corpus->count; i++) {
        check_side(corpus->sources[i]);
        check_side(corpus->targets[i]);
        if (corpus->lines[i] < i + 1 || corpus->lines[i] > corpus->count + corpus->bad_lines)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { PER_BYTE = 64, FIXED = 1 << 18 }; // the shortest pair has four bytes
    mh_context *context = fuzz_context();
    mh_corpus corpus;
    const size_t before = fuzz_memory.live;
    reports r = {0};
    mh_corpus_files files = {.sources = "fuzz", .bad_line = report, .user = &r};
    fuzz_memory.peak = before;
    mh_status status = mh_corpus_parse(context, &files, bytes, size, &corpus);
    bool packed = size >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
    if (!packed && fuzz_memory.peak - before > FIXED + size * PER_BYTE)
        abort();
    if (status == MH_OK)
        check_corpus(&corpus, &r);
    else if (status != MH_ERROR_FORMAT || corpus.count > 0 || mh_error_message(context)[0] == '\0')
        abort();
    mh_corpus_free(context, &corpus);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
