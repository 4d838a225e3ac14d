// SPDX-License-Identifier: MIT
// multihead/text.h: tokenizer, Unicode helpers, and translation scores (BLEU, chrF).
//
// Text is UTF-8 with a length; it may contain NUL. Invalid UTF-8 is an error that names the byte;
// to accept it anyway, repair it first (mh_utf8_repair). Part of libmultihead-model.
//
//     mh_tokenizer *tokenizer;
//     mh_tokens tokens = {0};                                  // reuse it: it keeps its memory
//     mh_tokenizer_load(context, "tokenizer.json", &tokenizer);
//     mh_tokenizer_encode(context, tokenizer, text, size, &tokens);
//     for (size_t i = 0; i < tokens.count; i++)
//         use(tokens.ids[i]);
//     mh_tokens_free(context, &tokens);
//     mh_tokenizer_free(tokenizer);
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_TEXT_H
#define MULTIHEAD_TEXT_H

#include <multihead/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// Borrowed bytes of text.
typedef struct mh_text {
    const char *bytes;
    size_t size;
} mh_text;

// ---- UTF-8 and Unicode --------------------------------------------------------------

// The length of the longest prefix that is valid UTF-8 (no surrogates, no overlong forms, nothing
// beyond U+10FFFF): `size` if all is valid. Any thread.
MH_API size_t mh_utf8_valid(const char *bytes, size_t size);

// Replaces the contents of `out` by the text, with U+FFFD for every maximal invalid subpart, as
// browsers do. Errors: MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_utf8_repair(mh_context *context, const char *bytes, size_t size,
                                              mh_buffer *out);

// Replaces the contents of `out` by the text's Unicode normalisation form C, in O(n log n).
// Errors: MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_text_nfc(mh_context *context, const char *text, size_t size,
                                           mh_buffer *out);

// The length of the first sentence of a line, including trailing whitespace, so that a line too
// long for a model can be split into segments and joined again. A sentence ends at . ! ? or the
// like before whitespace, not after initials and common abbreviations. One longer than `most` bytes
// (at least 4) is cut after a comma, else after whitespace, else between two characters. 0 only for
// an empty text. `text` must be valid UTF-8. Any thread.
MH_API size_t mh_sentence_length(const char *text, size_t size, size_t most);

// ---- tokenizer ------------------------------------------------------------------------

// A byte-level BPE vocabulary. Immutable: any number of threads may share it.
typedef struct mh_tokenizer mh_tokenizer;

typedef struct mh_tokenizer_options {
    size_t struct_size;     // sizeof(mh_tokenizer_options)
    size_t merges;          // 8000: number of merges to learn; fewer only if no pair is left
    uint64_t min_frequency; // 2: a pair seen less often is not merged
} mh_tokenizer_options;

static inline mh_tokenizer_options mh_tokenizer_options_default(void)
{
    mh_tokenizer_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.merges = 8000;
    options.min_frequency = 2;
    return options;
}

// Learns a vocabulary from texts: <pad>, <s>, </s> (ids 0, 1, 2), the 256 bytes, then one token
// for each merge, the most frequent pair first, ties by the smaller ids. The same texts in any
// order give the same vocabulary. `options` may be NULL. Memory grows with the number of distinct
// words.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_FORMAT (text i is not UTF-8), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_train(mh_context *context,
                                                  const mh_tokenizer_options *options,
                                                  const mh_text *texts, size_t count,
                                                  mh_tokenizer **tokenizer);

// Reads a tokenizer.json of Hugging Face's tokenizers with exactly the components that
// mh_tokenizer_save writes; others are rejected by name.
// Errors: MH_ERROR_FILE, MH_ERROR_FORMAT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_load(mh_context *context, const char *path,
                                                 mh_tokenizer **tokenizer);

// The same for bytes in memory, which are not kept; `name` replaces the path in messages.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_parse(mh_context *context, const char *name,
                                                  const void *bytes, size_t size,
                                                  mh_tokenizer **tokenizer);

// Writes tokenizer.json atomically; the same vocabulary gives the same bytes.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_FILE, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_save(mh_context *context, const mh_tokenizer *tokenizer,
                                                 const char *path);

// NULL is allowed.
MH_API void mh_tokenizer_free(mh_tokenizer *tokenizer);

// The number of tokens; ids are 0 .. size - 1. Then the ids of <pad>, <s> and </s>.
MH_API size_t mh_tokenizer_size(const mh_tokenizer *tokenizer);
MH_API int32_t mh_tokenizer_pad(const mh_tokenizer *tokenizer);
MH_API int32_t mh_tokenizer_bos(const mh_tokenizer *tokenizer);
MH_API int32_t mh_tokenizer_eos(const mh_tokenizer *tokenizer);

typedef enum mh_token_kind {
    MH_TOKEN_TEXT = 0,    // bytes of text, not always whole characters
    MH_TOKEN_SPECIAL = 1, // <s> and the like: never produced by encoding, decoded as nothing
} mh_token_kind;

// The token's bytes (a special one's name), borrowed; false if there is no such id. `kind` may
// be NULL.
MH_API bool mh_tokenizer_token(const mh_tokenizer *tokenizer, int32_t id, mh_text *text,
                               mh_token_kind *kind);

// The tokens of a text, and the text itself, in normalisation form C. Token i is bytes ends[i - 1]
// to ends[i] (excluded) of text.bytes, from 0 for the first. All zeros is empty.
typedef struct mh_tokens {
    int32_t *ids;        // (count)
    size_t *ends;        // (count)
    size_t count;        // of tokens
    mh_buffer text;      // decoding the ids gives these bytes
    size_t capacity;     // of ids and ends
    void *scratch;       // for the next call
    size_t scratch_size; // in bytes
} mh_tokens;

MH_API void mh_tokens_free(mh_context *context, mh_tokens *tokens);

// Replaces `tokens` by those of a text, in O(n log n) in the worst case. Special tokens are never
// produced from text, and none is added. After an error `tokens` is empty.
// Errors: MH_ERROR_FORMAT (not UTF-8), MH_ERROR_ARGUMENT (2 GiB or more), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_encode(mh_context *context,
                                                   const mh_tokenizer *tokenizer, const char *text,
                                                   size_t size, mh_tokens *tokens);

// Replaces `out` by the bytes of the tokens; special ones are skipped. Ids from a model may decode
// to invalid UTF-8: see mh_utf8_repair.
// Errors: MH_ERROR_ARGUMENT (an id that does not exist), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_decode(mh_context *context,
                                                   const mh_tokenizer *tokenizer,
                                                   const int32_t *ids, size_t count,
                                                   mh_buffer *out);

// ---- scores ---------------------------------------------------------------------------

// Both scores are those of sacreBLEU over a whole corpus: hypotheses[i] against references[r *
// count + i] for r in 0 .. reference_count - 1, one segment each.
// Errors: MH_ERROR_ARGUMENT (no references), MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.

enum { MH_BLEU_ORDER = 4 };

typedef struct mh_bleu_score {
    size_t struct_size;               // sizeof(mh_bleu_score)
    double score;                     // 0 .. 100
    double precisions[MH_BLEU_ORDER]; // of n-grams of 1 .. 4 words, in percent, smoothed
    double brevity_penalty;           // 0 .. 1
    uint64_t hypothesis_length, reference_length; // in words
} mh_bleu_score;

static inline mh_bleu_score mh_bleu_score_default(void)
{
    mh_bleu_score score;
    memset(&score, 0, sizeof score);
    score.struct_size = sizeof score;
    return score;
}

// score = brevity_penalty * exp(mean of log precisions): 13a tokenisation, exponential smoothing.
MH_API MH_MUST_CHECK mh_status mh_bleu(mh_context *context, const mh_text *hypotheses,
                                       const mh_text *references, size_t count,
                                       size_t reference_count, bool lowercase,
                                       mh_bleu_score *score);

// chrF2: the F-score with beta = 2 of character n-grams of 1 .. 6 without whitespace, and of word
// n-grams up to `word_order`: 0 for chrF2, 2 for chrF2++. In percent.
MH_API MH_MUST_CHECK mh_status mh_chrf(mh_context *context, const mh_text *hypotheses,
                                       const mh_text *references, size_t count,
                                       size_t reference_count, size_t word_order, bool lowercase,
                                       double *score);

#ifdef __cplusplus
}
#endif
#endif
