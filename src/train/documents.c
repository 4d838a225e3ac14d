// SPDX-License-Identifier: MIT
// See documents.h.
#include "train/documents.h"

#include "base/compiler.h"
#include "io/byte_stream.h"
#include "support/buffer.h"
#include "support/grow.h"
#include "text/utf8.h"
#include "train/corpus.h"
#include <stdio.h>

enum { READ_BYTES = 1 << 16 };

// ---- reading ------------------------------------------------------------------------------------

static mh_status read_stream(mh_context *context, mh_byte_stream *stream, mh_buffer *text)
{
    size_t got;
    do {
        if (!mh_buffer_reserve(context, text, text->size + READ_BYTES))
            return MH_ERROR_MEMORY;
        MH_TRY(mh_byte_stream_read(stream, text->data + text->size, READ_BYTES, &got));
        text->size += got;
    } while (got);
    return MH_OK;
}

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

// ---- documents ----------------------------------------------------------------------------------

typedef struct splitting {
    mh_context *context;
    const mh_documents_files *files;
    const char *path; // of the current file
    mh_documents *documents;
} splitting;

static bool is_valid(const splitting *s, mh_text text, size_t line)
{
    char why[96];
    const size_t valid = mh_utf8_valid(text.bytes, text.size);
    if (valid == text.size)
        return true;
    for (size_t i = 0; i < valid; i++)
        line += text.bytes[i] == '\n';
    snprintf(why, sizeof why, "byte 0x%02x is not valid UTF-8; its document is left out",
             (unsigned char)text.bytes[valid]);
    s->documents->bad++;
    if (s->files->bad_line)
        s->files->bad_line(s->files->user, s->path, line, why);
    return false;
}

static mh_status add_document(const splitting *s, const char *begin, const char *end, size_t line)
{
    mh_documents *d = s->documents;
    const mh_text text = {begin, (size_t)(end - begin)};
    if (!is_valid(s, text, line))
        return MH_OK;
    if (!mh_grow(s->context, &d->list, &d->capacity, d->count + 1, sizeof *d->list))
        return MH_ERROR_MEMORY;
    d->list[d->count++] = text;
    return MH_OK;
}

// A document is a group of lines that are not blank.
static mh_status split_documents(const splitting *s, mh_text text)
{
    const char *at = text.bytes, *stop = at + text.size, *begin = NULL, *last = NULL;
    size_t number = 1, first = 1;
    for (; at < stop; number++) {
        const char *newline = memchr(at, '\n', (size_t)(stop - at));
        const char *end = newline ? newline : stop;
        if (!is_blank(at, (size_t)(end - at))) {
            first = begin ? first : number;
            begin = begin ? begin : at;
            last = end > at && end[-1] == '\r' ? end - 1 : end;
        } else if (begin) {
            MH_TRY(add_document(s, begin, last, first));
            begin = NULL;
        }
        at = newline ? newline + 1 : stop;
    }
    return begin ? add_document(s, begin, last, first) : MH_OK;
}

static const char *file_path(const mh_documents_files *files, size_t i)
{
    return i ? files->more[i - 1] : files->path;
}

static mh_status read_file(mh_context *context, const char *path, mh_buffer *text)
{
    mh_byte_stream stream = {0};
    mh_status status = mh_byte_stream_open(context, path, &stream);
    if (!status)
        status = read_stream(context, &stream, text);
    mh_byte_stream_close(&stream);
    return status;
}

// A table is text, too, but its first lines are hardly what is meant to be learnt.
static void note_csv(const splitting *s, mh_text text)
{
    enum { LINES = 3 };
    const char *at = text.bytes, *stop = at + text.size;
    size_t lines = 0, columns = 0;
    while (lines < LINES && at < stop) {
        const char *newline = memchr(at, '\n', (size_t)(stop - at));
        const char *end = newline ? newline : stop;
        columns += mh_looks_like_csv((mh_text){at, (size_t)(end - at)});
        lines++;
        at = newline ? newline + 1 : stop;
    }
    if (lines == LINES && columns == lines)
        mh_log(s->context, MH_LOG_WARNING,
               "%.700s: looks like CSV: its commas and quotes are learnt as text", s->path);
}

// The text of a file, without a byte order mark.
static mh_text text_of(const char *bytes, size_t size)
{
    const size_t mark = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    return (mh_text){bytes + mark, size - mark};
}

// All files are read before documents are found: the text moves while it grows.
static mh_status read_files(splitting *s, size_t *ends)
{
    mh_documents *d = s->documents;
    const size_t count = s->files->more_count + 1;
    for (size_t i = 0; i < count; i++) {
        MH_TRY(read_file(s->context, file_path(s->files, i), &d->text));
        ends[i] = d->text.size;
    }
    for (size_t i = 0, begin = 0; i < count; begin = ends[i++]) {
        const mh_text text = text_of((const char *)d->text.data + begin, ends[i] - begin);
        s->path = file_path(s->files, i);
        note_csv(s, text);
        MH_TRY(split_documents(s, text));
    }
    return d->count ? MH_OK
                    : mh_fail(s->context, MH_ERROR_FORMAT, "%.700s: no text%s", s->files->path,
                              d->bad ? " that is valid UTF-8" : "");
}

mh_status mh_documents_read(mh_context *context, const mh_documents_files *files, mh_documents *d)
{
    splitting s = {.context = context, .files = files, .documents = d};
    const size_t count = files->more_count + 1;
    size_t inputs = 0;
    *d = (mh_documents){0};
    for (size_t i = 0; i < count; i++)
        inputs += !strcmp(file_path(files, i), "-");
    if (inputs > 1)
        return mh_fail(context, MH_ERROR_ARGUMENT, "data: found standard input twice");
    size_t *ends = mh_alloc(context, count * sizeof *ends);
    if (!ends)
        return MH_ERROR_MEMORY;
    const mh_status status = read_files(&s, ends);
    mh_free(context, ends, count * sizeof *ends);
    return status;
}

void mh_documents_free(mh_context *context, mh_documents *d)
{
    mh_buffer_free(context, &d->text);
    mh_shrink(context, &d->list, &d->capacity, sizeof *d->list);
    *d = (mh_documents){0};
}

// Where a document is cut, about `from`: behind a line break or a space if there is one near, else
// between two characters. 0: nowhere.
static size_t find_cut(mh_text text, size_t from)
{
    enum { NEAR = 4096 };
    size_t cut = from;
    while (cut > 0 && from - cut < NEAR && text.bytes[cut] != '\n' && text.bytes[cut] != ' ')
        cut--;
    if (cut > 0 && from - cut < NEAR)
        return cut;
    for (cut = from; cut > 0 && ((unsigned char)text.bytes[cut] & 0xC0) == 0x80;)
        cut--;
    return cut;
}

// Document i becomes two, the second of about `size` bytes.
static mh_status divide(mh_context *context, mh_documents *d, size_t i, size_t size)
{
    const mh_text text = d->list[i];
    const size_t cut = find_cut(text, text.size - size);
    if (cut == 0)
        return MH_OK;
    if (!mh_grow(context, &d->list, &d->capacity, d->count + 1, sizeof *d->list))
        return MH_ERROR_MEMORY;
    memmove(d->list + i + 1, d->list + i, (d->count - i) * sizeof *d->list);
    d->count++;
    d->list[i].size = cut;
    d->list[i + 1] = (mh_text){text.bytes + cut, text.size - cut};
    return MH_OK;
}

mh_status mh_documents_hold_out(mh_context *context, mh_documents *d, double part, size_t *count)
{
    enum { TOO_LARGE = 4 }; // a document of so many times what is wanted is divided
    const double wanted = part * (double)d->text.size;
    double bytes = 0;
    *count = 0;
    while (*count < d->count && bytes < wanted) {
        const size_t i = d->count - *count - 1, size = d->list[i].size;
        const double left = wanted - bytes;
        if ((double)size > TOO_LARGE * left)
            MH_TRY(divide(context, d, i, left < 1 ? 1 : (size_t)left));
        if (*count + 1 == d->count)
            break; // the last one is trained on
        bytes += (double)d->list[d->count - ++*count].size;
    }
    return MH_OK;
}

// ---- examples -----------------------------------------------------------------------------------

typedef struct packing {
    mh_context *context;
    mh_dataset *examples;
    size_t most;      // tokens of a target
    size_t used;      // ids
    int32_t bos, eos; // bos -1: none
} packing;

// Adds one id of the stream: to the last example, or, if that is full, behind its last id, which
// the next example begins with.
static bool pack_id(packing *p, int32_t id)
{
    mh_dataset *e = p->examples;
    size_t *starts = e->starts;
    if (e->count == 0 || starts[2 * e->count] - starts[2 * e->count - 1] == p->most) {
        const int32_t before = e->ids[p->used - 1];
        if (!mh_grow(p->context, &e->ids, &e->ids_capacity, p->used + 2, sizeof *e->ids) ||
            !mh_grow(p->context, &e->starts, &e->starts_capacity, 2 * e->count + 3,
                     sizeof *e->starts))
            return false;
        if (e->count > 0)
            e->ids[p->used++] = before;
        e->starts[2 * e->count] = p->used - 1;
        e->starts[2 * e->count + 1] = e->starts[2 * e->count + 2] = p->used;
        e->count++;
    }
    if (!mh_grow(p->context, &e->ids, &e->ids_capacity, p->used + 1, sizeof *e->ids))
        return false;
    e->ids[p->used++] = id;
    e->starts[2 * e->count] = p->used;
    return true;
}

static mh_status pack_document(packing *p, const mh_tokenizer *tokenizer, mh_text text,
                               mh_encoding *encoding)
{
    mh_encode_options options = mh_encode_options_default();
    bool packed = true;
    options.add_special_tokens = options.special_from_text = false;
    MH_TRY(mh_tokenizer_encode_text(p->context, tokenizer, &options, text, NULL, encoding));
    if (p->bos >= 0 && p->examples->count) // the stream has the first one already
        packed = pack_id(p, p->bos);
    for (size_t i = 0; i < encoding->count && packed; i++)
        packed = pack_id(p, encoding->ids[i]);
    return packed && pack_id(p, p->eos) ? MH_OK : MH_ERROR_MEMORY;
}

mh_status mh_documents_examples(mh_context *context, const mh_documents *d, size_t first,
                                size_t end, const mh_tokenizer *tokenizer, int32_t bos, int32_t eos,
                                size_t context_tokens, mh_dataset *examples, uint64_t *bytes)
{
    packing p = {context, examples, context_tokens, 0, bos, eos};
    mh_encoding encoding = {0};
    *examples = (mh_dataset){0};
    *bytes = 0;
    if (!mh_grow(context, &examples->ids, &examples->ids_capacity, 1, sizeof *examples->ids))
        return MH_ERROR_MEMORY;
    examples->ids[p.used++] = bos < 0 ? eos : bos;
    mh_status status = MH_OK;
    for (size_t i = first; i < end && !status; i++) {
        status = pack_document(&p, tokenizer, d->list[i], &encoding);
        *bytes += d->list[i].size;
    }
    mh_encoding_free(context, &encoding);
    return status;
}
