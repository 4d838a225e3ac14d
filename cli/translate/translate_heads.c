// SPDX-License-Identifier: MIT
// Heads by name, "enc.2.3": which attention, which layer, which head, from 0, or "enc.2", all heads
// of a layer. "2:3" alone is of cross-attention, which 'multihead look' shows first. See
// translate.h.
#include "messages.h"
#include "ranks.h"
#include "translate.h"

#include <stdlib.h>
#include <string.h>

enum { ENCODER, DECODER, CROSS, KINDS };
static const char *const kinds[KINDS] = {"enc", "dec", "cross"};

typedef struct head {
    size_t kind, layer;
    bool all; // of the layer
    size_t number;
} head;

static bool head_read_size(const char **text, size_t *value)
{
    enum { MOST_DIGITS = 6 };
    const size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS)
        return false;
    *value = (size_t)strtoul(*text, NULL, 10);
    *text += digits;
    return true;
}

// "2.3" or "2:3", or "2" for all heads of a layer.
static bool read_place(const char *at, head *h)
{
    if (!head_read_size(&at, &h->layer))
        return false;
    h->all = !*at;
    if (h->all)
        return true;
    return (*at == '.' || *at == ':') && (at++, head_read_size(&at, &h->number)) && !*at;
}

static bool read_head(const char *name, head *h)
{
    *h = (head){.kind = CROSS};
    if (*name >= '0' && *name <= '9')
        return read_place(name, h);
    for (h->kind = 0; h->kind < KINDS; h->kind++) {
        const size_t length = strlen(kinds[h->kind]);
        const char *at = name + length;
        if (strncmp(name, kinds[h->kind], length) != 0 || *at++ != '.')
            continue;
        return read_place(at, h);
    }
    return false;
}

void heads_add(struct argp_state *state, given_names *list, const char *name)
{
    head h;
    if (!read_head(name, &h))
        argp_error(state,
                   "--disable-head: found '%s', expected enc.LAYER.HEAD, dec.LAYER.HEAD or "
                   "cross.LAYER.HEAD, from 0, or without .HEAD for all heads of a layer",
                   name);
    given_names_add(list, name);
}

heads_found heads_disable(const char *name, const mh_translator_config *c, bool *disabled)
{
    const size_t E = c->num_encoder_layers, D = c->num_decoder_layers, H = c->nhead;
    const size_t first[KINDS] = {0, E, E + D}, layers[KINDS] = {E, D, D};
    head h;
    if (!read_head(name, &h))
        return (heads_found){.problem = HEADS_NO_NAME};
    if (h.layer >= layers[h.kind] || h.number >= H)
        return (heads_found){.problem = HEADS_NOT_THERE, .layers = layers[h.kind]};
    for (size_t n = h.all ? 0 : h.number; n < (h.all ? H : h.number + 1); n++)
        disabled[(first[h.kind] + h.layer) * H + n] = true;
    return (heads_found){.layers = layers[h.kind]};
}

size_t heads_count(const mh_translator_config *c)
{
    return (c->num_encoder_layers + 2 * c->num_decoder_layers) * c->nhead;
}

int heads_find(const given_names *list, const mh_translator_config *c, bool **disabled)
{
    const size_t H = c->nhead;
    *disabled = NULL;
    if (list->count == 0)
        return EXIT_DONE;
    *disabled = calloc(heads_count(c), sizeof **disabled);
    if (!*disabled) {
        complain("out of memory for heads");
        return EXIT_MEMORY;
    }
    for (size_t i = 0; i < list->count; i++) {
        const heads_found found = heads_disable(list->names[i], c, *disabled);
        if (found.problem) {
            complain("--disable-head: found '%s', but the model has %zu %s of %zu %s there",
                     list->names[i], found.layers, plural(found.layers, "layer", "layers"), H,
                     plural(H, "head", "heads"));
            return EXIT_USAGE;
        }
    }
    return EXIT_DONE;
}
