// SPDX-License-Identifier: MIT
// The language of a text by its function words: articles, pronouns, prepositions, forms of to be.
// Every sentence of some length has a few, whatever it is about, and lists of some fifty words per
// language tell apart what a user confuses. Statistics of a model's corpus would tell apart its own
// two languages only, and published models come without any.
#include "text/utf8.h"

#include <string.h>

enum { WORD_BYTES = 64, LETTERS_MOST = 12, HITS_LEAST = 2 };

typedef struct language {
    const char *code, *name;
    const char *words; // separated and enclosed by blanks
} language;

// Without words that are frequent in another of these languages and rare in their own.
static const language languages[] = {
    {"en", "English",
     " the is are was were be been am i you he she it they we my your his her its our their this "
     "that these those what where when who why how not don't doesn't didn't isn't can't won't do "
     "does did have has had will would can could should must and but of to in for with from at by "
     "there a an as on if so "},
    {"fr", "French",
     " le la les un une des du de et est sont était étaient être suis je tu il elle nous vous ils "
     "elles on mon ma mes ton ta tes son sa ses notre votre leur ce cette ces que qui quoi où "
     "quand "
     "pourquoi comment ne pas plus avec dans pour sur par mais ou au aux y en ai as ont avez avons "
     "sera es non si très toujours à a c j l d n s qu m t "},
    {"de", "German",
     " der die das den dem des ein eine einen einem einer und ist sind war waren sein bin ich du "
     "er "
     "sie es wir ihr mein meine dein deine nicht kein keine mit auf für von zu zum zur im aber "
     "oder "
     "wo wann wer wie warum was hat haben habe wird werden kann muss dass auch noch sich "},
    {"es", "Spanish",
     " el la los las un una unos unas y es son era ser soy yo tú él ella nosotros ellos mi mis tu "
     "su "
     "sus no que quién qué dónde cuándo cómo por para con sin sobre pero o del al en está están "
     "estoy ha han he hay muy más lo le les se "},
    {"it", "Italian",
     " il lo la i gli le un uno una e è sono era essere io tu lui lei noi voi loro mio mia tuo tua "
     "suo sua non che chi cosa dove quando come perché con per su ma o del della dei delle al alla "
     "nel nella di da in ha hanno ho hai molto più si "},
    {"pt", "Portuguese",
     " o a os as um uma uns umas e é são era ser sou eu tu ele ela nós eles meu minha seu sua não "
     "que quem onde quando como por para com sem sobre mas ou do da dos das ao no na em está estão "
     "tem muito mais se "},
    {"nl", "Dutch",
     " de het een en is zijn was waren ben ik jij je hij zij ze wij we jullie mijn jouw niet geen "
     "met op voor van naar aan in maar of waar wanneer wie wat hoe waarom heeft hebben heb wordt "
     "kan "
     "moet dat dit deze die er ook nog "},
};

enum { LANGUAGES = sizeof languages / sizeof *languages };

static bool is_letter(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c < 0x2000);
}

// Lower case of the letters that begin a function word.
static uint32_t lower(uint32_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE && c != 0xD7) ? c + 0x20 : c;
}

// The next word in lower case, with a blank on each side; empty if it is too long for a function
// word. An apostrophe after one or two letters separates, as in "l'eau"; that of "don't" does not.
// False at the end of the text.
static bool next_word(const char **text, const char *end, char word[WORD_BYTES])
{
    size_t bytes = 0, letters = 0, length;
    const char *at = *text;
    while (at < end && !is_letter(mh_utf8_decode(at, &length)))
        at += length;
    const bool found = at < end;
    word[bytes++] = ' ';
    for (; at < end; at += length) {
        const uint32_t c = mh_utf8_decode(at, &length);
        const bool apostrophe = c == '\'' || c == 0x2019;
        if (!is_letter(c) && !(apostrophe && letters > 2))
            break;
        letters++;
        if (bytes + 6 < WORD_BYTES) // the longest character, a blank, and the end
            bytes += mh_utf8_encode(apostrophe ? '\'' : lower(c), word + bytes);
    }
    strcpy(word + bytes, " ");
    if (letters > LETTERS_MOST)
        word[0] = 0;
    *text = at;
    return found;
}

const char *mh_language_guess(const char *text, size_t size)
{
    size_t hits[LANGUAGES] = {0}, best = 0, second = 0;
    char word[WORD_BYTES];
    if (!text || mh_utf8_valid(text, size) < size)
        return NULL;
    const char *at = text;
    while (next_word(&at, text + size, word))
        for (size_t i = 0; i < LANGUAGES; i++)
            hits[i] += word[0] && strstr(languages[i].words, word);
    for (size_t i = 1; i < LANGUAGES; i++)
        best = hits[i] > hits[best] ? i : best;
    for (size_t i = 0; i < LANGUAGES; i++)
        if (i != best && hits[i] > second)
            second = hits[i];
    return hits[best] >= HITS_LEAST && hits[best] > second ? languages[best].code : NULL;
}

const char *mh_language_name(const char *code)
{
    for (size_t i = 0; code && i < LANGUAGES; i++)
        if (strcmp(languages[i].code, code) == 0)
            return languages[i].name;
    return NULL;
}
