// SPDX-License-Identifier: MIT
// The opcodes by which a pickle imports and calls: GLOBAL, STACK_GLOBAL, REDUCE, BUILD, BINPERSID.
// Here they import and call nothing. A global is an entry of the table in pickle_globals.c, and
// REDUCE makes the value that the call would have given, out of its arguments alone.
#include "base/compiler.h"
#include "io/pickle.h"

#include <string.h>

#include "io/pickle_globals.h"

#define ADVICE                                                                                     \
    "load the file in Python with torch.load(FILE, weights_only=True) and save its tensors with "  \
    "safetensors.torch.save_file"

// ---- globals ------------------------------------------------------------------------------------

static mh_status push_global(mh_pickle *p, const char *module, size_t module_size, const char *name,
                             size_t name_size)
{
    const int index = mh_pickle_find_global(module, module_size, name, name_size);
    if (index >= 0)
        return mh_pickle_push(p,
                              (mh_pickle_value){.kind = MH_PICKLE_GLOBAL, .as = {.number = index}});
    char full[2 * MH_PICKLE_GLOBAL_NAME_MAX + 2];
    memcpy(full, module, module_size);
    full[module_size] = '.';
    memcpy(full + module_size + 1, name, name_size);
    return mh_pickle_fail(p,
                          "the global %s is rejected: only those of tensors and plain containers "
                          "are read, and nothing is executed; " ADVICE,
                          mh_quote(full, module_size + 1 + name_size).text);
}

// A line of a limited length, without its newline.
static mh_status pickle_calls_take_line(mh_pickle *p, const char **line, size_t *size)
{
    const size_t left = p->end - p->at;
    const size_t most = MH_PICKLE_GLOBAL_NAME_MAX + 1;
    const unsigned char *start = p->bytes + p->at;
    const unsigned char *newline = left > 0 ? memchr(start, '\n', left < most ? left : most) : NULL;
    if (!newline)
        return mh_pickle_fail(p, "expected a name of at most %d bytes and a newline",
                              MH_PICKLE_GLOBAL_NAME_MAX);
    *line = (const char *)start;
    *size = (size_t)(newline - start);
    p->at += *size + 1;
    return MH_OK;
}

mh_status mh_pickle_global(mh_pickle *p)
{
    const char *module = NULL, *name = NULL;
    size_t module_size = 0, name_size = 0;
    MH_TRY(pickle_calls_take_line(p, &module, &module_size));
    MH_TRY(pickle_calls_take_line(p, &name, &name_size));
    return push_global(p, module, module_size, name, name_size);
}

mh_status mh_pickle_stack_global(mh_pickle *p)
{
    mh_pickle_value module, name;
    MH_TRY(mh_pickle_pop(p, &name));
    MH_TRY(mh_pickle_pop(p, &module));
    if (module.kind != MH_PICKLE_TEXT || name.kind != MH_PICKLE_TEXT)
        return mh_pickle_fail(p, "found %s and %s, expected two names",
                              mh_pickle_kind_name(module.kind), mh_pickle_kind_name(name.kind));
    if (module.size > MH_PICKLE_GLOBAL_NAME_MAX || name.size > MH_PICKLE_GLOBAL_NAME_MAX)
        return mh_pickle_fail(p, "names of %u and %u bytes, expected at most %d", module.size,
                              name.size, MH_PICKLE_GLOBAL_NAME_MAX);
    return push_global(p, (const char *)module.as.bytes, module.size, (const char *)name.as.bytes,
                       name.size);
}

// ---- storages -----------------------------------------------------------------------------------

static bool is_storage_class(const mh_pickle_value *value)
{
    if (value->kind != MH_PICKLE_GLOBAL)
        return false;
    const mh_global_kind kind = mh_pickle_globals[value->as.number].kind;
    return kind == MH_GLOBAL_STORAGE || kind == MH_GLOBAL_UNTYPED_STORAGE;
}

// ("storage", class, key, device, number of elements[, None])
mh_status mh_pickle_persistent(mh_pickle *p)
{
    enum { LEAST = 5, MOST = 6 };
    mh_pickle_value id, items[MOST];
    MH_TRY(mh_pickle_pop(p, &id));
    const size_t count = id.kind == MH_PICKLE_TUPLE ? mh_pickle_items(p, &id, MOST, items) : 0;
    if (count < LEAST || count > MOST || !mh_pickle_is_text(&items[0], "storage") ||
        !is_storage_class(&items[1]) || items[2].kind != MH_PICKLE_TEXT ||
        items[3].kind != MH_PICKLE_TEXT || items[4].kind != MH_PICKLE_INT)
        return mh_pickle_fail(p, "found a persistent id that is not (\"storage\", class, key, "
                                 "device, number of elements)");
    if (count == MOST && items[5].kind != MH_PICKLE_NONE)
        return mh_pickle_fail(p, "found a storage that is a part of another one, as PyTorch before "
                                 "0.4 wrote it; " ADVICE);
    id.kind = MH_PICKLE_STORAGE;
    return mh_pickle_push(p, id);
}

// ---- calls --------------------------------------------------------------------------------------

static mh_status wrong_arguments(const mh_pickle *p, const mh_pickle_global_entry *g)
{
    return mh_pickle_fail(p, "found other arguments of %s.%s than torch.save writes", g->module,
                          g->name);
}

// OrderedDict() or, from Python 2, OrderedDict([[key, value], ...]).
static mh_status make_dictionary(mh_pickle *p, const mh_pickle_global_entry *g,
                                 const mh_pickle_value *arguments)
{
    mh_pickle_value pairs;
    const size_t count = mh_pickle_items(p, arguments, 1, &pairs);
    if (count == 0)
        return mh_pickle_collect(p, MH_PICKLE_DICT, p->stack_count);
    if (count != 1 || pairs.kind != MH_PICKLE_LIST)
        return wrong_arguments(p, g);
    pairs.kind = MH_PICKLE_PAIRS;
    return mh_pickle_push(p, pairs);
}

// A call that gives its first argument, which is of that kind.
static mh_status make_first(mh_pickle *p, const mh_pickle_global_entry *g,
                            const mh_pickle_value *arguments, mh_pickle_kind kind)
{
    mh_pickle_value first;
    if (mh_pickle_items(p, arguments, 1, &first) == 0 || first.kind != kind)
        return wrong_arguments(p, g);
    return mh_pickle_push(p, first);
}

// The arguments are checked once the tensor's name is known (torch_tensor.c).
static mh_status make_tensor(mh_pickle *p, const mh_pickle_value *function,
                             const mh_pickle_value *arguments)
{
    MH_TRY(mh_pickle_push(p, *function));
    MH_TRY(mh_pickle_push(p, *arguments));
    return mh_pickle_collect(p, MH_PICKLE_TENSOR, p->stack_count - 2);
}

mh_status mh_pickle_reduce(mh_pickle *p)
{
    mh_pickle_value arguments, function;
    MH_TRY(mh_pickle_pop(p, &arguments));
    MH_TRY(mh_pickle_pop(p, &function));
    if (function.kind != MH_PICKLE_GLOBAL || arguments.kind != MH_PICKLE_TUPLE)
        return mh_pickle_fail(p, "found a call of %s with %s, expected a global and a tuple",
                              mh_pickle_kind_name(function.kind),
                              mh_pickle_kind_name(arguments.kind));
    const mh_pickle_global_entry *g = &mh_pickle_globals[function.as.number];
    switch (g->kind) {
    case MH_GLOBAL_ORDERED_DICT:
        return make_dictionary(p, g, &arguments);
    case MH_GLOBAL_SIZE:
        return make_first(p, g, &arguments, MH_PICKLE_TUPLE);
    case MH_GLOBAL_REBUILD_PARAMETER:
        return make_first(p, g, &arguments, MH_PICKLE_TENSOR);
    case MH_GLOBAL_REBUILD_TENSOR:
    case MH_GLOBAL_REBUILD_TENSOR_V2:
    case MH_GLOBAL_REBUILD_TENSOR_V3:
        return make_tensor(p, &function, &arguments);
    default:
        return mh_pickle_fail(p, "found a call of %s.%s, which is rejected", g->module, g->name);
    }
}

// The attribute _metadata of a state dict, which is not used.
mh_status mh_pickle_build(mh_pickle *p)
{
    mh_pickle_value state, first;
    MH_TRY(mh_pickle_pop(p, &state));
    const mh_pickle_value *to = p->stack_count > 0 ? &p->stack[p->stack_count - 1] : NULL;
    if (!to || (to->kind != MH_PICKLE_DICT && to->kind != MH_PICKLE_PAIRS))
        return mh_pickle_fail(p, "found a state for %s, expected one for a dictionary",
                              to ? mh_pickle_kind_name(to->kind) : "nothing");
    if (state.kind != MH_PICKLE_DICT || mh_pickle_items(p, &state, 1, &first) != 2 ||
        !mh_pickle_is_text(&first, "_metadata"))
        return mh_pickle_fail(p, "found a state of a dictionary that is not {\"_metadata\": ...}");
    return MH_OK;
}
