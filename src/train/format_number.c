// SPDX-License-Identifier: MIT
#include "train/format_number.h"

#include "support/plain_numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

void mh_short_text(double number, bool single, char *text, size_t size)
{
    enum { DIGITS_MOST = 17 };
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    for (int digits = 1; digits <= DIGITS_MOST; digits++) {
        snprintf(text, size, "%.*g", digits, number);
        const double back = strtod(text, NULL);
        if (single ? (float)back == (float)number : back == number)
            break;
    }
    mh_plain_numbers_leave(saved);
}
