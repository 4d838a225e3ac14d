// SPDX-License-Identifier: MIT
// Bytes as characters; see byte_level.h.
#include "text/byte_level.h"

// "!" to "~", and of Latin-1's upper half all but the no-break space and the soft hyphen
static bool is_printable(unsigned byte)
{
    return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
}

uint32_t mh_byte_character(unsigned char byte)
{
    if (is_printable(byte))
        return byte;
    uint32_t character = 0x100;
    for (unsigned b = 0; b < byte; b++)
        character += !is_printable(b);
    return character;
}

bool mh_character_byte(uint32_t character, unsigned char *byte)
{
    if (character < 0x100) {
        *byte = (unsigned char)character;
        return is_printable(character);
    }
    uint32_t left = character - 0x100;
    for (unsigned b = 0; b < 256; b++)
        if (!is_printable(b) && left-- == 0) {
            *byte = (unsigned char)b;
            return true;
        }
    return false;
}

void mh_bytes_in_order(unsigned char bytes[256])
{
    size_t count = 0;
    for (int printable = 1; printable >= 0; printable--)
        for (unsigned b = 0; b < 256; b++)
            if (is_printable(b) == printable)
                bytes[count++] = (unsigned char)b;
}
