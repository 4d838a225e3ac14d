// SPDX-License-Identifier: MIT
// The arrays of `multihead mha`: query, key, value and masks from files, or the first three at
// random, checked against the module and each other. The library checks shapes too; here the
// messages can name the option and the file. All become f32 in C order.
#include "attend/masked_queries.h"
#include "layer.h"
#include "messages.h"

static const char *layout_words(const mha *m)
{
    return m->config.batch_first ? "(batch, length, width)" : "(length, batch, width)";
}

// ---- at random ----------------------------------------------------------------------------------

static int draw_input(mha *m, int i, size_t width)
{
    const size_t B = (size_t)m->random[0], T = (size_t)m->random[1];
    const size_t shape[3] = {m->config.batch_first ? B : T, m->config.batch_first ? T : B, width};
    array *in = &m->inputs[i];
    int code =
        array_allocate(m->context, "--random", MH_F32, 3, shape, &in->tensor, &in->copy_size);
    if (code != EXIT_DONE)
        return code;
    in->copy = in->tensor.data;
    steps_draw(&in->tensor, m->seed + 1 + (uint64_t)i);
    return EXIT_DONE;
}

// ---- from files ---------------------------------------------------------------------------------

static int read_input(mha *m, int i, size_t width)
{
    array *in = &m->inputs[i];
    int code = array_open(m->context, in);
    if (code != EXIT_DONE)
        return code;
    if (!array_is_float(in))
        return array_complain(in, "expected a float array");
    const int rank = in->tensor.rank;
    if (rank != 2 && rank != 3)
        return array_complain(in, "expected 3 dimensions %s, or 2 without the batch",
                              layout_words(m));
    if (in->tensor.shape[rank - 1] != width)
        return array_complain(in, "width %zu, expected %zu, the module's",
                              in->tensor.shape[rank - 1], width);
    return array_convert(m->context, in, MH_F32, true);
}

// A missing input defaults to the one before it, if that has the right width.
static int take_input(mha *m, int i, size_t width, size_t width_before)
{
    array *in = &m->inputs[i];
    if (in->spec)
        return read_input(m, i, width);
    if (i > INPUT_QUERY && width == width_before) {
        in->tensor = m->inputs[i - 1].tensor;
        return EXIT_DONE;
    }
    if (m->random[0] || m->random[1])
        return draw_input(m, i, width);
    complain("%s is missing: its width is %zu, that of %s %zu", in->option, width,
             m->inputs[i - 1].option, width_before);
    return EXIT_USAGE;
}

static size_t batch_of(const mha *m, const mh_tensor *t)
{
    return t->rank == 2 ? 1 : t->shape[m->config.batch_first ? 0 : 1];
}

static size_t mha_length_of(const mha *m, const mh_tensor *t)
{
    return t->shape[t->rank == 3 && m->config.batch_first ? 1 : 0];
}

static int mha_check_inputs(const mha *m)
{
    const array *query = &m->inputs[INPUT_QUERY];
    for (int i = INPUT_KEY; i <= INPUT_VALUE; i++) {
        const array *in = &m->inputs[i], *before = &m->inputs[i - 1];
        if (!in->spec)
            continue;
        if (in->tensor.rank != query->tensor.rank)
            return array_complain(in, "expected %d dimensions as in %s %s", query->tensor.rank,
                                  query->option, query->spec);
        if (batch_of(m, &in->tensor) != m->B)
            return array_complain(in, "batch %zu, expected %zu as in %s %s (arrays are %s)",
                                  batch_of(m, &in->tensor), m->B, query->option, query->spec,
                                  layout_words(m));
        if (i == INPUT_VALUE && mha_length_of(m, &in->tensor) != m->S)
            return array_complain(in, "length %zu, expected %zu as %s has",
                                  mha_length_of(m, &in->tensor), m->S,
                                  before->spec ? before->option : query->option);
    }
    return EXIT_DONE;
}

// ---- masks --------------------------------------------------------------------------------------

// Bool: true = may not attend; float: added. Integers could mean either and are rejected.
static int mha_read_mask(mha *m, array *in)
{
    int code = array_open(m->context, in);
    if (code != EXIT_DONE)
        return code;
    if (array_is_float(in))
        return array_to_added_mask(m->context, in, "to leave out must be bool");
    if (in->tensor.dtype != MH_BOOL)
        return array_complain(in, "expected bool (true = may NOT attend) or float (added)");
    return array_convert(m->context, in, MH_BOOL, true);
}

static int check_padding_mask(const mha *m, const array *in)
{
    const mh_tensor *t = &in->tensor;
    if (m->batched && (t->rank != 2 || t->shape[0] != m->B || t->shape[1] != m->S))
        return array_complain(in, "expected (%zu, %zu), that is batch, keys", m->B, m->S);
    if (!m->batched && (t->rank != 1 || t->shape[0] != m->S))
        return array_complain(in, "expected (%zu), one for each key", m->S);
    return EXIT_DONE;
}

static int check_attn_mask(const mha *m, const array *in)
{
    const mh_tensor *t = &in->tensor;
    const size_t BH = m->B * m->config.num_heads;
    const int r = t->rank;
    if (r < 2 || r > 3 || (r == 3 && t->shape[0] != BH) || t->shape[r - 2] != m->T ||
        t->shape[r - 1] != m->S)
        return array_complain(in,
                              "expected (%zu, %zu), that is queries, keys, or (%zu, %zu, %zu) with "
                              "batch x heads before them",
                              m->T, m->S, BH, m->T, m->S);
    return EXIT_DONE;
}

static int mha_take_mask(mha *m, array *in, int (*check)(const mha *m, const array *in),
                         const mh_tensor **mask)
{
    if (!in->spec)
        return EXIT_DONE;
    int code = mha_read_mask(m, in);
    if (code == EXIT_DONE)
        code = check(m, in);
    if (code == EXIT_DONE)
        *mask = &in->tensor;
    return code;
}

// Converts PyTorch's mask to the engine's, broadcast to (B, H, T, S).
static mh_mask mha_as_mask(const mh_tensor *tensor, mh_tensor wide)
{
    return mh_mask_make(tensor->dtype == MH_BOOL ? MH_MASK_DROP : MH_MASK_ADD, wide);
}

// Reports how many queries see no key. A learned key is seen by all.
static void mha_note_masked(const mha *m)
{
    const array *padding = &m->inputs[INPUT_PADDING], *mask = &m->inputs[INPUT_MASK];
    const size_t shape[4] = {m->B, m->config.num_heads, m->T, m->S};
    mh_attention_options o = m->attention;
    mh_mask masks[2];
    bool has_bool = false;
    char where[64];
    if ((!padding->spec && !mask->spec && m->causal == MH_CAUSAL_NONE) || m->extra)
        return;
    if (padding->spec) {
        const mh_tensor *t = &padding->tensor;
        masks[o.mask_count++] = mha_as_mask(t, mh_tensor_4d(t->data, t->dtype, m->B, 1, 1, m->S));
        has_bool |= t->dtype == MH_BOOL;
    }
    if (mask->spec) {
        const mh_tensor *t = &mask->tensor;
        masks[o.mask_count++] = mha_as_mask(t, t->rank == 3 ? mh_tensor_split(*t, 0, m->B) : *t);
        has_bool |= t->dtype == MH_BOOL;
    }
    o.masks = masks;
    snprintf(where, sizeof where, "%s%s%s%s", padding->spec ? padding->option : "",
             padding->spec && mask->spec ? ", " : "", mask->spec ? mask->option : "",
             m->causal == MH_CAUSAL_NONE ? ""
             : o.mask_count              ? ", --causal"
                                         : "--causal");
    note_masked_queries(m->context, &o, shape, where,
                        has_bool ? " (true means masked here, as in nn.MultiheadAttention; in "
                                   "multihead attend --mask it means may attend)"
                                 : "");
}

// ---- all of it ----------------------------------------------------------------------------------

int mha_read_inputs(mha *m)
{
    const size_t widths[3] = {m->config.input_dim, m->config.kdim, m->config.vdim};
    int code = EXIT_DONE;
    for (int i = INPUT_QUERY; i <= INPUT_VALUE && code == EXIT_DONE; i++)
        code = take_input(m, i, widths[i], i ? widths[i - 1] : 0);
    if (code != EXIT_DONE)
        return code;
    m->query = m->inputs[INPUT_QUERY].tensor;
    m->key = m->inputs[INPUT_KEY].tensor;
    m->value = m->inputs[INPUT_VALUE].tensor;
    m->batched = m->query.rank == 3;
    m->B = batch_of(m, &m->query);
    m->T = mha_length_of(m, &m->query);
    m->S = mha_length_of(m, &m->key);
    m->extra = m->config.add_bias_kv;
    code = mha_check_inputs(m);
    if (code == EXIT_DONE && m->causal == MH_CAUSAL && m->T != m->S)
        code = complain_alignment(m->T, m->S);
    if (code == EXIT_DONE)
        code = mha_take_mask(m, &m->inputs[INPUT_PADDING], check_padding_mask,
                             &m->options.key_padding_mask);
    if (code == EXIT_DONE)
        code = mha_take_mask(m, &m->inputs[INPUT_MASK], check_attn_mask, &m->options.attn_mask);
    if (code == EXIT_DONE)
        code = layer_add_bias(m);
    m->attention.causal = m->causal;
    m->options.attention = &m->attention;
    m->options.per_head_weights = m->per_head;
    if (code == EXIT_DONE)
        mha_note_masked(m);
    return code;
}

int mha_allocate_outputs(mha *m)
{
    size_t out[3], weights[4] = {m->B, m->config.num_heads, m->T, m->S + m->extra};
    const int rank = m->query.rank, weight_rank = 2 + m->batched + m->per_head;
    for (int d = 0; d < rank; d++)
        out[d] = d == rank - 1 ? m->config.embed_dim : m->query.shape[d];
    if (!m->per_head)
        weights[1] = m->B; // (B, T, S) are the last three
    output *o = &m->outputs[OUTPUT_OUT], *w = &m->outputs[OUTPUT_WEIGHTS];
    int code = array_allocate(m->context, o->option, MH_F32, rank, out, &o->tensor, &o->size);
    if (code == EXIT_DONE && (w->path || m->shapes))
        code = array_allocate(m->context, w->option, MH_F32, weight_rank, weights + 4 - weight_rank,
                              &w->tensor, &w->size);
    return code;
}
