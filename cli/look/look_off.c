// SPDX-License-Identifier: MIT
// Heads that are off, by name: "0:3", layer and head from 0, or "0", all heads of a layer; as of a
// translator also "enc.0.3" or "dec.0.3", as there is one stack only. See look.h.
#include "look.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>

// Takes "3:7" apart; *all: it is "3".
static bool read_off(const char *name, size_t *layer, size_t *head, bool *all)
{
    enum { MOST_DIGITS = 6 };
    if (strncmp(name, "enc.", 4) == 0 || strncmp(name, "dec.", 4) == 0)
        name += 4;
    const size_t first = strspn(name, "0123456789");
    const char *rest = name + first;
    *layer = (size_t)strtoul(name, NULL, 10);
    *head = 0;
    *all = !*rest;
    if (first == 0 || first > MOST_DIGITS || *all)
        return first > 0 && first <= MOST_DIGITS;
    const size_t second = strspn(rest + 1, "0123456789");
    *head = (size_t)strtoul(rest + 1, NULL, 10);
    return (*rest == ':' || *rest == '.') && second > 0 && second <= MOST_DIGITS &&
           !rest[1 + second];
}

bool off_is_name(const char *name)
{
    size_t layer, head;
    bool all;
    return read_off(name, &layer, &head, &all);
}

bool off_mark(const char *name, const mh_model_info *info, bool *disabled)
{
    const size_t H = info->heads;
    size_t layer, head;
    bool all;
    if (!read_off(name, &layer, &head, &all) || layer >= info->layers || head >= H)
        return false;
    for (size_t h = all ? 0 : head; h < (all ? H : head + 1); h++)
        disabled[layer * H + h] = true;
    return true;
}

void off_add(struct argp_state *state, given_names *list, const char *name)
{
    if (!off_is_name(name))
        argp_error(state,
                   "--disable-head: found '%s', expected LAYER:HEAD, from 0, or LAYER for all "
                   "heads of a layer",
                   name);
    given_names_add(list, name);
}

int off_find(const given_names *list, const mh_model_info *info, bool **disabled)
{
    const size_t L = info->layers, H = info->heads;
    *disabled = NULL;
    if (list->count == 0)
        return EXIT_DONE;
    *disabled = calloc(L * H, sizeof **disabled);
    if (!*disabled) {
        complain("out of memory for heads");
        return EXIT_MEMORY;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (!off_mark(list->names[i], info, *disabled)) {
            complain("--disable-head: found '%s', but the model has %zu %s of %zu %s, from 0",
                     list->names[i], L, plural(L, "layer", "layers"), H,
                     plural(H, "head", "heads"));
            return EXIT_USAGE;
        }
    }
    return EXIT_DONE;
}
