// SPDX-License-Identifier: MIT
// Numbers in files have a decimal point, whatever locale the program has chosen that uses the
// library: between enter and leave, printf and strtod write and read as in C, in this thread only.
//
// The locale "C" as a whole is a constant of the C library, so that nothing is allocated;
// LC_NUMERIC alone would be.
#ifndef MH_BASE_PLAIN_NUMBERS_H
#define MH_BASE_PLAIN_NUMBERS_H

#include <locale.h>

typedef struct mh_plain_numbers {
    locale_t plain, before;
} mh_plain_numbers;

static inline mh_plain_numbers mh_plain_numbers_enter(void)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (mh_plain_numbers){plain, uselocale(plain)};
}

static inline void mh_plain_numbers_leave(mh_plain_numbers saved)
{
    uselocale(saved.before);
    if (saved.plain)
        freelocale(saved.plain);
}

#endif
