// SPDX-License-Identifier: MIT
// Random attention calls; see attention_case.h. One function for each group of options; each
// draws whether its group is used at all.
#include "attention_case.h"

#include "ref/ref_tensor.h"

enum { MAX_WORK = 1200000 }; // multiplications in a case: a few milliseconds in double

// ---- shapes ---------------------------------------------------------------------------

static size_t random_width(test_rng *rng)
{
    static const size_t usual[] = {16, 32, 64, 96, 128, 256};
    double kind = test_uniform(rng, 0, 1);
    if (kind < 0.6)
        return test_between(rng, 1, 40);
    if (kind < 0.78)
        return test_between(rng, 41, 300);
    return kind < 0.98 ? usual[test_between(rng, 0, 5)] : 1024;
}

static size_t random_length(test_rng *rng)
{
    double kind = test_uniform(rng, 0, 1);
    if (kind < 0.05)
        return test_between(rng, 0, 1);
    if (kind < 0.55)
        return test_between(rng, 1, 40);
    if (kind < 0.85)
        return test_between(rng, 20, 200);
    return test_between(rng, 200, 1500);
}

static size_t half(size_t n, size_t least) { return n / 2 > least ? n / 2 : least; }

// Shrinks everything but the number of keys, which is what tiles and chunks are cut from.
static void fit_work(attention_case *c, size_t work)
{
    for (int turn = 0; c->B * c->H * c->T * c->S * (c->E + c->Ev) > work; turn++) {
        switch (turn % 5) {
        case 0:
            c->T = half(c->T, 1);
            break;
        case 1:
            c->B = half(c->B, 1);
            break;
        case 2:
            c->E = half(c->E, 1);
            break;
        case 3:
            c->Ev = half(c->Ev, 1);
            break;
        case 4:
            c->H = c->G = half(c->G, 1);
            break;
        }
        if (turn > 40)
            c->S = half(c->S, 1);
    }
}

static void choose_shapes(attention_case *c, size_t work)
{
    static const size_t ratios[] = {1, 1, 1, 2, 3, 4, 8};
    c->B = test_between(&c->rng, 1, 3);
    c->G = test_between(&c->rng, 1, 4);
    c->H = c->G * ratios[test_between(&c->rng, 0, 6)];
    c->E = random_width(&c->rng);
    c->Ev = test_chance(&c->rng, 0.6) ? c->E : random_width(&c->rng);
    c->T = random_length(&c->rng);
    c->S = random_length(&c->rng);
    if (c->options.causal == MH_CAUSAL)
        c->S = c->T;
    fit_work(c, work);
    if (c->options.causal == MH_CAUSAL)
        c->S = c->T;
}

// Cuts `total` rows into n sequences at random places, so that some are empty.
static size_t random_starts(test_rng *rng, size_t n, size_t total, int64_t *starts)
{
    size_t longest = 0;
    starts[0] = 0;
    starts[n] = (int64_t)total;
    for (size_t i = 1; i < n; i++)
        starts[i] = (int64_t)test_between(rng, (size_t)starts[i - 1], total);
    for (size_t i = 0; i < n; i++) {
        size_t length = (size_t)(starts[i + 1] - starts[i]);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void choose_packing(attention_case *c)
{
    c->N = c->B;
    c->T_max = c->T;
    c->S_max = c->S;
    if (!test_chance(&c->rng, 0.25))
        return;
    c->B = 1;
    c->N = c->options.sequences = test_between(&c->rng, 1, CASE_SEQUENCES);
    c->T_max = random_starts(&c->rng, c->N, c->T, c->query_starts);
    c->S_max = random_starts(&c->rng, c->N, c->S, c->key_starts);
    if (c->options.causal == MH_CAUSAL) { // every sequence's own T = S
        memcpy(c->key_starts, c->query_starts, sizeof c->key_starts);
        c->S_max = c->T_max;
    }
    c->options.query_starts = c->query_starts;
    c->options.key_starts = c->key_starts;
}

static size_t own_keys(const attention_case *c, size_t n)
{
    return c->options.sequences ? (size_t)(c->key_starts[n + 1] - c->key_starts[n]) : c->S;
}

// ---- options --------------------------------------------------------------------------

static void choose_scores(attention_case *c)
{
    test_rng *rng = &c->rng;
    double usual = 1 / sqrt((double)c->E), kind = test_uniform(rng, 0, 1);
    if (kind > 0.95)
        c->options.scale = 0;
    else if (kind > 0.5)
        c->options.scale = (float)(usual * test_uniform(rng, -2, 2));
    if (test_chance(rng, 0.25))
        c->options.softcap = (float)test_uniform(rng, 0.5, 30);
    if (test_chance(rng, 0.25)) {
        c->options.alibi = true;
        for (size_t h = 0; h < c->H; h++)
            c->slopes[h] = (float)test_uniform(rng, -0.1, 0.5);
        if (test_chance(rng, 0.5))
            c->options.alibi_slopes = c->slopes;
    }
    if (test_chance(rng, 0.25)) {
        for (size_t h = 0; h < c->H; h++)
            c->sinks[h] = (float)test_uniform(rng, -5, 5);
        c->options.sinks = c->sinks;
    }
}

static int64_t random_window(test_rng *rng, size_t S)
{
    if (test_chance(rng, 0.4))
        return -1;
    if (test_chance(rng, 0.05))
        return INT64_MAX;
    return (int64_t)test_between(rng, 0, S / 2 + 1);
}

static void choose_positions(attention_case *c)
{
    test_rng *rng = &c->rng;
    if (test_chance(rng, 0.5))
        c->options.offset = (int64_t)test_between(rng, 0, 2 * c->S_max + 8) - (int64_t)c->S_max - 4;
    if (test_chance(rng, 0.3)) {
        c->options.window_left = random_window(rng, c->S_max);
        c->options.window_right = random_window(rng, c->S_max);
    }
    if (test_chance(rng, 0.25)) {
        for (size_t n = 0; n < c->N; n++)
            c->prefix_lengths[n] = (int64_t)test_between(rng, 0, own_keys(c, n));
        c->options.prefix_lengths = c->prefix_lengths;
    }
    if (test_chance(rng, 0.3)) {
        for (size_t n = 0; n < c->N; n++)
            c->key_lengths[n] = (int64_t)test_between(rng, 0, own_keys(c, n));
        c->options.key_lengths = c->key_lengths;
    }
}

static void choose_dropout(attention_case *c)
{
    static const float usual[] = {0.1f, 0.5f, 0x1p-20f};
    test_rng *rng = &c->rng;
    if (!test_chance(rng, 0.25))
        return;
    c->options.dropout =
        test_chance(rng, 0.5) ? usual[test_between(rng, 0, 2)] : (float)test_uniform(rng, 0, 0.9);
    c->options.dropout_seed = test_random(rng);
    if (test_chance(rng, 0.6)) // the number's upper half does not count
        c->options.dropout_sequence =
            test_chance(rng, 0.5) ? test_between(rng, 1, 1000) : test_random(rng);
}

// Ids that stay the same for a while, or change all the time.
static void fill_documents(test_rng *rng, const mh_tensor *t, double change)
{
    size_t index[MH_MAX_RANK] = {0};
    double id = 1;
    if (ref_count(t))
        do {
            if (test_chance(rng, change))
                id = (double)test_between(rng, 0, 3) - 1;
            ref_set(t, index, id);
        } while (ref_next(t, index));
}

static void choose_documents(attention_case *c)
{
    if (!test_chance(&c->rng, 0.15))
        return;
    mh_dtype dtype = test_chance(&c->rng, 0.5) ? MH_I32 : MH_I64;
    double change = test_chance(&c->rng, 0.5) ? 0.02 : 0.5;
    c->query_documents = test_tensor_random(&c->rng, dtype, 2, (size_t[]){c->B, c->T}, true);
    c->key_documents = test_tensor_random(&c->rng, dtype, 2, (size_t[]){c->B, c->S}, true);
    fill_documents(&c->rng, &c->query_documents.view, change);
    fill_documents(&c->rng, &c->key_documents.view, change);
    c->options.query_documents = &c->query_documents.view;
    c->options.key_documents = &c->key_documents.view;
}

// ---- masks ----------------------------------------------------------------------------

// Whether a mask hides an element: a few everywhere, or whole tiles and rows.
typedef struct mask_style {
    double density;           // of hidden elements
    size_t hidden_begin, end; // keys hidden for every query
    double blank_rows;        // share of queries that see nothing
} mask_style;

static mask_style random_style(test_rng *rng, size_t S)
{
    static const double densities[] = {0, 0.05, 0.5, 0.95};
    mask_style style = {densities[test_between(rng, 0, 3)], 0, 0, 0};
    if (test_chance(rng, 0.4) && S > 0) {
        style.hidden_begin = test_chance(rng, 0.5) ? 0 : test_between(rng, 0, S / 64) * 64;
        style.end = style.hidden_begin + test_between(rng, 1, 3) * 64;
    }
    if (test_chance(rng, 0.3))
        style.blank_rows = test_uniform(rng, 0, 1);
    return style;
}

static double mask_value(test_rng *rng, mh_mask_kind kind, bool hidden)
{
    if (kind == MH_MASK_ADD)
        return hidden ? -INFINITY : 2 * test_normal(rng);
    bool flag = hidden == (kind == MH_MASK_DROP);
    return flag ? (double)test_between(rng, 1, 255) : 0; // any byte but 0 is true
}

static void fill_mask(test_rng *rng, mh_mask_kind kind, const mh_tensor *t, size_t S)
{
    mask_style style = random_style(rng, S);
    size_t index[MH_MAX_RANK] = {0};
    bool blank = false;
    if (ref_count(t))
        do {
            size_t j = t->rank > 0 ? index[t->rank - 1] : 0;
            if (j == 0)
                blank = test_chance(rng, style.blank_rows);
            bool hidden = blank || (j >= style.hidden_begin && j < style.end) ||
                          test_chance(rng, style.density);
            ref_set(t, index, mask_value(rng, kind, hidden));
        } while (ref_next(t, index));
}

static void choose_mask(attention_case *c, size_t m)
{
    test_rng *rng = &c->rng;
    const size_t full[4] = {c->N, c->H, c->T_max, c->S_max};
    int rank = test_chance(rng, 0.1) ? (int)test_between(rng, 0, 1) : (int)test_between(rng, 2, 4);
    size_t shape[4];
    for (int d = 0; d < rank; d++) {
        bool last = d == rank - 1;
        shape[d] = test_chance(rng, last ? 0.1 : 0.4) ? 1 : full[4 - rank + d];
    }
    mh_mask_kind kind = (mh_mask_kind)test_between(rng, MH_MASK_KEEP, MH_MASK_ADD);
    mh_dtype dtype = kind == MH_MASK_ADD     ? test_float_dtype(rng)
                     : test_chance(rng, 0.5) ? MH_BOOL
                                             : MH_U8;
    c->mask[m] = test_tensor_random(rng, dtype, rank, shape, true);
    fill_mask(rng, kind, &c->mask[m].view, c->S_max);
    c->masks[m] = (mh_mask){kind, c->mask[m].view};
}

static void choose_masks(attention_case *c)
{
    static const size_t counts[] = {0, 0, 0, 0, 1, 1, 1, 2, 3};
    c->options.mask_count = counts[test_between(&c->rng, 0, 8)];
    c->options.masks = c->options.mask_count ? c->masks : NULL;
    for (size_t m = 0; m < c->options.mask_count; m++)
        choose_mask(c, m);
}

// ---- tensors --------------------------------------------------------------------------

static void choose_inputs(attention_case *c)
{
    static const double magnitudes[] = {0.1, 1, 1, 1, 3, 10};
    test_rng *rng = &c->rng;
    mh_dtype dtype = test_float_dtype(rng);
    bool mixed = test_chance(rng, 0.3);
    c->q = test_tensor_random(rng, dtype, 4, (size_t[]){c->B, c->H, c->T, c->E}, true);
    if (mixed)
        dtype = test_float_dtype(rng);
    do { // not both broadcast along E: errors of equal terms add up instead of walking at random
        test_tensor_free(&c->k);
        c->k = test_tensor_random(rng, dtype, 4, (size_t[]){c->B, c->G, c->S, c->E}, true);
    } while (c->q.view.stride[3] == 0 && c->k.view.stride[3] == 0);
    if (mixed)
        dtype = test_float_dtype(rng);
    c->v = test_tensor_random(rng, dtype, 4, (size_t[]){c->B, c->G, c->S, c->Ev}, true);
    if (mixed)
        dtype = test_float_dtype(rng);
    c->out = test_tensor_random(rng, dtype, 4, (size_t[]){c->B, c->H, c->T, c->Ev}, false);
    test_fill_normal(rng, &c->q.view, magnitudes[test_between(rng, 0, 5)]);
    test_fill_normal(rng, &c->k.view, 1);
    test_fill_normal(rng, &c->v.view, test_uniform(rng, 0.1, 3));
}

// `count` different numbers below n, in random order.
static void random_subset(test_rng *rng, size_t n, size_t count, size_t *subset)
{
    for (size_t i = 0; i < count; i++) {
        bool again = true;
        while (again) {
            subset[i] = test_between(rng, 0, n - 1);
            again = false;
            for (size_t l = 0; l < i; l++)
                again |= subset[l] == subset[i];
        }
    }
}

static void choose_weights(attention_case *c)
{
    test_rng *rng = &c->rng;
    mh_attention_options *o = &c->options;
    size_t heads = c->H, rows = c->T_max;
    if (test_chance(rng, 0.3)) {
        o->weights_heads = c->weights_heads;
        heads = o->weights_head_count = test_between(rng, 1, c->H);
        random_subset(rng, c->H, heads, c->weights_heads);
    }
    if (test_chance(rng, 0.3) && c->T_max > 0) {
        o->weights_rows = c->weights_rows;
        rows = test_between(rng, 1, c->T_max < CASE_ROWS ? c->T_max : CASE_ROWS);
        o->weights_row_count = rows;
        random_subset(rng, c->T_max, rows, c->weights_rows);
    }
    o->weights_average = test_chance(rng, 0.25);
    o->weights_dropped = test_chance(rng, 0.5);
    o->weights_stage = (mh_weights_stage)test_between(rng, 0, MH_WEIGHTS_BIASED);
    c->weights =
        test_tensor_random(rng, test_float_dtype(rng), 4,
                           (size_t[]){c->N, o->weights_average ? 1 : heads, rows, c->S_max}, false);
    o->weights = &c->weights.view;
}

static void choose_outputs(attention_case *c, bool backward)
{
    if (test_chance(&c->rng, 0.1))
        c->options.empty_row = MH_EMPTY_ROW_NAN;
    if (backward || test_chance(&c->rng, 0.5)) {
        c->lse = test_tensor_random(&c->rng, MH_F32, 3, (size_t[]){c->B, c->H, c->T}, false);
        c->options.lse = &c->lse.view;
    }
    if (test_chance(&c->rng, backward ? 0.1 : 0.5))
        choose_weights(c);
}

// ---- gradients ------------------------------------------------------------------------

// NULL where the gradient is not wanted, or the view of a new tensor.
static const mh_tensor *choose_gradient(attention_case *c, const mh_tensor *of, mh_dtype dtype,
                                        test_tensor *gradient)
{
    if (test_chance(&c->rng, 0.15))
        return NULL;
    *gradient = test_tensor_random(&c->rng, dtype, of->rank, of->shape, false);
    return &gradient->view;
}

static void choose_gradients(attention_case *c)
{
    test_rng *rng = &c->rng;
    c->gradients = mh_attention_gradients_default();
    mh_dtype dtype = test_float_dtype(rng);
    do { // as for k: no sums of equal terms, over the width or over the queries
        test_tensor_free(&c->dout);
        c->dout = test_tensor_random(rng, dtype, 4, c->out.view.shape, true);
    } while ((c->v.view.stride[3] == 0 && c->dout.view.stride[3] == 0) ||
             (c->q.view.stride[2] == 0 && c->dout.view.stride[2] == 0));
    test_fill_normal(rng, &c->dout.view, test_uniform(rng, 0.1, 3));
    c->gradients.dq = choose_gradient(c, &c->q.view, test_float_dtype(rng), &c->dq);
    c->gradients.dk = choose_gradient(c, &c->k.view, test_float_dtype(rng), &c->dk);
    c->gradients.dv = choose_gradient(c, &c->v.view, test_float_dtype(rng), &c->dv);
    for (size_t m = 0; m < c->options.mask_count; m++)
        if (c->masks[m].kind == MH_MASK_ADD)
            c->dmasks[m] = choose_gradient(c, &c->mask[m].view, MH_F32, &c->dmask[m]);
    if (c->dmasks[0] || c->dmasks[1] || c->dmasks[2] || test_chance(rng, 0.5))
        c->gradients.dmasks = c->dmasks;
    mh_tensor sinks = mh_tensor_1d(c->sinks, MH_F32, c->H);
    if (c->options.sinks)
        c->gradients.dsinks = choose_gradient(c, &sinks, MH_F32, &c->dsinks);
}

// ---- all together -----------------------------------------------------------------------

static void create(attention_case *c, uint64_t seed, size_t work, bool backward)
{
    memset(c, 0, sizeof *c);
    c->seed = seed;
    c->rng.state = seed;
    c->options = mh_attention_options_default();
    if (test_chance(&c->rng, 0.6))
        c->options.causal = (mh_causal)test_between(&c->rng, MH_CAUSAL, MH_CAUSAL_OFFSET);
    choose_shapes(c, work);
    choose_packing(c);
    choose_scores(c);
    choose_positions(c);
    choose_documents(c);
    choose_masks(c);
    choose_dropout(c);
    choose_inputs(c);
    choose_outputs(c, backward);
    if (backward)
        choose_gradients(c);
}

void attention_case_create(attention_case *c, uint64_t seed) { create(c, seed, MAX_WORK, false); }

void attention_case_create_backward(attention_case *c, uint64_t seed, size_t work)
{
    create(c, seed, work, true);
}

void attention_case_free(attention_case *c)
{
    test_tensor *owned[] = {
        &c->q,       &c->k,       &c->v,       &c->query_documents, &c->key_documents, &c->out,
        &c->lse,     &c->weights, &c->mask[0], &c->mask[1],         &c->mask[2],       &c->dout,
        &c->dq,      &c->dk,      &c->dv,      &c->dsinks,          &c->dmask[0],      &c->dmask[1],
        &c->dmask[2]};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        test_tensor_free(owned[i]);
}

static int append(char *text, size_t size, int used, const char *format, ...) MH_PRINTF(4, 5);

static int append(char *text, size_t size, int used, const char *format, ...)
{
    if (used < 0 || (size_t)used >= size)
        return used;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + used, size - (size_t)used, format, arguments);
    va_end(arguments);
    return used + n;
}

static void describe_gradients(const attention_case *c, char *text, size_t size, int n)
{
    const struct {
        const char *name;
        const test_tensor *tensor;
    } all[] = {{"dq", &c->dq},          {"dk", &c->dk},           {"dv", &c->dv},
               {"dsinks", &c->dsinks},  {"dmask0", &c->dmask[0]}, {"dmask1", &c->dmask[1]},
               {"dmask2", &c->dmask[2]}};
    n = append(text, size, n, " dout %s; wanted:", mh_dtype_name(c->dout.view.dtype));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].tensor->bytes)
            n = append(text, size, n, " %s %s", all[i].name,
                       mh_dtype_name(all[i].tensor->view.dtype));
}

char *attention_case_describe(const attention_case *c, char *text, size_t size)
{
    static const char *const causal[] = {"none", "causal", "top-left", "bottom-right", "offset"};
    static const char *const kinds[] = {"keep", "drop", "add"};
    const mh_attention_options *o = &c->options;
    char shape[96];
    int n = append(text, size, 0, "B%zu H%zu G%zu T%zu S%zu E%zu Ev%zu q,k,v,out %s,%s,%s,%s", c->B,
                   c->H, c->G, c->T, c->S, c->E, c->Ev, mh_dtype_name(c->q.view.dtype),
                   mh_dtype_name(c->k.view.dtype), mh_dtype_name(c->v.view.dtype),
                   mh_dtype_name(c->out.view.dtype));
    n = append(text, size, n, " scale %g softcap %g causal %s offset %lld window %lld,%lld",
               (double)o->scale, (double)o->softcap, causal[o->causal], (long long)o->offset,
               (long long)o->window_left, (long long)o->window_right);
    n = append(text, size, n, "%s%s%s%s%s%s%s", o->prefix_lengths ? " prefix" : "",
               o->key_lengths ? " lengths" : "", o->query_documents ? " documents" : "",
               o->alibi ? " alibi" : "", o->alibi_slopes ? " slopes" : "", o->sinks ? " sinks" : "",
               o->empty_row ? " empty-nan" : "");
    for (size_t m = 0; m < o->mask_count; m++)
        n = append(text, size, n, " mask-%s %s", kinds[o->masks[m].kind],
                   mh_tensor_describe(&o->masks[m].tensor, shape, sizeof shape));
    if (o->sequences)
        n = append(text, size, n, " packed %zu (longest T%zu S%zu)", o->sequences, c->T_max,
                   c->S_max);
    if (o->weights)
        n = append(text, size, n, " weights stage %d%s %s", (int)o->weights_stage,
                   o->weights_average ? " average" : "",
                   mh_tensor_describe(o->weights, shape, sizeof shape));
    n = append(text, size, n, "%s", o->lse ? " lse" : "");
    if (o->dropout > 0)
        n = append(text, size, n, " dropout %g seed %llu sequence %llu%s", (double)o->dropout,
                   (unsigned long long)o->dropout_seed, (unsigned long long)o->dropout_sequence,
                   o->weights && o->weights_dropped ? " weights-dropped" : "");
    if (c->dout.bytes)
        describe_gradients(c, text, size, n);
    return text;
}
