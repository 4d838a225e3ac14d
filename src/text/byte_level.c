// SPDX-License-Identifier: MIT
// Bytes as characters; see byte_level.h.
#include "text/byte_level.h"

// The bytes that Latin-1 does not print, in order: 0 .. 0x20, 0x7F .. 0xA0, 0xAD.
enum { LOW = 0x21, HIGH = 0x7F, HIGH_COUNT = 0xA1 - 0x7F, SOFT_HYPHEN = 0xAD, FIRST = 0x100 };

// "!" to "~", and of Latin-1's upper half all but the no-break space and the soft hyphen
static bool is_printable(unsigned byte)
{
    return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != SOFT_HYPHEN);
}

uint32_t mh_byte_character(unsigned char byte)
{
    if (is_printable(byte))
        return byte;
    if (byte < LOW)
        return FIRST + byte;
    return byte == SOFT_HYPHEN ? FIRST + LOW + HIGH_COUNT : FIRST + LOW + (uint32_t)(byte - HIGH);
}

bool mh_character_byte(uint32_t character, unsigned char *byte)
{
    if (character < FIRST) {
        *byte = (unsigned char)character;
        return is_printable(character);
    }
    uint32_t rank = character - FIRST;
    if (rank < LOW)
        *byte = (unsigned char)rank;
    else if (rank < LOW + HIGH_COUNT)
        *byte = (unsigned char)(HIGH + (rank - LOW));
    else
        *byte = SOFT_HYPHEN;
    return rank <= LOW + HIGH_COUNT;
}

void mh_bytes_in_order(unsigned char bytes[256])
{
    size_t count = 0;
    for (int printable = 1; printable >= 0; printable--)
        for (unsigned b = 0; b < 256; b++)
            if (is_printable(b) == printable)
                bytes[count++] = (unsigned char)b;
}
