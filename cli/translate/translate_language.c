// SPDX-License-Identifier: MIT
// Texts in a language that the model does not translate; see translate.h. The result would be
// nonsense, and a user who does not read the target language cannot see that.
#include "messages.h"
#include "translate.h"

#include <stdlib.h>
#include <string.h>

bool languages_of_name(const char *name, char source[4], char target[4])
{
    const size_t size = strlen(name);
    if (size < 5 || name[size - 3] != '-' || (size > 5 && name[size - 6] != '-'))
        return false;
    memcpy(source, name + size - 5, 2);
    memcpy(target, name + size - 2, 3);
    source[2] = 0;
    return mh_language_name(source) && mh_language_name(target);
}

// The first text in another language, or `count` if these are not the majority of the texts whose
// language shows.
static size_t find_other(const char *source, const mh_text *texts, size_t count)
{
    size_t first = count, others = 0, known = 0;
    for (size_t i = 0; i < count; i++) {
        const char *guess = mh_language_guess(texts[i].bytes, texts[i].size);
        const bool other = guess && strcmp(guess, source) != 0;
        known += guess != NULL;
        others += other;
        if (other && first == count)
            first = i;
    }
    return 2 * others > known ? first : count;
}

bool language_note(const char *directory, const mh_text *texts, size_t count, size_t number)
{
    char source[4], target[4], *name = model_name(directory);
    const bool known = name && !is_quiet() && languages_of_name(name, source, target);
    const size_t i = known ? find_other(source, texts, count) : count;
    if (i < count)
        note("text %zu looks like %s; %s expects %s", number + i + 1,
             mh_language_name(mh_language_guess(texts[i].bytes, texts[i].size)), name,
             mh_language_name(source));
    free(name);
    return i < count;
}
