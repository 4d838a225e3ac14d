// SPDX-License-Identifier: MIT
// The unigram language model: of all ways to cut a piece of text into tokens the one whose scores
// (logarithms of probabilities) have the largest sum, by Viterbi's algorithm:
//
//     best[end] = max over tokens that end there of best[begin] + score
//
// A character that is no token itself may stand for the unknown token, at 10 less than the lowest
// score. Neighbouring unknown ones become one.
#include "base/argument_check.h"
#include "text/tokenizer_models.h"
#include "text/utf8.h"

enum { NOWHERE = UINT32_MAX, UNKNOWN = UINT32_MAX - 1 };

typedef struct best_path { // that ends at this byte
    double score;
    uint32_t begin; // of its last token; NOWHERE: no path ends here
    uint32_t piece;
} best_path;

static void offer(const mh_tokenizer *t, best_path *best, size_t begin, size_t end, double score,
                  uint32_t piece)
{
    best_path *to = &best[end];
    double sum = best[begin].score + score;
    if (t->parts.single)
        sum = (double)((float)best[begin].score + (float)score);
    if (to->begin == NOWHERE || sum > to->score)
        *to = (best_path){sum, (uint32_t)begin, piece};
}

static void find_paths(const mh_tokenizer *t, const char *text, size_t size, best_path *best)
{
    const mh_trie *trie = &t->parts.trie;
    for (size_t i = 0; i <= size; i++)
        best[i] = (best_path){0, NOWHERE, 0};
    for (size_t at = 0, length; at < size; at += length) {
        bool has_character = false;
        uint32_t node = 0;
        mh_utf8_decode(text + at, &length);
        for (size_t end = at; end < size;) {
            node = mh_trie_child(trie, node, (unsigned char)text[end++]);
            if (node == MH_NO_NODE)
                break;
            uint32_t piece = trie->nodes[node].value;
            if (piece == UINT32_MAX)
                continue;
            offer(t, best, at, end, t->parts.scores[piece], piece);
            has_character |= end - at == length;
        }
        if (!has_character)
            offer(t, best, at, at + length, t->parts.unk_score, UNKNOWN);
    }
}

static int32_t id_of(const mh_tokenizer *t, uint32_t piece)
{
    if (piece == UNKNOWN)
        return t->parts.unk;
    return t->parts.piece_ids ? t->parts.piece_ids[piece] : (int32_t)piece;
}

// Unknown characters: a token that is the text of several of them, their bytes, or the unknown
// token.
static mh_status tokenizer_unigram_add_unknown(mh_context *context, const mh_tokenizer *t,
                                               const char *text, size_t begin, size_t end,
                                               size_t origin, mh_model_output *out)
{
    size_t length = 0;
    int32_t id;
    uint32_t piece = mh_trie_longest(&t->parts.trie, 0, text + begin, end - begin, &length);
    if (piece != UINT32_MAX && length == end - begin)
        return mh_model_add(context, out, id_of(t, piece), origin + begin, origin + end)
                   ? MH_OK
                   : MH_ERROR_MEMORY;
    bool fallback = t->parts.byte_fallback;
    for (size_t i = begin; fallback && i < end; i++)
        fallback = t->parts.fallback[(unsigned char)text[i]] >= 0;
    for (size_t i = begin; fallback && i < end; i++) {
        id = t->parts.fallback[(unsigned char)text[i]];
        if (!mh_model_add(context, out, id, origin + begin, origin + end))
            return MH_ERROR_MEMORY;
    }
    if (fallback)
        return MH_OK;
    if (t->parts.unk < 0)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "encode: bytes %zu to %zu are unknown, and there is no unknown token",
                       origin + begin, origin + end);
    return mh_model_add(context, out, t->parts.unk, origin + begin, origin + end) ? MH_OK
                                                                                  : MH_ERROR_MEMORY;
}

// Turns the links of the best path around: best[begin].begin becomes the end of the token that
// begins there, and best[begin].piece that token.
static void turn_path(best_path *best, size_t size)
{
    uint32_t end = (uint32_t)size, piece = best[size].piece, begin = best[size].begin;
    while (end > 0) {
        uint32_t next = best[begin].begin, next_piece = best[begin].piece;
        best[begin].begin = end;
        best[begin].piece = piece;
        end = begin;
        piece = next_piece;
        begin = next;
    }
}

static bool is_unknown(const mh_tokenizer *t, uint32_t piece)
{
    return piece == UNKNOWN ||
           (t->parts.unk >= 0 && !t->parts.piece_ids && (int32_t)piece == t->parts.unk);
}

mh_status mh_unigram_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                            size_t size, size_t origin, mh_model_output *out)
{
    size_t bytes;
    if (size == 0)
        return MH_OK;
    if (!mh_multiply_sizes(size + 1, sizeof(best_path), &bytes) ||
        !mh_grow(context, &out->scratch, &out->scratch_capacity, bytes, 1))
        return MH_ERROR_MEMORY;
    best_path *best = (best_path *)(void *)out->scratch;
    find_paths(t, text, size, best);
    turn_path(best, size);
    for (size_t at = 0, end; at < size; at = end) {
        uint32_t piece = best[at].piece;
        end = best[at].begin;
        mh_status status = MH_OK;
        if (is_unknown(t, piece)) {
            while (end < size && is_unknown(t, best[end].piece))
                end = best[end].begin;
            status = tokenizer_unigram_add_unknown(context, t, text, at, end, origin, out);
        } else if (!mh_model_add(context, out, id_of(t, piece), origin + at, origin + end)) {
            status = MH_ERROR_MEMORY;
        }
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}
