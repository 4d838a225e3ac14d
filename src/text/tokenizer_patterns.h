// SPDX-License-Identifier: MIT
// The regular expressions that published tokenizers have, hand-coded: a pattern from a file is
// compared with this list, never run.
#ifndef MH_TEXT_TOKENIZER_PATTERNS_H
#define MH_TEXT_TOKENIZER_PATTERNS_H

#include <multihead/text.h>

typedef enum mh_pattern {
    MH_PATTERN_LITERAL, // the text itself
    MH_PATTERN_OWN,     // text/words.h
    MH_PATTERN_GPT2,
    MH_PATTERN_LLAMA3, // also GPT-4's
    MH_PATTERN_QWEN2,
    MH_PATTERN_O200K,
    MH_PATTERN_CLIP,
    MH_PATTERN_WHITE,         // \s+
    MH_PATTERN_SPACES,        // " {2,}"
    MH_PATTERN_DIGITS,        // [0-9]
    MH_PATTERN_DIGIT_TRIPLES, // [0-9][0-9][0-9]
    MH_PATTERN_NEWLINES,      // [\r\n]
    MH_PATTERN_COUNT,
} mh_pattern;

// The pattern of this text, MH_PATTERN_COUNT if it is not on the list.
mh_pattern mh_pattern_of(const char *text, size_t size);

// The first match at or after `from`, [*begin, *end) and not empty; false if there is none. An
// empty literal never matches.
bool mh_pattern_find(mh_pattern pattern, mh_text literal, const char *text, size_t size,
                     size_t from, size_t *begin, size_t *end);

// The first byte of the whitespace that ends the text: `size` if none does.
size_t mh_white_begin(const char *text, size_t size);

#endif
