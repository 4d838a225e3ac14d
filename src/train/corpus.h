// SPDX-License-Identifier: MIT
// Sentence pairs in memory: read from files, or added one by one (demo_numbers.h).
//
//     mh_corpus corpus;
//     mh_corpus_files files = {.sources = "train.tsv.gz", .bad_line = warn};
//     mh_corpus_read(context, &files, &corpus);
//     for (size_t i = 0; i < corpus.count; i++)
//         use(corpus.sources[i], corpus.targets[i]);
//     mh_corpus_free(context, &corpus);
//
// Both sides are valid UTF-8, not empty, without whitespace at either end, and without line breaks
// and (from TSV) tabs.
#ifndef MH_TRAIN_CORPUS_H
#define MH_TRAIN_CORPUS_H

#include <multihead/text.h>

// Reports a line that is skipped; `why` is valid during the call.
typedef void (*mh_bad_line_fn)(void *user, const char *file, size_t line, const char *why);

// Where one pair ends in the text, before the text stops moving.
typedef struct mh_corpus_entry {
    size_t begin, middle, end; // source [begin, middle), target [middle, end)
    size_t line;
} mh_corpus_entry;

typedef struct mh_corpus {
    size_t count;
    mh_text *sources, *targets; // (count) each
    size_t *lines;              // (count) line of each pair in the file, from 1
    size_t capacity;            // elements that these have memory for
    const char *name;           // of the file, for messages
    size_t bad_lines;           // number of skipped lines
    mh_buffer text;             // what all of these point into
    mh_corpus_entry *entries;   // while pairs are added
    size_t entries_capacity;    //
} mh_corpus;

// What to read. Files are plain or gzip, "-" is standard input. Lines end with LF or CR LF.
typedef struct mh_corpus_files {
    const char *sources;     // one file: source TAB target, further columns are ignored
    const char *targets;     // or NULL; if given, line n of it belongs to line n of `sources`
    mh_bad_line_fn bad_line; // NULL: bad lines are only counted
    void *user;
    const char *sides[2]; // what they are called in messages, NULL: source and target
} mh_corpus_files;

// Reads a corpus. A bad line is skipped, reported to bad_line and counted once: no tab, an empty
// side, not UTF-8, more than MH_LINE_MAX bytes (io/line_reader.h). Of a file that looks like CSV
// only the first line is reported, up to the first line with a tab. With two files, line n of both
// is skipped; the file with the bad line is named. Errors, after which the corpus is empty:
// MH_ERROR_FILE, MH_ERROR_MEMORY, MH_ERROR_ARGUMENT (no name, both are standard input),
// MH_ERROR_FORMAT (damaged gzip, files of different numbers of lines, no pair at all).
mh_status mh_corpus_read(mh_context *context, const mh_corpus_files *files, mh_corpus *corpus);

// The same for TSV in memory, plain or gzip; files->sources is the name in messages.
mh_status mh_corpus_parse(mh_context *context, const mh_corpus_files *files, const void *bytes,
                          size_t size, mh_corpus *corpus);

// Whether a comma or semicolon in a line separates columns: there is no blank behind it, unless a
// quote follows, and it is not between digits. Running text has commas, too.
bool mh_looks_like_csv(mh_text line);

// Frees all and makes it empty; all zeros is allowed.
void mh_corpus_free(mh_context *context, mh_corpus *corpus);

// ---- building a corpus: begin, add ..., end -----------------------------------------------------

// Errors: MH_ERROR_MEMORY, after which only mh_corpus_free is of use.
mh_status mh_corpus_begin(mh_context *context, const char *name, mh_corpus *corpus);
mh_status mh_corpus_add(mh_context *context, mh_corpus *corpus, mh_text source, mh_text target,
                        size_t line);
mh_status mh_corpus_end(mh_context *context, mh_corpus *corpus);

#endif
