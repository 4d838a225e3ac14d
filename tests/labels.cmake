# SPDX-License-Identifier: MIT
# The tests' labels, by which stages of .ci/run and people choose: ctest --test-dir build -L golden
#
# By themselves tests have `engine`, `model` (tests/CMakeLists.txt), `cli` or `examples`; a new test
# need not be listed here. A name that is no test is an error.

# mh_label(LABEL TEST...): these tests have the label, too.
function(mh_label label)
  foreach(name ${ARGN})
    set_property(GLOBAL APPEND PROPERTY MH_LABELS_OF_${name} ${label})
    set_property(GLOBAL APPEND PROPERTY MH_LABELLED ${name})
  endforeach()
endfunction()

# mh_set_labels(TEST LABEL): sets the test's labels, LABEL and those of the table.
function(mh_set_labels name label)
  get_property(labels GLOBAL PROPERTY MH_LABELS_OF_${name})
  set_tests_properties(${name} PROPERTIES LABELS "${label};${labels}")
  if("long" IN_LIST labels)
    set_tests_properties(${name} PROPERTIES COST 100) # ctest -j starts it first
  endif()
  set_property(GLOBAL APPEND PROPERTY MH_TESTS ${name})
endfunction()

# Fails if the table names a test that is not there; to be called after all tests are added.
function(mh_check_labels)
  get_property(labelled GLOBAL PROPERTY MH_LABELLED)
  get_property(tests GLOBAL PROPERTY MH_TESTS)
  list(REMOVE_ITEM labelled ${tests})
  if(labelled)
    message(FATAL_ERROR "tests/labels.cmake names what is no test: ${labelled}")
  endif()
endfunction()

# ---- what is tested -----------------------------------------------------------------------

# results equal those that are stored, or another package's
mh_label(golden check_kernels test_golden test_levels test_modules_torch test_onnx test_onnx_layers test_speech_golden
                test_torch)
# equal bits for any number of threads, batch, padding, chunks
mh_label(bits test_batch_invariance test_bits test_bits_decoding test_decoding_packed test_kv_packed
              test_bits_grad test_bits_nn test_bits_training test_linear_bits test_sharded)
# gradients against central differences
mh_label(gradcheck test_gradcheck test_layers_gradcheck test_transformer_gradcheck)
# files and their readers
mh_label(io test_corpus test_file test_gguf test_npy test_parameters_file test_pictures
            test_pictures_refused test_safetensors test_safetensors_refused test_torch_file
            test_torch_refused test_trace test_trace_picture)
mh_label(text test_score test_text test_tokenizer test_tokenizers_files test_tokenizers_golden)
mh_label(translation test_translate test_translate_errors test_translate_search test_translation_trace
                     test_translate_published test_translator cli_translate cli_translate_published
                     cli_translate_attention cli_translate_errors
                     example_10_translate)
mh_label(training test_batches test_bits_training test_curve test_exchange test_gradient_tree test_model_name
                  test_numbers test_optimiser test_tasks test_train test_train_killed test_train_ranks cli_train
                  cli_train_tasks example_07_train)
mh_label(viewer test_trace test_trace_picture test_translation_trace test_view)

# ---- for a stage of .ci/run ---------------------------------------------------------------

# run with several threads; of tests with the same parallel loops the quicker one
mh_label(threads test_attention test_base test_cancel test_bits_decoding test_bits_nn test_bits_training
                 test_communicator test_cross_entropy test_exchange test_matmul test_modules_torch test_nasty_grad
                 test_norm
                 test_optimiser test_pool test_sharded test_torch test_torch_file test_train test_translate)
# readers and argument checks, short enough for valgrind
mh_label(memcheck test_attention_errors test_batches test_corpus test_file test_gguf test_linear test_npy
                  test_pictures_refused test_safetensors test_safetensors_refused test_score test_tensor test_text
                  test_torch_refused test_trace test_trace_picture test_translator test_view)
# short enough for an emulated CPU: attention, modules, bits, golden hashes
mh_label(emulated check_kernels test_bits_decoding test_bits_nn test_golden test_kv_layout test_levels
                  test_linear test_nasty test_norm test_softmax test_tensor example_01_attention
                  example_02_masks example_03_own_threads_and_allocator
                  example_04_multihead_attention example_05_encoder example_06_encoder_decoder)

# ---- how long it takes --------------------------------------------------------------------

# train for more than a few seconds
mh_label(long cli_numbers example_07_train example_11_language_model)
