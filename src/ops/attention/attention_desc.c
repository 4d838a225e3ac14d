// SPDX-License-Identifier: MIT
// Argument checks of the attention API: every argument is checked here, once, and each error
// message says what was found and what was expected.
#include "base/compiler.h"
#include "base/overflow.h"
#include "base/sized_struct.h"
#include "ops/attention/attention_internal.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <string.h>

// Positions are clamped to this: as good as infinite, and sums of a few of them cannot overflow.
static const int64_t far_away = INT64_MAX / 4;

static int64_t clamp_position(int64_t value)
{
    return value > far_away ? far_away : value < -far_away ? -far_away : value;
}

static mh_status check_dimension(mh_context *context, const char *name, const mh_tensor *t,
                                 int dimension, size_t expected, const char *meaning)
{
    char text[128];
    if (t->shape[dimension] != expected)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %s, expected %zu in dimension %d (%s)", name,
                       mh_tensor_describe(t, text, sizeof text), expected, dimension, meaning);
    return MH_OK;
}

static bool shapes_fit(const mh_attention_desc *p)
{
    const size_t *k = p->k.shape, *v = p->v.shape, *out = p->out.shape;
    return k[0] == p->B && k[3] == p->E && v[0] == p->B && v[1] == p->G && v[2] == p->S &&
           out[0] == p->B && out[1] == p->H && out[2] == p->T && out[3] == p->Ev;
}

static mh_status refuse_shapes(mh_context *context, const mh_attention_desc *p)
{
    mh_status status = MH_OK;
    const struct {
        const char *name;
        const mh_tensor *tensor;
        int dimension;
        size_t expected;
        const char *meaning;
    } rules[] = {
        {"k", &p->k, 0, p->B, "the batch of q"},
        {"k", &p->k, 3, p->E, "the head width of q"},
        {"v", &p->v, 0, p->B, "the batch of q"},
        {"v", &p->v, 1, p->G, "the heads of k"},
        {"v", &p->v, 2, p->S, "the length of k"},
        {"out", &p->out, 0, p->B, "the batch of q"},
        {"out", &p->out, 1, p->H, "the heads of q"},
        {"out", &p->out, 2, p->T, "the length of q"},
        {"out", &p->out, 3, p->Ev, "the head width of v"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !status; i++)
        status = check_dimension(context, rules[i].name, rules[i].tensor, rules[i].dimension,
                                 rules[i].expected, rules[i].meaning);
    return status;
}

static mh_status check_tensors(mh_context *context, mh_attention_desc *p)
{
    p->whole_H = p->q.shape[1], p->head_stride = 1;
    p->B = p->q.shape[0], p->H = p->q.shape[1], p->T = p->q.shape[2], p->E = p->q.shape[3];
    p->G = p->k.shape[1], p->S = p->k.shape[2], p->Ev = p->v.shape[3];
    if (!shapes_fit(p))
        return refuse_shapes(context, p);
    if (p->G == 0 ? p->H != 0 : p->H % p->G != 0)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "heads: found %zu in q and %zu in k, expected a multiple", p->H, p->G);
    p->heads_per_group = p->G ? p->H / p->G : 0;
    if (p->E < 1 || p->E > MH_MAX_HEAD_DIM || p->Ev < 1 || p->Ev > MH_MAX_HEAD_DIM)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "head width: found %zu in q and %zu in v, expected 1 to %d", p->E, p->Ev,
                       MH_MAX_HEAD_DIM);
    return MH_OK;
}

// Checks that starts do not decrease and lie in 0 .. `limit`; finds the longest sequence.
static mh_status check_starts(mh_context *context, const char *name, const int64_t *starts,
                              size_t sequences, size_t limit, size_t *longest)
{
    if (!starts)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found NULL, expected %zu elements, as sequences is set", name,
                       sequences + 1);
    *longest = 0;
    for (size_t b = 0; b < sequences; b++) {
        if (starts[b] < 0 || starts[b + 1] < starts[b] || (uint64_t)starts[b + 1] > limit)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s[%zu]: found %lld after %lld, expected no less and at most %zu", name,
                           b + 1, (long long)starts[b + 1], (long long)starts[b], limit);
        size_t length = (size_t)(starts[b + 1] - starts[b]);
        *longest = length > *longest ? length : *longest;
    }
    return MH_OK;
}

static mh_status check_packing(mh_context *context, mh_attention_desc *p)
{
    const mh_attention_options *o = &p->options;
    if (o->sequences == 0) {
        if (o->query_starts || o->key_starts)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "sequences: found 0, expected their number, as starts are given");
        return MH_OK;
    }
    if (p->B != 1)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "q: found batch %zu, expected 1, as sequences are packed", p->B);
    mh_status status =
        check_starts(context, "query_starts", o->query_starts, o->sequences, p->T, &p->T);
    if (!status && !p->cache)
        status = check_starts(context, "key_starts", o->key_starts, o->sequences, p->S, &p->S);
    p->B = o->sequences;
    size_t rows;
    if (!status && !mh_multiply_all(3, (size_t[]){p->B, p->H, p->T}, &rows))
        status =
            mh_fail(context, MH_ERROR_ARGUMENT,
                    "sequences: found %zu of up to %zu queries, which are too many", p->B, p->T);
    return status;
}

// Per-sequence counts of keys: between 0 and the keys of the sequence.
static mh_status check_counts(mh_context *context, const char *name, const int64_t *counts,
                              const mh_attention_desc *p)
{
    for (size_t b = 0; counts && b < p->B; b++) {
        size_t limit = mh_attention_sequence(p, b).S;
        if (counts[b] < 0 || (uint64_t)counts[b] > limit)
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s[%zu]: found %lld, expected 0 to %zu",
                           name, b, (long long)counts[b], limit);
    }
    return MH_OK;
}

static mh_status attention_desc_check_numbers(mh_context *context, mh_attention_desc *p)
{
    mh_attention_options *o = &p->options;
    p->scale = isnan(o->scale) ? (float)(1 / sqrt((double)p->E)) : o->scale;
    if (isinf(p->scale))
        return mh_fail(context, MH_ERROR_ARGUMENT, "scale: found %g, expected a finite number",
                       (double)p->scale);
    if (o->alibi_slopes && !o->alibi)
        return mh_fail(context, MH_ERROR_ARGUMENT, "alibi_slopes: given, but alibi is false");
    if (!(o->softcap >= 0) || isinf(o->softcap))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "softcap: found %g, expected 0 (none) or a positive number",
                       (double)o->softcap);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "dropout: found %g, expected 0 or more, below 1",
                       (double)o->dropout);
    if ((unsigned)o->causal > MH_CAUSAL_OFFSET)
        return mh_fail(context, MH_ERROR_ARGUMENT, "causal: found %d, expected an mh_causal",
                       (int)o->causal);
    if ((unsigned)o->empty_row > MH_EMPTY_ROW_NAN)
        return mh_fail(context, MH_ERROR_ARGUMENT, "empty_row: found %d, expected an mh_empty_row",
                       (int)o->empty_row);
    if ((unsigned)o->precision > MH_PRECISION_BF16)
        return mh_fail(context, MH_ERROR_ARGUMENT, "precision: found %d, expected an mh_precision",
                       (int)o->precision);
    const int64_t window[2] = {o->window_left, o->window_right};
    for (int i = 0; i < 2; i++)
        if (window[i] < -1)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: found %lld, expected -1 (open) or a number of keys",
                           i ? "window_right" : "window_left", (long long)window[i]);
    o->offset = clamp_position(o->offset);
    o->window_left = clamp_position(o->window_left);
    o->window_right = clamp_position(o->window_right);
    MH_TRY(check_counts(context, "key_lengths", o->key_lengths, p));
    return check_counts(context, "prefix_lengths", o->prefix_lengths, p);
}

// Plain MH_CAUSAL is for the case that needs no alignment.
static mh_status check_causal(mh_context *context, const mh_attention_desc *p)
{
    for (size_t b = 0; p->options.causal == MH_CAUSAL && b < p->B; b++) {
        mh_sequence sequence = mh_attention_sequence(p, b);
        if (sequence.T != sequence.S)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "causal: %zu queries and %zu keys need an alignment: expected "
                           "MH_CAUSAL_TOP_LEFT, MH_CAUSAL_BOTTOM_RIGHT or MH_CAUSAL_OFFSET",
                           sequence.T, sequence.S);
    }
    return MH_OK;
}

static mh_status attention_desc_check_masks(mh_context *context, mh_attention_desc *p)
{
    mh_attention_options *o = &p->options;
    const size_t shape[4] = {p->B, p->H, p->T, p->S};
    char text[128];
    if (o->mask_count > MH_MAX_MASKS)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "mask_count: found %zu, expected at most %d",
                       o->mask_count, MH_MAX_MASKS);
    if (o->mask_count && !o->masks)
        return mh_fail(context, MH_ERROR_ARGUMENT, "masks: found NULL, expected %zu masks",
                       o->mask_count);
    for (size_t i = 0; i < o->mask_count; i++) {
        mh_mask *mask = &p->given_masks[i];
        mh_status status = MH_READ_ELEMENT(context, mh_mask, o->masks, i, mask);
        if (status)
            return status;
        bool add = mask->kind == MH_MASK_ADD;
        if ((unsigned)mask->kind > MH_MASK_ADD)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "masks[%zu].kind: found %d, expected an mh_mask_kind", i,
                           (int)mask->kind);
        if (add ? !mh_rows_supported(mask->tensor.dtype)
                : mask->tensor.dtype != MH_BOOL && mask->tensor.dtype != MH_U8)
            return mh_fail(context, MH_ERROR_UNSUPPORTED, "masks[%zu]: found dtype %s, expected %s",
                           i, mh_dtype_name(mask->tensor.dtype),
                           add ? "f32, bf16 or f16 for MH_MASK_ADD"
                               : "bool or u8 for MH_MASK_KEEP and MH_MASK_DROP");
        if (mh_check_tensor(context, "masks", &mask->tensor, -1))
            return MH_ERROR_ARGUMENT;
        p->masks[i].kind = mask->kind;
        if (mh_tensor_broadcast(context, &mask->tensor, 4, shape, &p->masks[i].tensor))
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "masks[%zu]: found %s, expected what broadcasts to (%zu, %zu, %zu, %zu)",
                           i, mh_tensor_describe(&mask->tensor, text, sizeof text), p->B, p->H,
                           p->T, p->S);
        p->additive |= add;
    }
    o->masks = p->given_masks;
    p->elementwise |= o->mask_count > 0;
    return MH_OK;
}

static mh_status check_document_ids(mh_context *context, const char *name, const mh_tensor *ids,
                                    size_t batch, size_t length, mh_tensor *out)
{
    const size_t shape[2] = {batch, length};
    char text[128];
    if (ids->dtype != MH_I32 && ids->dtype != MH_I64)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "%s: found dtype %s, expected i32 or i64",
                       name, mh_dtype_name(ids->dtype));
    if (mh_check_tensor(context, name, ids, -1))
        return MH_ERROR_ARGUMENT;
    if (mh_tensor_broadcast(context, ids, 2, shape, out))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected (%zu, %zu)", name,
                       mh_tensor_describe(ids, text, sizeof text), batch, length);
    return MH_OK;
}

static mh_status check_documents(mh_context *context, mh_attention_desc *p)
{
    const mh_attention_options *o = &p->options;
    if (!o->query_documents && !o->key_documents)
        return MH_OK;
    if (p->cache && o->sequences)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "documents: found them with packed queries and a cache, expected none");
    if (!o->query_documents || !o->key_documents)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found NULL, expected document ids, as the other side has them",
                       o->query_documents ? "key_documents" : "query_documents");
    p->elementwise = true;
    MH_TRY(check_document_ids(context, "query_documents", o->query_documents, p->q.shape[0],
                              p->q.shape[2], &p->query_documents));
    return check_document_ids(context, "key_documents", o->key_documents, p->k.shape[0],
                              p->k.shape[2], &p->key_documents);
}

static mh_status check_selection(mh_context *context, const char *name, const size_t *chosen,
                                 size_t count, size_t limit, size_t *result)
{
    *result = chosen ? count : limit;
    if (count && !chosen)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL, expected %zu of them", name,
                       count);
    for (size_t i = 0; chosen && i < count; i++)
        if (chosen[i] >= limit)
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s[%zu]: found %zu, expected less than %zu",
                           name, i, chosen[i], limit);
    return MH_OK;
}

static mh_status check_weights(mh_context *context, mh_attention_desc *p)
{
    const mh_attention_options *o = &p->options;
    if (!o->weights)
        return MH_OK;
    if ((unsigned)o->weights_stage > MH_WEIGHTS_BIASED)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "weights_stage: found %d, expected an mh_weights_stage",
                       (int)o->weights_stage);
    mh_status status = mh_check_float(context, "weights", o->weights, 4);
    if (!status)
        status = check_selection(context, "weights_heads", o->weights_heads, o->weights_head_count,
                                 p->H, &p->weight_heads);
    if (!status)
        status = check_selection(context, "weights_rows", o->weights_rows, o->weights_row_count,
                                 p->T, &p->weight_rows);
    if (!status && o->weights_average && p->weight_heads == 0)
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "weights_average: found no heads, expected at least one");
    const size_t expected[4] = {p->B, o->weights_average ? 1 : p->weight_heads, p->weight_rows,
                                p->S};
    const char *const meaning[4] = {"batch", "heads", "queries", "keys"};
    for (int d = 0; d < 4 && !status; d++)
        status = check_dimension(context, "weights", o->weights, d, expected[d], meaning[d]);
    return status;
}

static mh_status check_lse(mh_context *context, const mh_attention_desc *p)
{
    const mh_tensor *lse = p->options.lse;
    if (!lse)
        return MH_OK;
    mh_status status = mh_check_f32(context, "lse", lse, 3);
    const char *const meaning[3] = {"batch", "heads", "queries"};
    for (int d = 0; d < 3 && !status; d++)
        status = check_dimension(context, "lse", lse, d, p->q.shape[d], meaning[d]);
    return status;
}

static mh_status copy_options(mh_context *context, const mh_attention_options *options,
                              mh_attention_options *out)
{
    *out = mh_attention_options_default();
    return MH_READ_STRUCT(context, mh_attention_options, options, out);
}

// `cache`: that of k and v, which are placeholders, or NULL.
static mh_status check_call(mh_context *context, const mh_attention_options *options,
                            const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                            const mh_kv_cache *cache, const mh_tensor *out, mh_attention_desc *desc)
{
    const mh_tensor *const tensors[4] = {q, k, v, out};
    const char *const names[4] = {"q", "k", "v", "out"};
    memset(desc, 0, sizeof *desc);
    mh_status status = copy_options(context, options, &desc->options);
    if (status)
        return status;
    for (int i = 0; i < 4 && !status; i++)
        status = mh_check_float(context, names[i], tensors[i], 4);
    if (status)
        return status;
    desc->q = *q, desc->k = *k, desc->v = *v, desc->out = *out;
    desc->cache = cache;
    desc->bf16 = q->dtype == MH_BF16 && k->dtype == MH_BF16 && v->dtype == MH_BF16;
    if (desc->options.precision != MH_PRECISION_AUTO)
        desc->bf16 = desc->options.precision == MH_PRECISION_BF16;

    mh_status (*const checks[])(mh_context *, mh_attention_desc *) = {
        check_tensors,   check_packing, attention_desc_check_numbers, attention_desc_check_masks,
        check_documents, check_weights,
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !status; i++)
        status = checks[i](context, desc);
    if (!status)
        status = check_causal(context, desc);
    return status ? status : check_lse(context, desc);
}

mh_status mh_attention_check(mh_context *context, const mh_attention_options *options,
                             const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                             const mh_tensor *out, mh_attention_desc *desc)
{
    return check_call(context, options, q, k, v, NULL, out, desc);
}

mh_status mh_attention_check_outputs(mh_context *context, const mh_attention_desc *p)
{
    const mh_attention_options *o = &p->options;
    mh_operand operands[8 + MH_MAX_MASKS];
    size_t count = 0;
    operands[count++] = (mh_operand){.name = "out", .tensor = &p->out};
    if (o->lse)
        operands[count++] = (mh_operand){.name = "lse", .tensor = o->lse};
    if (o->weights)
        operands[count++] = (mh_operand){.name = "weights", .tensor = o->weights};
    const size_t outputs = count;
    operands[count++] = (mh_operand){.name = "q", .tensor = &p->q};
    if (!p->cache) {
        operands[count++] = (mh_operand){.name = "k", .tensor = &p->k};
        operands[count++] = (mh_operand){.name = "v", .tensor = &p->v};
    }
    if (o->query_documents) {
        operands[count++] = (mh_operand){.name = "query_documents", .tensor = o->query_documents};
        operands[count++] = (mh_operand){.name = "key_documents", .tensor = o->key_documents};
    }
    for (size_t i = 0; i < o->mask_count; i++)
        operands[count++] = (mh_operand){.name = "masks", .tensor = &o->masks[i].tensor};
    return mh_check_overlap(context, outputs, count, operands);
}

// A cache with a window must not be queried for keys that it may have forgotten.
static mh_status check_window(mh_context *context, const mh_kv_shape *shape,
                              const mh_attention_options *options)
{
    if (shape->window < 0)
        return MH_OK;
    if (options->causal != MH_CAUSAL_BOTTOM_RIGHT || options->window_left < 0 ||
        options->window_left > shape->window)
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "window_left: the cache keeps %lld keys, expected MH_CAUSAL_BOTTOM_RIGHT and "
            "a window_left from 0 to that",
            (long long)shape->window);
    return MH_OK;
}

// Cache with a window: a first query further back than the last append would need keys that were
// forgotten then.
static mh_status check_forgotten(mh_context *context, const mh_attention_desc *p)
{
    const mh_weights_stage stage = p->options.weights_stage;
    const bool shows_all =
        p->options.weights && (stage == MH_WEIGHTS_SCALED || stage == MH_WEIGHTS_CAPPED);
    for (size_t b = 0; b < p->B && p->T > 0; b++) {
        const size_t first = mh_kv_cache_first(p->cache, b);
        if (first > 0 && shows_all)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "weights_stage: scores of all keys are requested, but the cache has "
                           "released those before %zu of sequence %zu",
                           first, b);
        const mh_sequence sequence = mh_attention_sequence(p, b);
        mh_interval keys;
        mh_attention_interval(p, &sequence, 0, &keys);
        if (first > 0 && sequence.T > 0 && keys.begin < first)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "q: found %zu queries, the first of which sees key %zu of sequence %zu, "
                           "but the cache has released those before %zu",
                           sequence.T, keys.begin, b, first);
    }
    return MH_OK;
}

mh_status mh_attention_check_cached(mh_context *context, const mh_attention_options *options,
                                    const mh_tensor *q, const mh_kv_cache *cache,
                                    const mh_tensor *out, mh_attention_desc *desc)
{
    if (!cache)
        return mh_fail(context, MH_ERROR_ARGUMENT, "cache: found NULL");
    const mh_kv_shape shape = mh_kv_cache_shape(cache);
    mh_attention_options own;
    mh_status status = copy_options(context, options, &own);
    if (status)
        return status;
    if (own.key_lengths || own.key_starts)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "key_lengths, key_starts: expected none, the cache has its own");
    if (own.sequences && own.sequences != shape.sequences)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "sequences: found %zu, expected %zu, as the cache has", own.sequences,
                       shape.sequences);
    status = check_window(context, &shape, &own);
    if (status)
        return status;
    own.key_lengths = shape.lengths;
    // Placeholders with the right shape; their data is never read.
    mh_tensor k = mh_tensor_4d((void *)cache, shape.dtype, own.sequences ? 1 : shape.sequences,
                               shape.heads, shape.longest, shape.key_width);
    mh_tensor v = k;
    v.shape[3] = shape.value_width;
    status = check_call(context, &own, q, &k, &v, cache, out, desc);
    desc->value_stride = shape.value_stride;
    return status ? status : check_forgotten(context, desc);
}
