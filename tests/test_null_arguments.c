// SPDX-License-Identifier: MIT
// Every function that can fail refuses NULL where something must be given, with a context and
// without: a mistake of the caller's is a message, not a crash. Those that cannot fail ask about
// what exists.
#include "support.h"

#include <multihead/io.h>
#include <multihead/model.h>
#include <multihead/multihead.h>
#include <multihead/text.h>
#include <multihead/train.h>
#include <multihead/translator.h>
#include <multihead/view.h>

#define REFUSED(call) assert_int_equal(call, MH_ERROR_ARGUMENT)

static void engine(mh_context *c)
{
    REFUSED(mh_tensor_broadcast(c, NULL, 0, NULL, NULL));
    REFUSED(mh_tensor_copy(c, NULL, NULL));
    REFUSED(mh_attention_forward(c, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_attention_workspace(c, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_attention_backward(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_attention_backward_workspace(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_attention_explain(c, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_kv_cache_create(c, NULL, NULL));
    REFUSED(mh_kv_cache_append(c, NULL, NULL, NULL, NULL));
    REFUSED(mh_kv_cache_reorder(c, NULL, NULL));
    REFUSED(mh_kv_cache_select(c, NULL, NULL, 0));
    REFUSED(mh_kv_cache_truncate(c, NULL, 0, 0));
    REFUSED(mh_attention_cached(c, NULL, NULL, NULL, NULL));
    REFUSED(mh_matmul(c, NULL, NULL, NULL));
    REFUSED(mh_matrix_pack(c, (mh_precision)0, NULL, NULL));
    REFUSED(mh_matmul_packed(c, NULL, NULL, NULL));
    REFUSED(mh_linear(c, NULL, NULL, NULL, NULL));
    REFUSED(mh_linear_backward(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_softmax(c, NULL, 0, NULL));
    REFUSED(mh_log_softmax(c, NULL, 0, NULL));
    REFUSED(mh_measure_limits(c, 0, 0, NULL));
}

static void layers(mh_context *c)
{
    REFUSED(mh_layer_norm(c, NULL, NULL, NULL, 0, NULL, NULL, NULL));
    REFUSED(mh_layer_norm_backward(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0));
    REFUSED(mh_rms_norm(c, NULL, NULL, 0, NULL, NULL));
    REFUSED(mh_rms_norm_backward(c, NULL, NULL, NULL, NULL, NULL, NULL, 0));
    REFUSED(mh_activate(c, (mh_activation)0, NULL, NULL));
    REFUSED(mh_activate_backward(c, (mh_activation)0, NULL, NULL, NULL));
    REFUSED(mh_swiglu(c, NULL, NULL, NULL));
    REFUSED(mh_swiglu_backward(c, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_add(c, NULL, NULL, NULL));
    REFUSED(mh_dropout(c, NULL, NULL, NULL));
    REFUSED(mh_embedding(c, NULL, NULL, 0, NULL));
    REFUSED(mh_embedding_backward(c, NULL, 0, 0, NULL, NULL));
    REFUSED(mh_positions_sinusoidal(c, 0, 0, NULL));
    REFUSED(mh_rope(c, NULL, NULL, NULL));
    REFUSED(mh_cross_entropy(c, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_adamw_step(c, NULL, 1, 1, NULL, NULL, NULL, NULL));
    REFUSED(mh_sgd_step(c, NULL, 1, NULL, NULL, NULL));
    REFUSED(mh_gradient_norm(c, 1, NULL, NULL, NULL));
    REFUSED(mh_scale_gradients(c, 0, 1, NULL));
}

static void modules(mh_context *c)
{
    REFUSED(mh_tape_create(c, NULL));
    REFUSED(mh_mha_create(c, NULL, NULL));
    REFUSED(mh_mha_forward(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_mha_backward(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_transformer_create(c, NULL, NULL));
    REFUSED(mh_transformer_forward(c, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_transformer_encode(c, NULL, NULL, NULL, NULL));
    REFUSED(mh_transformer_backward(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED(mh_decoding_create(c, NULL, NULL, NULL, 0, NULL));
    REFUSED(mh_decoding_create_causal(c, NULL, 0, NULL));
    REFUSED(mh_decoding_step(c, NULL, NULL, 0, NULL, NULL));
    REFUSED(mh_decoding_reorder(c, NULL, NULL));
    REFUSED(mh_decoding_select(c, NULL, NULL, 0));
}

static void files_and_text(mh_context *c)
{
    REFUSED(mh_tensor_file_open(c, NULL, NULL));
    REFUSED(mh_tensor_file_parse(c, NULL, NULL, 0, NULL));
    REFUSED(mh_npy_write(c, NULL, NULL));
    REFUSED(mh_safetensors_write(c, NULL, NULL, 0, NULL, 0));
    REFUSED(mh_bytes_write(c, NULL, NULL, 0));
    REFUSED(mh_utf8_repair(c, NULL, 0, NULL));
    REFUSED(mh_text_nfc(c, NULL, 0, NULL));
    REFUSED(mh_tokenizer_train(c, NULL, NULL, 0, NULL));
    REFUSED(mh_tokenizer_load(c, NULL, NULL));
    REFUSED(mh_tokenizer_parse(c, NULL, NULL, 0, NULL));
    REFUSED(mh_tokenizer_save(c, NULL, NULL));
    REFUSED(mh_tokenizer_encode(c, NULL, NULL, 0, NULL));
    REFUSED(mh_tokenizer_decode(c, NULL, NULL, 0, NULL));
    REFUSED(mh_bleu(c, NULL, NULL, 0, 0, 0, NULL));
    REFUSED(mh_chrf(c, NULL, NULL, 0, 0, 0, 0, NULL));
    REFUSED(mh_parameters_load(c, NULL, NULL, NULL));
    REFUSED(mh_parameters_save(c, NULL, NULL));
    REFUSED(mh_parameters_save_parts(c, NULL, 1, NULL, 0, NULL));
}

static void translators(mh_context *c)
{
    REFUSED(mh_translator_create(c, NULL, (mh_precision)0, NULL, NULL));
    REFUSED(mh_translator_load(c, NULL, (mh_precision)0, NULL));
    REFUSED(mh_translator_load_with(c, NULL, NULL, NULL));
    REFUSED(mh_translator_save(c, NULL, NULL, (mh_dtype)0));
    REFUSED(mh_translate(c, NULL, NULL, NULL, 0, NULL));
    REFUSED(mh_translator_encode(c, NULL, (mh_text){0}, NULL));
    REFUSED(mh_translation_trace_create(c, NULL, NULL, (mh_text){0}, NULL, 0, NULL));
    REFUSED(mh_train(c, NULL, NULL));
    REFUSED(mh_trace_check(c, NULL));
    REFUSED(mh_trace_file_open(c, NULL, NULL));
    REFUSED(mh_trace_file_parse(c, NULL, NULL, 0, NULL));
    REFUSED(mh_trace_write(c, NULL, NULL));
    REFUSED(mh_view_page(c, NULL, NULL, NULL));
    REFUSED(mh_view_data(c, NULL, NULL, NULL));
    REFUSED(mh_view_page_write(c, NULL, NULL, NULL));
    REFUSED(mh_view_text(c, NULL, NULL, NULL));
    REFUSED(mh_view_curve(c, NULL, NULL));
    REFUSED(mh_view_curve_write(c, NULL, NULL));
    REFUSED(mh_view_curve_text(c, NULL, 0, NULL));
}

static void all(mh_context *c)
{
    engine(c);
    layers(c);
    modules(c);
    files_and_text(c);
    translators(c);
}

static void with_context(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    all(context);
    mh_context_free(context);
}

static void without_context(void **state)
{
    (void)state;
    all(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_context),
        cmocka_unit_test(without_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
