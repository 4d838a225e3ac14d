// SPDX-License-Identifier: MIT
// Names of options; see option_names.h.
//
// getopt, which argp uses, would reject them too, but suggests no similar names. The
// rules here are getopt's: a long name may be abbreviated, short options may share a word, and the
// value of an option is the rest of its word or the next word.
#include "option_names.h"
#include "arguments.h"
#include "messages.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_NAMES = 160 };

// All long names of a command. Several belong to one option if some of them are aliases.
typedef struct name_list {
    const char *names[MOST_NAMES + 1];
    const struct argp_option *options[MOST_NAMES];
    size_t count;
} name_list;

static void collect(const struct argp *argp, bool hidden, name_list *list)
{
    const struct argp_option *option = argp->options;
    for (const struct argp_option *o = argp->options; o->name || o->doc || o->key; o++) {
        if (!(o->flags & OPTION_ALIAS))
            option = o;
        if (!o->name || list->count == MOST_NAMES || (!hidden && o->flags & OPTION_HIDDEN))
            continue;
        list->names[list->count] = o->name;
        list->options[list->count++] = option;
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        collect(c->argp, hidden, list);
}

static void refuse_unknown(const struct argp *argp, const char *name)
{
    name_list shown = {.count = 0};
    collect(argp, false, &shown);
    const char *nearest = nearest_name(name, shown.names);
    if (nearest)
        refuse_usage("unknown option '--%s', did you mean '--%s'?", name, nearest);
    refuse_usage("unknown option '--%s'", name);
}

static void refuse_ambiguous(const name_list *list, const char *name)
{
    char known[256] = "";
    const struct argp_option *last = NULL; // aliases follow their option
    for (size_t i = 0; i < list->count; i++) {
        const struct argp_option *option = list->options[i];
        const size_t used = strlen(known);
        if (option != last && strncmp(list->names[i], name, strlen(name)) == 0) {
            snprintf(known + used, sizeof known - used, " --%s", option->name);
            last = option;
        }
    }
    refuse_usage("option '--%s' is ambiguous, expected one of:%s", name, known);
}

// The option that `name` stands for, in full or as the beginning of its name.
static const struct argp_option *find_long(const struct argp *argp, const char *name)
{
    name_list all = {.count = 0};
    const struct argp_option *found = NULL;
    bool ambiguous = false;
    collect(argp, true, &all);
    for (size_t i = 0; i < all.count; i++) {
        if (strcmp(all.names[i], name) == 0)
            return all.options[i];
        if (strncmp(all.names[i], name, strlen(name)) != 0)
            continue;
        ambiguous |= found && found != all.options[i];
        found = all.options[i];
    }
    if (ambiguous)
        refuse_ambiguous(&all, name);
    if (!found)
        refuse_unknown(argp, name);
    return found;
}

static const struct argp_option *find_short(const struct argp *argp, char letter)
{
    const struct argp_option *found = NULL;
    for (const struct argp_option *o = argp->options; o->name || o->doc || o->key; o++)
        if (o->key == letter)
            return o;
    for (const struct argp_child *c = argp->children; c && c->argp && !found; c++)
        found = find_short(c->argp, letter);
    return found;
}

static bool needs_value(const struct argp_option *option)
{
    return option->arg && !(option->flags & OPTION_ARG_OPTIONAL);
}

// Returns whether the next word is the option's value.
static bool check_long(const struct argp *argp, char *word, bool last)
{
    char *name = word + 2, *equals = strchr(name, '=');
    if (equals)
        *equals = 0;
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    const struct argp_option *option = find_long(argp, name);
    if (equals && !option->arg)
        refuse_usage("--%s takes no value, found '%s'", option->name, equals + 1);
    if (!equals && last && needs_value(option))
        refuse_usage("--%s needs a value: --%s %s", option->name, option->name, option->arg);
    if (equals)
        *equals = '=';
    return !equals && needs_value(option);
}

// -heads: to getopt that is -h -e -a -d -s.
static void refuse_single_hyphen(const struct argp *argp, const char *word)
{
    name_list shown = {.count = 0};
    collect(argp, false, &shown);
    const size_t length = strcspn(word + 1, "=");
    for (size_t i = 0; i < shown.count && length > 1; i++)
        if (strlen(shown.names[i]) == length && strncmp(word + 1, shown.names[i], length) == 0 &&
            strcmp(shown.names[i], "help") != 0)
            refuse_usage("unknown option '%s', did you mean '--%s'?", word, shown.names[i]);
}

static bool check_short(const struct argp *argp, const char *word, bool last)
{
    refuse_single_hyphen(argp, word);
    for (const char *letter = word + 1; *letter; letter++) {
        const struct argp_option *option = *letter > ' ' ? find_short(argp, *letter) : NULL;
        if (!option)
            refuse_usage("unknown option '-%c'", *letter);
        if (option->arg && letter[1])
            return false; // the rest is its value
        if (needs_value(option) && last)
            refuse_usage("-%c needs a value: -%c %s", *letter, *letter, option->arg);
        if (needs_value(option))
            return true;
    }
    return false;
}

void check_option_names(const struct argp *argp, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const bool last = i + 1 == argc;
        if (strncmp(argv[i], "--", 2) == 0)
            i += check_long(argp, argv[i], last);
        else if (argv[i][0] == '-' && argv[i][1])
            i += check_short(argp, argv[i], last);
    }
}
