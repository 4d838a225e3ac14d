// SPDX-License-Identifier: MIT
// Pre-tokenisation: text is split into words, and merges never cross a word boundary. The rule is
// the regular expression below, hand-coded: patterns from a file are never run. Its classes are
// ranges of code points, so that no version of Unicode's tables matters.
//
//     | C'est| l'|été| ,|  | 2024|5| !|        a space belongs to the word after it
#ifndef MH_TEXT_WORDS_H
#define MH_TEXT_WORDS_H

#include <stddef.h>

// Letters: A-Z, a-z, and everything from U+00C0 on but two blocks of punctuation.
#define MH_WORD_LETTERS "A-Za-z\\x{C0}-\\x{1FFF}\\x{2070}-\\x{2FFF}\\x{3040}-\\x{10FFFF}"

// The pattern as in tokenizer.json. An apostrophe between letters belongs to the word: merges
// decide whether that is "don't" or "l'" and "eau".
#define MH_WORD_PATTERN                                                                            \
    " ?[" MH_WORD_LETTERS "]+(?:['\xE2\x80\x99][" MH_WORD_LETTERS "]+)*"                           \
    "| ?[0-9]{1,3}"                                                                                \
    "| ?[^ \\t\\r\\n0-9" MH_WORD_LETTERS "]+"                                                      \
    "|[ \\t\\r\\n]+(?![^ \\t\\r\\n])"                                                              \
    "|[ \\t\\r\\n]+"

// The length of the first word of valid, non-empty text.
size_t mh_word_length(const char *text, size_t size);

#endif
