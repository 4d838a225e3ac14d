// SPDX-License-Identifier: MIT
// Texts in a language that the model does not translate; see translate.h. The result would be
// nonsense, and a user who does not read the target language cannot see that.
#include "messages.h"
#include "model_path.h"
#include "outputs.h"
#include "translate.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- which languages ----------------------------------------------------------------------------

// A code of two letters that stands alone; copies it.
static bool take_code(const char *at, size_t size, char code[4])
{
    if (size != 2)
        return false;
    memcpy(code, at, 2);
    code[2] = 0;
    return mh_language_name(code) != NULL;
}

// "fr" and "en" of a name like opus-mt-fr-en-v2: two codes, one after the other.
static bool take_name(const char *name, translated_languages *l)
{
    static const char between[] = "-_./";
    for (const char *at = name; *at;) {
        const size_t size = strcspn(at, between), next = size + (at[size] != 0);
        if (take_code(at, size, l->source) &&
            take_code(at + next, strcspn(at + next, between), l->target))
            return true;
        at += next;
    }
    *l->source = *l->target = 0;
    return false;
}

// What a published model was saved from, such as Helsinki-NLP/opus-mt-fr-en.
static void take_origin(const char *directory, translated_languages *l)
{
    char *path = join_path(directory, "config.json");
    json_t *root = path ? json_load_file(path, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(root, "_name_or_path"));
    if (name)
        take_name(name, l);
    json_decref(root);
    free(path);
}

translated_languages languages_of_model(const mh_translator *translator, const char *directory)
{
    const mh_translator_config *config = mh_translator_configuration(translator);
    translated_languages l = {0};
    if (*config->source_language) {
        memcpy(l.source, config->source_language, sizeof l.source);
        memcpy(l.target, config->target_language, sizeof l.target);
        return l;
    }
    if (!take_name(model_name(directory), &l))
        take_origin(directory, &l);
    return l;
}

// ---- texts --------------------------------------------------------------------------------------

// The script of a text that is not Latin; all languages that we know are.
static const char *other_script(mh_text text)
{
    const char *script = mh_text_script(text.bytes, text.size);
    return script && strcmp(script, "Latin") != 0 ? script : NULL;
}

static const char *other_language(const translated_languages *l, mh_text text)
{
    return mh_language_other(text.bytes, text.size, l->source, l->target);
}

size_t languages_find_other(const translated_languages *l, const mh_text *texts, size_t count)
{
    size_t first = count, others = 0, known = 0;
    if (!mh_language_name(l->source))
        return count;
    for (size_t i = 0; i < count; i++) {
        const bool other = other_script(texts[i]) || other_language(l, texts[i]);
        known += other || mh_language_guess(texts[i].bytes, texts[i].size);
        others += other;
        if (other && first == count)
            first = i;
    }
    return 2 * others > known ? first : count;
}

// Whether a model of this name is installed.
static bool is_installed(const char *name)
{
    char *directory, *message;
    bool found = model_path_search(name, "", &directory, &message) == EXIT_DONE;
    char *config = found ? join_path(directory, "config.json") : NULL;
    found = config && access(config, F_OK) == 0;
    free(config);
    free(directory);
    free(message);
    return found;
}

// "; -m en-fr translates English": to the model's target language, or from it to its source.
static void find_model(const translated_languages *l, const char *language, char text[80])
{
    char name[16];
    const bool reverse = strcmp(language, l->target) == 0;
    *text = 0;
    snprintf(name, sizeof name, "%s-%s", language, reverse ? l->source : l->target);
    if (is_installed(name))
        snprintf(text, 80, "; -m %s translates %s", name, mh_language_name(language));
}

char *language_note(const translated_languages *l, const char *name, const char *which,
                    mh_text text)
{
    char *line = NULL, model[80] = "";
    const char *expected = mh_language_name(l->source);
    const char *script = expected ? other_script(text) : NULL;
    const char *language = expected && !script ? other_language(l, text) : NULL;
    if (language && name)
        find_model(l, language, model);
    int size = -1;
    if (script)
        size = asprintf(&line, "%s is in %s script; %s expects %s", which, script,
                        name ? name : "the model", expected);
    else if (language)
        size = asprintf(&line, "%s looks like %s; %s expects %s%s", which,
                        mh_language_name(language), name ? name : "the model", expected, model);
    return size < 0 ? NULL : line;
}
