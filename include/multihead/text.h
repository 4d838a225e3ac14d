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

// ---- UTF-8 and Unicode --------------------------------------------------------------------------

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

// The language that a text seems to be in, by its function words: "en", "fr", "de", "es", "it",
// "pt" or "nl"; NULL if it has too few of them, is in another language, or is not valid UTF-8. A
// hint for users, not a classifier: texts of one or two words have no answer. Any thread.
MH_API const char *mh_language_guess(const char *text, size_t size);

// The language that a text seems to be in, where `expected` would be right: one function word is
// enough if it has none of that language. Of several languages with as many words it is `likely`,
// which may be NULL. NULL if the text may be in the expected language. Any thread.
MH_API const char *mh_language_other(const char *text, size_t size, const char *expected,
                                     const char *likely);

// The script that most letters of a text are in: "Latin", "Greek", "Cyrillic", "Armenian",
// "Hebrew", "Arabic", "Devanagari", "Bengali", "Tamil", "Thai", "Georgian", "Japanese", "Chinese"
// or "Korean"; NULL if it has no such letters, or is not valid UTF-8. Any thread.
MH_API const char *mh_text_script(const char *text, size_t size);

// The English name of one of these codes, such as "French"; NULL for others.
MH_API const char *mh_language_name(const char *code);

// ---- tokenizer ----------------------------------------------------------------------------------

// A vocabulary, and the rules that turn text into its tokens and back: byte-level BPE that we train
// (mh_tokenizer_train, mh_tokenizer_encode, for our translators), or the tokenizer of a published
// model (mh_tokenizer_load_directory, mh_tokenizer_encode_text). Immutable: any number of threads
// may share it.
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

// Reads a tokenizer.json of Hugging Face's tokenizers. The components that it may have are listed
// in the documentation of text; others are rejected by name. Padding and truncation are not
// applied. Errors: MH_ERROR_FILE, MH_ERROR_FORMAT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_load(mh_context *context, const char *path,
                                                 mh_tokenizer **tokenizer);

// Finds the tokenizer of a model's directory: tokenizer.json, else vocab.txt (WordPiece), else
// source.spm and vocab.json (Marian), else vocab.json and merges.txt (byte-level BPE), else *.model
// or
// *.spm (SentencePiece), else *.tiktoken. Settings and special tokens come from
// tokenizer_config.json, special_tokens_map.json and config.json where they are.
// Errors: MH_ERROR_FILE (none of these is there), MH_ERROR_FORMAT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_load_directory(mh_context *context, const char *path,
                                                           mh_tokenizer **tokenizer);

// A vocabulary in memory, as GGUF files have it.
typedef enum mh_vocabulary_model {
    MH_VOCABULARY_BYTE_LEVEL, // "gpt2": byte-level BPE with merges
    MH_VOCABULARY_LLAMA,      // "llama": SentencePiece's BPE by scores, with byte fallback
    MH_VOCABULARY_BERT,       // "bert": WordPiece; tokens that begin a word begin with U+2581
} mh_vocabulary_model;

typedef struct mh_vocabulary {
    size_t struct_size; // sizeof(mh_vocabulary)
    mh_vocabulary_model model;
    const mh_text *tokens; // (count), names in order of their ids
    const float *scores;   // (count), for MH_VOCABULARY_LLAMA
    const int32_t *types;  // (count): 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6
                           // byte; NULL: all normal
    size_t count;
    const mh_text *merges; // (merge_count), "left right", for MH_VOCABULARY_BYTE_LEVEL
    size_t merge_count;
    const char *pre_tokenizer;      // NULL: "gpt-2"; "llama-bpe", "qwen2", "smollm", "gpt-4o", and
                                    // others that split text as one of these does
    bool add_bos, add_eos;          // false
    bool add_space_prefix;          // true, for MH_VOCABULARY_LLAMA
    int32_t bos, eos, unknown, pad; // -1: none
} mh_vocabulary;

static inline mh_vocabulary mh_vocabulary_default(void)
{
    mh_vocabulary vocabulary;
    memset(&vocabulary, 0, sizeof vocabulary);
    vocabulary.struct_size = sizeof vocabulary;
    vocabulary.add_space_prefix = true;
    vocabulary.bos = vocabulary.eos = vocabulary.unknown = vocabulary.pad = -1;
    return vocabulary;
}

// Everything is copied. `name` is for messages.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_FORMAT (an invalid vocabulary), MH_ERROR_UNSUPPORTED (an
// unknown pre_tokenizer), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_from_vocabulary(mh_context *context, const char *name,
                                                            const mh_vocabulary *vocabulary,
                                                            mh_tokenizer **tokenizer);

// The same as mh_tokenizer_load for bytes in memory, which are not kept; `name` replaces the path
// in messages.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_parse(mh_context *context, const char *name,
                                                  const void *bytes, size_t size,
                                                  mh_tokenizer **tokenizer);

// A SentencePiece model (.spm, .model) in memory, which is not kept.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_parse_spm(mh_context *context, const char *name,
                                                      const void *bytes, size_t size,
                                                      mh_tokenizer **tokenizer);

// Writes tokenizer.json atomically; the same vocabulary gives the same bytes.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_FILE, MH_ERROR_MEMORY, MH_ERROR_UNSUPPORTED (a tokenizer with
// other components than those that we train).
MH_API MH_MUST_CHECK mh_status mh_tokenizer_save(mh_context *context, const mh_tokenizer *tokenizer,
                                                 const char *path);

// NULL is allowed.
MH_API void mh_tokenizer_free(mh_tokenizer *tokenizer);

// The number of ids: they are 0 .. size - 1. A published vocabulary may leave some out.
MH_API size_t mh_tokenizer_size(const mh_tokenizer *tokenizer);

// What special tokens are for.
typedef enum mh_token_role {
    MH_ROLE_PAD,
    MH_ROLE_BOS,
    MH_ROLE_EOS,
    MH_ROLE_UNKNOWN,
    MH_ROLE_CLS,
    MH_ROLE_SEP,
    MH_ROLE_MASK,
    MH_ROLE_COUNT,
} mh_token_role;

// The id of the special token of a role, -1 if there is none. The others: of padding, of the
// beginning and of the end of a text.
MH_API int32_t mh_tokenizer_role(const mh_tokenizer *tokenizer, mh_token_role role);
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

// The token's name, as files write it, borrowed; false if there is no such id. "Ġthe" is the name
// of a byte-level token whose bytes are " the".
MH_API bool mh_tokenizer_name(const mh_tokenizer *tokenizer, int32_t id, mh_text *name);

// The id of the token of this name, -1 if there is none.
MH_API int32_t mh_tokenizer_id(const mh_tokenizer *tokenizer, const char *name, size_t size);

// ---- text to ids and back, for all tokenizers ---------------------------------------------------

typedef struct mh_encode_options {
    size_t struct_size;      // sizeof(mh_encode_options)
    bool add_special_tokens; // true: those of the tokenizer's template, such as [CLS] and [SEP]
    bool special_from_text;  // true: the name of a special token in a text becomes that token
    size_t max_length;       // 0: no limit; else of all tokens, special ones included
} mh_encode_options;

static inline mh_encode_options mh_encode_options_default(void)
{
    mh_encode_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.add_special_tokens = true;
    options.special_from_text = true;
    return options;
}

// The tokens of a text or of a pair of texts. All zeros is empty; reuse it: it keeps its memory.
typedef struct mh_encoding {
    int32_t *ids;            // (count)
    uint32_t *begins, *ends; // (count): bytes of the text that was given; 0, 0 if special
    int32_t *words;          // (count): the number of the word in its text, -1 if special
    uint8_t *types;          // (count): token type ids
    uint8_t *special;        // (count): 1 for a token that the template has added
    uint8_t *sequences;      // (count): 0 or 1, the text that it comes from
    size_t count, capacity;
    bool truncated;                    // max_length has left tokens out
    struct mh_encode_scratch *scratch; // for the next call
} mh_encoding;

MH_API void mh_encoding_free(mh_context *context, mh_encoding *encoding);

// Replaces `encoding` by the tokens of a text, or of a pair if `pair` is not NULL. Ids and offsets
// are those of Hugging Face's tokenizers. With max_length, tokens are left out at the end of the
// longer text. After an error the encoding is empty. Errors: MH_ERROR_FORMAT (not UTF-8),
// MH_ERROR_ARGUMENT (512 MiB or more, or max_length less than the special tokens),
// MH_ERROR_UNSUPPORTED (an unknown character, and no unknown token), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_encode_text(mh_context *context,
                                                        const mh_tokenizer *tokenizer,
                                                        const mh_encode_options *options,
                                                        mh_text text, const mh_text *pair,
                                                        mh_encoding *encoding);

// The same for many texts, on the context's threads: encodings[i] of texts[i], and of pairs[i]
// unless `pairs` is NULL. With an allocator of the caller's, on one thread. The message of an error
// names the first text that failed; the others are encoded.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_encode_batch(mh_context *context,
                                                         const mh_tokenizer *tokenizer,
                                                         const mh_encode_options *options,
                                                         const mh_text *texts, const mh_text *pairs,
                                                         size_t count, mh_encoding *encodings);

// Replaces `out` by the text of the tokens, valid UTF-8 with U+FFFD for what is not, as Hugging
// Face's tokenizers decodes them; `skip_special`: special tokens are left out. Errors:
// MH_ERROR_ARGUMENT (an id that does not exist), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_tokenizer_decode_text(mh_context *context,
                                                        const mh_tokenizer *tokenizer,
                                                        bool skip_special, const int32_t *ids,
                                                        size_t count, mh_buffer *out);

// Decodes token by token, for text that is shown while it is generated: a character that several
// tokens make comes with the last of them. All zeros is the beginning; free it with the tokenizer's
// context or one that has the same allocator.
typedef struct mh_text_stream {
    int32_t *ids; // since a position where text could be cut
    size_t count, capacity, shown;
    mh_buffer text, prefix; // prefix: what `shown` of the ids have given
} mh_text_stream;

MH_API void mh_text_stream_free(mh_context *context, mh_text_stream *stream);

// Replaces `out` by the text that one more token adds, which may be none. id -1: the end; what was
// held back is given as it is.
// Errors: MH_ERROR_ARGUMENT (an id that does not exist), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_text_stream_next(mh_context *context,
                                                   const mh_tokenizer *tokenizer, bool skip_special,
                                                   int32_t id, mh_text_stream *stream,
                                                   mh_buffer *out);

// ---- text to ids and back, for tokenizers that we train -----------------------------------------

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
// Errors: MH_ERROR_FORMAT (not UTF-8), MH_ERROR_ARGUMENT (2 GiB or more), MH_ERROR_MEMORY,
// MH_ERROR_UNSUPPORTED (a tokenizer with other components than those that we train).
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

// ---- scores -------------------------------------------------------------------------------------

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
