// SPDX-License-Identifier: MIT
// The language of a text by its function words: articles, pronouns, prepositions, forms of to be.
// Every sentence of some length has a few, whatever it is about, and lists of some fifty words per
// language tell apart what a user confuses. Statistics of a model's corpus would tell apart its own
// two languages only, and published models come without any. Greetings are there, too: they are
// what a model is tried with. Scripts other than Latin are known by their letters.
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
     "there a an as on if so no come hello hi yes thank thanks please sorry good morning "},
    {"fr", "French",
     " le la les un une des du de et est sont était étaient être suis je tu il elle nous vous ils "
     "elles on mon ma mes ton ta tes son sa ses notre votre leur ce cette ces que qui quoi où "
     "quand "
     "pourquoi comment ne pas plus avec dans pour sur par mais ou au aux y en ai as ont avez avons "
     "sera es non si très toujours à a c j l d n s qu m t se lui chez merci beaucoup bonjour "
     "bonsoir oui salut "},
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
     "nel nella di da in ha hanno ho hai molto più si ti stai "},
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

typedef struct language_word {
    char text[WORD_BYTES]; // in lower case, with a blank on each side
    bool capital;          // begins with one, as "Las", neither "I" nor "LAS"
    bool possible;         // is not too long for a function word
} language_word;

// An apostrophe after one or two letters separates, as in "l'eau"; that of "don't" does not. False
// at the end of the text.
static bool take_word(const char **text, const char *end, language_word *word)
{
    size_t bytes = 0, letters = 0, capitals = 0, length;
    uint32_t first = 0;
    const char *at = *text;
    while (at < end && !is_letter(mh_utf8_decode(at, &length)))
        at += length;
    const bool found = at < end;
    word->text[bytes++] = ' ';
    for (; at < end; at += length) {
        const uint32_t c = mh_utf8_decode(at, &length);
        const bool apostrophe = c == '\'' || c == 0x2019;
        if (!is_letter(c) && !(apostrophe && letters > 2))
            break;
        capitals += lower(c) != c;
        first = letters++ ? first : c;
        if (bytes + 6 < WORD_BYTES) // the longest character, a blank, and the end
            bytes += mh_utf8_encode(apostrophe ? '\'' : lower(c), word->text + bytes);
    }
    strcpy(word->text + bytes, " ");
    word->capital = lower(first) != first && capitals == 1 && letters > 1;
    word->possible = letters <= LETTERS_MOST;
    *text = at;
    return found;
}

static void count_word(const language_word *word, size_t hits[LANGUAGES])
{
    for (size_t i = 0; i < LANGUAGES && word->possible; i++)
        hits[i] += strstr(languages[i].words, word->text) != NULL;
}

// How many words of the text are function words of each language; false if it is not UTF-8. A
// capital within the text, and another one behind it, are a name's, as in "Mary loves Las Vegas".
static bool count_words(const char *text, size_t size, size_t hits[LANGUAGES])
{
    language_word words[2];
    memset(hits, 0, LANGUAGES * sizeof *hits);
    if (!text || mh_utf8_valid(text, size) < size)
        return false;
    const char *at = text, *end = text + size;
    bool found = take_word(&at, end, &words[0]);
    for (size_t i = 0; found; i++) {
        language_word *word = &words[i % 2], *next = &words[(i + 1) % 2];
        found = take_word(&at, end, next);
        const bool name = i > 0 && word->capital && found && next->capital;
        if (!name)
            count_word(word, hits);
    }
    return true;
}

// The language of most words, of several with as many `likely`; *second: the words of the next one.
static size_t find_best(const size_t hits[LANGUAGES], size_t likely, size_t *second)
{
    size_t best = likely < LANGUAGES ? likely : 0;
    *second = 0;
    for (size_t i = 0; i < LANGUAGES; i++)
        best = hits[i] > hits[best] ? i : best;
    for (size_t i = 0; i < LANGUAGES; i++)
        if (i != best && hits[i] > *second)
            *second = hits[i];
    return best;
}

const char *mh_language_guess(const char *text, size_t size)
{
    size_t hits[LANGUAGES], second;
    if (!count_words(text, size, hits))
        return NULL;
    const size_t best = find_best(hits, LANGUAGES, &second);
    return hits[best] >= HITS_LEAST && hits[best] > second ? languages[best].code : NULL;
}

// LANGUAGES for a code that is not there.
static size_t find_language(const char *code)
{
    size_t i = 0;
    while (i < LANGUAGES && !(code && strcmp(languages[i].code, code) == 0))
        i++;
    return i;
}

const char *mh_language_other(const char *text, size_t size, const char *expected,
                              const char *likely)
{
    size_t hits[LANGUAGES], second;
    const size_t own = find_language(expected), preferred = find_language(likely);
    if (own == LANGUAGES || !count_words(text, size, hits))
        return NULL;
    const size_t best = find_best(hits, preferred, &second);
    const size_t least = hits[own] ? HITS_LEAST : 1;
    const bool leads = hits[best] > second || (best == preferred && hits[best] > hits[own]);
    return best != own && hits[best] >= least && leads ? languages[best].code : NULL;
}

const char *mh_language_name(const char *code)
{
    const size_t i = find_language(code);
    return i < LANGUAGES ? languages[i].name : NULL;
}

// ---- scripts ------------------------------------------------------------------------------------

// Blocks of Unicode, in ascending order, with the letters of a script. Han is Japanese if there are
// kana, too.
static const struct {
    uint32_t first, last;
    const char *script;
} blocks[] = {
    {'A', 'Z', "Latin"},          {'a', 'z', "Latin"},        {0xC0, 0x24F, "Latin"},
    {0x370, 0x3FF, "Greek"},      {0x400, 0x52F, "Cyrillic"}, {0x531, 0x58F, "Armenian"},
    {0x5D0, 0x5EA, "Hebrew"},     {0x620, 0x6FF, "Arabic"},   {0x900, 0x97F, "Devanagari"},
    {0x980, 0x9FF, "Bengali"},    {0xB80, 0xBFF, "Tamil"},    {0xE00, 0xE7F, "Thai"},
    {0x10A0, 0x10FF, "Georgian"}, {0x1E00, 0x1EFF, "Latin"},  {0x3041, 0x30FF, "Japanese"},
    {0x3400, 0x9FFF, "Chinese"},  {0xAC00, 0xD7A3, "Korean"},
};

enum { BLOCKS = sizeof blocks / sizeof *blocks };

static size_t find_block(uint32_t c)
{
    size_t i = 0;
    while (i < BLOCKS && c > blocks[i].last)
        i++;
    return i < BLOCKS && c >= blocks[i].first ? i : BLOCKS;
}

// The first block of a script, which counts for all of it.
static size_t first_of_script(size_t block)
{
    size_t i = 0;
    while (blocks[i].script != blocks[block].script &&
           strcmp(blocks[i].script, blocks[block].script) != 0)
        i++;
    return i;
}

const char *mh_text_script(const char *text, size_t size)
{
    size_t letters[BLOCKS] = {0}, length, best = 0;
    if (!text || mh_utf8_valid(text, size) < size)
        return NULL;
    for (size_t at = 0; at < size; at += length) {
        const size_t block = find_block(mh_utf8_decode(text + at, &length));
        if (block < BLOCKS)
            letters[first_of_script(block)]++;
    }
    const size_t kana = find_block(0x3041), han = find_block(0x4E00);
    if (letters[kana]) {
        letters[kana] += letters[han];
        letters[han] = 0;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        best = letters[i] > letters[best] ? i : best;
    return letters[best] ? blocks[best].script : NULL;
}
