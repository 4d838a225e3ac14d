// SPDX-License-Identifier: MIT
// Reads SentencePiece's files, which are protocol buffers: fields of a number and a type, each of
// them checked against the bytes that are left.
//
//     1 pieces (repeated): 1 piece, 2 score, 3 type
//     2 trainer: 3 model type (1 unigram, 2 BPE), 35 byte fallback
//     3 normalizer: 2 charsmap, 3 dummy prefix, 4 remove extra spaces, 5 escape spaces
#include "base/argument_check.h"
#include "text/tokenizer_sentencepiece.h"

#include <math.h>

#define FAIL(s, ...) mh_source_fail(s, MH_ERROR_FORMAT, __VA_ARGS__)

enum { VARINT = 0, EIGHT_BYTES = 1, BYTES = 2, FOUR_BYTES = 5 };

typedef struct message {
    const mh_source *source;
    const unsigned char *at, *end;
} message;

typedef struct field {
    uint64_t number, value; // value: of a number, or the bits of four bytes
    unsigned type;
    message bytes;
} field;

static bool read_varint(message *m, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        unsigned char byte = *m->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static mh_status broken(const message *m)
{
    return FAIL(m->source,
                "byte %zu: not a SentencePiece model: a field that is cut off or unknown",
                (size_t)(m->at - m->source->bytes));
}

// The next field; the message must not be at its end.
static mh_status tokenizer_spm_read_field(message *m, field *f)
{
    uint64_t key, size;
    if (!read_varint(m, &key))
        return broken(m);
    *f = (field){.number = key >> 3, .type = (unsigned)(key & 7)};
    if (f->type == VARINT)
        return read_varint(m, &f->value) ? MH_OK : broken(m);
    size = f->type == EIGHT_BYTES ? 8 : 4;
    if (f->type == BYTES && !read_varint(m, &size))
        return broken(m);
    if ((f->type != EIGHT_BYTES && f->type != BYTES && f->type != FOUR_BYTES) ||
        size > (uint64_t)(m->end - m->at))
        return broken(m);
    f->bytes = (message){m->source, m->at, m->at + size};
    if (f->type == FOUR_BYTES)
        for (unsigned i = 0; i < 4; i++)
            f->value |= (uint64_t)m->at[i] << 8 * i;
    m->at += size;
    return MH_OK;
}

static mh_text tokenizer_spm_text_of(const field *f)
{
    return (mh_text){(const char *)f->bytes.at, (size_t)(f->bytes.end - f->bytes.at)};
}

// ---- parts --------------------------------------------------------------------------------------

static mh_status read_piece(message m, mh_sp_model *model)
{
    mh_sp_piece piece = {.name = {"", 0}, .type = MH_SP_NORMAL};
    while (m.at < m.end) {
        field f;
        mh_status status = tokenizer_spm_read_field(&m, &f);
        if (status != MH_OK)
            return status;
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1 && f.type == BYTES)
            piece.name = tokenizer_spm_text_of(&f);
        else if (f.number == 2 && f.type == FOUR_BYTES)
            memcpy(&piece.score, &bits, sizeof piece.score);
        else if (f.number == 3 && f.type == VARINT)
            piece.type = f.value <= MH_SP_BYTE ? (uint8_t)f.value : 0;
    }
    if (piece.type == 0 || !isfinite(piece.score))
        return FAIL(m.source, "piece %zu, %s: an unknown type, or a score that is not finite",
                    model->count, mh_quote(piece.name.bytes, piece.name.size).text);
    if (!mh_grow(m.source->context, &model->pieces, &model->capacity, model->count + 1,
                 sizeof *model->pieces))
        return MH_ERROR_MEMORY;
    model->pieces[model->count++] = piece;
    return MH_OK;
}

static mh_status read_trainer(message m, mh_sp_model *model)
{
    uint64_t kind = 1;
    while (m.at < m.end) {
        field f;
        mh_status status = tokenizer_spm_read_field(&m, &f);
        if (status != MH_OK)
            return status;
        if (f.number == 3 && f.type == VARINT)
            kind = f.value;
        else if (f.number == 35 && f.type == VARINT)
            model->byte_fallback = f.value != 0;
    }
    if (kind != 1 && kind != 2)
        return FAIL(m.source, "model type: found %llu, expected 1 (unigram) or 2 (BPE)",
                    (unsigned long long)kind);
    model->bpe = kind == 2;
    return MH_OK;
}

static mh_status read_normalizer(message m, mh_sp_model *model)
{
    while (m.at < m.end) {
        field f;
        mh_status status = tokenizer_spm_read_field(&m, &f);
        if (status != MH_OK)
            return status;
        if (f.number == 2 && f.type == BYTES)
            model->charsmap = tokenizer_spm_text_of(&f);
        else if (f.number == 3 && f.type == VARINT)
            model->dummy_prefix = f.value != 0;
        else if (f.number == 4 && f.type == VARINT)
            model->single_spaces = f.value != 0;
        else if (f.number == 5 && f.type == VARINT)
            model->escape_spaces = f.value != 0;
    }
    return MH_OK;
}

mh_status mh_sp_read(const mh_source *source, mh_sp_model *model)
{
    message m = {source, source->bytes, source->bytes + source->size};
    *model = (mh_sp_model){
        .dummy_prefix = true, .single_spaces = true, .escape_spaces = true, .charsmap = {"", 0}};
    mh_status status = MH_OK;
    if (source->size == 0)
        return FAIL(source, "the file is empty, expected a SentencePiece model");
    while (status == MH_OK && m.at < m.end) {
        field f;
        status = tokenizer_spm_read_field(&m, &f);
        if (status != MH_OK || f.type != BYTES)
            continue;
        if (f.number == 1)
            status = read_piece(f.bytes, model);
        else if (f.number == 2)
            status = read_trainer(f.bytes, model);
        else if (f.number == 3)
            status = read_normalizer(f.bytes, model);
    }
    if (status == MH_OK && (model->count == 0 || model->count > MH_TOKENS_MAX))
        status = FAIL(source, "found %zu pieces, expected 1 to %d", model->count, MH_TOKENS_MAX);
    return status;
}

void mh_sp_free(mh_context *context, mh_sp_model *model)
{
    mh_shrink(context, &model->pieces, &model->capacity, sizeof *model->pieces);
}

mh_status mh_tokenizer_parse_spm(mh_context *context, const char *name, const void *bytes,
                                 size_t size, mh_tokenizer **tokenizer)
{
    if (tokenizer)
        *tokenizer = NULL;
    if (MH_NEED(context, {"name", name}, {"tokenizer", tokenizer},
                {"bytes", mh_array(bytes, size)}))
        return MH_ERROR_ARGUMENT;
    const mh_source source = {context, name, bytes, size};
    mh_sp_model model = {0};
    mh_status status = mh_sp_read(&source, &model);
    mh_build b = {&source, status == MH_OK ? mh_tokenizer_create(context) : NULL};
    if (status == MH_OK && !b.t)
        status = MH_ERROR_MEMORY;
    if (status == MH_OK)
        status = mh_sp_build(&b, &model);
    if (status == MH_OK)
        status = mh_build_finish(&b);
    mh_sp_free(context, &model);
    if (status == MH_OK) {
        mh_build_roles(b.t);
        *tokenizer = b.t;
    } else {
        mh_tokenizer_free(b.t);
    }
    return status;
}
