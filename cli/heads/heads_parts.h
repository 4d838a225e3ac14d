// SPDX-License-Identifier: MIT
// The parts of `multihead heads`: the texts, where attention goes, which heads link two words, what
// is lost without a head, and one head against many; as text, JSON and most as a picture.
#ifndef CLI_HEADS_PARTS_H
#define CLI_HEADS_PARTS_H

#include "look/look.h"
#include "outputs.h"
#include "pretrained/text_arguments.h"

#include <multihead/heads.h>

enum { FILE_PAGE, FILE_SVG, FILE_COUNT };

// ---- texts --------------------------------------------------------------------------------------

// The lines as the model reads them.
typedef struct head_texts {
    mh_text *sources; // (count): without what follows a tab, if the model translates
    mh_text *targets; // (count), or NULL: the model does not translate
    size_t count;
    size_t own;                  // targets that are the model's own translations
    mh_translations *translated; // their memory
    mh_translator *translator;   // or NULL
} head_texts;

// Splits lines at tabs, and translates those without a target unless `given_only`. Returns an exit
// code.
int head_texts_open(const text_arguments *a, bool given_only, head_texts *texts);
void head_texts_close(head_texts *texts);

// ---- where attention goes -----------------------------------------------------------------------

// Runs the model over all texts. `refused` of them, not all, cannot be read, such as one that is
// too long: that is said, and the others are counted. Returns an exit code.
int find_statistics(const text_arguments *a, const head_texts *texts,
                    const mh_head_options *options, mh_head_statistics **statistics,
                    size_t *refused);

// The columns that a group of heads has in tables, ended by MH_PATTERN_NONE, and their short names.
typedef struct head_column {
    mh_head_pattern pattern;
    const char *label; // at most 4 columns wide
} head_column;
const head_column *head_columns(mh_trace_kind kind, bool picture);

// What a column counts: "the token before"; NULL of rare words and far keys, which depend on the
// file and on an option.
const char *head_meaning(mh_trace_kind kind, bool picture, mh_head_pattern pattern);

// The mean distance, in tokens or, of pictures, in patches.
#define DISTANCE_LABEL "dist"

// ---- which heads link two words -----------------------------------------------------------------

// Ranks heads by their links over all texts that have both words. Returns an exit code.
int show_links(const text_arguments *a, const link_words *words);

// ---- what is lost without a head ----------------------------------------------------------------

typedef struct head_loss {
    double loss; // per token
    double bleu; // if wanted
} head_loss;

// Layers of attention: those of the only stack, or of the encoder, of the decoder, and of
// cross-attention.
typedef struct ablation {
    mh_text_loss kind;
    size_t rows, heads;      // of attention
    size_t encoder, decoder; // layers
    size_t tokens, texts;
    bool has_bleu;
    head_loss all_on;
    head_loss *each;   // (rows, heads): without this head
    head_loss *layers; // (rows): without all of the layer's
    head_loss *alone;  // (rows, heads), or NULL: without the others of its layer
    size_t *order;     // (rows heads), or NULL: no curve
    head_loss *curve;  // (rows heads): without order[0 .. i]
} ablation;

// "cross.2", "enc.0"; of one stack "0".
void ablation_row_name(const ablation *a, size_t row, char name[24]);

// How much worse the model is: more loss, or less BLEU.
static inline double ablation_change(const ablation *a, const head_loss *without, bool bleu)
{
    return bleu ? without->bleu - a->all_on.bleu : without->loss - a->all_on.loss;
}

// What to measure besides the loss without a head.
typedef struct ablation_options {
    bool wanted, alone, bleu, curve;
} ablation_options;

// Runs the model over all texts, again for each measurement. Returns an exit code.
int find_ablation(const text_arguments *a, const head_texts *texts, const ablation_options *options,
                  ablation *found);
void ablation_free(ablation *a);

// ---- output -------------------------------------------------------------------------------------

typedef struct head_output {
    const text_arguments *arguments;
    size_t width; // columns
    bool colours;
    size_t far, texts, own; // texts: of all, and of these with own translations
} head_output;

void print_statistics(const head_output *o, mh_context *context, const mh_head_statistics *s);
void print_statistics_json(const head_output *o, mh_context *context, const mh_head_statistics *s);
void print_ablation(const head_output *o, const ablation *a);
void print_ablation_json(const ablation *a);

// A cell of a table: text on a background that is `part`, 0 to 1, of the way to the brightest, if
// there are colours.
void put_shaded(bool colours, double part, const char *text);

// Each file that is wanted; one of statistics and ablation may be NULL. Returns an exit code.
int save_pictures(const head_output *o, const mh_head_statistics *statistics, const ablation *a,
                  const output *files);

// ---- one head against many ----------------------------------------------------------------------

typedef struct head_compare {
    const char *heads; // "1,2,4,8", or NULL: not wanted
    uint64_t steps, seed;
    bool json;
} head_compare;

// Ends the program if the list is not one of numbers of heads.
void compare_check(struct argp_state *state, const head_compare *c);
int compare_heads(const common_options *common, const head_compare *c);

#endif
