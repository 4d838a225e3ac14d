// SPDX-License-Identifier: MIT
// See documents.h.
#include "train/documents.h"

#include "base/compiler.h"
#include "io/byte_stream.h"
#include "support/buffer.h"
#include "support/grow.h"

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

static mh_status add_document(mh_context *context, mh_documents *d, const char *begin,
                              const char *end)
{
    if (!mh_grow(context, &d->list, &d->capacity, d->count + 1, sizeof *d->list))
        return MH_ERROR_MEMORY;
    d->list[d->count++] = (mh_text){begin, (size_t)(end - begin)};
    return MH_OK;
}

// A document is a group of lines that are not blank.
static mh_status split_documents(mh_context *context, mh_documents *d)
{
    const char *at = d->text.data, *stop = at + d->text.size, *begin = NULL, *last = NULL;
    while (at < stop) {
        const char *newline = memchr(at, '\n', (size_t)(stop - at));
        const char *end = newline ? newline : stop;
        if (!is_blank(at, (size_t)(end - at))) {
            begin = begin ? begin : at;
            last = end > at && end[-1] == '\r' ? end - 1 : end;
        } else if (begin) {
            MH_TRY(add_document(context, d, begin, last));
            begin = NULL;
        }
        at = newline ? newline + 1 : stop;
    }
    return begin ? add_document(context, d, begin, last) : MH_OK;
}

mh_status mh_documents_read(mh_context *context, const char *path, mh_documents *d)
{
    mh_byte_stream stream = {0};
    *d = (mh_documents){0};
    mh_status status = mh_byte_stream_open(context, path, &stream);
    if (!status)
        status = read_stream(context, &stream, &d->text);
    mh_byte_stream_close(&stream);
    if (!status)
        status = split_documents(context, d);
    if (!status && d->count == 0)
        status = mh_fail(context, MH_ERROR_FORMAT, "%.700s: no text", path);
    return status;
}

void mh_documents_free(mh_context *context, mh_documents *d)
{
    mh_buffer_free(context, &d->text);
    mh_shrink(context, &d->list, &d->capacity, sizeof *d->list);
    *d = (mh_documents){0};
}

size_t mh_documents_held_out(const mh_documents *d, double part)
{
    const double wanted = part * (double)d->text.size;
    size_t bytes = 0, count = 0;
    while (count + 1 < d->count && (double)bytes < wanted)
        bytes += d->list[d->count - ++count].size;
    return count;
}

// ---- examples -----------------------------------------------------------------------------------

typedef struct packing {
    mh_context *context;
    mh_dataset *examples;
    size_t most; // tokens of a target
    size_t used; // ids
    int32_t eos;
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
    for (size_t i = 0; i < encoding->count && packed; i++)
        packed = pack_id(p, encoding->ids[i]);
    return packed && pack_id(p, p->eos) ? MH_OK : MH_ERROR_MEMORY;
}

mh_status mh_documents_examples(mh_context *context, const mh_documents *d, size_t first,
                                size_t end, const mh_tokenizer *tokenizer, int32_t eos,
                                size_t context_tokens, mh_dataset *examples, uint64_t *bytes)
{
    packing p = {context, examples, context_tokens, 0, eos};
    mh_encoding encoding = {0};
    *examples = (mh_dataset){0};
    *bytes = 0;
    if (!mh_grow(context, &examples->ids, &examples->ids_capacity, 1, sizeof *examples->ids))
        return MH_ERROR_MEMORY;
    examples->ids[p.used++] = eos;
    mh_status status = MH_OK;
    for (size_t i = first; i < end && !status; i++) {
        status = pack_document(&p, tokenizer, d->list[i], &encoding);
        *bytes += d->list[i].size;
    }
    mh_encoding_free(context, &encoding);
    return status;
}
