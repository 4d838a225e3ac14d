// SPDX-License-Identifier: MIT
// The components of a tokenizer, in the order in which a text goes through them:
//
//     added tokens -> normalizers -> pre-tokenizers -> model -> post-processor      text to ids
//     decoders                                                                      ids to text
//
// They are those of Hugging Face's tokenizers, a closed list; files name them and choose settings.
// A component is data, and the same struct for all: its kind says which fields it uses.
#ifndef MH_TEXT_TOKENIZER_COMPONENTS_H
#define MH_TEXT_TOKENIZER_COMPONENTS_H

#include "text/tokenizer_trie.h"

#include <multihead/text.h>

// Bytes in mh_tokenizer.bytes.
typedef struct mh_span {
    size_t begin, size;
} mh_span;

// How many times as long replacements may make a text: files are untrusted.
enum { MH_GROWTH_MAX = 4096 };

typedef enum mh_model_kind {
    MH_MODEL_BPE,
    MH_MODEL_WORDPIECE,
    MH_MODEL_UNIGRAM,
    MH_MODEL_WORDLEVEL,
} mh_model_kind;

typedef enum mh_normalizer_kind {
    MH_NORMALIZE_NFC,
    MH_NORMALIZE_NFD,
    MH_NORMALIZE_NFKC,
    MH_NORMALIZE_NFKD,
    MH_NORMALIZE_LOWERCASE,
    MH_NORMALIZE_STRIP_ACCENTS,
    MH_NORMALIZE_BERT,        // clean, chinese, accents, lowercase
    MH_NORMALIZE_PREPEND,     // text; first
    MH_NORMALIZE_REPLACE,     // text or pattern; content
    MH_NORMALIZE_STRIP,       // left, right
    MH_NORMALIZE_PRECOMPILED, // the charsmap; longest
    MH_NORMALIZE_NMT,
    MH_NORMALIZE_SPACES, // SentencePiece's: none at the ends, one between words
} mh_normalizer_kind;

typedef enum mh_pre_tokenizer_kind {
    MH_SPLIT_BYTE_LEVEL, // prefix_space, use_regex
    MH_SPLIT_BERT,
    MH_SPLIT_WHITESPACE,
    MH_SPLIT_WHITESPACE_SPLIT,
    MH_SPLIT_PUNCTUATION, // behaviour
    MH_SPLIT_METASPACE,   // text, prepend, split
    MH_SPLIT_DIGITS,      // individual
    MH_SPLIT_PATTERN,     // pattern or text; behaviour, invert
} mh_pre_tokenizer_kind;

typedef enum mh_decoder_kind {
    MH_DECODE_BYTE_LEVEL,
    MH_DECODE_WORDPIECE, // text, cleanup
    MH_DECODE_METASPACE, // text, prepend
    MH_DECODE_BYTE_FALLBACK,
    MH_DECODE_FUSE,
    MH_DECODE_STRIP,   // text, start, stop
    MH_DECODE_REPLACE, // text or pattern; content
    MH_DECODE_BPE,     // text
    MH_DECODE_CTC,     // text, content, cleanup
} mh_decoder_kind;

typedef enum mh_split_behaviour {
    MH_SPLIT_ISOLATED,
    MH_SPLIT_REMOVED,
    MH_SPLIT_CONTIGUOUS,
    MH_SPLIT_WITH_PREVIOUS,
    MH_SPLIT_WITH_NEXT,
} mh_split_behaviour;

typedef enum mh_prepend { MH_PREPEND_NEVER, MH_PREPEND_FIRST, MH_PREPEND_ALWAYS } mh_prepend;

typedef struct mh_component {
    uint8_t kind;
    uint8_t behaviour; // mh_split_behaviour
    uint8_t pattern;   // mh_pattern of tokenizer_patterns.h; MH_PATTERN_LITERAL: `text`
    uint8_t prepend;   // mh_prepend
    bool invert, individual, split, prefix_space, use_regex, cleanup, first, longest;
    bool clean, chinese, accents, lowercase, left, right;
    mh_span text, content;
    size_t start, stop;
} mh_component;

typedef struct mh_component_list {
    mh_component *items;
    size_t count, capacity;
} mh_component_list;

// A token that is looked for in the text before the model sees it.
typedef struct mh_added_token {
    int32_t id;
    mh_span content, normal; // as written; as it is after the normalizers
    bool left, right;        // takes the whitespace on that side
    bool single_word;        // only where no letter or digit is next to it
    bool normalized;         // is looked for in the normalised text
    bool verbatim;           // there, too, as it is written
    bool special;
} mh_added_token;

typedef struct mh_added_list {
    mh_added_token *items;
    size_t count, capacity;
    mh_trie raw, normal; // content -> item, for those that are not, and are, `normalized`
} mh_added_list;

// What the post-processor writes: the first text, the second, or a special token.
typedef struct mh_template_item {
    int32_t id; // of a special token; -1, -2: the first, second text
    uint8_t type;
} mh_template_item;

typedef struct mh_template {
    mh_template_item *items;
    size_t count, capacity;
} mh_template;

// SentencePiece's normalisation rules: a double-array trie (darts-clone) whose values are places in
// a list of texts, each ended by NUL.
typedef struct mh_charsmap {
    uint32_t *units;
    size_t count, capacity;
    mh_span texts;
    size_t longest; // bytes of a text
} mh_charsmap;

typedef struct mh_components {
    mh_model_kind model;
    int32_t unk;     // -1: none
    bool byte_level; // keys are bytes: the last pre-tokenizer is ByteLevel
    bool byte_fallback, fuse_unk, ignore_merges;
    bool single;            // Unigram: sums of scores in single precision, as SentencePiece
    mh_span prefix, suffix; // of a continuing subword, of a word's end
    size_t max_chars;       // WordPiece: a longer word is unknown
    int32_t fallback[256];  // ids of <0x00> .. <0xFF>, -1: none
    mh_trie trie;           // WordPiece, Unigram: key -> id, or piece
    uint32_t continuing;    // WordPiece: the node of the trie behind the prefix
    double *scores;         // Unigram: of a piece
    int32_t *piece_ids;     // Unigram: of a piece; NULL: its number
    size_t score_capacity, piece_capacity;
    double unk_score;

    mh_component_list normalizers, pre_tokenizers, decoders;
    mh_charsmap charsmap;
    mh_added_list added;
    mh_template single_text, pair;
    bool trim, trim_prefix; // offsets without whitespace, but for a space that was put in front
    bool joined_by_space;   // no decoder: tokens are put together with spaces
} mh_components;

#endif
