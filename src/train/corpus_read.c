// SPDX-License-Identifier: MIT
// Lines to sentence pairs: one file with tabs, or two parallel files. Bad lines are reported and
// counted; see corpus.h.
#include "io/line_reader.h"
#include "text/utf8.h"
#include "train/corpus.h"

#include <stdio.h>

typedef struct reading {
    mh_context *context;
    const mh_corpus_files *files;
    mh_corpus *corpus;
    char why[96]; // why the line is skipped; "" if it is not
    bool csv;     // no tab since the first line: reported once
    bool tabs;    // in some line
} reading;

static void corpus_read_tell(reading *r, const mh_line_reader *file, size_t line)
{
    r->corpus->bad_lines++;
    if (r->files->bad_line && !(r->csv && line > 1))
        r->files->bad_line(r->files->user, file->stream.source.name, line, r->why);
}

static const char *side_name(const reading *r, int side)
{
    const char *given = r->files->sides[side];
    return given ? given : side ? "target" : "source";
}

// ---- one side of a pair -------------------------------------------------------------------------

static mh_text corpus_read_trim(mh_text text) // valid UTF-8
{
    size_t length;
    while (text.size > 0 && mh_is_space(mh_utf8_decode(text.bytes, &length))) {
        text.bytes += length;
        text.size -= length;
    }
    while (text.size > 0) {
        size_t last = text.size - 1;
        while (((unsigned char)text.bytes[last] & 0xC0) == 0x80)
            last--;
        if (!mh_is_space(mh_utf8_decode(text.bytes + last, &length)))
            break;
        text.size = last;
    }
    return text;
}

// Trims a side; false, and why, if it cannot be used.
static bool take_side(reading *r, const char *which, mh_text *side)
{
    size_t valid = mh_utf8_valid(side->bytes, side->size);
    if (valid < side->size) {
        snprintf(r->why, sizeof r->why, "the %s's byte %zu (0x%02x) is not valid UTF-8", which,
                 valid, (unsigned char)side->bytes[valid]);
        return false;
    }
    *side = corpus_read_trim(*side);
    if (side->size == 0)
        snprintf(r->why, sizeof r->why, "the %s is empty", which);
    return side->size > 0;
}

static bool corpus_read_take_line(reading *r, const mh_line *line)
{
    if (line->too_long)
        snprintf(r->why, sizeof r->why, "more than %d bytes", MH_LINE_MAX);
    return !line->too_long;
}

// ---- one file -----------------------------------------------------------------------------------

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool mh_looks_like_csv(mh_text line)
{
    const char *text = line.bytes, *end = text + line.size;
    for (const char *at = text; at + 1 < end; at++) {
        const bool blank = at[1] == ' ', quote = blank && at + 2 < end && at[2] == '"';
        const bool number = at > text && is_digit(at[-1]) && is_digit(at[1]);
        if ((*at == ',' || *at == ';') && (!blank || quote) && !number)
            return true;
    }
    return false;
}

static bool split(reading *r, const mh_line *line, mh_text *source, mh_text *target)
{
    if (!corpus_read_take_line(r, line))
        return false;
    const char *end = line->bytes + line->size, *tab = memchr(line->bytes, '\t', line->size);
    if (!tab) {
        r->csv |= line->number == 1 && mh_looks_like_csv((mh_text){line->bytes, line->size});
        snprintf(r->why, sizeof r->why, "%stab between %s and %s%s",
                 r->csv ? "looks like CSV: expected a " : "no ", side_name(r, 0), side_name(r, 1),
                 r->csv ? ", on every line" : "");
        return false;
    }
    r->csv = false;
    r->tabs = true;
    const char *second = memchr(tab + 1, '\t', (size_t)(end - tab - 1));
    *source = (mh_text){line->bytes, (size_t)(tab - line->bytes)};
    *target = (mh_text){tab + 1, (size_t)((second ? second : end) - tab - 1)};
    return take_side(r, side_name(r, 0), source) && take_side(r, side_name(r, 1), target);
}

static mh_status read_tsv(reading *r, mh_line_reader *file)
{
    mh_line line;
    bool found;
    mh_status status;
    while ((status = mh_line_reader_next(file, &line, &found)) == MH_OK && found) {
        mh_text source, target;
        if (split(r, &line, &source, &target))
            status = mh_corpus_add(r->context, r->corpus, source, target, line.number);
        else
            corpus_read_tell(r, file, line.number);
        if (status)
            break;
    }
    return status;
}

// ---- two files ----------------------------------------------------------------------------------

static bool take_file_line(reading *r, const char *which, const mh_line *line, mh_text *side)
{
    *side = (mh_text){line->bytes, line->size};
    return corpus_read_take_line(r, line) && take_side(r, which, side);
}

static mh_status take_both(reading *r, const mh_line_reader files[2], const mh_line lines[2])
{
    mh_text source, target;
    if (!take_file_line(r, "source", &lines[0], &source))
        corpus_read_tell(r, &files[0], lines[0].number);
    else if (!take_file_line(r, "target", &lines[1], &target))
        corpus_read_tell(r, &files[1], lines[1].number);
    else
        return mh_corpus_add(r->context, r->corpus, source, target, lines[0].number);
    return MH_OK;
}

static mh_status fail_of_different_lengths(reading *r, mh_line_reader files[2])
{
    for (int i = 0; i < 2; i++) {
        mh_line line;
        mh_status status;
        bool found;
        do
            status = mh_line_reader_next(&files[i], &line, &found);
        while (!status && found);
        if (status)
            return status;
    }
    return mh_fail(r->context, MH_ERROR_FORMAT,
                   "%.300s has %zu line%s, %.300s %zu: expected as many, line by line",
                   files[0].stream.source.name, files[0].number, files[0].number == 1 ? "" : "s",
                   files[1].stream.source.name, files[1].number);
}

static mh_status read_parallel(reading *r, mh_line_reader files[2])
{
    for (;;) {
        mh_line lines[2];
        bool found[2];
        mh_status status = mh_line_reader_next(&files[0], &lines[0], &found[0]);
        if (!status)
            status = mh_line_reader_next(&files[1], &lines[1], &found[1]);
        if (status)
            return status;
        if (found[0] != found[1])
            return fail_of_different_lengths(r, files);
        if (!found[0])
            return MH_OK;
        status = take_both(r, files, lines);
        if (status)
            return status;
    }
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status fail_of_no_pair(const reading *r, const mh_line_reader *file)
{
    const char *side = r->files->sides[1];
    const bool running = !r->tabs && !r->csv && !side && !r->files->targets && file->number;
    return mh_source_fail(&file->stream.source, MH_ERROR_FORMAT,
                          "no %s: %zu line%s, %zu of them bad%s", side ? side : "sentence pairs",
                          file->number, file->number == 1 ? "" : "s", r->corpus->bad_lines,
                          running ? "; of running text without tabs, --task lm makes a language "
                                    "model"
                                  : "");
}

// The caller closes the files.
static mh_status read_open_files(reading *r, mh_line_reader files[2])
{
    mh_corpus *corpus = r->corpus;
    const mh_source *source = &files[0].stream.source;
    mh_status status = mh_corpus_begin(r->context, source->name, corpus);
    if (!status)
        status = r->files->targets ? read_parallel(r, files) : read_tsv(r, &files[0]);
    if (!status && corpus->count == 0)
        status = fail_of_no_pair(r, &files[0]);
    if (!status)
        status = mh_corpus_end(r->context, corpus);
    if (status)
        mh_corpus_free(r->context, corpus);
    return status;
}

mh_status mh_corpus_read(mh_context *context, const mh_corpus_files *files, mh_corpus *corpus)
{
    reading r = {.context = context, .files = files, .corpus = corpus};
    mh_line_reader readers[2] = {0};
    *corpus = (mh_corpus){0};
    if (!files->sources)
        return mh_fail(context, MH_ERROR_ARGUMENT, "corpus: no file of sources");
    if (files->targets && strcmp(files->sources, "-") == 0 && strcmp(files->targets, "-") == 0)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "corpus: sources and targets cannot both be standard input");
    mh_status status = mh_line_reader_open(context, files->sources, &readers[0]);
    if (!status && files->targets)
        status = mh_line_reader_open(context, files->targets, &readers[1]);
    if (!status)
        status = read_open_files(&r, readers);
    mh_line_reader_close(&readers[0]);
    mh_line_reader_close(&readers[1]);
    return status;
}

mh_status mh_corpus_parse(mh_context *context, const mh_corpus_files *files, const void *bytes,
                          size_t size, mh_corpus *corpus)
{
    mh_corpus_files named = *files;
    reading r = {.context = context, .files = &named, .corpus = corpus};
    mh_line_reader readers[2] = {0};
    named.targets = NULL;
    *corpus = (mh_corpus){0};
    mh_status status =
        mh_line_reader_open_memory(context, files->sources, bytes, size, &readers[0]);
    if (!status)
        status = read_open_files(&r, readers);
    mh_line_reader_close(&readers[0]);
    return status;
}
