// SPDX-License-Identifier: MIT
// What the commands on pretrained models share: the model, the texts and how they are read.
//
//     multihead embed -m MODEL TEXT...             texts on the command line,
//     multihead embed -m MODEL --input FILE        the lines of a file,
//     multihead embed -m MODEL <FILE               or those of standard input
//
// A command has text_argp as a child of its argp, and its parser passes ARGP_KEY_ARG on by
// returning ARGP_ERR_UNKNOWN. Then text_arguments_open(), _read() and, whatever they returned,
// _close().
#ifndef CLI_TEXT_ARGUMENTS_H
#define CLI_TEXT_ARGUMENTS_H

#include "arguments.h"
#include "lines.h"

#include <multihead/pretrained.h>

// What a model's directory may have, for messages.
#define TOKENIZER_FILES                                                                            \
    "one of tokenizer.json, vocab.txt, vocab.json with merges.txt, tokenizer.model, spiece.model " \
    "or source.spm"

typedef struct text_arguments {
    common_options common;
    const char *model_name;    // as given with -m
    const char *default_model; // without -m, a model that ships; NULL: -m is needed
    const char *input_path;    // NULL: standard input, if there are no arguments
    mh_model_options loading;
    bool json;
    bool truncate;
    bool pictures; // the command takes models that read pictures, too, without a tokenizer
    bool sounds;   // and models that read sound
    bool no_model; // the command checks by itself whether -m is there

    char *directory; // from text_arguments_open() on
    mh_context *context;
    mh_model *model;

    lines lines;          // from text_arguments_read() on
    mh_text *texts;       // (count); none if the input is empty
    size_t count;         // while the command line is parsed: of its texts
    mh_text *given_texts; // of the command line
    size_t truncated;     // texts whose end was cut off; text_arguments_close() notes them
} text_arguments;

extern const struct argp text_argp;       // its input is a text_arguments
extern const struct argp whole_text_argp; // without --no-truncate: long texts are errors anyway
extern const struct argp text_file_argp;  // the same, and the result is of all texts together

text_arguments text_arguments_default(const command *c);

// Each returns an exit code after reporting errors.
int text_arguments_open(text_arguments *t); // the model
int text_arguments_read(text_arguments *t); // the texts, which are valid UTF-8
void text_arguments_close(text_arguments *t);

// What the command's model reads, after text_arguments_open(): "texts", "pictures", "pictures or
// texts" (CLIP), or "sound files".
const char *text_arguments_kind(const text_arguments *t);

// Prints the context's message and returns the exit code; a text that is too long is bad input.
int complain_texts(const text_arguments *t, mh_status status);

// Reports an error of the library in a call with text `number`, from 1, alone, and returns an exit
// code.
int complain_text(const text_arguments *t, mh_status status, size_t number);

// The model `name` in *directory, which is to be freed, *context and *model, each to be freed
// whatever is returned: an exit code. The library's remarks on it are printed as notes.
int open_model(const common_options *common, const char *name, const mh_model_options *options,
               char **directory, mh_context **context, mh_model **model);

#endif
