// SPDX-License-Identifier: MIT
// The parts of `multihead look`: which heads link two words, and which are off.
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "arguments.h"

#include <multihead/pretrained.h>
#include <multihead/view.h>

// ---- links --------------------------------------------------------------------------------------

enum { LINKS_SHOWN = 5 };

// How much the tokens of two words, A and B, attend to each other in one head: the weights of one
// word's queries, summed over the other's keys, and averaged over the queries.
typedef struct head_link {
    size_t layer, head;
    double forward, backward; // A to B, B to A
} head_link;

typedef struct link_words {
    char *first, *second; // of "cat,ran"; NULL: --link is not given
} link_words;

// The words of --link A,B, in place of those before; to be freed with link_words_free. Anything
// else ends the program.
void link_words_parse(struct argp_state *state, link_words *words, const char *argument);
void link_words_free(link_words *words);

// The heads that link the words most, by the larger of both directions, in links[0 .. *count).
// Returns an exit code after reporting a word that is not in the text.
int links_find(const mh_trace *trace, const link_words *words, head_link *links, size_t *count);

// Sums over texts: of all heads, and of the texts that have both words.
typedef struct link_sums {
    head_link *heads; // (layers, heads), malloc()ed with the first text that has both
    size_t layers, heads_each;
    size_t texts;
} link_sums;

// Adds a trace; one without both words adds nothing. False if out of memory.
bool links_add(const mh_trace *trace, const link_words *words, link_sums *sums);

// The same as links_find of the means; there must be at least one text.
void links_rank(const link_sums *sums, head_link *links, size_t *count);

// A table, and a list in JSON.
void links_print(const link_words *words, const head_link *links, size_t count);
void links_print_json(const link_words *words, const head_link *links, size_t count);

// ---- heads that are off -------------------------------------------------------------------------

bool off_is_name(const char *name); // LAYER:HEAD, or LAYER for all heads of a layer

// Marks the head or heads of this name in a table (layers, heads); false if there are none.
bool off_mark(const char *name, const mh_model_info *info, bool *disabled);

// Rejects anything but LAYER:HEAD, or LAYER for all heads of a layer.
void off_add(struct argp_state *state, given_names *list, const char *name);

// The table (layers, heads) of mh_model_input, NULL if no head is off; free() it. Returns an exit
// code after reporting a head that the model does not have.
int off_find(const given_names *list, const mh_model_info *info, bool **disabled);

// ---- weights as JSON ----------------------------------------------------------------------------

// What the heatmaps show, the heads of one layer of one kind of attention, as an object on stdout.
int print_weights_json(const mh_trace *trace, const mh_view_options *shown);

#endif
