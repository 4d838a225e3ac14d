// SPDX-License-Identifier: MIT
// Builds a tokenizer from SentencePiece's pieces; see tokenizer_sentencepiece.h.
//
// Its BPE has no list of merges: two neighbours merge if together they are a piece, the piece with
// the highest score first, leftmost first among equals. That is our BPE with all merges whose
// result is a piece, ranked by its score.
#include "text/tokenizer_sentencepiece.h"

#include "base/argument_check.h"
#include "text/tokenizer_forms.h"
#include "text/tokenizer_patterns.h"

#include <stdlib.h>

#define CHECK(status, call)                                                                        \
    do {                                                                                           \
        if ((status) == MH_OK)                                                                     \
            (status) = (call);                                                                     \
    } while (0)

#define SPACE_MARK "\xE2\x96\x81"

// ---- merges -------------------------------------------------------------------------------------

static mh_status add_splits(const mh_build *b, size_t id, uint32_t rank)
{
    mh_tokenizer *t = b->t;
    const size_t size = t->tokens[id].size;
    for (size_t at = 1; at < size; at++) {
        const char *key = mh_token_bytes(t, id);
        if (!t->parts.byte_level && (key[at] & 0xC0) == 0x80)
            continue;
        size_t left = mh_tokenizer_find(t, key, at);
        size_t right = left == SIZE_MAX ? SIZE_MAX : mh_tokenizer_find(t, key + at, size - at);
        if (right == SIZE_MAX)
            continue;
        if (!mh_tokenizer_add_merge(
                b->source->context, t,
                (mh_merge){(uint32_t)left, (uint32_t)right, (uint32_t)id, rank}))
            return MH_ERROR_MEMORY;
    }
    return MH_OK;
}

mh_status mh_build_all_merges(const mh_build *b, const uint32_t *ranks)
{
    mh_status status = MH_OK;
    for (size_t id = 0; status == MH_OK && id < b->t->count; id++) {
        mh_text key = {mh_token_bytes(b->t, id), b->t->tokens[id].size};
        if (ranks[id] != UINT32_MAX && mh_tokenizer_find(b->t, key.bytes, key.size) == id)
            status = add_splits(b, id, ranks[id]);
    }
    return status;
}

static int descending(const void *a, const void *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x > y ? -1 : x < y;
}

// Pieces of the same score have the same rank.
static void rank_scores(const mh_sp_model *model, float *sorted, uint32_t *ranks)
{
    for (size_t i = 0; i < model->count; i++)
        sorted[i] = model->pieces[i].score;
    qsort(sorted, model->count, sizeof *sorted, descending);
    for (size_t i = 0; i < model->count; i++) {
        size_t low = 0, high = model->count; // the first that is not higher
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (sorted[middle] > model->pieces[i].score)
                low = middle + 1;
            else
                high = middle;
        }
        ranks[i] = model->pieces[i].type == MH_SP_NORMAL ? (uint32_t)low : UINT32_MAX;
    }
}

static mh_status build_merges(const mh_build *b, const mh_sp_model *model)
{
    mh_context *context = b->source->context;
    const size_t ranks_size = model->count * sizeof(uint32_t);
    const size_t sorted_size = model->count * sizeof(float);
    uint32_t *ranks = mh_alloc(context, ranks_size);
    float *sorted = mh_alloc(context, sorted_size);
    mh_status status = ranks && sorted ? MH_OK : MH_ERROR_MEMORY;
    if (status == MH_OK)
        rank_scores(model, sorted, ranks);
    CHECK(status, mh_build_all_merges(b, ranks));
    mh_free(context, ranks, ranks_size);
    mh_free(context, sorted, sorted_size);
    return status;
}

// ---- tokens -------------------------------------------------------------------------------------

static mh_status place_piece(const mh_build *b, size_t id, const mh_sp_piece *piece)
{
    const mh_text none = {"", 0}, name = piece->name;
    // BYTE, CONTROL and UNKNOWN are no text; UNUSED is not used; USER_DEFINED is an added token
    bool text = piece->type == MH_SP_NORMAL;
    if (name.size > MH_TOKEN_BYTES_MAX || mh_utf8_valid(name.bytes, name.size) != name.size)
        return mh_source_fail(b->source, MH_ERROR_FORMAT,
                              "piece %zu, %s: expected UTF-8 of at most %d bytes", id,
                              mh_quote(name.bytes, name.size).text, MH_TOKEN_BYTES_MAX);
    return mh_tokenizer_place(b->source->context, b->t, id, name, text ? name : none)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

static mh_status add_special_pieces(const mh_build *b, const mh_sp_model *model)
{
    mh_status status = MH_OK;
    for (size_t id = 0; status == MH_OK && id < model->count; id++) {
        const mh_sp_piece *piece = &model->pieces[id];
        if (piece->type == MH_SP_UNKNOWN && b->t->parts.unk < 0)
            b->t->parts.unk = (int32_t)id;
        // a control piece in a text is text: only programs may write it
        if (piece->type == MH_SP_CONTROL || piece->type == MH_SP_UNKNOWN)
            b->t->tokens[id].kind = MH_TOKEN_SPECIAL;
        if (piece->type == MH_SP_USER_DEFINED && piece->name.size > 0)
            status = mh_build_added(b, (int64_t)id, piece->name,
                                    (mh_added_token){.normalized = true, .verbatim = true});
    }
    return status;
}

static mh_status place_pieces(const mh_build *b, const mh_sp_model *model)
{
    mh_components *parts = &b->t->parts;
    mh_status status = MH_OK;
    if (!mh_grow(b->source->context, &parts->scores, &parts->score_capacity, model->count,
                 sizeof *parts->scores))
        return MH_ERROR_MEMORY;
    memset(parts->scores, 0, parts->score_capacity * sizeof *parts->scores);
    for (size_t id = 0; status == MH_OK && id < model->count; id++) {
        parts->scores[id] = (double)model->pieces[id].score;
        status = place_piece(b, id, &model->pieces[id]);
    }
    CHECK(status, mh_build_vocabulary(b));
    CHECK(status, add_special_pieces(b, model));
    return status;
}

// ---- components ---------------------------------------------------------------------------------

static mh_status tokenizer_sentencepiece_add(const mh_build *b, mh_component_list *list,
                                             mh_component c, const char *text, const char *content)
{
    mh_status status = MH_OK;
    if (text)
        status = mh_build_text(b, text, strlen(text), &c.text);
    if (content)
        CHECK(status, mh_build_text(b, content, strlen(content), &c.content));
    CHECK(status, mh_build_component(b, list, c));
    return status;
}

mh_status mh_sp_build_components(const mh_build *b, const mh_sp_model *model)
{
    mh_component_list *n = &b->t->parts.normalizers, *d = &b->t->parts.decoders;
    mh_status status = mh_build_fail(
        b, mh_charsmap_read(b->source->context, b->t, (const unsigned char *)model->charsmap.bytes,
                            model->charsmap.size));
    if (status == MH_OK && model->charsmap.size > 0)
        status = tokenizer_sentencepiece_add(
            b, n, (mh_component){.kind = MH_NORMALIZE_PRECOMPILED, .longest = true}, NULL, NULL);
    if (status == MH_OK && model->single_spaces)
        status = tokenizer_sentencepiece_add(b, n, (mh_component){.kind = MH_NORMALIZE_SPACES},
                                             NULL, NULL);
    const char *mark = model->escape_spaces ? SPACE_MARK : " ";
    if (status == MH_OK && model->dummy_prefix)
        status = tokenizer_sentencepiece_add(
            b, n, (mh_component){.kind = MH_NORMALIZE_PREPEND, .first = true}, mark, NULL);
    if (status == MH_OK && model->escape_spaces)
        status = tokenizer_sentencepiece_add(b, n, (mh_component){.kind = MH_NORMALIZE_REPLACE},
                                             " ", SPACE_MARK);
    CHECK(status, tokenizer_sentencepiece_add(b, d, (mh_component){.kind = MH_DECODE_REPLACE},
                                              SPACE_MARK, " "));
    CHECK(status, tokenizer_sentencepiece_add(b, d, (mh_component){.kind = MH_DECODE_BYTE_FALLBACK},
                                              NULL, NULL));
    CHECK(status,
          tokenizer_sentencepiece_add(b, d, (mh_component){.kind = MH_DECODE_FUSE}, NULL, NULL));
    if (status == MH_OK && (model->dummy_prefix || model->single_spaces))
        status = tokenizer_sentencepiece_add(
            b, d, (mh_component){.kind = MH_DECODE_STRIP, .start = 1}, " ", NULL);
    return status;
}

mh_status mh_sp_build(const mh_build *b, const mh_sp_model *model)
{
    mh_components *parts = &b->t->parts;
    parts->model = model->bpe ? MH_MODEL_BPE : MH_MODEL_UNIGRAM;
    parts->byte_fallback = model->byte_fallback;
    parts->fuse_unk = parts->single = true;
    mh_status status = place_pieces(b, model);
    if (status == MH_OK && model->bpe)
        status = build_merges(b, model);
    CHECK(status, mh_sp_build_components(b, model));
    return status;
}

// ---- pieces of one file, ids of another ---------------------------------------------------------

mh_status mh_sp_build_pieces(const mh_build *b, const mh_sp_model *model)
{
    mh_context *context = b->source->context;
    mh_components *parts = &b->t->parts;
    mh_trie_key *keys = NULL;
    size_t capacity = 0, count = 0;
    double least = 0;
    if (model->bpe)
        return mh_source_fail(b->source, MH_ERROR_FORMAT,
                              "found a BPE model, expected a unigram model");
    bool room = mh_grow(context, &parts->scores, &parts->score_capacity, model->count,
                        sizeof *parts->scores) &&
                mh_grow(context, &parts->piece_ids, &parts->piece_capacity, model->count,
                        sizeof *parts->piece_ids) &&
                mh_grow(context, &keys, &capacity, model->count, sizeof *keys);
    for (size_t i = 0; room && i < model->count; i++) {
        const mh_sp_piece *piece = &model->pieces[i];
        size_t id = mh_tokenizer_find_name(b->t, piece->name.bytes, piece->name.size);
        parts->scores[i] = (double)piece->score;
        parts->piece_ids[i] = id == SIZE_MAX ? parts->unk : (int32_t)id;
        if (piece->type != MH_SP_NORMAL && piece->type != MH_SP_USER_DEFINED)
            continue;
        if (count == 0 || parts->scores[i] < least)
            least = parts->scores[i];
        keys[count++] = (mh_trie_key){piece->name.bytes, piece->name.size, (uint32_t)i};
    }
    parts->model = MH_MODEL_UNIGRAM;
    parts->fuse_unk = parts->single = true;
    parts->unk_score = least - 10;
    room = room && mh_trie_build(context, &parts->trie, keys, count);
    mh_shrink(context, &keys, &capacity, sizeof *keys);
    return room ? MH_OK : MH_ERROR_MEMORY;
}
