// SPDX-License-Identifier: MIT
// Outputs that overlap themselves, each other or an input, and strides that overflow, are refused
// by every public function that writes tensors, with a message that names the views; what is
// documented to work in place does; and views that share a range of bytes but no element are fine.
#include "api_objects.h"

enum { W = API_WIDTH, N = API_TOKENS, E = W / API_HEADS, MOST = 10, ROOM = 4096 };

// ---- every function and its tensors ----------------------------------------------------------

typedef struct operand {
    const char *name;
    bool output;
    const char *may_be; // outputs that this input may be, each with a comma; NULL: none
    mh_dtype dtype;
    int rank;
    size_t shape[4];
} operand;

typedef struct function {
    const char *name;
    mh_status (*call)(mh_context *context, const mh_tensor *t);
    operand operands[MOST];
    bool arrays; // plain arrays, which have no strides
} function;

static api_objects objects;

static mh_status attention(mh_context *c, const mh_tensor *t)
{
    mh_attention_options o = mh_attention_options_default();
    const mh_mask mask = {MH_MASK_ADD, t[3]};
    o.masks = &mask;
    o.mask_count = 1;
    o.lse = &t[5];
    o.weights = &t[6];
    return mh_attention_forward(c, &o, &t[0], &t[1], &t[2], &t[4]);
}

static mh_status cached(mh_context *c, const mh_tensor *t)
{
    return mh_attention_cached(c, NULL, &t[0], objects.cache, &t[1]);
}

static mh_status attention_backward(mh_context *c, const mh_tensor *t)
{
    mh_attention_options o = mh_attention_options_default();
    mh_attention_gradients g = mh_attention_gradients_default();
    o.lse = &t[5];
    g.dq = &t[6], g.dk = &t[7], g.dv = &t[8];
    return mh_attention_backward(c, &o, &t[0], &t[1], &t[2], &t[3], &t[4], &g);
}

static mh_status copy(mh_context *c, const mh_tensor *t) { return mh_tensor_copy(c, &t[0], &t[1]); }

static mh_status matmul(mh_context *c, const mh_tensor *t)
{
    return mh_matmul(c, &t[0], &t[1], &t[2]);
}

static mh_status matmul_packed(mh_context *c, const mh_tensor *t)
{
    return mh_matmul_packed(c, &t[0], objects.packed, &t[1]);
}

static mh_status linear(mh_context *c, const mh_tensor *t)
{
    mh_linear_options o = mh_linear_options_default();
    o.bias = &t[2];
    o.residual = &t[3];
    o.relu_output = &t[4];
    o.preactivation = &t[6];
    return mh_linear(c, &o, &t[0], &t[1], &t[5]);
}

static mh_status linear_backward(mh_context *c, const mh_tensor *t)
{
    return mh_linear_backward(c, NULL, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5]);
}

static mh_status softmax(mh_context *c, const mh_tensor *t)
{
    return mh_softmax(c, &t[0], 1, &t[1]);
}

static mh_status log_softmax(mh_context *c, const mh_tensor *t)
{
    return mh_log_softmax(c, &t[0], 1, &t[1]);
}

static mh_status layer_norm(mh_context *c, const mh_tensor *t)
{
    return mh_layer_norm(c, &t[0], &t[1], &t[2], 1e-5f, &t[3], &t[4], &t[5]);
}

static mh_status layer_norm_backward(mh_context *c, const mh_tensor *t)
{
    return mh_layer_norm_backward(c, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], false);
}

static mh_status rms_norm(mh_context *c, const mh_tensor *t)
{
    return mh_rms_norm(c, &t[0], &t[1], 1e-5f, &t[2], &t[3]);
}

static mh_status rms_norm_backward(mh_context *c, const mh_tensor *t)
{
    return mh_rms_norm_backward(c, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], false);
}

static mh_status activate(mh_context *c, const mh_tensor *t)
{
    return mh_activate(c, MH_GELU, &t[0], &t[1]);
}

static mh_status activate_backward(mh_context *c, const mh_tensor *t)
{
    return mh_activate_backward(c, MH_GELU, &t[0], &t[1], &t[2]);
}

static mh_status swiglu(mh_context *c, const mh_tensor *t)
{
    return mh_swiglu(c, &t[0], &t[1], &t[2]);
}

static mh_status swiglu_backward(mh_context *c, const mh_tensor *t)
{
    return mh_swiglu_backward(c, &t[0], &t[1], &t[2], &t[3], &t[4]);
}

static mh_status add(mh_context *c, const mh_tensor *t) { return mh_add(c, &t[0], &t[1], &t[2]); }

static mh_status dropout(mh_context *c, const mh_tensor *t)
{
    return mh_dropout(c, NULL, &t[0], &t[1]);
}

static mh_status embedding(mh_context *c, const mh_tensor *t)
{
    return mh_embedding(c, &t[0], &t[1], 1, &t[2]);
}

static mh_status embedding_backward(mh_context *c, const mh_tensor *t)
{
    return mh_embedding_backward(c, &t[0], 1, -1, &t[1], &t[2]);
}

static mh_status sinusoidal(mh_context *c, const mh_tensor *t)
{
    return mh_positions_sinusoidal(c, 0, 1, &t[0]);
}

static mh_status rope(mh_context *c, const mh_tensor *t)
{
    mh_rope_options o = mh_rope_options_default();
    o.cosine = &t[1];
    o.sine = &t[2];
    return mh_rope(c, &o, &t[0], &t[3]);
}

static mh_status cross_entropy(mh_context *c, const mh_tensor *t)
{
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    double loss;
    o.losses = &t[3];
    return mh_cross_entropy(c, &o, &t[0], &t[1], &loss, NULL, &t[2]);
}

static mh_status adamw(mh_context *c, const mh_tensor *t)
{
    return mh_adamw_step(c, NULL, 1, W, t[0].data, t[1].data, t[2].data, t[3].data);
}

static mh_status sgd(mh_context *c, const mh_tensor *t)
{
    mh_sgd_options o = mh_sgd_options_default();
    o.momentum = 0.9;
    return mh_sgd_step(c, &o, W, t[0].data, t[1].data, t[2].data);
}

static mh_status mha(mh_context *c, const mh_tensor *t)
{
    return mh_mha_forward(c, objects.mha, NULL, &t[0], &t[1], &t[2], &t[3], &t[4]);
}

static mh_status mha_backward(mh_context *c, const mh_tensor *t)
{
    float other[N * W];
    mh_tensor out = mh_tensor_3d(other, MH_F32, N, 1, W);
    mh_mha_options o = mh_mha_options_default();
    mh_tape *tape = NULL;
    test_ok(c, mh_tape_create(c, &tape));
    o.tape = tape;
    mh_status status = mh_mha_forward(c, objects.mha, &o, &t[0], &t[1], &t[2], &out, NULL);
    if (!status)
        status = mh_mha_backward(c, objects.mha, &o, &t[0], &t[1], &t[2], &t[3], t[7].data, &t[4],
                                 &t[5], &t[6]);
    mh_tape_free(tape);
    return status;
}

static mh_status transformer(mh_context *c, const mh_tensor *t)
{
    return mh_transformer_forward(c, objects.transformer, NULL, &t[0], &t[1], &t[2]);
}

static mh_status encode(mh_context *c, const mh_tensor *t)
{
    return mh_transformer_encode(c, objects.transformer, NULL, &t[0], &t[1]);
}

static mh_status transformer_backward(mh_context *c, const mh_tensor *t)
{
    float other[N * W];
    mh_tensor out = mh_tensor_3d(other, MH_F32, 1, N, W);
    mh_transformer_options o = mh_transformer_options_default();
    o.tape = objects.tape;
    mh_status status = mh_transformer_forward(c, objects.transformer, &o, &t[0], &t[1], &out);
    if (!status)
        status = mh_transformer_backward(c, objects.transformer, &o, &t[0], &t[1], &t[2], NULL,
                                         &t[3], &t[4]);
    return status;
}

static mh_status decode(mh_context *c, const mh_tensor *t)
{
    return mh_decoding_step(c, objects.decoding, NULL, 0, &t[0], &t[1]);
}

#define IN(name, ...)                                                                              \
    {                                                                                              \
        name, false, NULL, MH_F32, __VA_ARGS__                                                     \
    }
#define IN_PLACE(name, may_be, ...)                                                                \
    {                                                                                              \
        name, false, may_be, MH_F32, __VA_ARGS__                                                   \
    }
#define IDS(name, ...)                                                                             \
    {                                                                                              \
        name, false, NULL, MH_I32, __VA_ARGS__                                                     \
    }
#define OUT(name, ...)                                                                             \
    {                                                                                              \
        name, true, NULL, MH_F32, __VA_ARGS__                                                      \
    }
#define HEADS                                                                                      \
    4, { 1, API_HEADS, N, E }
#define ROWS                                                                                       \
    2, { N, W }
#define SQUARE                                                                                     \
    2, { W, W }
#define VECTOR                                                                                     \
    1, { W }
#define EACH_ROW                                                                                   \
    1, { N }
#define BATCH                                                                                      \
    3, { 1, N, W }
#define TIME_FIRST                                                                                 \
    3, { N, 1, W }

static const function functions[] = {
    {"mh_attention_forward",
     attention,
     {IN("q", HEADS), IN("k", HEADS), IN("v", HEADS), IN("masks", 2, {N, N}), OUT("out", HEADS),
      OUT("lse", 3, {1, API_HEADS, N}), OUT("weights", 4, {1, API_HEADS, N, N})},
     false},
    {"mh_attention_cached", cached, {IN("q", HEADS), OUT("out", HEADS)}, false},
    {"mh_attention_backward",
     attention_backward,
     {IN("q", HEADS), IN("k", HEADS), IN("v", HEADS), IN("out", HEADS), IN("dout", HEADS),
      IN("lse", 3, {1, API_HEADS, N}), OUT("dq", HEADS), OUT("dk", HEADS), OUT("dv", HEADS)},
     false},
    {"mh_tensor_copy", copy, {IN_PLACE("from", "to,", ROWS), OUT("to", ROWS)}, false},
    {"mh_matmul", matmul, {IN("a", ROWS), IN("b", SQUARE), OUT("c", ROWS)}, false},
    {"mh_matmul_packed", matmul_packed, {IN("a", ROWS), OUT("c", ROWS)}, false},
    {"mh_linear",
     linear,
     {IN("x", ROWS), IN("weight", SQUARE), IN("bias", VECTOR), IN_PLACE("residual", "y,", ROWS),
      IN("relu_output", ROWS), OUT("y", ROWS), OUT("preactivation", ROWS)},
     false},
    {"mh_linear_backward",
     linear_backward,
     {IN("x", ROWS), IN("weight", SQUARE), IN("dy", ROWS), OUT("dx", ROWS), OUT("dweight", SQUARE),
      OUT("dbias", VECTOR)},
     false},
    {"mh_softmax", softmax, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_log_softmax", log_softmax, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_layer_norm",
     layer_norm,
     {IN_PLACE("x", "y,", ROWS), IN("weight", VECTOR), IN("bias", VECTOR), OUT("y", ROWS),
      OUT("mean", EACH_ROW), OUT("rstd", EACH_ROW)},
     false},
    {"mh_layer_norm_backward",
     layer_norm_backward,
     {IN("x", ROWS), IN("weight", VECTOR), IN("mean", EACH_ROW), IN("rstd", EACH_ROW),
      IN_PLACE("dy", "dx,", ROWS), OUT("dx", ROWS), OUT("dweight", VECTOR), OUT("dbias", VECTOR)},
     false},
    {"mh_rms_norm",
     rms_norm,
     {IN_PLACE("x", "y,", ROWS), IN("weight", VECTOR), OUT("y", ROWS), OUT("rstd", EACH_ROW)},
     false},
    {"mh_rms_norm_backward",
     rms_norm_backward,
     {IN("x", ROWS), IN("weight", VECTOR), IN("rstd", EACH_ROW), IN_PLACE("dy", "dx,", ROWS),
      OUT("dx", ROWS), OUT("dweight", VECTOR)},
     false},
    {"mh_activate", activate, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_activate_backward",
     activate_backward,
     {IN_PLACE("x", "dx,", ROWS), IN_PLACE("dy", "dx,", ROWS), OUT("dx", ROWS)},
     false},
    {"mh_swiglu",
     swiglu,
     {IN_PLACE("gate", "y,", ROWS), IN_PLACE("up", "y,", ROWS), OUT("y", ROWS)},
     false},
    {"mh_swiglu_backward",
     swiglu_backward,
     {IN_PLACE("gate", "dgate,dup,", ROWS), IN_PLACE("up", "dgate,dup,", ROWS), IN("dy", ROWS),
      OUT("dgate", ROWS), OUT("dup", ROWS)},
     false},
    {"mh_add", add, {IN_PLACE("a", "y,", ROWS), IN_PLACE("b", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_dropout", dropout, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_embedding", embedding, {IN("table", SQUARE), IDS("ids", EACH_ROW), OUT("y", ROWS)}, false},
    {"mh_embedding_backward",
     embedding_backward,
     {IDS("ids", EACH_ROW), IN("dy", ROWS), OUT("dtable", SQUARE)},
     false},
    {"mh_positions_sinusoidal", sinusoidal, {OUT("y", ROWS)}, false},
    {"mh_rope",
     rope,
     {IN_PLACE("x", "y,", ROWS), IN("cosine", 2, {N, W / 2}), IN("sine", 2, {N, W / 2}),
      OUT("y", ROWS)},
     false},
    {"mh_cross_entropy",
     cross_entropy,
     {IN_PLACE("logits", "dlogits,", ROWS), IDS("targets", EACH_ROW), OUT("dlogits", ROWS),
      OUT("losses", EACH_ROW)},
     false},
    {"mh_adamw_step",
     adamw,
     {IN("gradient", VECTOR), OUT("parameter", VECTOR), OUT("m", VECTOR), OUT("v", VECTOR)},
     true},
    {"mh_sgd_step",
     sgd,
     {IN("gradient", VECTOR), OUT("parameter", VECTOR), OUT("velocity", VECTOR)},
     true},
    {"mh_mha_forward",
     mha,
     {IN("query", TIME_FIRST), IN("key", TIME_FIRST), IN("value", TIME_FIRST),
      OUT("output", TIME_FIRST), OUT("weights", 3, {1, N, N})},
     false},
    {"mh_mha_backward",
     mha_backward,
     {IN("query", TIME_FIRST), IN("key", TIME_FIRST), IN("value", TIME_FIRST),
      IN("doutput", TIME_FIRST), OUT("dquery", TIME_FIRST), OUT("dkey", TIME_FIRST),
      OUT("dvalue", TIME_FIRST), OUT("gradients", VECTOR)},
     true},
    {"mh_transformer_forward",
     transformer,
     {IN("src", BATCH), IN("tgt", BATCH), OUT("output", BATCH)},
     false},
    {"mh_transformer_encode", encode, {IN("src", BATCH), OUT("output", BATCH)}, false},
    {"mh_transformer_backward",
     transformer_backward,
     {IN("src", BATCH), IN("tgt", BATCH), IN("doutput", BATCH), OUT("dsrc", BATCH),
      OUT("dtgt", BATCH)},
     false},
    {"mh_decoding_step", decode, {IN_PLACE("tgt", "output,", BATCH), OUT("output", BATCH)}, false},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// ---- spoiling one thing -----------------------------------------------------------------------

static float memory[MOST][ROOM];

static size_t operand_count(const function *f)
{
    size_t count = 0;
    while (count < MOST && f->operands[count].name)
        count++;
    return count;
}

// Each operand in memory of its own; ids are 0.
static void separate(const function *f, mh_tensor *t)
{
    for (size_t i = 0; i < operand_count(f); i++) {
        const operand *o = &f->operands[i];
        for (size_t k = 0; k < ROOM; k++)
            memory[i][k] = o->dtype == MH_I32 ? 0 : (float)(k % 7) / 8;
        t[i] = mh_tensor_view(memory[i] + 64, o->dtype, o->rank, o->shape);
    }
}

static void refused(mh_context *context, const function *f, const mh_tensor *t, const char *output,
                    const char *other)
{
    char words[96];
    const mh_status status = f->call(context, t);
    snprintf(words, sizeof words, other ? "overlaps %s," : "%s: ", other ? other : output);
    if (status != MH_ERROR_ARGUMENT || !strstr(mh_error_message(context), words) ||
        strncmp(mh_error_message(context), output, strlen(output)) != 0)
        fail_msg("%s: %s beside %s: found status %d, \"%s\"", f->name, output,
                 other ? other : "itself", (int)status, mh_error_message(context));
}

static bool may_be(const operand *input, const operand *output)
{
    char name[64];
    snprintf(name, sizeof name, "%s,", output->name);
    const char *found = input->may_be ? strstr(input->may_be, name) : NULL;
    return found && (found == input->may_be || found[-1] == ',');
}

// Output `o` at the place of operand `p`, exactly and one element further.
static void place_on(mh_context *context, const function *f, size_t o, size_t p)
{
    const operand *output = &f->operands[o], *other = &f->operands[p];
    const bool later = other->output && p > o;
    mh_tensor t[MOST];
    separate(f, t);
    t[o].data = t[p].data;
    if (may_be(other, output))
        test_ok(context, f->call(context, t));
    else
        refused(context, f, t, later || !other->output ? output->name : other->name,
                later || !other->output ? other->name : output->name);
    separate(f, t);
    t[o].data = (float *)t[p].data + 1;
    refused(context, f, t, later || !other->output ? output->name : other->name,
            later || !other->output ? other->name : output->name);
}

static int wide_dimension(const mh_tensor *t)
{
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] > 1)
            return d;
    return 0;
}

static void each_function(void (*check)(mh_context *context, const function *f, size_t i))
{
    mh_context *context = test_context(NULL, 1);
    memset(&objects, 0, sizeof objects);
    api_files_make(context, &objects);
    api_objects_make(context, &objects);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        mh_tensor t[MOST];
        separate(&functions[i], t);
        test_ok(context, functions[i].call(context, t));
        for (size_t o = 0; o < operand_count(&functions[i]); o++)
            check(context, &functions[i], o);
    }
    api_objects_free(&objects);
    mh_context_free(context);
    api_files_free(&objects);
}

static void check_outputs(mh_context *context, const function *f, size_t o)
{
    mh_tensor t[MOST];
    if (!f->operands[o].output)
        return;
    for (size_t p = 0; p < operand_count(f); p++)
        if (p != o)
            place_on(context, f, o, p);
    separate(f, t);
    t[o].stride[wide_dimension(&t[o])] = 0;
    if (!f->arrays)
        refused(context, f, t, f->operands[o].name, NULL);
    if (f->arrays || t[o].rank < 2)
        return;
    separate(f, t);
    t[o].stride[wide_dimension(&t[o])] = 1; // rows that overlap
    refused(context, f, t, f->operands[o].name, NULL);
}

static void check_strides(mh_context *context, const function *f, size_t o)
{
    static const ptrdiff_t far[] = {PTRDIFF_MAX, PTRDIFF_MIN, PTRDIFF_MAX / 2, PTRDIFF_MIN / 4};
    for (size_t i = 0; i < sizeof far / sizeof *far && !f->arrays; i++) {
        mh_tensor t[MOST];
        separate(f, t);
        t[o].stride[wide_dimension(&t[o])] = far[i];
        const mh_status status = f->call(context, t);
        if (status != MH_ERROR_ARGUMENT || !strstr(mh_error_message(context), f->operands[o].name))
            fail_msg("%s: %s with stride %td: found status %d, \"%s\"", f->name,
                     f->operands[o].name, far[i], (int)status, mh_error_message(context));
    }
}

static void overlaps_are_refused(void **state)
{
    (void)state;
    each_function(check_outputs);
}

static void far_strides_are_refused(void **state)
{
    (void)state;
    each_function(check_strides);
}

static void far_strides_of_written_tensors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float data[4] = {0};
    mh_tensor t = mh_tensor_2d(data, MH_F32, 2, 2);
    mh_trace trace = mh_trace_default();
    t.stride[0] = PTRDIFF_MAX;
    test_refused(context, mh_npy_write(context, "/tmp/multihead-never.npy", &t), MH_ERROR_ARGUMENT,
                 "strides");
    trace.groups[MH_TRACE_ATTENTION].weights = mh_tensor_4d(data, MH_F32, 1, 1, 2, 2);
    trace.groups[MH_TRACE_ATTENTION].weights.stride[2] = PTRDIFF_MIN;
    test_refused(context, mh_trace_check(context, &trace), MH_ERROR_ARGUMENT, "strides");
    mh_context_free(context);
}

// ---- against all bytes, one by one ------------------------------------------------------------

enum { BUFFER = 1024 };

// Counts the view's elements at each byte; false if it leaves the buffer.
static bool count_bytes(const mh_tensor *t, const unsigned char *buffer, unsigned char *counts)
{
    const size_t size = mh_dtype_size(t->dtype), total = mh_tensor_count(t);
    for (size_t n = 0; n < total; n++) {
        ptrdiff_t at = (const unsigned char *)t->data - buffer;
        for (size_t rest = n, d = (size_t)t->rank; d-- > 0; rest /= t->shape[d])
            at += (ptrdiff_t)(rest % t->shape[d] * size) * t->stride[d];
        if (at < 0 || at + (ptrdiff_t)size > BUFFER)
            return false;
        for (size_t i = 0; i < size; i++)
            counts[(size_t)at + i]++;
    }
    return true;
}

static mh_tensor random_view(test_rng *rng, unsigned char *buffer, int rank, const size_t *shape)
{
    static const mh_dtype dtypes[] = {MH_F32, MH_F32, MH_BF16, MH_U8, MH_F64};
    const mh_dtype dtype = dtypes[test_between(rng, 0, 4)];
    const size_t size = mh_dtype_size(dtype);
    mh_tensor t = mh_tensor_view(buffer, dtype, rank, shape);
    t.data = buffer + test_between(rng, 0, BUFFER / size - 1) * size;
    const ptrdiff_t largest = test_chance(rng, 0.5) ? 7 : 40;
    for (int d = 0; d < rank; d++)
        if (test_chance(rng, 0.7))
            t.stride[d] = (ptrdiff_t)test_between(rng, 0, (size_t)(2 * largest)) - largest;
    return t;
}

static void answers_are_exact(void **state)
{
    (void)state;
    static _Alignas(64) unsigned char buffer[BUFFER];
    mh_context *context = test_context(NULL, 1);
    size_t accepted = 0, refusals = 0, cases = test_cases(20000);
    test_rng rng = {test_seed()};
    while (accepted + refusals < cases) {
        size_t shape[4];
        const int rank = (int)test_between(&rng, 0, 4);
        unsigned char from_counts[BUFFER] = {0}, to_counts[BUFFER] = {0};
        for (int d = 0; d < rank; d++)
            shape[d] = test_between(&rng, 1, 4);
        const mh_tensor from = random_view(&rng, buffer, rank, shape);
        mh_tensor to = random_view(&rng, buffer, rank, shape);
        if (test_chance(&rng, 0.5)) // interleaved, or nearly so
            memcpy(to.stride, from.stride, sizeof to.stride);
        if (!count_bytes(&from, buffer, from_counts) || !count_bytes(&to, buffer, to_counts))
            continue;
        bool itself = false, both = false;
        for (size_t i = 0; i < BUFFER; i++) {
            itself |= to_counts[i] > 1;
            both |= to_counts[i] && from_counts[i];
        }
        const mh_status status = mh_tensor_copy(context, &from, &to);
        if (status == (itself || both ? MH_OK : MH_ERROR_ARGUMENT) &&
            !(status == MH_OK && from.data == to.data))
            fail_msg("to overlaps itself: %d, from: %d; found status %d", itself, both,
                     (int)status);
        accepted += status == MH_OK;
        refusals += status != MH_OK;
    }
    assert_true(accepted > cases / 10 && refusals > cases / 10);
    mh_context_free(context);
}

// ---- interleaved views ------------------------------------------------------------------------

// q, k, v and out, as well as their gradients, side by side in rows of one buffer.
static void interleaved_views_are_accepted(void **state)
{
    (void)state;
    enum { B = 2, T = 5, H = 3, PARTS = 9, ROW = PARTS * H * E };
    static float all[B * T * ROW], lse[B * H * T];
    mh_context *context = test_context(NULL, 1);
    mh_attention_options options = mh_attention_options_default();
    mh_attention_gradients gradients = mh_attention_gradients_default();
    mh_tensor part[PARTS];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i] = (float)(i % 11) / 8;
    for (size_t p = 0; p < PARTS; p++) {
        mh_tensor t = mh_tensor_4d(all + p * H * E, MH_F32, B, T, H, E);
        t.stride[0] = T * ROW;
        t.stride[1] = ROW;
        part[p] = mh_tensor_swap(t, 1, 2);
    }
    const mh_tensor sums = mh_tensor_3d(lse, MH_F32, B, H, T);
    options.lse = &sums;
    test_ok(context,
            mh_attention_forward(context, &options, &part[0], &part[1], &part[2], &part[3]));
    gradients.dq = &part[5], gradients.dk = &part[6], gradients.dv = &part[7];
    test_ok(context, mh_attention_backward(context, &options, &part[0], &part[1], &part[2],
                                           &part[3], &part[4], &gradients));
    // The next part's first column is one too many.
    mh_tensor wide = mh_tensor_4d(all + 3 * H * E + 1, MH_F32, B, T, H, E);
    wide.stride[0] = T * ROW;
    wide.stride[1] = ROW;
    wide = mh_tensor_swap(wide, 1, 2);
    gradients.dq = &wide;
    test_refused(context,
                 mh_attention_backward(context, &options, &part[0], &part[1], &part[2], &part[3],
                                       &part[4], &gradients),
                 MH_ERROR_ARGUMENT, "dq");
    // y beside x in the same rows.
    const mh_tensor weight = mh_tensor_2d(all, MH_F32, W, W);
    static float rows[N * 2 * W];
    mh_tensor x = mh_tensor_2d(rows, MH_F32, N, W), y = mh_tensor_2d(rows + W, MH_F32, N, W);
    x.stride[0] = y.stride[0] = 2 * W;
    test_ok(context, mh_linear(context, NULL, &x, &weight, &y));
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlaps_are_refused),           cmocka_unit_test(far_strides_are_refused),
        cmocka_unit_test(far_strides_of_written_tensors), cmocka_unit_test(answers_are_exact),
        cmocka_unit_test(interleaved_views_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
