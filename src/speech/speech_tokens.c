// SPDX-License-Identifier: MIT
// Whisper's special tokens and languages. All vocabularies have the same order:
//
//     text, <|endoftext|>, <|startoftranscript|>, <|en|> ... , <|translate|>, <|transcribe|>,
//     <|startoflm|>, <|startofprev|>, <|nospeech|>, <|notimestamps|>, <|0.00|> ... <|30.00|>
//
// and one of three sizes: 51864 for English, 51865 with 99 languages, 51866 with 100.
#include "speech/speech_internal.h"
#include <string.h>
#include <strings.h>

// In the order of their tokens.
static const char *const languages[][2] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"},
};
enum { LANGUAGES = sizeof languages / sizeof *languages, OTHER_TOKENS = 6 };

// Other names of languages, by their codes, as OpenAI's program knows them.
static const char *const aliases[][2] = {
    {"my", "burmese"},       {"ca", "valencian"}, {"nl", "flemish"},   {"ht", "haitian"},
    {"lb", "letzeburgesch"}, {"ps", "pushto"},    {"pa", "panjabi"},   {"ro", "moldavian"},
    {"ro", "moldovan"},      {"si", "sinhalese"}, {"es", "castilian"}, {"zh", "mandarin"},
};
enum { ALIASES = sizeof aliases / sizeof *aliases };

bool mh_speech_tokens_find(size_t vocabulary, mh_speech_tokens *t)
{
    const size_t text = vocabulary == 51864 ? 50256 : 50257;
    if (vocabulary < 51864 || vocabulary > 51866)
        return false;
    *t = (mh_speech_tokens){.end = (int32_t)text,
                            .start = (int32_t)text + 1,
                            .language = (int32_t)text + 2,
                            .multilingual = vocabulary != 51864,
                            .languages = vocabulary - text - 2 - OTHER_TOKENS - MH_TIME_TOKENS};
    t->translate = t->language + (int32_t)t->languages;
    t->transcribe = t->translate + 1;
    t->previous = t->translate + 3;
    t->no_speech = t->translate + 4;
    t->no_times = t->translate + 5;
    t->time = t->translate + OTHER_TOKENS;
    return true;
}

int mh_speech_language(const char *name)
{
    for (int i = 0; i < LANGUAGES; i++)
        if (strcasecmp(name, languages[i][0]) == 0 || strcasecmp(name, languages[i][1]) == 0)
            return i;
    for (int i = 0; i < ALIASES; i++)
        if (strcasecmp(name, aliases[i][1]) == 0)
            return mh_speech_language(aliases[i][0]);
    return -1;
}

const char *mh_speech_language_code(size_t index)
{
    return index < LANGUAGES ? languages[index][0] : "";
}

bool mh_speech_unspaced(size_t language)
{
    static const char *const codes[] = {"zh", "ja", "th", "lo", "my", "yue"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(mh_speech_language_code(language), codes[i]) == 0)
            return true;
    return false;
}
