// SPDX-License-Identifier: MIT
// Outputs that overlap themselves, each other or an input, and strides that overflow, are refused
// by every public function that writes tensors, with a message that names the views; what is
// documented to work in place does; and views that share a range of bytes but no element are fine.
#include "api_calls.h"

enum { W = API_WIDTH, N = API_TOKENS, E = W / API_HEADS };

static api_objects objects;

// ---- spoiling one thing -------------------------------------------------------------------------

static void refused(mh_context *context, const api_call *f, mh_tensor *t, const char *output,
                    const char *other)
{
    char words[96];
    const mh_status status = f->call(&objects, t);
    snprintf(words, sizeof words, other ? "overlaps %s," : "%s: ", other ? other : output);
    if (status != MH_ERROR_ARGUMENT || !strstr(mh_error_message(context), words) ||
        strncmp(mh_error_message(context), output, strlen(output)) != 0)
        fail_msg("%s: %s beside %s: found status %d, \"%s\"", f->name, output,
                 other ? other : "itself", (int)status, mh_error_message(context));
}

static bool may_be(const api_operand *input, const api_operand *output)
{
    char name[64];
    snprintf(name, sizeof name, "%s,", output->name);
    const char *found = input->may_be ? strstr(input->may_be, name) : NULL;
    return found && (found == input->may_be || found[-1] == ',');
}

// Output `o` at the place of operand `p`, exactly and one element further.
static void place_on(mh_context *context, const api_call *f, size_t o, size_t p)
{
    const api_operand *output = &f->operands[o], *other = &f->operands[p];
    const bool later = other->output && p > o;
    mh_tensor t[API_OPERANDS_MOST];
    api_call_tensors(f, t);
    t[o].data = t[p].data;
    if (may_be(other, output))
        test_ok(context, f->call(&objects, t));
    else
        refused(context, f, t, later || !other->output ? output->name : other->name,
                later || !other->output ? other->name : output->name);
    api_call_tensors(f, t);
    t[o].data = (char *)t[p].data + mh_dtype_size(output->dtype);
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

static void each_function(void (*check)(mh_context *context, const api_call *f, size_t i))
{
    mh_context *context = test_context(NULL, 1);
    memset(&objects, 0, sizeof objects);
    api_files_make(context, &objects);
    api_objects_make(context, &objects);
    for (size_t i = 0; i < api_call_count; i++) {
        mh_tensor t[API_OPERANDS_MOST];
        api_call_tensors(&api_calls[i], t);
        test_ok(context, api_calls[i].call(&objects, t));
        for (size_t o = 0; o < api_operand_count(&api_calls[i]); o++)
            check(context, &api_calls[i], o);
    }
    api_objects_free(&objects);
    mh_context_free(context);
    api_files_free(&objects);
}

static void check_outputs(mh_context *context, const api_call *f, size_t o)
{
    mh_tensor t[API_OPERANDS_MOST];
    if (!f->operands[o].output)
        return;
    for (size_t p = 0; p < api_operand_count(f); p++)
        if (p != o)
            place_on(context, f, o, p);
    api_call_tensors(f, t);
    t[o].stride[wide_dimension(&t[o])] = 0;
    if (!f->arrays)
        refused(context, f, t, f->operands[o].name, NULL);
    if (f->arrays || t[o].rank < 2)
        return;
    api_call_tensors(f, t);
    t[o].stride[wide_dimension(&t[o])] = 1; // rows that overlap
    refused(context, f, t, f->operands[o].name, NULL);
}

static void check_strides(mh_context *context, const api_call *f, size_t o)
{
    static const ptrdiff_t far[] = {PTRDIFF_MAX, PTRDIFF_MIN, PTRDIFF_MAX / 2, PTRDIFF_MIN / 4};
    for (size_t i = 0; i < sizeof far / sizeof *far && !f->arrays; i++) {
        mh_tensor t[API_OPERANDS_MOST];
        api_call_tensors(f, t);
        t[o].stride[wide_dimension(&t[o])] = far[i];
        const mh_status status = f->call(&objects, t);
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

// ---- against all bytes, one by one --------------------------------------------------------------

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

// ---- interleaved views --------------------------------------------------------------------------

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
    mh_tensor sums = mh_tensor_3d(lse, MH_F32, B, H, T);
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

// An empty tensor has no bytes, whatever its strides.
static void empty_tensors_overlap_nothing(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float value = 1;
    mh_tensor x = mh_tensor_2d(&value, MH_F32, 3, 0), y = x;
    x.stride[0] = y.stride[0] = PTRDIFF_MAX;
    test_ok(context, mh_tensor_copy(context, &x, &y));
    test_ok(context, mh_add(context, &x, &x, &y));
    mh_context_free(context);
}

// Document ids are read until the last gradient is written.
static void gradients_on_document_ids(void **state)
{
    (void)state;
    enum { TOKENS = 4 };
    mh_context *context = test_context(NULL, 1);
    static float data[5][TOKENS * TOKENS];
    static union {
        int32_t ids[TOKENS * TOKENS];
        float dq[TOKENS * TOKENS];
    } shared;
    mh_tensor part[5];
    for (int i = 0; i < 5; i++)
        part[i] = mh_tensor_4d(data[i], MH_F32, 1, 1, TOKENS, TOKENS);
    static int32_t key_ids[TOKENS];
    const mh_tensor queries = mh_tensor_2d(shared.ids, MH_I32, 1, TOKENS);
    const mh_tensor keys = mh_tensor_2d(key_ids, MH_I32, 1, TOKENS);
    static float lse_data[TOKENS];
    mh_tensor lse = mh_tensor_3d(lse_data, MH_F32, 1, 1, TOKENS);
    mh_attention_options options = mh_attention_options_default();
    options.query_documents = &queries;
    options.key_documents = &keys;
    options.lse = &lse;
    mh_tensor dq = mh_tensor_4d(shared.dq, MH_F32, 1, 1, TOKENS, TOKENS);
    const mh_attention_gradients gradients = {.struct_size = sizeof gradients, .dq = &dq};
    test_refused(context,
                 mh_attention_backward(context, &options, &part[0], &part[1], &part[2], &part[3],
                                       &part[4], &gradients),
                 MH_ERROR_ARGUMENT, "query_documents");
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlaps_are_refused),
        cmocka_unit_test(far_strides_are_refused),
        cmocka_unit_test(far_strides_of_written_tensors),
        cmocka_unit_test(answers_are_exact),
        cmocka_unit_test(interleaved_views_are_accepted),
        cmocka_unit_test(empty_tensors_overlap_nothing),
        cmocka_unit_test(gradients_on_document_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
