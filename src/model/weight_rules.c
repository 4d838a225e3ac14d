// SPDX-License-Identifier: MIT
// Weights by a family's rules: from the name of a parameter to the tensors of a file that make it
// up.
//
//     layers.3.self_attn.in_proj_weight
//       stem "layers.3.self_attn.in_proj", suffix ".weight"
//       rules whose target is "layers.%.self_attn.in_proj": parts Q, K, V
//       prefix + "encoder.layer.3.attention.self.query" + ".weight", ...
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/half.h"
#include "io/tensor_file.h"
#include "model/model_internal.h"
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 512 };

// ---- names --------------------------------------------------------------------------------------

// Whether `name` is `pattern`, in which % stands for a number and a final * for anything.
static bool weight_rules_matches(const char *pattern, size_t size, const char *name, size_t *number)
{
    const char *end = pattern + size;
    for (; pattern < end; pattern++) {
        if (*pattern == '*' && pattern + 1 == end)
            return true;
        if (*pattern != '%') {
            if (*name++ != *pattern)
                return false;
            continue;
        }
        if (*name < '0' || *name > '9')
            return false;
        size_t value = 0;
        for (; *name >= '0' && *name <= '9'; name++)
            value = value < 1000000 ? value * 10 + (size_t)(*name - '0') : value;
        if (number)
            *number = value;
    }
    return *name == '\0';
}

// "layers.3.norm1.weight" is stem "layers.3.norm1" and suffix ".weight".
static const char *split_name(const char *name, char stem[NAME_MAX_BYTES])
{
    static const char *const suffixes[] = {"weight", "bias"};
    const size_t size = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(suffixes[i]) + 1;
        if (size < length || size - length >= NAME_MAX_BYTES ||
            strcmp(name + size - length + 1, suffixes[i]) != 0)
            continue;
        memcpy(stem, name, size - length);
        stem[size - length] = '\0';
        return i == 0 ? ".weight" : ".bias";
    }
    snprintf(stem, NAME_MAX_BYTES, "%s", name);
    return "";
}

// The alternative of a rule's source that begins at `at`, with the layer's number put in.
static void make_name(const char *root, const char *prefix, const char *at, size_t size,
                      size_t layer, const char *suffix, char name[NAME_MAX_BYTES])
{
    const bool absolute = *at == '/';
    size_t used = (size_t)snprintf(name, NAME_MAX_BYTES, "%s%s", root, absolute ? "" : prefix);
    at += absolute, size -= absolute;
    for (size_t i = 0; i < size && used < NAME_MAX_BYTES - 32; i++)
        if (at[i] == '%')
            used += (size_t)snprintf(name + used, NAME_MAX_BYTES - used, "%zu", layer);
        else
            name[used++] = at[i];
    snprintf(name + used, NAME_MAX_BYTES - used, "%s", suffix);
}

static const char *old_suffix(const char *suffix)
{
    return strcmp(suffix, ".weight") == 0 ? ".gamma" : ".beta";
}

// Finds the tensor of a rule; `name` is then its name, or the first one that was tried.
static bool weight_rules_find(const mh_weight_source *source, const char *prefix,
                              const mh_tensor_rule *rule, size_t layer, const char *suffix,
                              char name[NAME_MAX_BYTES], size_t *index)
{
    char first[NAME_MAX_BYTES] = "";
    for (const char *at = rule->source; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        const size_t size = strcspn(at, "|");
        make_name(source->root, prefix, at, size, layer, suffix, name);
        if (!*first)
            memcpy(first, name, NAME_MAX_BYTES);
        if (mh_tensor_file_index(source->file, name, index))
            return true;
        make_name(source->root, prefix, at, size, layer, old_suffix(suffix), name);
        if (mh_tensor_file_index(source->file, name, index))
            return true;
    }
    memcpy(name, first, NAME_MAX_BYTES);
    return false;
}

// ---- parts --------------------------------------------------------------------------------------

// The rows of a parameter of `rows` rows that a part is.
static void part_rows(const mh_block_config *b, mh_part part, size_t rows, size_t *first,
                      size_t *count)
{
    const size_t H = b->num_heads, G = b->kv_heads ? b->kv_heads : H;
    const size_t E = b->head_dim ? b->head_dim : b->d_model / H;
    const size_t Ev = b->value_dim ? b->value_dim : E;
    const size_t firsts[] = {0, 0, H * E, (H + G) * E, 0, rows / 2, 0};
    const size_t counts[] = {rows, H * E, G * E, G * Ev, rows / 2, rows - rows / 2, rows};
    *first = firsts[part];
    *count = counts[part];
}

static mh_status wrong_shape(const mh_weight_source *source, const char *name, bool transposed,
                             const mh_tensor *found, const mh_tensor *expected)
{
    char a[128], b[128];
    const mh_tensor oriented = transposed ? mh_tensor_swap(*found, 0, 1) : *found;
    return mh_fail(source->context, MH_ERROR_FORMAT, "%s: tensor \"%s\": found %s, expected %s",
                   source->path, name, mh_tensor_describe(&oriented, a, sizeof a),
                   mh_tensor_describe(expected, b, sizeof b) + strlen("f32 "));
}

static bool weight_rules_is_float(mh_dtype dtype)
{
    return dtype == MH_F32 || dtype == MH_F64 || dtype == MH_BF16 || dtype == MH_F16;
}

// Rows as (H, 3, E) to rows as (3, H, E).
static mh_status copy_by_head(const mh_weight_source *source, const mh_tensor *from, mh_tensor *to)
{
    const size_t H = source->block->num_heads, E = from->shape[0] / (3 * H);
    const size_t D = from->rank == 2 ? from->shape[1] : 1;
    const ptrdiff_t row = from->stride[0], column = from->rank == 2 ? from->stride[1] : 1;
    mh_tensor x = mh_tensor_4d(from->data, from->dtype, H, 3, E, D);
    mh_tensor y = mh_tensor_4d(to->data, to->dtype, 3, H, E, D);
    const ptrdiff_t strides[] = {(ptrdiff_t)(3 * E) * row, (ptrdiff_t)E * row, row, column};
    memcpy(x.stride, strides, sizeof strides);
    x = mh_tensor_swap(x, 0, 1);
    return mh_tensor_copy(source->context, &x, &y);
}

// Row `i` of q or k is this row of a file in which the pairs of a head of width E are interleaved:
// x_0, x_{E/2}, x_1, ...
static size_t permuted_row(size_t i, size_t E)
{
    return i / E * E + i % E % (E / 2) * 2 + i % E / (E / 2);
}

// Such rows of a matrix, or values of a bias, to the order of their heads.
static mh_status read_permuted(const mh_weight_source *source, size_t index, mh_tensor *to)
{
    const mh_block_config *b = source->block;
    const size_t rows = to->shape[0], E = b->head_dim ? b->head_dim : b->d_model / b->num_heads;
    const size_t bytes = rows * sizeof(int32_t);
    if (E % 2 || rows % E || rows > INT32_MAX)
        return mh_fail(source->context, MH_ERROR_FORMAT,
                       "%s: heads of width %zu for %zu rows, expected an even width", source->path,
                       E, rows);
    union {
        void *memory;
        int32_t *order;
        float *values;
    } u = {mh_alloc(source->context, bytes)};
    if (!u.memory)
        return MH_ERROR_MEMORY;
    mh_status status;
    if (to->rank == 1) {
        mh_tensor bias = mh_tensor_1d(u.values, MH_F32, rows);
        status = mh_tensor_file_read(source->context, source->file, index, &bias);
        for (size_t i = 0; i < rows && !status; i++)
            ((float *)to->data)[i] = u.values[permuted_row(i, E)];
    } else {
        for (size_t i = 0; i < rows; i++)
            u.order[i] = (int32_t)permuted_row(i, E);
        status = mh_tensor_file_read_rows(source->context, source->file, index, u.order, rows, to);
    }
    mh_free(source->context, u.memory, bytes);
    return status;
}

// Tensors of more than two dimensions as matrices: (1, N, D) is (N, D), and a convolution's
// (D, C, P, P) is (D, C P P).
static mh_tensor as_matrix(mh_tensor t)
{
    if (t.rank <= 2 || !mh_tensor_is_contiguous(&t) || mh_tensor_count(&t) == 0)
        return t;
    const size_t count = mh_tensor_count(&t);
    int first = 0;
    while (first < t.rank - 2 && t.shape[first] == 1)
        first++;
    return mh_tensor_2d(t.data, t.dtype, t.shape[first], count / t.shape[first]);
}

// Whether `from`, which has other dimensions, holds the same numbers in the same order as `to`:
// leading dimensions of 1, or one row for each of the first dimension.
static bool is_flattened(const mh_tensor *from, const mh_tensor *to)
{
    const mh_tensor matrix = as_matrix(*from);
    if (!mh_tensor_is_contiguous(to) || mh_tensor_count(from) != mh_tensor_count(to))
        return false;
    if (to->rank == 1)
        return matrix.rank == 2 && matrix.shape[0] == 1;
    return mh_tensor_same_shape(&matrix, to);
}

// One part, as the parameter has it: checked against `to`.
static mh_status load_part(const mh_weight_source *source, const mh_tensor_rule *rule,
                           const char *name, size_t index, mh_tensor *to)
{
    mh_tensor from, oriented = *to; // `to` as the file has it
    mh_tensor_file_describe(source->file, index, &from);
    if (rule->transposed && from.rank == 2)
        oriented = mh_tensor_swap(*to, 0, 1);
    if (from.rank > to->rank && is_flattened(&from, to)) // final_logits_bias is (1, V)
        oriented = mh_tensor_view(to->data, to->dtype, from.rank, from.shape);
    if (!weight_rules_is_float(from.dtype) || from.rank != oriented.rank ||
        !mh_tensor_same_shape(&from, &oriented))
        return wrong_shape(source, name, rule->transposed && from.rank == 2, &from, to);
    if (rule->part == MH_PART_QKV_BY_HEAD && mh_tensor_file_at(source->file, index, &from))
        return copy_by_head(source, &from, to);
    if (source->permuted && (rule->part == MH_PART_Q || rule->part == MH_PART_K))
        return read_permuted(source, index, to);
    return mh_tensor_file_read(source->context, source->file, index, &oriented);
}

// ---- parameters ---------------------------------------------------------------------------------

// A parameter's name as rules have it.
typedef struct rule_name {
    char whole[NAME_MAX_BYTES], stem[NAME_MAX_BYTES];
    const char *suffix;
    size_t layer;
} rule_name;

static rule_name name_for_rules(const char *name)
{
    rule_name n = {.layer = 0};
    snprintf(n.whole, sizeof n.whole, "%s", name);
    n.suffix = split_name(name, n.stem);
    return n;
}

// The next rule from `rule` on for this parameter, or NULL; `suffix` is what its source lacks.
static const mh_tensor_rule *next_rule(const mh_tensor_rule *rule, rule_name *n,
                                       const char **suffix)
{
    for (; rule->source; rule++) {
        const size_t size = strlen(rule->target);
        const bool stem = weight_rules_matches(rule->target, size, n->stem, &n->layer);
        *suffix = stem ? n->suffix : "";
        if (stem || weight_rules_matches(rule->target, size, n->whole, &n->layer))
            return rule;
    }
    return NULL;
}

bool mh_weights_have(const mh_weight_source *source, const char *name)
{
    char tried[NAME_MAX_BYTES];
    const char *suffix;
    rule_name n = name_for_rules(name);
    size_t index;
    for (const mh_tensor_rule *rule = source->family->rules; (rule = next_rule(rule, &n, &suffix));
         rule++)
        if (weight_rules_find(source, source->prefix, rule, n.layer, suffix, tried, &index))
            return true;
    return false;
}

// The rule for the whole parameter whose tensor the file has, or NULL; `tried` is its name.
static const mh_tensor_rule *find_whole(const mh_weight_source *source, rule_name *n,
                                        char tried[NAME_MAX_BYTES], size_t *index)
{
    const char *suffix;
    for (const mh_tensor_rule *rule = source->family->rules; (rule = next_rule(rule, n, &suffix));
         rule++)
        if (rule->part == MH_PART_ALL &&
            weight_rules_find(source, source->prefix, rule, n->layer, suffix, tried, index))
            return rule;
    return NULL;
}

bool mh_weights_index(const mh_weight_source *source, const char *name, size_t *index)
{
    char tried[NAME_MAX_BYTES];
    rule_name n = name_for_rules(name);
    const mh_tensor_rule *rule = find_whole(source, &n, tried, index);
    return rule && !rule->transposed;
}

bool mh_weights_view(const mh_weight_source *source, const char *name, mh_tensor *view)
{
    char tried[NAME_MAX_BYTES];
    size_t index;
    rule_name n = name_for_rules(name);
    const mh_tensor_rule *rule = find_whole(source, &n, tried, &index);
    if (!rule || !mh_tensor_file_in_place(source->file, index) ||
        !mh_tensor_file_at(source->file, index, view))
        return false;
    if (rule->transposed && view->rank == 2)
        *view = mh_tensor_swap(*view, 0, 1);
    *view = as_matrix(*view);
    return weight_rules_is_float(view->dtype) && view->dtype != MH_F64;
}

// Whether a part of the bias is one that the family's attention lacks.
static bool may_be_missing(const mh_weight_source *source, mh_part part, const char *suffix)
{
    const unsigned bits[] = {0, MH_BIAS_Q, MH_BIAS_K, MH_BIAS_V, 0, 0, 0};
    return strcmp(suffix, ".bias") == 0 && (source->block->missing_bias & bits[part]);
}

static mh_status copy_parts(const mh_weight_source *source, rule_name *n, mh_tensor *to)
{
    char tried[NAME_MAX_BYTES], missing[NAME_MAX_BYTES] = "";
    const char *suffix;
    size_t first, count, found = 0;
    for (const mh_tensor_rule *rule = source->family->rules; (rule = next_rule(rule, n, &suffix));
         rule++) {
        size_t index;
        if (weight_rules_find(source, source->prefix, rule, n->layer, suffix, tried, &index)) {
            part_rows(source->block, rule->part, to->shape[0], &first, &count);
            mh_tensor part = mh_tensor_slice(*to, 0, first, count);
            MH_TRY(load_part(source, rule, tried, index, &part));
            found++;
            continue;
        }
        if (!*missing || found) // the whole, unless there are parts
            memcpy(missing, tried, NAME_MAX_BYTES);
        if (rule->part != MH_PART_ALL && !may_be_missing(source, rule->part, suffix)) {
            found = 0;
            break;
        }
    }
    if (found)
        return MH_OK;
    return mh_fail(source->context, MH_ERROR_FORMAT,
                   "%s: tensor \"%s\" is missing; a model of type %s needs it", source->path,
                   missing, source->family->model_type);
}

mh_status mh_weights_copy(const mh_weight_source *source, const char *name, mh_tensor *to)
{
    char tried[NAME_MAX_BYTES];
    const char *suffix;
    rule_name n = name_for_rules(name);
    size_t index;
    if (!next_rule(source->family->rules, &n, &suffix))
        return mh_fail(source->context, MH_ERROR_FORMAT,
                       "%s: family %s has no rule for the parameter \"%s\"", source->path,
                       source->family->model_type, name);
    const mh_tensor_rule *whole = find_whole(source, &n, tried, &index);
    return whole ? load_part(source, whole, tried, index, to) : copy_parts(source, &n, to);
}

// ---- the Transformer ----------------------------------------------------------------------------

static mh_status reserve_staging(mh_weight_source *source, size_t floats)
{
    if (floats <= source->staging_floats)
        return MH_OK;
    mh_free(source->context, source->staging, source->staging_floats * sizeof(float));
    source->staging = mh_alloc(source->context, floats * sizeof(float));
    source->staging_floats = source->staging ? floats : 0;
    return source->staging ? MH_OK : MH_ERROR_MEMORY;
}

// Whether a tensor of the file is multiplied in the type that it has there.
static bool packs_in_place(const mh_weight_source *source, const mh_tensor *view,
                           const size_t shape[2])
{
    return view->rank == 2 && view->shape[0] == shape[0] && view->shape[1] == shape[1] &&
           (source->matrices != MH_BF16 || view->dtype == MH_BF16);
}

mh_status mh_weights_matrix(mh_weight_source *source, const char *name, const size_t shape[2],
                            mh_tensor *matrix)
{
    if (mh_weights_view(source, name, matrix) && packs_in_place(source, matrix, shape))
        return MH_OK;
    MH_TRY(reserve_staging(source, shape[0] * shape[1])); // as large as the model's own
    *matrix = mh_tensor_2d(source->staging, source->matrices, shape[0], shape[1]);
    return mh_weights_copy(source, name, matrix);
}

// A matrix with a factor, in the type that it is multiplied in.
static mh_status scaled_matrix(mh_weight_source *source, const char *name, const size_t shape[2],
                               mh_tensor *matrix)
{
    MH_TRY(reserve_staging(source, shape[0] * shape[1]));
    *matrix = mh_tensor_2d(source->staging, MH_F32, shape[0], shape[1]);
    MH_TRY(mh_weights_copy(source, name, matrix));
    MH_TRY(mh_weights_scale(source, name, matrix));
    if (source->matrices != MH_BF16)
        return MH_OK;
    for (size_t i = 0; i < shape[0] * shape[1]; i++) { // in place, as it is half as large
        const uint16_t half = mh_float_to_bf16(source->staging[i]);
        memcpy((char *)source->staging + i * sizeof half, &half, sizeof half);
    }
    matrix->dtype = MH_BF16;
    return MH_OK;
}

static mh_status load_matrix(mh_weight_source *source, mh_transformer *t, const mh_parameter *p,
                             const char *name)
{
    mh_tensor matrix;
    MH_TRY((mh_weights_are_scaled(source, name) ? scaled_matrix : mh_weights_matrix)(
        source, name, p->shape, &matrix));
    return mh_transformer_pack(source->context, t, p->name, &matrix);
}

// norm1.weight, norm1_post.weight, norm.weight, self_attn.q_norm.weight.
bool mh_weights_is_norm(const char *name)
{
    const char *dot = strrchr(name, '.'), *norm = strstr(name, "norm");
    return norm && strcmp(dot, ".weight") == 0;
}

mh_status mh_weights_load_blocks(mh_weight_source *source, mh_transformer *transformer)
{
    const mh_parameters *parameters = mh_transformer_parameters(transformer);
    char name[NAME_MAX_BYTES];
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        snprintf(name, sizeof name, "%s%s", source->stack, p->name);
        if (p->offset >= parameters->floats) {
            MH_TRY(load_matrix(source, transformer, p, name));
            continue;
        }
        mh_tensor to = mh_parameter_view(p, parameters->values);
        MH_TRY(mh_weights_copy(source, name, &to));
        if (mh_weights_are_scaled(source, name))
            MH_TRY(mh_weights_scale(source, name, &to));
        if (source->norm_plus_one && mh_weights_is_norm(p->name))
            for (size_t j = 0; j < p->count; j++)
                ((float *)to.data)[j] += 1;
    }
    return MH_OK;
}

// ---- the file -----------------------------------------------------------------------------------

// The first rule's tensor, the token table, tells the prefix.
mh_status mh_weights_begin(mh_weight_source *source)
{
    char tried[NAME_MAX_BYTES];
    size_t index;
    for (const char *const *prefix = source->family->prefixes; *prefix; prefix++)
        if (weight_rules_find(source, *prefix, source->family->rules, 0, ".weight", tried,
                              &index)) {
            source->prefix = *prefix;
            return MH_OK;
        }
    return mh_fail(source->context, MH_ERROR_FORMAT,
                   "%s: tensor \"%s\" is missing; a model of type %s begins with it", source->path,
                   tried, source->family->model_type);
}

void mh_weights_end(mh_weight_source *source)
{
    mh_free(source->context, source->staging, source->staging_floats * sizeof(float));
    source->staging = NULL;
    source->staging_floats = 0;
}

// Whether the name is one of a pattern's alternatives, with a suffix or, if `whole`, only without.
static bool is_source(const mh_weight_source *source, const char *pattern, bool whole,
                      const char *name)
{
    static const char *const suffixes[] = {".weight", ".bias", ".gamma", ".beta", ""};
    char full[NAME_MAX_BYTES];
    for (const char *at = pattern; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        const size_t size = strcspn(at, "|");
        for (size_t i = whole ? 4 : 0; i < 5; i++) {
            const bool absolute = *at == '/';
            snprintf(full, sizeof full, "%s%.*s%s", absolute ? "" : source->prefix,
                     (int)(size - absolute), at + absolute, suffixes[i]);
            if (weight_rules_matches(full, strlen(full), name, NULL))
                return true;
        }
    }
    return false;
}

static bool is_known(const mh_weight_source *source, const char *name)
{
    for (const mh_tensor_rule *rule = source->family->rules; rule->source; rule++)
        if (is_source(source, rule->source, false, name))
            return true;
    for (const char *const *ignored = source->family->ignored; *ignored; ignored++)
        if (is_source(source, *ignored, true, name))
            return true;
    return false;
}

void mh_weights_report_surplus(const mh_weight_source *source)
{
    size_t count = 0;
    const char *example = NULL;
    for (size_t i = 0; i < mh_tensor_file_count(source->file); i++) {
        const char *name = mh_tensor_file_name(source->file, i);
        if (is_known(source, name))
            continue;
        count++;
        example = example ? example : name;
    }
    if (count)
        mh_log(source->context, MH_LOG_INFO, "%s: %zu tensor%s not used, such as \"%.200s\"",
               source->path, count, count == 1 ? " is" : "s are", example);
}

// ---- names of tensors to write ------------------------------------------------------------------

// The first alternative of a rule.
static void first_name(const mh_family *family, const mh_tensor_rule *rule, size_t layer,
                       const char *suffix, char name[NAME_MAX_BYTES])
{
    make_name("", family->prefixes[0], rule->source, strcspn(rule->source, "|"), layer, suffix,
              name);
}

size_t mh_weights_name_parts(const mh_family *family, const mh_block_config *block,
                             const char *name, size_t rows, mh_weight_part parts[MH_WEIGHT_PARTS])
{
    char stem[NAME_MAX_BYTES];
    const char *suffix = split_name(name, stem);
    size_t count = 0;
    for (const mh_tensor_rule *rule = family->rules; rule->source; rule++) {
        size_t layer = 0;
        const size_t length = strlen(rule->target);
        const bool whole = weight_rules_matches(rule->target, length, name, &layer);
        if (!whole && !weight_rules_matches(rule->target, length, stem, &layer))
            continue;
        if (count == MH_WEIGHT_PARTS)
            return 0;
        mh_weight_part *part = &parts[count++];
        first_name(family, rule, layer, whole ? "" : suffix, part->name);
        part_rows(block, rule->part, rows, &part->first, &part->rows);
        part->transposed = rule->transposed;
        part->by_head = rule->part == MH_PART_QKV_BY_HEAD;
        if (rule->part == MH_PART_ALL || part->by_head)
            return 1;
    }
    return count;
}
