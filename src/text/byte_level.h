// SPDX-License-Identifier: MIT
// The byte-level alphabet of GPT-2's tokenizer, used for tokens in tokenizer.json: every byte is
// one printable character. Those that Latin-1 prints are themselves, the other 68 are U+0100 and
// on, in order of the byte: a space is Ġ, a newline Ċ, NUL is Ā.
#ifndef MH_TEXT_BYTE_LEVEL_H
#define MH_TEXT_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t mh_byte_character(unsigned char byte);

// The byte that a character represents; false if none.
bool mh_character_byte(uint32_t character, unsigned char *byte);

// The bytes in order of their characters: in this order they get their ids, as in tokenizers.
void mh_bytes_in_order(unsigned char bytes[256]);

#endif
