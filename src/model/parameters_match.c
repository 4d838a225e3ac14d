// SPDX-License-Identifier: MIT
// Which tensor of a file goes to which parameter; see parameters_match.h.
#include "model/parameters_match.h"

#include "io/tensor_file.h"

#include <stdarg.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 512 };

typedef struct alias_set {
    const char *qkv[3]; // q, k and v; k and v NULL: one matrix, interleaved by head
    const char *out;
} alias_set;

static const alias_set alias_sets[] = {
    {{"W_q", "W_k", "W_v"}, "W_o"},
    {{"q_linear", "k_linear", "v_linear"}, "out_linear"},
    {{"q_proj", "k_proj", "v_proj"}, "o_proj"},
    {{"qkv_layer", NULL, NULL}, "linear_layer"},
};
enum { ALIAS_SETS = sizeof alias_sets / sizeof *alias_sets };

// A parameter whose name ends in `ours` may be called stem + `theirs` in a file.
typedef struct part {
    const char *ours, *theirs;
    int qkv;  // 0, 1, 2: q, k, v
    bool all; // all three of them
    bool out;
} part;

static const part parts[] = {
    {"in_proj_weight", ".weight", 0, true, false}, {"in_proj_bias", ".bias", 0, true, false},
    {"q_proj_weight", ".weight", 0, false, false}, {"k_proj_weight", ".weight", 1, false, false},
    {"v_proj_weight", ".weight", 2, false, false}, {"out_proj.weight", ".weight", 0, false, true},
    {"out_proj.bias", ".bias", 0, false, true},
};
enum { PARTS = sizeof parts / sizeof *parts };

// A tensor of the file and its name there.
typedef struct segment {
    char name[NAME_MAX_BYTES];
    size_t index;
    mh_tensor tensor;
} segment;

// ---- problems -----------------------------------------------------------------------------------

void mh_match_problem(mh_match *m, const char *format, ...)
{
    m->problems++;
    char *text = m->text + m->text_size;
    const size_t room = sizeof m->text - m->text_size;
    int size = snprintf(text, room, "%s", m->shown ? "; " : "");
    va_list list;
    va_start(list, format);
    size += vsnprintf(text + size, room > (size_t)size ? room - (size_t)size : 0, format, list);
    va_end(list);
    if ((size_t)size >= room) { // no truncated problems
        *text = 0;
        return;
    }
    m->text_size += (size_t)size;
    m->shown++;
}

static void add_wrong(mh_match *m, const segment *p, const char *expected)
{
    char found[128];
    mh_match_problem(m, "%s: found %s, expected %s", mh_quote_string(p->name).text,
                     mh_tensor_describe(&p->tensor, found, sizeof found), expected);
}

static bool right_type(mh_match *m, const segment *p)
{
    const mh_dtype dtype = p->tensor.dtype;
    if (dtype == MH_F32 || dtype == MH_BF16 || dtype == MH_F16)
        return true;
    add_wrong(m, p, "f32, bf16 or f16");
    return false;
}

// ---- lookup -------------------------------------------------------------------------------------

static bool parameters_match_find(mh_match *m, const char *base, size_t base_size, const char *stem,
                                  const char *ending, segment *p)
{
    const char *prefix = m->options->prefix ? m->options->prefix : "";
    snprintf(p->name, sizeof p->name, "%s%.*s%s%s", prefix, (int)base_size, base, stem, ending);
    if (!mh_tensor_file_index(m->file, p->name, &p->index))
        return false;
    m->used[p->index] = true;
    return mh_tensor_file_at(m->file, p->index, &p->tensor);
}

// Which part of an attention a parameter is, and the length of its name's stem; NULL if it is not
// of an attention.
static const part *part_of(const mh_parameter *parameter, size_t *base_size)
{
    const size_t size = strlen(parameter->name);
    for (size_t i = 0; i < PARTS; i++) {
        const size_t ours = strlen(parts[i].ours);
        if (size < ours || strcmp(parameter->name + size - ours, parts[i].ours))
            continue;
        *base_size = size - ours;
        if (*base_size == 0 || parameter->name[*base_size - 1] == '.')
            return &parts[i];
    }
    return NULL;
}

// ---- mapping ------------------------------------------------------------------------------------

static mh_tensor as_out_in(const mh_match *m, mh_tensor t)
{
    return t.rank == 2 && m->options->in_out ? mh_tensor_swap(t, 0, 1) : t;
}

// One tensor to one parameter.
static bool take_whole(mh_match *m, const segment *p, const mh_tensor *to, mh_transfer *t)
{
    const mh_tensor from = as_out_in(m, p->tensor);
    mh_tensor wanted = *to;
    if (to->rank == 2 && m->options->in_out)
        wanted = mh_tensor_swap(wanted, 0, 1);
    char expected[128];
    if (!right_type(m, p))
        return false;
    if (!mh_tensor_same_shape(&from, to)) {
        add_wrong(m, p, mh_tensor_describe(&wanted, expected, sizeof expected));
        return false;
    }
    *t = (mh_transfer){.from = {from}, .to = {*to}, .index = {p->index}, .count = 1};
    return true;
}

// Whether this many rows are whole heads of q, k and v, so that they can be reordered.
static bool known_heads(mh_match *m, const segment *p, size_t rows)
{
    const size_t heads = m->options->num_heads;
    if (heads != 0 && rows % heads == 0 && rows / heads % 3 == 0)
        return true;
    mh_match_problem(m,
                     "%s: its q, k and v are in another order than the module's; expected "
                     "options.num_heads, found %zu for %zu rows",
                     mh_quote_string(p->name).text, heads, rows);
    return false;
}

// (H3E, ...) as (3, H, E, ...), and (3HE, ...) as the same.
static mh_tensor split_interleaved(mh_tensor t, size_t heads)
{
    return mh_tensor_swap(mh_tensor_split(mh_tensor_split(t, 0, heads), 1, 3), 0, 1);
}

static mh_tensor split_stacked(mh_tensor t, size_t heads)
{
    return mh_tensor_split(mh_tensor_split(t, 0, 3), 1, heads);
}

static bool take_interleaved(mh_match *m, const segment *p, const mh_tensor *to, mh_transfer *t)
{
    if (!take_whole(m, p, to, t))
        return false;
    if (m->options->qkv == MH_QKV_INTERLEAVED)
        return true;
    if (!known_heads(m, p, to->shape[0]))
        return false;
    t->from[0] = split_interleaved(t->from[0], m->options->num_heads);
    t->to[0] = split_stacked(t->to[0], m->options->num_heads);
    return true;
}

// Separate q, k and v into stacked rows, or interleaved by head.
static bool take_separate(mh_match *m, const segment *segments, const mh_tensor *to, mh_transfer *t)
{
    size_t rows = 0;
    bool right = true;
    char expected[160], whole[128];
    for (int i = 0; i < 3; i++) {
        const mh_tensor *from = &t->from[i];
        t->from[i] = as_out_in(m, segments[i].tensor);
        t->index[i] = segments[i].index;
        bool fits = from->rank == to->rank && from->shape[0] <= to->shape[0] - rows &&
                    (from->rank < 2 || from->shape[1] == to->shape[1]);
        fits = fits && (i < 2 || rows + from->shape[0] == to->shape[0]);
        right = right_type(m, &segments[i]) && right;
        if (!fits) {
            snprintf(expected, sizeof expected, "q, k and v to make %s%s",
                     mh_tensor_describe(to, whole, sizeof whole),
                     m->options->in_out ? ", each (in, out)" : "");
            add_wrong(m, &segments[i], expected);
            return false;
        }
        t->to[i] = mh_tensor_slice(*to, 0, rows, from->shape[0]);
        rows += from->shape[0];
    }
    t->count = 3;
    if (!right || m->options->qkv == MH_QKV_STACKED)
        return right;
    if (!known_heads(m, &segments[0], to->shape[0]))
        return false;
    const size_t heads = m->options->num_heads;
    for (int i = 0; i < 3; i++) {
        if (t->from[i].shape[0] * 3 != to->shape[0]) {
            add_wrong(m, &segments[i], "a third of the rows of interleaved q, k and v");
            return false;
        }
        t->from[i] = mh_tensor_split(mh_tensor_split(t->from[i], 0, 1), 1, heads);
        t->to[i] = mh_tensor_slice(split_interleaved(*to, heads), 0, (size_t)i, 1);
    }
    return true;
}

// A parameter under one set of alternative names. *tried: at least one tensor was found.
static bool resolve_alias(mh_match *m, const alias_set *set, const part *kind,
                          const mh_parameter *parameter, size_t base_size, const mh_tensor *to,
                          bool *tried, mh_transfer *t)
{
    segment segments[3];
    const char *base = parameter->name;
    if (!kind->all) {
        const char *stem = kind->out ? set->out : set->qkv[1] ? set->qkv[kind->qkv] : NULL;
        *tried =
            stem && parameters_match_find(m, base, base_size, stem, kind->theirs, &segments[0]);
        return *tried && take_whole(m, &segments[0], to, t);
    }
    const int count = set->qkv[1] ? 3 : 1;
    bool there[3];
    *tried = false;
    for (int i = 0; i < count; i++) {
        there[i] =
            parameters_match_find(m, base, base_size, set->qkv[i], kind->theirs, &segments[i]);
        *tried |= there[i];
    }
    if (!*tried)
        return false;
    for (int i = 0; i < count; i++)
        if (!there[i]) {
            m->missing++;
            mh_match_problem(m, "missing %s", mh_quote_string(segments[i].name).text);
            return false;
        }
    return count == 1 ? take_interleaved(m, &segments[0], to, t)
                      : take_separate(m, segments, to, t);
}

bool mh_match_parameter(mh_match *m, const mh_parameter *parameter, mh_transfer *t)
{
    const mh_tensor to = mh_parameter_view(parameter, m->parameters->values);
    segment p;
    if (parameters_match_find(m, parameter->name, strlen(parameter->name), "", "", &p))
        return take_whole(m, &p, &to, t);
    size_t base_size = 0;
    const part *kind = part_of(parameter, &base_size);
    for (size_t i = 0; kind && i < ALIAS_SETS; i++) {
        bool tried;
        const bool done =
            resolve_alias(m, &alias_sets[i], kind, parameter, base_size, &to, &tried, t);
        if (done || tried)
            return done;
    }
    m->missing++;
    if (m->options->strict)
        mh_match_problem(m, "missing %s", mh_quote_string(p.name).text);
    return false;
}
