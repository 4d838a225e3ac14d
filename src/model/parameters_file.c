// SPDX-License-Identifier: MIT
// Parameters from and to safetensors files. Loading takes two passes over the list of parameters,
// both by resolve(), which says what goes where as pairs of views: the first pass finds everything
// that is wrong, the second copies, so that a refused file changes nothing. That q, k and v may be
// one matrix or three, stacked or interleaved, (out, in) or (in, out), is all a matter of views:
//
//     stacked      in_proj_weight (3HE, D) -> (3, H, E, D)
//     interleaved  qkv_layer      (H3E, D) -> (H, 3, E, D) -> swapped (3, H, E, D)
//     separate     W_q            (HE, D)  ->    (H, E, D), one of three
#include <multihead/io.h>
#include <multihead/model.h>

#include "base/source.h"
#include <stdarg.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 512, PREFIX_MAX_BYTES = 256, PROBLEM_BYTES = 600 };

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

typedef struct job {
    mh_source source; // for messages
    const mh_parameters *parameters;
    const mh_parameters_options *options;
    const mh_tensor_file *file;
    bool *used; // (tensors in the file)
    size_t found, missing, surplus, problems;
    char text[PROBLEM_BYTES]; // the problems, as many as there is room for
    size_t text_size;
    size_t shown;
} job;

// A tensor of the file and its name there.
typedef struct piece {
    char name[NAME_MAX_BYTES];
    mh_tensor tensor;
} piece;

// What is copied for one parameter.
typedef struct transfer {
    mh_tensor from[3], to[3];
    int count;
} transfer;

// ---- what is wrong ------------------------------------------------------------------------------

MH_PRINTF(2, 3) static void add_problem(job *j, const char *format, ...)
{
    j->problems++;
    char *text = j->text + j->text_size;
    const size_t room = sizeof j->text - j->text_size;
    int size = snprintf(text, room, "%s", j->shown ? "; " : "");
    va_list list;
    va_start(list, format);
    size += vsnprintf(text + size, room > (size_t)size ? room - (size_t)size : 0, format, list);
    va_end(list);
    if ((size_t)size >= room) { // no half problems
        *text = 0;
        return;
    }
    j->text_size += (size_t)size;
    j->shown++;
}

static void add_wrong(job *j, const piece *p, const char *expected)
{
    char found[128];
    add_problem(j, "%s: found %s, expected %s", mh_quote_string(p->name).text,
                mh_tensor_describe(&p->tensor, found, sizeof found), expected);
}

static bool right_type(job *j, const piece *p)
{
    const mh_dtype dtype = p->tensor.dtype;
    if (dtype == MH_F32 || dtype == MH_BF16 || dtype == MH_F16)
        return true;
    add_wrong(j, p, "f32, bf16 or f16");
    return false;
}

// ---- finding ------------------------------------------------------------------------------------

static bool find(job *j, const char *base, size_t base_size, const char *stem, const char *ending,
                 piece *p)
{
    const char *prefix = j->options->prefix ? j->options->prefix : "";
    snprintf(p->name, sizeof p->name, "%s%.*s%s%s", prefix, (int)base_size, base, stem, ending);
    if (!mh_tensor_file_find(j->file, p->name, &p->tensor))
        return false;
    for (size_t i = 0; i < mh_tensor_file_count(j->file); i++)
        j->used[i] |= !strcmp(mh_tensor_file_name(j->file, i), p->name);
    return true;
}

// The part that a parameter is, and how much of its name comes before; NULL if it is no
// attention's.
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

// ---- what goes where ----------------------------------------------------------------------------

static mh_tensor as_out_in(const job *j, mh_tensor t)
{
    return t.rank == 2 && j->options->in_out ? mh_tensor_swap(t, 0, 1) : t;
}

// One tensor to one parameter.
static bool take_whole(job *j, const piece *p, const mh_tensor *to, transfer *t)
{
    const mh_tensor from = as_out_in(j, p->tensor);
    mh_tensor wanted = *to;
    if (to->rank == 2 && j->options->in_out)
        wanted = mh_tensor_swap(wanted, 0, 1);
    char expected[128];
    if (!right_type(j, p))
        return false;
    if (!mh_tensor_same_shape(&from, to)) {
        add_wrong(j, p, mh_tensor_describe(&wanted, expected, sizeof expected));
        return false;
    }
    *t = (transfer){.from = {from}, .to = {*to}, .count = 1};
    return true;
}

// Whether so many rows are heads of q, k and v each, so that they can be put into another order.
static bool known_heads(job *j, const piece *p, size_t rows)
{
    const size_t heads = j->options->num_heads;
    if (heads != 0 && rows % heads == 0 && rows / heads % 3 == 0)
        return true;
    add_problem(j,
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

static bool take_interleaved(job *j, const piece *p, const mh_tensor *to, transfer *t)
{
    if (!take_whole(j, p, to, t))
        return false;
    if (j->options->qkv == MH_QKV_INTERLEAVED)
        return true;
    if (!known_heads(j, p, to->shape[0]))
        return false;
    t->from[0] = split_interleaved(t->from[0], j->options->num_heads);
    t->to[0] = split_stacked(t->to[0], j->options->num_heads);
    return true;
}

// The rows of q, k and v one below the other, or by heads into interleaved ones.
static bool take_separate(job *j, const piece *pieces, const mh_tensor *to, transfer *t)
{
    size_t rows = 0;
    bool right = true;
    char expected[160], whole[128];
    for (int i = 0; i < 3; i++) {
        const mh_tensor *from = &t->from[i];
        t->from[i] = as_out_in(j, pieces[i].tensor);
        bool fits = from->rank == to->rank && from->shape[0] <= to->shape[0] - rows &&
                    (from->rank < 2 || from->shape[1] == to->shape[1]);
        fits = fits && (i < 2 || rows + from->shape[0] == to->shape[0]);
        right = right_type(j, &pieces[i]) && right;
        if (!fits) {
            snprintf(expected, sizeof expected, "q, k and v to make %s%s",
                     mh_tensor_describe(to, whole, sizeof whole),
                     j->options->in_out ? ", each (in, out)" : "");
            add_wrong(j, &pieces[i], expected);
            return false;
        }
        t->to[i] = mh_tensor_slice(*to, 0, rows, from->shape[0]);
        rows += from->shape[0];
    }
    t->count = 3;
    if (!right || j->options->qkv == MH_QKV_STACKED)
        return right;
    if (!known_heads(j, &pieces[0], to->shape[0]))
        return false;
    const size_t heads = j->options->num_heads;
    for (int i = 0; i < 3; i++) {
        if (t->from[i].shape[0] * 3 != to->shape[0]) {
            add_wrong(j, &pieces[i], "a third of the rows of interleaved q, k and v");
            return false;
        }
        t->from[i] = mh_tensor_split(mh_tensor_split(t->from[i], 0, 1), 1, heads);
        t->to[i] = mh_tensor_slice(split_interleaved(*to, heads), 0, (size_t)i, 1);
    }
    return true;
}

// A parameter under one set of other names. *tried: something was there.
static bool resolve_alias(job *j, const alias_set *set, const part *kind,
                          const mh_parameter *parameter, size_t base_size, const mh_tensor *to,
                          bool *tried, transfer *t)
{
    piece pieces[3];
    const char *base = parameter->name;
    if (!kind->all) {
        const char *stem = kind->out ? set->out : set->qkv[1] ? set->qkv[kind->qkv] : NULL;
        *tried = stem && find(j, base, base_size, stem, kind->theirs, &pieces[0]);
        return *tried && take_whole(j, &pieces[0], to, t);
    }
    const int count = set->qkv[1] ? 3 : 1;
    bool there[3];
    *tried = false;
    for (int i = 0; i < count; i++) {
        there[i] = find(j, base, base_size, set->qkv[i], kind->theirs, &pieces[i]);
        *tried |= there[i];
    }
    if (!*tried)
        return false;
    for (int i = 0; i < count; i++)
        if (!there[i]) {
            j->missing++;
            add_problem(j, "missing %s", mh_quote_string(pieces[i].name).text);
            return false;
        }
    return count == 1 ? take_interleaved(j, &pieces[0], to, t) : take_separate(j, pieces, to, t);
}

// What to copy for a parameter; false if it is not there, or wrong, which has been noted then.
static bool resolve(job *j, const mh_parameter *parameter, transfer *t)
{
    const mh_tensor to = mh_parameter_view(parameter, j->parameters->values);
    piece p;
    if (find(j, parameter->name, strlen(parameter->name), "", "", &p))
        return take_whole(j, &p, &to, t);
    size_t base_size = 0;
    const part *kind = part_of(parameter, &base_size);
    for (size_t i = 0; kind && i < ALIAS_SETS; i++) {
        bool tried;
        const bool done =
            resolve_alias(j, &alias_sets[i], kind, parameter, base_size, &to, &tried, t);
        if (done || tried)
            return done;
    }
    j->missing++;
    if (j->options->strict)
        add_problem(j, "missing %s", mh_quote_string(p.name).text);
    return false;
}

// ---- loading ------------------------------------------------------------------------------------

static void note_surplus(job *j)
{
    const char *prefix = j->options->prefix ? j->options->prefix : "";
    for (size_t i = 0; i < mh_tensor_file_count(j->file); i++) {
        const char *name = mh_tensor_file_name(j->file, i);
        if (j->used[i] || strncmp(name, prefix, strlen(prefix)))
            continue;
        j->surplus++;
        if (j->options->strict)
            add_problem(j, "surplus %s", mh_quote_string(name).text);
    }
}

static mh_status check_file(job *j)
{
    transfer t;
    for (size_t i = 0; i < j->parameters->count; i++)
        j->found += resolve(j, &j->parameters->list[i], &t);
    note_surplus(j);
    const size_t all = j->parameters->count;
    if (j->problems > j->shown)
        return mh_source_fail(&j->source, MH_ERROR_FORMAT, "%s; and %zu more", j->text,
                              j->problems - j->shown);
    if (j->problems)
        return mh_source_fail(&j->source, MH_ERROR_FORMAT, "%s", j->text);
    if (all && !j->found)
        return mh_source_fail(&j->source, MH_ERROR_FORMAT,
                              "none of the %zu parameters is there, such as %s", all,
                              mh_quote_string(j->parameters->list[0].name).text);
    if (j->missing || j->surplus)
        mh_log(j->source.context, MH_LOG_WARNING,
               "%s: %zu of %zu parameters are not there and stay as they are; %zu other tensors "
               "are not read",
               j->source.name, j->missing, all, j->surplus);
    return MH_OK;
}

static mh_status copy_all(job *j)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < j->parameters->count; i++) {
        transfer t;
        if (!resolve(j, &j->parameters->list[i], &t))
            continue;
        for (int k = 0; k < t.count && !status; k++)
            status = mh_tensor_copy(j->source.context, &t.from[k], &t.to[k]);
    }
    return status;
}

static mh_status check_arguments(mh_context *context, const mh_parameters *parameters,
                                 const char *path, const mh_parameters_options *options)
{
    if (!parameters || !path)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s is NULL", path ? "parameters" : "path");
    if (!options)
        return MH_OK;
    if (options->struct_size != sizeof *options)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "options.struct_size: found %zu, expected %zu as "
                       "mh_parameters_options_default() says",
                       options->struct_size, sizeof *options);
    if (options->prefix && strlen(options->prefix) > PREFIX_MAX_BYTES)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "options.prefix: found %zu bytes, expected at most %d",
                       strlen(options->prefix), PREFIX_MAX_BYTES);
    if (options->qkv != MH_QKV_STACKED && options->qkv != MH_QKV_INTERLEAVED)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "options.qkv: found %d, expected an mh_qkv_order", (int)options->qkv);
    return MH_OK;
}

mh_status mh_parameters_load(mh_context *context, const mh_parameters *parameters, const char *path,
                             const mh_parameters_options *options)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    const mh_parameters_options usual = mh_parameters_options_default();
    mh_tensor_file *file = NULL;
    mh_status status = check_arguments(context, parameters, path, options);
    if (!status)
        status = mh_tensor_file_open(context, path, &file);
    if (status)
        return status;
    const size_t tensors = mh_tensor_file_count(file), used_bytes = (tensors + 1) * sizeof(bool);
    job j = {.source = {.context = context, .name = path},
             .parameters = parameters,
             .options = options ? options : &usual,
             .file = file};
    j.used = mh_alloc(context, used_bytes);
    if (!j.used)
        status = MH_ERROR_MEMORY;
    else
        memset(j.used, 0, used_bytes);
    if (!status)
        status = check_file(&j);
    if (!status)
        status = copy_all(&j);
    mh_free(context, j.used, used_bytes);
    mh_tensor_file_free(file);
    return status;
}

// ---- saving -------------------------------------------------------------------------------------

mh_status mh_parameters_save(mh_context *context, const mh_parameters *parameters, const char *path)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    mh_status status = check_arguments(context, parameters, path, NULL);
    if (status)
        return status;
    const size_t bytes = (parameters->count + 1) * sizeof(mh_named_tensor);
    mh_named_tensor *tensors = mh_alloc(context, bytes);
    if (!tensors)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < parameters->count; i++)
        tensors[i] = (mh_named_tensor){parameters->list[i].name,
                                       mh_parameter_view(&parameters->list[i], parameters->values)};
    const mh_metadata metadata = {"format", "pt"}; // by which others know (out, in) matrices
    status = mh_safetensors_write(context, path, tensors, parameters->count, &metadata, 1);
    mh_free(context, tensors, bytes);
    return status;
}
