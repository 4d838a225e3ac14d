// SPDX-License-Identifier: MIT
// The parts of `multihead translate`: reading texts, disabling heads, printing translations, and
// the options.
#ifndef CLI_TRANSLATE_H
#define CLI_TRANSLATE_H

#include "arguments.h"
#include "ranks.h"
#include "view/view_files.h"

#include <multihead/translator.h>

enum { ALIGNMENT_NONE, ALIGNMENT_HARD, ALIGNMENT_SOFT };

// ---- texts from a stream ------------------------------------------------------------------------

// Lines as they arrive, not when the stream ends.
typedef struct line_stream {
    int descriptor;
    bool prompts; // they are typed at a terminal
    char *bytes;
    size_t begin, size, capacity; // not consumed yet: bytes[begin .. size)
    size_t searched;              // of these, how many are known to have no newline
    bool ended;
    mh_text *items; // (count): the current lines, valid until the next call
    size_t count, item_capacity;
} line_stream;

// Takes at least one line, waiting if necessary, and all others available, up to `most`; none at
// the end. Returns an exit code after reporting errors.
int stream_take(line_stream *stream, size_t most);
void stream_free(line_stream *stream);

// ---- heads --------------------------------------------------------------------------------------

// Rejects anything but enc.LAYER.HEAD, dec.LAYER.HEAD or cross.LAYER.HEAD, with or without .HEAD.
void heads_add(struct argp_state *state, given_names *list, const char *name);

typedef struct heads_found {
    enum { HEADS_FOUND, HEADS_NO_NAME, HEADS_NOT_THERE } problem;
    size_t layers; // of that kind of attention
} heads_found;

// Marks the head or heads of this name in a table of heads_count().
heads_found heads_disable(const char *name, const mh_translator_config *config, bool *disabled);
size_t heads_count(const mh_translator_config *config);

// The table of mh_translate_options, NULL if no head is disabled; free() it. Returns an exit code
// after reporting a head that the model does not have.
int heads_find(const given_names *list, const mh_translator_config *config, bool **disabled);

// ---- languages ----------------------------------------------------------------------------------

// Codes like "fr" of what a model translates, "" if they are not known: as its config.json has
// them, or by a name like opus-mt-fr-en, of the directory or of what config.json was made from.
typedef struct translated_languages {
    char source[4], target[4];
} translated_languages;

translated_languages languages_of_model(const mh_translator *translator, const char *directory);

// "text 1 looks like English; fr-en expects French; -m en-fr translates English", if the text seems
// to be in another language than the model's; `which` is "text 1", `name` the model's, or NULL:
// then no other model is named. NULL if not, or out of memory; else free() it.
char *language_note(const translated_languages *languages, const char *name, const char *which,
                    mh_text text);

// The first text in another language, or `count` if these are not the majority of the texts whose
// language shows.
size_t languages_find_other(const translated_languages *languages, const mh_text *texts,
                            size_t count);

// ---- words --------------------------------------------------------------------------------------

// Word alignment: tokens joined to words, which are separated by whitespace.
typedef struct alignment {
    size_t target_words, source_words;
    double *weights; // (target_words, source_words); rows have sum 1, or are 0
} alignment;

// False if out of memory; free with alignment_free().
bool alignment_create(const mh_translation *translation, alignment *a);
void alignment_free(alignment *a);

// The source word that a target word attends to most.
size_t alignment_best(const alignment *a, size_t target_word);

// ---- printing -----------------------------------------------------------------------------------

typedef struct printing {
    FILE *to;
    bool json, scores;
    int alignment;
    size_t n_best;
    const mh_tokenizer *tokenizer; // of the translations
} printing;

// All translations of text i, which is number `number` of all, from 1. Returns an exit code.
int print_translations(const printing *p, mh_context *context, const mh_translations *translations,
                       size_t i, size_t number, mh_text source);

// The log-probability of each token of a translation that was given, and of all of it.
int print_given(const printing *p, mh_context *context, const mh_tokenizer *tokenizer,
                const mh_translation *r);

// ---- attention ----------------------------------------------------------------------------------

typedef struct attention {
    bool shows;              // heatmaps after each translation
    output page, trace;      // files
    const char *model;       // its directory
    mh_view_options options; // which part
} attention;

bool attention_wanted(const attention *a);

// Rejects a layer or head that the model does not have. Returns an exit code.
int attention_check(const attention *a, const mh_translator_config *config);

// Shows and writes the attention of one translation, of text `number`. Returns an exit code.
int attention_print(const attention *a, mh_context *context, const mh_translator *translator,
                    const bool *disabled, mh_text source, const mh_translation *translation,
                    size_t number, FILE *to);

// ---- all of it ----------------------------------------------------------------------------------

typedef struct translate {
    common_options common;
    const char *model_name, *input_path, *output_path; // model_name NULL: the default
    char **texts;                                      // (text_count), of the command line
    size_t text_count;
    const char *target; // NULL: search
    bool beam_given;
    mh_translator_load_options loading;
    mh_translate_options options;
    given_names heads;
    printing printing;
    attention attention;

    char *model_directory;
    mh_context *context;
    mh_translator *translator;
    bool *disabled;
    size_t number; // of texts so far
    size_t total;  // 0: not known
    mh_communicator ranks;
    size_t step;    // from the number of one text to the next: the ranks if they share texts
    uint64_t *ends; // NULL, or where the output of each text ends
    bool failed;    // in a shared block, on all ranks
    bool noted;     // that texts are in another language
    translated_languages languages;
} translate;

// Translates texts and prints them to t->printing.to. Returns an exit code after reporting errors.
int translate_texts(translate *t, const mh_text *texts, size_t count);

// ---- several processes --------------------------------------------------------------------------

// Whether the ranks' levels, models and options are the same; an exit code.
int translate_compare(const translate *t);

// The leader's: the same as translate_texts() for 1 text or more, shared with the others.
int translate_share(translate *t, const mh_text *texts, size_t count);

// The leader's: the others end with the same exit code.
void translate_end(const translate *t, int code);

// The others': their share of what the leader translates, until it ends.
int translate_follow(translate *t);

extern const struct argp translate_argp; // its input is a `translate` with the defaults

#endif
