// SPDX-License-Identifier: MIT
// What a page shows before anything is typed: the model's name, its task, its languages, texts to
// try.
#include "picture_base64.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 4 };

static const struct {
    const char *language;
    const char *texts[EXAMPLES];
} examples[] = {
    {"fr",
     {"Le chat noir dort sur le vieux tapis.", "Où est la gare la plus proche ?",
      "Elle a perdu les clés de sa voiture.", "Il fait beau, mais il a plu ce matin."}},
    {"en",
     {"The black cat sleeps on the chair.", "Where is the nearest station?",
      "She has lost the keys of her car.", "The bank approved the loan yesterday."}},
    {"de",
     {"Die schwarze Katze schläft auf dem alten Teppich.", "Wo ist der nächste Bahnhof?",
      "Sie hat ihre Autoschlüssel verloren.", "Es ist schön, aber heute Morgen hat es geregnet."}},
    {"es",
     {"El gato negro duerme sobre la vieja alfombra.", "¿Dónde está la estación más cercana?",
      "Ella ha perdido las llaves de su coche.", "Hace buen tiempo, pero esta mañana llovió."}},
    {"it",
     {"Il gatto nero dorme sul vecchio tappeto.", "Dov'è la stazione più vicina?",
      "Ha perso le chiavi della macchina.", "È bello, ma stamattina ha piovuto."}},
};

static json_t *list_examples(const char *language)
{
    json_t *list = json_array();
    for (size_t i = 0; language && i < sizeof examples / sizeof *examples; i++)
        if (strcmp(examples[i].language, language) == 0)
            for (size_t n = 0; n < EXAMPLES; n++)
                json_array_append_new(list, json_string(examples[i].texts[n]));
    return list;
}

// Texts to try for a model that does not translate: English, as most of these models read.
static json_t *list_texts(served_task task)
{
    static const char *const texts[][EXAMPLES] = {
        [TASK_CONTINUE] = {"The cat sat on the", "Once upon a time, there was a little",
                           "She opened the door and", "The little girl was sad because"},
        [TASK_FILL] = {"The cat ___ on the mat.", "Paris is the ___ of France.",
                       "The doctor said that ___ was tired.", "He put the ___ in the ___."},
        [TASK_CLASSIFY] = {"The film was a joy from start to end.", "The food was cold.",
                           "I expected more of it.", "Nobody could dislike this book."},
        [TASK_EMBED] = {"The cat that I saw yesterday ran away.",
                        "The bank approved the loan yesterday.", "The quick brown fox jumps.",
                        "She gave the book to her sister."},
    };
    json_t *list = json_array();
    for (size_t n = 0; n < EXAMPLES; n++)
        json_array_append_new(list, json_string(texts[task][n]));
    return list;
}

// The names of the pictures to try, and their files in base64 by these names.
static json_t *describe_pictures(void)
{
    json_t *names = json_array(), *files = json_object();
    for (const picture_example *p = picture_examples; p->name; p++) {
        char *text = base64_encode(p->file, strlen(p->file));
        json_array_append_new(names, json_string(p->name));
        json_object_set_new(files, p->name, json_string(text ? text : ""));
        free(text);
    }
    return json_pack("{s:o, s:o}", "examples", names, "pictures", files);
}

static json_t *describe_translator(const translated_languages *l)
{
    return json_pack("{s:s*, s:s*, s:o}", "from", mh_language_name(l->source), "to",
                     mh_language_name(l->target), "examples", list_examples(l->source));
}

char *describe_served_model(const served_model *s)
{
    json_t *json = s->task == TASK_TRANSLATE ? describe_translator(&s->languages)
                   : s->pictures             ? describe_pictures()
                                             : json_pack("{s:o}", "examples", list_texts(s->task));
    const bool done =
        json && json_object_set_new(json, "name", json_string(s->name ? s->name : "")) == 0 &&
        json_object_set_new(json, "task", json_string(task_name(s->task))) == 0 &&
        json_object_set_new(json, "input", json_string(s->pictures ? "picture" : "text")) == 0;
    char *text = done ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}
