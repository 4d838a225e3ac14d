// SPDX-License-Identifier: MIT
// Numbers in files have a decimal point and are rounded to nearest, whatever the program's locale
// and rounding mode: between enter and leave, printf and strtod use the "C" locale, in this thread
// only. Of x86's two rounding modes glibc's printf obeys the older (x87) one, which
// mh_fpenv_enter() does not change.
//
// The full "C" locale is a constant of the C library, so that nothing is allocated; LC_NUMERIC
// alone would need an allocation.
#ifndef MH_SUPPORT_PLAIN_NUMBERS_H
#define MH_SUPPORT_PLAIN_NUMBERS_H

#include <fenv.h>
#include <locale.h>

typedef struct mh_plain_numbers {
    locale_t plain, before;
    fenv_t environment;
} mh_plain_numbers;

static inline mh_plain_numbers mh_plain_numbers_enter(void)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    mh_plain_numbers saved = {.plain = plain, .before = uselocale(plain)};
    fegetenv(&saved.environment);
    fesetround(FE_TONEAREST);
    return saved;
}

static inline void mh_plain_numbers_leave(mh_plain_numbers saved)
{
    fesetenv(&saved.environment);
    uselocale(saved.before);
    if (saved.plain)
        freelocale(saved.plain);
}

#endif
