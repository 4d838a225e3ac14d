// SPDX-License-Identifier: MIT
// The input arrays of `multihead attend`: reads them, checks that they match, and converts them for
// the library. The library checks shapes too; here the messages can name the option and the file.
#include "attend.h"
#include "masked_queries.h"
#include "messages.h"
#include "steps/steps.h"

#include <inttypes.h>
#include <string.h>

static const char *const tensor_words[4] = {"batch", "number of heads", "length", "head width"};

// q, k or v at random; each has a seed of its own.
static int draw_tensor(attend *a, array *in)
{
    size_t shape[4];
    for (int d = 0; d < a->random_rank; d++)
        shape[d] = (size_t)a->random[d];
    int code = array_allocate(a->context, "--random", MH_F32, a->random_rank, shape, &in->tensor,
                              &in->copy_size);
    if (code != EXIT_DONE)
        return code;
    in->copy = in->tensor.data;
    in->found = in->tensor;
    in->spec = "--random"; // for messages
    steps_draw(&in->tensor, a->options.dropout_seed + 1 + (uint64_t)(in - a->inputs));
    return EXIT_DONE;
}

static int read_tensor(attend *a, array *in)
{
    const bool drawn = a->random_rank && in <= &a->inputs[INPUT_V];
    int code = drawn ? draw_tensor(a, in) : array_open(a->context, in);
    if (code != EXIT_DONE)
        return code;
    if (!array_is_float(in))
        return array_complain(in, "expected a float array");
    if (in->tensor.rank < 2 || in->tensor.rank > 4)
        return array_complain(in, "expected 4 dimensions (batch, heads, length, width), or the "
                                  "last 3 or 2 of them");
    if (in == &a->inputs[INPUT_Q])
        a->query_rank = in->tensor.rank;
    array_extend(in, 4);
    return array_convert(a->context, in, a->dtype, false);
}

// Whether a dimension is the same in both.
static int check_equal(const array *in, const array *as, int dim)
{
    size_t found = in->tensor.shape[dim], expected = as->tensor.shape[dim];
    if (found == expected)
        return EXIT_DONE;
    return array_complain(in, "%s %zu, expected %zu as in %s %s", tensor_words[dim], found,
                          expected, as->option, as->spec);
}

static int check_shapes(const attend *a)
{
    const array *q = &a->inputs[INPUT_Q], *k = &a->inputs[INPUT_K], *v = &a->inputs[INPUT_V];
    const struct {
        const array *in, *as;
        int dim;
    } equal[] = {{k, q, 0}, {k, q, 3}, {v, q, 0}, {v, k, 1}, {v, k, 2}};
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
        if (check_equal(equal[i].in, equal[i].as, equal[i].dim) != EXIT_DONE)
            return EXIT_INPUT;
    size_t heads = q->tensor.shape[1], groups = k->tensor.shape[1];
    if (groups == 0 ? heads != 0 : heads % groups != 0)
        return array_complain(k, "%zu %s, expected a divisor of the %zu of --q %s", groups,
                              plural(groups, "head", "heads"), heads, q->spec);
    for (const array *const *in = (const array *[]){q, v, NULL}; *in; in++) {
        const size_t width = (*in)->tensor.shape[3];
        if (width > MH_MAX_HEAD_DIM)
            return array_complain(*in, "heads of width %zu, expected 1 to %d", width,
                                  MH_MAX_HEAD_DIM);
    }
    return EXIT_DONE;
}

static int attend_read_mask(attend *a, const size_t shape[4])
{
    array *in = &a->inputs[INPUT_MASK];
    int code = array_open(a->context, in);
    if (code != EXIT_DONE)
        return code;
    mh_tensor ignored;
    mh_status status = mh_tensor_broadcast(a->context, &in->tensor, 4, shape, &ignored);
    if (status != MH_OK)
        return array_complain(in,
                              "cannot be broadcast to (%zu, %zu, %zu, %zu), that is batch, "
                              "heads, queries, keys",
                              shape[0], shape[1], shape[2], shape[3]);
    bool is_float = array_is_float(in);
    if (!is_float && a->outputs[OUTPUT_DMASK].path)
        return array_complain(in, "only a float mask has a gradient for --dmask");
    code = is_float ? array_to_added_mask(a->context, in, "to keep must be bool or integer")
                    : array_convert(a->context, in, MH_BOOL, false);
    a->mask = mh_mask_make(is_float ? MH_MASK_ADD : MH_MASK_KEEP, in->tensor);
    a->options.masks = &a->mask;
    a->options.mask_count = 1;
    return code;
}

// A list of `count` values, one for each `word`.
static int read_list(attend *a, array *in, size_t count, const char *word, mh_dtype dtype)
{
    int code = array_open(a->context, in);
    if (code != EXIT_DONE)
        return code;
    bool wants_float = dtype == MH_F32;
    if (array_is_float(in) != wants_float || in->tensor.dtype == MH_BOOL)
        return array_complain(in, "expected %s", wants_float ? "a float array" : "integers");
    if (in->tensor.rank != 1 || in->tensor.shape[0] != count)
        return array_complain(in, "expected shape (%zu,), one number for each %s", count, word);
    return array_convert(a->context, in, dtype, true);
}

static int read_lengths(attend *a, size_t batch, size_t keys)
{
    array *in = &a->inputs[INPUT_LENGTHS];
    int code = read_list(a, in, batch, "sequence of the batch", MH_I64);
    if (code != EXIT_DONE)
        return code;
    const int64_t *lengths = in->tensor.data;
    for (size_t b = 0; b < batch; b++)
        if (lengths[b] < 0 || (uint64_t)lengths[b] > keys)
            return array_complain(
                in, "element %zu is %" PRId64 ", expected 0 to %zu, the number of keys", b,
                lengths[b], keys);
    a->options.key_lengths = lengths;
    return EXIT_DONE;
}

// The gradient of the result: (B, H, T, Ev).
static int read_grad_out(attend *a)
{
    array *in = &a->inputs[INPUT_GRAD_OUT];
    const array *q = &a->inputs[INPUT_Q], *v = &a->inputs[INPUT_V];
    int code = read_tensor(a, in);
    for (int dim = 0; dim < 4 && code == EXIT_DONE; dim++)
        code = check_equal(in, dim < 3 ? q : v, dim);
    return code;
}

// Reports how many queries see no key, if options may be the reason: k without keys is no error.
static void attend_note_masked(const attend *a, const size_t shape[4])
{
    const mh_attention_options *o = &a->options;
    const array *mask = &a->inputs[INPUT_MASK];
    const struct {
        bool given;
        const char *name;
    } rules[] = {{o->causal != MH_CAUSAL_NONE, "--causal"},
                 {o->window_left >= 0 || o->window_right >= 0, "--window"},
                 {o->key_lengths, "--kv-lengths"}};
    char where[512] = "";
    if (mask->spec)
        snprintf(where, sizeof where, "%s %s", mask->option, mask->spec);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const size_t used = strlen(where);
        if (rules[i].given)
            snprintf(where + used, sizeof where - used, "%s%s", used ? ", " : "", rules[i].name);
    }
    const bool keeps = mask->spec && a->mask.kind == MH_MASK_KEEP;
    if (*where)
        note_masked_queries(a->context, o, shape, where,
                            keeps ? " (true means may attend here; in nn.MultiheadAttention and "
                                    "multihead mha it means masked)"
                                  : "");
}

int attend_read_inputs(attend *a)
{
    int code = EXIT_DONE;
    for (int i = INPUT_Q; i <= INPUT_V && code == EXIT_DONE; i++)
        code = read_tensor(a, &a->inputs[i]);
    if (code == EXIT_DONE)
        code = check_shapes(a);
    if (code != EXIT_DONE)
        return code;
    const size_t *q = a->inputs[INPUT_Q].tensor.shape; // (B, H, T, E)
    const size_t keys = a->inputs[INPUT_K].tensor.shape[2];
    const size_t scores[4] = {q[0], q[1], q[2], keys};
    if (a->options.causal == MH_CAUSAL && q[2] != keys)
        return complain_alignment(q[2], keys);
    if (a->inputs[INPUT_MASK].spec)
        code = attend_read_mask(a, scores);
    if (code == EXIT_DONE && a->inputs[INPUT_LENGTHS].spec)
        code = read_lengths(a, q[0], keys);
    if (code == EXIT_DONE && a->inputs[INPUT_SINKS].spec) {
        code = read_list(a, &a->inputs[INPUT_SINKS], q[1], "head", MH_F32);
        a->options.sinks = a->inputs[INPUT_SINKS].tensor.data;
    }
    if (code == EXIT_DONE && a->inputs[INPUT_GRAD_OUT].spec)
        code = read_grad_out(a);
    if (code == EXIT_DONE)
        attend_note_masked(a, scores);
    return code;
}
