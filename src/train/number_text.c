// SPDX-License-Identifier: MIT
#include "train/number_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool mh_whole_parse(const char *text, uint64_t *number)
{
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        const unsigned digit = (unsigned char)*text - (unsigned)'0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *number = value;
    return true;
}

void mh_real_text(double number, char *text, size_t size)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    snprintf(text, size, "%016" PRIx64, bits);
}

bool mh_real_parse(const char *text, double *number)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t bits = 0;
    if (strlen(text) != 16)
        return false;
    for (; *text; text++) {
        const char *digit = strchr(digits, *text);
        if (!digit)
            return false;
        bits = 16 * bits + (uint64_t)(digit - digits);
    }
    memcpy(number, &bits, sizeof bits);
    return true;
}
