// SPDX-License-Identifier: MIT
// Every function of the public headers that can fail, with valid arguments; for
// test_null_arguments.c, which has the arguments.
#ifndef MH_TESTS_API_NULL_ARGUMENT_CALLS_H
#define MH_TESTS_API_NULL_ARGUMENT_CALLS_H

// FUNCTION(name, pointer parameters as in the header but the context, "?" behind those that may be
// NULL, valid values, the call with p[i] for them, what frees the result)
#define ARGS(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CALLS(FUNCTION)                                                                            \
    FUNCTION(mh_context_create_serial, "serial", ARGS(&made_context),                              \
             mh_context_create_serial(c, p[0]), mh_context_free(made_context))                     \
    FUNCTION(mh_attention_forward, "options? q k v out",                                           \
             ARGS(&attention, heads(0), heads(1), heads(2), heads(3)),                             \
             mh_attention_forward(c, p[0], p[1], p[2], p[3], p[4]), )                              \
    FUNCTION(mh_attention_workspace, "options? q k v out bytes",                                   \
             ARGS(&attention, heads(0), heads(1), heads(2), heads(3), &counter),                   \
             mh_attention_workspace(c, p[0], p[1], p[2], p[3], p[4], p[5]), )                      \
    FUNCTION(mh_attention_backward, "options q k v out dout gradients",                            \
             ARGS(&attention, heads(0), heads(1), heads(2), heads(3), heads(4), &gradients),       \
             mh_attention_backward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6]), )                 \
    FUNCTION(                                                                                      \
        mh_attention_backward_workspace, "options q k v out dout gradients bytes",                 \
        ARGS(&attention, heads(0), heads(1), heads(2), heads(3), heads(4), &gradients, &counter),  \
        mh_attention_backward_workspace(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]), )      \
    FUNCTION(mh_attention_explain, "options? q k v out plan",                                      \
             ARGS(&attention, heads(0), heads(1), heads(2), heads(3), &plan),                      \
             mh_attention_explain(c, p[0], p[1], p[2], p[3], p[4], p[5]), )                        \
    FUNCTION(mh_sharded_attention_forward, "communicator sharding options? q k v out",             \
             ARGS(&communicator, &sharding, &attention, heads(0), heads(1), heads(2), heads(3)),   \
             mh_sharded_attention_forward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6]), )          \
    FUNCTION(                                                                                      \
        mh_sharded_attention_backward, "communicator sharding options q k v out dout gradients",   \
        ARGS(&communicator, &sharding, &attention, heads(0), heads(1), heads(2), heads(3),         \
             heads(4), &gradients),                                                                \
        mh_sharded_attention_backward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8]), )  \
    FUNCTION(                                                                                      \
        mh_sharded_attention_explain, "communicator sharding options? q k v out plan",             \
        ARGS(&communicator, &sharding, &attention, heads(0), heads(1), heads(2), heads(3),         \
             &sharded_plan),                                                                       \
        mh_sharded_attention_explain(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], true, p[7]), )   \
    FUNCTION(mh_tensor_file_open, "path file", ARGS(paths[0], &made_file),                         \
             mh_tensor_file_open(c, p[0], p[1]), mh_tensor_file_free(made_file))                   \
    FUNCTION(mh_tensor_file_parse, "name? bytes file", ARGS("name", npy_bytes, &made_file),        \
             mh_tensor_file_parse(c, p[0], p[1], npy_size, p[2]), mh_tensor_file_free(made_file))  \
    FUNCTION(mh_tensor_file_read, "file to", ARGS(tensor_file, &tensor_read),                      \
             mh_tensor_file_read(c, p[0], 0, p[1]), )                                              \
    FUNCTION(mh_tensor_file_read_rows, "file rows to", ARGS(tensor_file, row_numbers, &row_read),  \
             mh_tensor_file_read_rows(c, p[0], 0, p[1], 1, p[2]), )                                \
    FUNCTION(mh_npy_write, "path tensor", ARGS(paths[1], rows(0)), mh_npy_write(c, p[0], p[1]), )  \
    FUNCTION(mh_safetensors_write, "path tensors metadata", ARGS(paths[1], &named, &metadata),     \
             mh_safetensors_write(c, p[0], p[1], 1, p[2], 1), )                                    \
    FUNCTION(mh_bytes_write, "path bytes", ARGS(paths[1], bytes),                                  \
             mh_bytes_write(c, p[0], p[1], 3), )                                                   \
    FUNCTION(mh_kv_cache_create, "options cache", ARGS(&cache_options, &made_cache),               \
             mh_kv_cache_create(c, p[0], p[1]), mh_kv_cache_free(made_cache))                      \
    FUNCTION(mh_kv_cache_append, "cache counts? k v", ARGS(o.cache, counts, heads(0), heads(1)),   \
             mh_kv_cache_append(c, p[0], p[1], p[2], p[3]), )                                      \
    FUNCTION(mh_kv_cache_append_packed, "cache starts k v",                                        \
             ARGS(o.cache, starts, heads(0), heads(1)),                                            \
             mh_kv_cache_append_packed(c, p[0], p[1], p[2], p[3]), )                               \
    FUNCTION(mh_kv_cache_extend, "cache", ARGS(o.cache), mh_kv_cache_extend(c, p[0], 0), )         \
    FUNCTION(mh_kv_cache_reorder, "cache parents", ARGS(o.cache, parents),                         \
             mh_kv_cache_reorder(c, p[0], p[1]), )                                                 \
    FUNCTION(mh_kv_cache_select, "cache parents", ARGS(o.cache, parents),                          \
             mh_kv_cache_select(c, p[0], p[1], 1), )                                               \
    FUNCTION(mh_kv_cache_truncate, "cache", ARGS(o.cache), mh_kv_cache_truncate(c, p[0], 0, 3), )  \
    FUNCTION(mh_attention_cached, "options? q cache out",                                          \
             ARGS(&attention, heads(0), o.cache, heads(1)),                                        \
             mh_attention_cached(c, p[0], p[1], p[2], p[3]), )                                     \
    FUNCTION(mh_layer_norm, "x weight? bias? y mean? rstd?",                                       \
             ARGS(rows(0), vector(0), vector(1), rows(1), each(0), each(1)),                       \
             mh_layer_norm(c, p[0], p[1], p[2], 1e-5f, p[3], p[4], p[5]), )                        \
    FUNCTION(mh_layer_norm_backward, "x weight? mean rstd dy dx? dweight? dbias?",                 \
             ARGS(rows(0), vector(0), each(0), each(1), rows(1), rows(2), vector(1), vector(2)),   \
             mh_layer_norm_backward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], false), )   \
    FUNCTION(mh_rms_norm, "x weight? y rstd?", ARGS(rows(0), vector(0), rows(1), each(0)),         \
             mh_rms_norm(c, p[0], p[1], 1e-5f, p[2], p[3]), )                                      \
    FUNCTION(mh_rms_norm_backward, "x weight? rstd dy dx? dweight?",                               \
             ARGS(rows(0), vector(0), each(0), rows(1), rows(2), vector(1)),                       \
             mh_rms_norm_backward(c, p[0], p[1], p[2], p[3], p[4], p[5], false), )                 \
    FUNCTION(mh_activate, "x y", ARGS(rows(0), rows(1)), mh_activate(c, MH_GELU, p[0], p[1]), )    \
    FUNCTION(mh_activate_backward, "x dy dx", ARGS(rows(0), rows(1), rows(2)),                     \
             mh_activate_backward(c, MH_GELU, p[0], p[1], p[2]), )                                 \
    FUNCTION(mh_swiglu, "gate up y", ARGS(rows(0), rows(1), rows(2)),                              \
             mh_swiglu(c, p[0], p[1], p[2]), )                                                     \
    FUNCTION(mh_swiglu_backward, "gate up dy dgate dup",                                           \
             ARGS(rows(0), rows(1), rows(2), rows(3), rows(4)),                                    \
             mh_swiglu_backward(c, p[0], p[1], p[2], p[3], p[4]), )                                \
    FUNCTION(mh_glu, "gate up y", ARGS(rows(0), rows(1), rows(2)),                                 \
             mh_glu(c, MH_GELU, p[0], p[1], p[2]), )                                               \
    FUNCTION(mh_glu_backward, "gate up dy dgate dup",                                              \
             ARGS(rows(0), rows(1), rows(2), rows(3), rows(4)),                                    \
             mh_glu_backward(c, MH_GELU, p[0], p[1], p[2], p[3], p[4]), )                          \
    FUNCTION(mh_add, "a b y", ARGS(rows(0), rows(1), rows(2)), mh_add(c, p[0], p[1], p[2]), )      \
    FUNCTION(mh_dropout, "options? x y", ARGS(&dropout, rows(0), rows(1)),                         \
             mh_dropout(c, p[0], p[1], p[2]), )                                                    \
    FUNCTION(mh_embedding, "table ids y", ARGS(square(0), id(), rows(0)),                          \
             mh_embedding(c, p[0], p[1], 1, p[2]), )                                               \
    FUNCTION(mh_embedding_backward, "ids dy dtable", ARGS(id(), rows(0), square(0)),               \
             mh_embedding_backward(c, p[0], 1, -1, p[1], p[2]), )                                  \
    FUNCTION(mh_positions_sinusoidal, "y", ARGS(rows(0)),                                          \
             mh_positions_sinusoidal(c, 0, 1, p[0]), )                                             \
    FUNCTION(mh_rope, "options? x y", ARGS(&rope, rows(0), rows(1)),                               \
             mh_rope(c, p[0], p[1], p[2]), )                                                       \
    FUNCTION(mh_rope_tables, "options cosine sine", ARGS(&tables, rows(0), rows(1)),               \
             mh_rope_tables(c, p[0], p[1], p[2]), )                                                \
    FUNCTION(mh_cross_entropy, "options? logits targets loss count? dlogits?",                     \
             ARGS(&entropy, rows(0), id(), &number, &counter, rows(1)),                            \
             mh_cross_entropy(c, p[0], p[1], p[2], p[3], p[4], p[5]), )                            \
    FUNCTION(mh_log_softmax_topk, "options? logits ids log_probabilities",                         \
             ARGS(&topk, rows(0), &top_ids, &top_values),                                          \
             mh_log_softmax_topk(c, p[0], p[1], p[2], p[3]), )                                     \
    FUNCTION(mh_parameters_load, "parameters path options?",                                       \
             ARGS(constant(mh_mha_parameters(o.mha)), paths[2], &parameters_options),              \
             mh_parameters_load(c, p[0], p[1], p[2]), )                                            \
    FUNCTION(mh_parameters_save, "parameters path",                                                \
             ARGS(constant(mh_mha_parameters(o.mha)), paths[1]),                                   \
             mh_parameters_save(c, p[0], p[1]), )                                                  \
    FUNCTION(mh_parameters_save_parts, "parts metadata path", ARGS(&part, &metadata, paths[1]),    \
             mh_parameters_save_parts(c, p[0], 1, p[1], 1, p[2]), )                                \
    FUNCTION(mh_tape_create, "tape", ARGS(&made_tape), mh_tape_create(c, p[0]),                    \
             mh_tape_free(made_tape))                                                              \
    FUNCTION(mh_mha_create, "config mha", ARGS(&mha_config, &made_mha),                            \
             mh_mha_create(c, p[0], p[1]), mh_mha_free(made_mha))                                  \
    FUNCTION(mh_mha_forward, "mha options? query key value output weights?",                       \
             ARGS(o.mha, &mha_options, first(0), first(1), first(2), first(3), each_weights()),    \
             mh_mha_forward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6]), )                        \
    FUNCTION(mh_mha_backward,                                                                      \
             "mha options query key value doutput gradients? dquery? dkey? dvalue?",               \
             ARGS(o.mha, &mha_options, first(0), first(1), first(2), first(3), big, first(4),      \
                  first(5), batch(5)),                                                             \
             mh_mha_backward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8],              \
                             p[9] ? &modules[5] : NULL), )                                         \
    FUNCTION(mh_transformer_create, "config transformer",                                          \
             ARGS(&transformer_config, &made_transformer), mh_transformer_create(c, p[0], p[1]),   \
             mh_transformer_free(made_transformer))                                                \
    FUNCTION(mh_transformer_create_blocks, "encoder? decoder? transformer",                        \
             ARGS(&stacks[0], &stacks[1], &made_transformer),                                      \
             mh_transformer_create_blocks(c, p[0], p[1], true, p[2]),                              \
             mh_transformer_free(made_transformer))                                                \
    FUNCTION(mh_transformer_pack, "transformer name weight",                                       \
             ARGS(o.inference, "layers.0.self_attn.out_proj.weight", square(0)),                   \
             mh_transformer_pack(c, p[0], p[1], p[2]), )                                           \
    FUNCTION(mh_transformer_forward, "transformer options? src tgt output",                        \
             ARGS(o.transformer, &transformer_options, batch(0), batch(1), batch(2)),              \
             mh_transformer_forward(c, p[0], p[1], p[2], p[3], p[4]), )                            \
    FUNCTION(mh_transformer_encode, "transformer options? src memory",                             \
             ARGS(o.transformer, NULL_OPTIONS, batch(0), batch(1)),                                \
             mh_transformer_encode(c, p[0], p[1], p[2], p[3]), )                                   \
    FUNCTION(mh_transformer_backward,                                                              \
             "transformer options src tgt doutput gradients? dsrc? dtgt?",                         \
             ARGS(o.transformer, &transformer_options, batch(0), batch(1), batch(2), big,          \
                  batch(3), batch(4)),                                                             \
             mh_transformer_backward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]), )         \
    FUNCTION(mh_decoding_create, "transformer memory lengths? decoding",                           \
             ARGS(o.transformer, batch(0), counts, &made_decoding),                                \
             mh_decoding_create(c, p[0], p[1], p[2], 1, p[3]), mh_decoding_free(made_decoding))    \
    FUNCTION(mh_packed_weights_create, "transformer packed",                                       \
             ARGS(o.transformer, &made_packed_weights),                                            \
             mh_packed_weights_create(c, p[0], true, p[1]),                                        \
             mh_packed_weights_free(made_packed_weights))                                          \
    FUNCTION(mh_transformer_encode_packed, "transformer packed? options? src memory",              \
             ARGS(o.transformer, o.packed_weights, NULL_OPTIONS, batch(0), batch(1)),              \
             mh_transformer_encode_packed(c, p[0], p[1], p[2], p[3], p[4]), )                      \
    FUNCTION(mh_decoding_create_packed, "transformer packed? memory lengths? decoding",            \
             ARGS(o.transformer, o.packed_weights, batch(0), counts, &made_decoding),              \
             mh_decoding_create_packed(c, p[0], p[1], p[2], p[3], 1, p[4]),                        \
             mh_decoding_free(made_decoding))                                                      \
    FUNCTION(mh_decoding_create_causal, "transformer decoding",                                    \
             ARGS(o.language_model, &made_decoding), mh_decoding_create_causal(c, p[0], 1, p[1]),  \
             mh_decoding_free(made_decoding))                                                      \
    FUNCTION(mh_decoding_create_empty, "transformer options? decoding",                            \
             ARGS(o.language_model, &decoding_options, &made_decoding),                            \
             mh_decoding_create_empty(c, p[0], p[1], p[2]), mh_decoding_free(made_decoding))       \
    FUNCTION(mh_decoding_extend, "decoding", ARGS(o.causal_decoding),                              \
             mh_decoding_extend(c, p[0], 0), )                                                     \
    FUNCTION(mh_decoding_truncate, "decoding", ARGS(o.causal_decoding),                            \
             mh_decoding_truncate(c, p[0], 0, 0), )                                                \
    FUNCTION(mh_decoding_step_packed, "decoding starts taps tgt output",                           \
             ARGS(o.causal_decoding, starts, &tap, rows(0), rows(1)),                              \
             mh_decoding_step_packed(c, p[0], p[1], p[2], 1, p[3], p[4]), )                        \
    FUNCTION(mh_decoding_step, "decoding taps tgt output",                                         \
             ARGS(o.causal_decoding, &tap, batch(0), batch(1)),                                    \
             mh_decoding_step(c, p[0], p[1], 1, p[2], p[3]), )                                     \
    FUNCTION(mh_decoding_reorder, "decoding parents", ARGS(o.decoding, parents),                   \
             mh_decoding_reorder(c, p[0], p[1]), )                                                 \
    FUNCTION(mh_decoding_select, "decoding parents", ARGS(o.decoding, parents),                    \
             mh_decoding_select(c, p[0], p[1], 1), )                                               \
    FUNCTION(mh_matmul, "a b c", ARGS(rows(0), square(0), rows(1)),                                \
             mh_matmul(c, p[0], p[1], p[2]), )                                                     \
    FUNCTION(mh_matrix_pack, "b packed", ARGS(square(0), &made_packed),                            \
             mh_matrix_pack(c, MH_PRECISION_F32, p[0], p[1]), mh_packed_matrix_free(made_packed))  \
    FUNCTION(mh_matmul_packed, "a b c", ARGS(rows(0), o.packed, rows(1)),                          \
             mh_matmul_packed(c, p[0], p[1], p[2]), )                                              \
    FUNCTION(mh_linear, "options? x weight y", ARGS(&linear, rows(0), square(0), rows(1)),         \
             mh_linear(c, p[0], p[1], p[2], p[3]), )                                               \
    FUNCTION(mh_linear_backward, "options? x weight dy dx? dweight? dbias?",                       \
             ARGS(&linear, rows(0), square(0), rows(1), rows(2), square(1), vector(0)),            \
             mh_linear_backward(c, p[0], p[1], p[2], p[3], p[4], p[5], p[6]), )                    \
    FUNCTION(mh_softmax, "x y", ARGS(rows(0), rows(1)), mh_softmax(c, p[0], 1, p[1]), )            \
    FUNCTION(mh_log_softmax, "x y", ARGS(rows(0), rows(1)), mh_log_softmax(c, p[0], 1, p[1]), )    \
    FUNCTION(mh_measure_limits, "limits", ARGS(&limits), mh_measure_limits(c, 1e-4, 0, p[0]), )    \
    FUNCTION(mh_adamw_step, "options? gradient parameter m v",                                     \
             ARGS(&adamw, data[0], data[1], data[2], data[3]),                                     \
             mh_adamw_step(c, p[0], 1, W, p[1], p[2], p[3], p[4]), )                               \
    FUNCTION(mh_sgd_step, "options? gradient parameter velocity",                                  \
             ARGS(&sgd, data[0], data[1], data[2]), mh_sgd_step(c, p[0], W, p[1], p[2], p[3]), )   \
    FUNCTION(mh_gradient_norm, "n gradients norm", ARGS(lengths, arrays, &number),                 \
             mh_gradient_norm(c, 1, p[0], p[1], p[2]), )                                           \
    FUNCTION(mh_scale_gradients, "gradient", ARGS(data[0]), mh_scale_gradients(c, 1, W, p[0]), )   \
    FUNCTION(mh_tensor_broadcast, "t shape out", ARGS(vector(0), shape, &view),                    \
             mh_tensor_broadcast(c, p[0], 2, p[1], p[2]), )                                        \
    FUNCTION(mh_tensor_copy, "from to", ARGS(rows(0), rows(1)), mh_tensor_copy(c, p[0], p[1]), )   \
    FUNCTION(mh_utf8_repair, "bytes out", ARGS("a", &buffer), mh_utf8_repair(c, p[0], 1, p[1]), )  \
    FUNCTION(mh_text_nfc, "text out", ARGS("a", &buffer), mh_text_nfc(c, p[0], 1, p[1]), )         \
    FUNCTION(mh_tokenizer_train, "options? texts tokenizer",                                       \
             ARGS(&tokenizer_options, &text, &made_tokenizer),                                     \
             mh_tokenizer_train(c, p[0], p[1], 1, p[2]), mh_tokenizer_free(made_tokenizer))        \
    FUNCTION(mh_tokenizer_load, "path tokenizer", ARGS(paths[3], &made_tokenizer),                 \
             mh_tokenizer_load(c, p[0], p[1]), mh_tokenizer_free(made_tokenizer))                  \
    FUNCTION(mh_tokenizer_parse, "name bytes tokenizer",                                           \
             ARGS("name", tokenizer_bytes, &made_tokenizer),                                       \
             mh_tokenizer_parse(c, p[0], p[1], tokenizer_size, p[2]),                              \
             mh_tokenizer_free(made_tokenizer))                                                    \
    FUNCTION(mh_tokenizer_save, "tokenizer path", ARGS(o.tokenizer, paths[1]),                     \
             mh_tokenizer_save(c, p[0], p[1]), )                                                   \
    FUNCTION(mh_tokenizer_encode, "tokenizer text tokens", ARGS(o.tokenizer, "un", &tokens),       \
             mh_tokenizer_encode(c, p[0], p[1], 2, p[2]), )                                        \
    FUNCTION(mh_tokenizer_load_directory, "path tokenizer", ARGS(folder, &made_tokenizer),         \
             mh_tokenizer_load_directory(c, p[0], p[1]), mh_tokenizer_free(made_tokenizer))        \
    FUNCTION(mh_tokenizer_from_vocabulary, "name vocabulary tokenizer",                            \
             ARGS("name", &vocabulary, &made_tokenizer),                                           \
             mh_tokenizer_from_vocabulary(c, p[0], p[1], p[2]), mh_tokenizer_free(made_tokenizer)) \
    FUNCTION(mh_tokenizer_parse_spm, "name bytes tokenizer",                                       \
             ARGS("name", constant(spm_bytes), &made_tokenizer),                                   \
             mh_tokenizer_parse_spm(c, p[0], p[1], sizeof spm_bytes - 1, p[2]),                    \
             mh_tokenizer_free(made_tokenizer))                                                    \
    FUNCTION(mh_tokenizer_encode_text, "tokenizer options? pair? encoding",                        \
             ARGS(o.tokenizer, &text_options, &text, &encoding),                                   \
             mh_tokenizer_encode_text(c, p[0], p[1], text, p[2], p[3]), )                          \
    FUNCTION(mh_tokenizer_encode_batch, "tokenizer options? texts pairs? encodings",               \
             ARGS(o.tokenizer, &text_options, &text, &text, &encoding),                            \
             mh_tokenizer_encode_batch(c, p[0], p[1], p[2], p[3], 1, p[4]), )                      \
    FUNCTION(mh_tokenizer_decode_text, "tokenizer ids out", ARGS(o.tokenizer, ids, &buffer),       \
             mh_tokenizer_decode_text(c, p[0], true, p[1], N, p[2]), )                             \
    FUNCTION(mh_text_stream_next, "tokenizer stream out", ARGS(o.tokenizer, &streaming, &buffer),  \
             mh_text_stream_next(c, p[0], true, 5, p[1], p[2]), )                                  \
    FUNCTION(mh_tokenizer_decode, "tokenizer ids out", ARGS(o.tokenizer, ids, &buffer),            \
             mh_tokenizer_decode(c, p[0], p[1], N, p[2]), )                                        \
    FUNCTION(mh_bleu, "hypotheses references score", ARGS(&text, &text, &bleu),                    \
             mh_bleu(c, p[0], p[1], 1, 1, false, p[2]), )                                          \
    FUNCTION(mh_chrf, "hypotheses references score", ARGS(&text, &text, &number),                  \
             mh_chrf(c, p[0], p[1], 1, 1, 0, false, p[2]), )                                       \
    FUNCTION(mh_translator_create, "config tokenizer translator",                                  \
             ARGS(&translator_config, o.tokenizer, &made_translator),                              \
             mh_translator_create(c, p[0], MH_PRECISION_F32, p[1] ? new_tokenizer() : NULL, p[2]), \
             mh_translator_free(made_translator))                                                  \
    FUNCTION(mh_translator_load, "directory translator", ARGS(o.directory, &made_translator),      \
             mh_translator_load(c, p[0] ? api_path(&o, "model") : NULL, MH_PRECISION_F32, p[1]),   \
             mh_translator_free(made_translator))                                                  \
    FUNCTION(mh_translator_load_with, "directory options? translator",                             \
             ARGS(o.directory, &load_options, &made_translator),                                   \
             mh_translator_load_with(c, p[0] ? api_path(&o, "model") : NULL, p[1], p[2]),          \
             mh_translator_free(made_translator))                                                  \
    FUNCTION(mh_translator_encode, "translator tokens", ARGS(o.translator, &tokens),               \
             mh_translator_encode(c, p[0], text, p[1]), )                                          \
    FUNCTION(mh_translator_save, "translator directory", ARGS(o.translator, o.directory),          \
             mh_translator_save(c, p[0], p[1] ? api_path(&o, "model") : NULL, MH_F32), )           \
    FUNCTION(mh_translate, "translator options? texts translations",                               \
             ARGS(o.translator, &translate_options, &text, &made_translations),                    \
             mh_translate(c, p[0], p[1], p[2], 1, p[3]), mh_translations_free(made_translations))  \
    FUNCTION(mh_score_translations, "translator options? texts targets translations",              \
             ARGS(o.translator, &translate_options, &text, &text, &made_translations),             \
             mh_score_translations(c, p[0], p[1], p[2], p[3], 1, p[4]),                            \
             mh_translations_free(made_translations))                                              \
    FUNCTION(mh_translator_from_model, "model translator", ARGS(seq2seq, &made_translator),        \
             mh_translator_from_model(c, p[0], p[1]), mh_translator_free(made_translator))         \
    FUNCTION(mh_translation_trace_create, "translator disabled_heads? target trace",               \
             ARGS(o.translator, heads_off, ids, &made_trace),                                      \
             mh_translation_trace_create(c, p[0], p[1], text, p[2], 2, p[3]),                      \
             mh_translation_trace_free(made_trace))                                                \
    FUNCTION(mh_trace_check, "trace", ARGS(constant(mh_trace_file_trace(o.trace_file))),           \
             mh_trace_check(c, p[0]), )                                                            \
    FUNCTION(mh_trace_file_open, "path file", ARGS(o.directory, &made_trace_file),                 \
             mh_trace_file_open(c, p[0] ? api_path(&o, "trace.safetensors") : NULL, p[1]),         \
             mh_trace_file_free(made_trace_file))                                                  \
    FUNCTION(mh_trace_file_parse, "name? bytes file", ARGS("name", trace_bytes, &made_trace_file), \
             mh_trace_file_parse(c, p[0], p[1], trace_size, p[2]),                                 \
             mh_trace_file_free(made_trace_file))                                                  \
    FUNCTION(mh_trace_write, "path trace",                                                         \
             ARGS(paths[1], constant(mh_trace_file_trace(o.trace_file))),                          \
             mh_trace_write(c, p[0], p[1]), )                                                      \
    FUNCTION(mh_view_page, "options? trace? page",                                                 \
             ARGS(&view_options, constant(mh_trace_file_trace(o.trace_file)), &page),              \
             mh_view_page(c, p[0], p[1], p[2]), free_page(c))                                      \
    FUNCTION(mh_view_data, "options? trace json",                                                  \
             ARGS(&view_options, constant(mh_trace_file_trace(o.trace_file)), &page),              \
             mh_view_data(c, p[0], p[1], p[2]), free_page(c))                                      \
    FUNCTION(mh_view_page_write, "options? trace? path",                                           \
             ARGS(&view_options, constant(mh_trace_file_trace(o.trace_file)), paths[1]),           \
             mh_view_page_write(c, p[0], p[1], p[2]), )                                            \
    FUNCTION(mh_view_text, "options? trace text",                                                  \
             ARGS(&view_options, constant(mh_trace_file_trace(o.trace_file)), &page),              \
             mh_view_text(c, p[0], p[1], p[2]), free_page(c))                                      \
    FUNCTION(mh_view_curve, "path svg", ARGS(bytes, &page),                                        \
             mh_view_curve(c, p[0] ? log_path() : NULL, p[1]), free_page(c))                       \
    FUNCTION(mh_view_curve_write, "path svg_path", ARGS(bytes, paths[1]),                          \
             mh_view_curve_write(c, p[0] ? log_path() : NULL, p[1]), )                             \
    FUNCTION(mh_view_curve_text, "path text", ARGS(bytes, &page),                                  \
             mh_view_curve_text(c, p[0] ? log_path() : NULL, 60, p[1]), free_page(c))              \
    FUNCTION(mh_head_statistics_create, "options? statistics",                                     \
             ARGS(&head_options, &made_statistics), mh_head_statistics_create(c, p[0], p[1]),      \
             mh_head_statistics_free(made_statistics))                                             \
    FUNCTION(mh_head_statistics_count_words, "statistics", ARGS(counting),                         \
             mh_head_statistics_count_words(c, p[0], text), )                                      \
    FUNCTION(mh_head_statistics_add, "statistics trace",                                           \
             ARGS(adding, constant(mh_trace_file_trace(o.trace_file))),                            \
             mh_head_statistics_add(c, p[0], p[1]), )                                              \
    FUNCTION(mh_head_statistics_read, "statistics figures", ARGS(adding, &head_figures),           \
             mh_head_statistics_read(c, p[0], MH_TRACE_CROSS, 0, 0, p[1]), )                       \
    FUNCTION(mh_model_text_loss, "model disabled_heads? texts targets? loss tokens",               \
             ARGS(causal, no_heads_off, &text, &text, &number, &counter),                          \
             mh_model_text_loss(c, p[0], p[1], p[2], p[3], 1, p[4], p[5]), )                       \
    FUNCTION(mh_model_load, "directory options? model",                                            \
             ARGS(pretrained, &model_options, &made_model), mh_model_load(c, p[0], p[1], p[2]),    \
             mh_model_free(made_model))                                                            \
    FUNCTION(mh_model_hidden, "model input hidden", ARGS(encoder, &model_input, &hidden[0]),       \
             mh_model_hidden(c, p[0], p[1], p[2]), )                                               \
    FUNCTION(mh_model_logits, "model hidden logits", ARGS(filler, &hidden[0], &vocabulary_logits), \
             mh_model_logits(c, p[0], p[1], p[2]), )                                               \
    FUNCTION(mh_model_pool, "model input hidden pooled",                                           \
             ARGS(encoder, &model_input, &hidden[0], &pooled[0]),                                  \
             mh_model_pool(c, p[0], p[1], p[2], p[3]), )                                           \
    FUNCTION(mh_model_classify, "model input hidden logits",                                       \
             ARGS(classifier, &classifier_input, &hidden[0], &label_logits),                       \
             mh_model_classify(c, p[0], p[1], p[2], p[3]), )                                       \
    FUNCTION(mh_model_embed, "model input embeddings", ARGS(encoder, &model_input, &pooled[0]),    \
             mh_model_embed(c, p[0], MH_POOLING_MEAN, true, p[1], p[2]), )                         \
    FUNCTION(mh_model_encode, "model texts encoded", ARGS(encoder, &text, &made_texts),            \
             mh_model_encode(c, p[0], true, p[1], 1, p[2]), free_model_texts(c))                   \
    FUNCTION(mh_model_trace_create, "model disabled_heads? pair? trace",                           \
             ARGS(encoder, no_heads_off, &text, &made_model_trace),                                \
             mh_model_trace_create(c, p[0], p[1], text, p[2], p[3]),                               \
             mh_model_trace_free(made_model_trace))                                                \
    FUNCTION(mh_model_trace_ids, "model disabled_heads? ids trace",                                \
             ARGS(encoder, no_heads_off, few_ids, &made_model_trace),                              \
             mh_model_trace_ids(c, p[0], p[1], p[2], 2, p[3]),                                     \
             mh_model_trace_free(made_model_trace))                                                \
    FUNCTION(mh_audio_read, "path audio", ARGS(sound_path(), &made_audio),                         \
             mh_audio_read(c, p[0], p[1]), free_audio(c))                                          \
    FUNCTION(mh_audio_parse, "name? bytes audio", ARGS("name", sound_bytes, &made_audio),          \
             mh_audio_parse(c, p[0], p[1], sizeof sound_bytes - 1, p[2]), free_audio(c))           \
    FUNCTION(mh_audio_parse_pcm, "name? bytes audio", ARGS("name", sound_bytes, &made_audio),      \
             mh_audio_parse_pcm(c, p[0], p[1], 8, 16000, 1, p[2]), free_audio(c))                  \
    FUNCTION(mh_audio_resample, "audio resampled", ARGS(&sound, &made_audio),                      \
             mh_audio_resample(c, p[0], 8000, p[1]), free_audio(c))                                \
    FUNCTION(mh_log_mel, "samples features", ARGS(sound_samples, &sound_features),                 \
             mh_log_mel(c, p[0], 320, p[1]), )                                                     \
    FUNCTION(mh_image_read, "path image", ARGS(picture_path, &made_image),                         \
             mh_image_read(c, p[0], p[1]), free_image(c))                                          \
    FUNCTION(mh_image_parse, "name? bytes image", ARGS("name", picture_bytes, &made_image),        \
             mh_image_parse(c, p[0], p[1], sizeof picture_bytes - 1, p[2]), free_image(c))         \
    FUNCTION(mh_image_parse_within, "name? bytes image", ARGS("name", picture_bytes, &made_image), \
             mh_image_parse_within(c, p[0], p[1], sizeof picture_bytes - 1, 100, p[2]),            \
             free_image(c))                                                                        \
    FUNCTION(mh_image_resize, "image resized", ARGS(&picture, &made_image),                        \
             mh_image_resize(c, p[0], MH_RESAMPLE_BICUBIC, 4, 4, p[1]), free_image(c))             \
    FUNCTION(                                                                                      \
        mh_model_encode_pictures, "model images encoded", ARGS(vision, &picture, &made_pictures),  \
        mh_model_encode_pictures(c, p[0], p[1], 1, p[2]), mh_model_pictures_free(made_pictures))   \
    FUNCTION(mh_model_classify_pictures, "model images logits",                                    \
             ARGS(vision, &picture, &label_logits),                                                \
             mh_model_classify_pictures(c, p[0], p[1], 1, p[2]), )                                 \
    FUNCTION(mh_model_embed_pictures, "model images embeddings",                                   \
             ARGS(vision, &picture, &pooled[0]),                                                   \
             mh_model_embed_pictures(c, p[0], MH_POOLING_CLS, true, p[1], 1, p[2]), )              \
    FUNCTION(mh_model_trace_picture, "model disabled_heads? name? image trace",                    \
             ARGS(vision, no_heads_off, "name", &picture, &made_model_trace),                      \
             mh_model_trace_picture(c, p[0], p[1], p[2], p[3], p[4]),                              \
             mh_model_trace_free(made_model_trace))                                                \
    FUNCTION(mh_generate, "model options? starts ids generations",                                 \
             ARGS(causal, &generate_options, model_starts, ids, &made_generations),                \
             mh_generate(c, p[0], p[1], p[2], p[3], 1, p[4]),                                      \
             mh_generations_free(made_generations))                                                \
    FUNCTION(mh_generate_texts, "model options? texts generations",                                \
             ARGS(causal, &generate_options, &text, &made_generations),                            \
             mh_generate_texts(c, p[0], p[1], p[2], 1, p[3]),                                      \
             mh_generations_free(made_generations))                                                \
    FUNCTION(mh_prompt_cache_create, "model cache", ARGS(causal, &made_prompt_cache),              \
             mh_prompt_cache_create(c, p[0], p[1]), mh_prompt_cache_free(made_prompt_cache))       \
    FUNCTION(mh_model_chat, "model name? messages text",                                           \
             ARGS(causal, constant("chatml"), &chat_message, &buffer),                             \
             mh_model_chat(c, p[0], p[1], p[2], 1, p[3]), )                                        \
    FUNCTION(mh_model_embed_texts, "model texts user? embeddings",                                 \
             ARGS(encoder, &text, bytes, &pooled[0]),                                              \
             mh_model_embed_texts(c, p[0], MH_POOLING_MEAN, true, true, 0, p[1], 1, NULL, p[2],    \
                                  p[3]), )                                                         \
    FUNCTION(mh_model_hidden_backward, "model input dhidden gradients",                            \
             ARGS(encoder, &model_input, &hidden[0], &model_gradients),                            \
             mh_model_hidden_backward(c, p[0], p[1], p[2], p[3]), )                                \
    FUNCTION(mh_model_logits_backward, "model hidden dlogits dhidden gradients",                   \
             ARGS(filler, &hidden[0], &vocabulary_logits, &hidden[1], &model_gradients),           \
             mh_model_logits_backward(c, p[0], p[1], p[2], p[3], p[4]), )                          \
    FUNCTION(mh_model_pool_backward, "model input hidden dpooled dhidden gradients",               \
             ARGS(encoder, &model_input, &hidden[0], &pooled[0], &hidden[1], &model_gradients),    \
             mh_model_pool_backward(c, p[0], p[1], p[2], p[3], p[4], p[5]), )                      \
    FUNCTION(mh_model_classify_backward, "model input hidden dlogits dhidden gradients",           \
             ARGS(classifier, &classifier_input, &hidden[0], &label_logits, &hidden[1],            \
                  &model_gradients),                                                               \
             mh_model_classify_backward(c, p[0], p[1], p[2], p[3], p[4], p[5]), )                  \
    FUNCTION(mh_train, "options result", ARGS(&train_options, &train_result),                      \
             mh_train(c, p[0], p[1]), )

#endif
