// SPDX-License-Identifier: MIT
// NULL for one pointer argument at a time, all others valid: where something must be given, every
// function that can fail refuses it with a message that names the argument; where NULL is allowed,
// the call works. The list is checked against the headers: each function, with the names of its
// pointer parameters in order. Functions that cannot fail are listed apart.
#include "api_objects.h"
#include "generate_support.h"

#include <ctype.h>
#include <dirent.h>
#include <multihead/pretrained.h>
#include <sys/stat.h>
#include <unistd.h>

enum { W = API_WIDTH, N = API_TOKENS, E = W / API_HEADS, POINTERS_MOST = 12 };

// ---- valid arguments ------------------------------------------------------------------------

static api_objects o;
static float data[24][W * W + N * W], big[1 << 14], other[1 << 14];
static int32_t ids[N];
static double number;
static size_t counter, parents[1], shape[2] = {N, W}, lengths[1] = {W};
static int64_t counts[1] = {1}, starts[2] = {0, N};
static bool heads_off[8];
static char bytes[1 << 14], paths[4][96], message[64];
static size_t npy_size, tokenizer_size, trace_size;
static char npy_bytes[1 << 14], tokenizer_bytes[1 << 16], trace_bytes[1 << 16];

static mh_tensor view;
static mh_attention_options attention;
static mh_attention_gradients gradients;
static mh_attention_plan plan;
static mh_kv_cache_options cache_options;
static mh_decoding_options decoding_options;
static mh_dropout_options dropout;
static mh_rope_options rope, tables;
static mh_cross_entropy_options entropy;
static mh_topk_options topk;
static mh_linear_options linear;
static mh_adamw_options adamw;
static mh_sgd_options sgd;
static mh_limits limits;
static mh_mha_config mha_config;
static mh_mha_options mha_options;
static mh_transformer_config transformer_config;
static mh_block_config blocks[2]; // of an encoder, and of a decoder
static const mh_block_config *const block_pointers[2] = {&blocks[0], &blocks[1]};
static mh_stack_config stacks[2];
static mh_transformer_options transformer_options;
static mh_parameters_options parameters_options;
static mh_tokenizer_options tokenizer_options;
static mh_translator_config translator_config, train_model;
static mh_translate_options translate_options;
static mh_translator_load_options load_options;
static mh_train_options train_options;
static mh_train_result train_result;
static mh_view_options view_options;
static mh_context_options context_options;
static mh_parameters_part part;
static mh_metadata metadata = {"key", "value"};
static mh_named_tensor named;
static mh_text text = {"un deux", 7};
static mh_buffer buffer;
static mh_tokens tokens;
static mh_encoding encoding;
static mh_encode_options text_options;
static mh_text_stream streaming;
static mh_text vocabulary_tokens[1] = {{"a", 1}};
static mh_vocabulary vocabulary;
static const char spm_bytes[] = "\x0A\x03\x0A\x01"
                                "a"; // one piece
static char folder[96];
static mh_buffer page;
static mh_bleu_score bleu;
static mh_tap tap;
static const float *arrays[1];

static mh_context *made_context;
static mh_tensor_file *made_file, *tensor_file;
static mh_tensor tensor_read;
static double read_numbers[1 << 12];
static mh_kv_cache *made_cache;
static mh_tape *made_tape, *mha_tape;
static mh_mha *made_mha;
static mh_transformer *made_transformer;
static mh_decoding *made_decoding;
static mh_packed_matrix *made_packed;
static mh_packed_weights *made_packed_weights;
static mh_tokenizer *made_tokenizer;
static mh_translator *made_translator;
static mh_translations *made_translations;
static mh_translation_trace *made_trace;
static mh_trace_file *made_trace_file;
static mh_model *made_model;
static mh_model_texts *made_texts;
static mh_model_trace *made_model_trace;
static bool no_heads_off[256];

static causal_directory causal_files;
static mh_model *causal;
static mh_generate_options generate_options;
static mh_generations *made_generations;
static mh_chat_message chat_message = {MH_CHAT_USER, {"un", 2}};

// Pretrained models of tests/goldens, trainable: an encoder with a pooler and a tokenizer that
// make_pretrained() writes, a masked language model, a sequence classifier.
enum { PRETRAINED_WIDTH = 32, PRETRAINED_VOCABULARY = 99, PRETRAINED_LABELS = 3 };
static mh_model *encoder, *seq2seq, *filler, *classifier;
static char pretrained[96];
static mh_model_options model_options;
static mh_model_input model_input, classifier_input;
static mh_model_gradients model_gradients;
static mh_tape *model_tape;
static int64_t model_starts[2] = {0, N};
static float model_data[8][N * PRETRAINED_VOCABULARY];
static mh_tensor hidden[2], pooled[2], vocabulary_logits, label_logits;

static mh_tensor tensors[24]; // each in data[i]
enum { ROWS = 0, SQUARE = 8, VECTOR = 10, EACH = 14, HEADS = 17, IDS = 23 };

static void *rows(int i) { return &tensors[ROWS + i]; }     // (N, W), 8 of them
static void *square(int i) { return &tensors[SQUARE + i]; } // (W, W), 2
static void *vector(int i) { return &tensors[VECTOR + i]; } // (W), 4
static void *each(int i) { return &tensors[EACH + i]; }     // (N), 3
static void *heads(int i) { return &tensors[HEADS + i]; }   // (1, H, N, E), 6
static void *id(void) { return &tensors[IDS]; }             // (N) i32

static int32_t few_ids[N * 2];
static int32_t row_numbers[1];
static mh_tensor row_read;
static double few_values[N * 2];
static mh_tensor top_ids, top_values; // (N, 2)
static mh_tensor modules[12], lse;
static void *batch(int i) { return &modules[i]; }     // (1, N, W), 6
static void *first(int i) { return &modules[6 + i]; } // (N, 1, W), 6

static void *constant(const void *p) { return (void *)(uintptr_t)p; }

// ---- the calls --------------------------------------------------------------------------------

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
    FUNCTION(mh_generate, "model options? starts ids generations",                                 \
             ARGS(causal, &generate_options, model_starts, ids, &made_generations),                \
             mh_generate(c, p[0], p[1], p[2], p[3], 1, p[4]),                                      \
             mh_generations_free(made_generations))                                                \
    FUNCTION(mh_generate_texts, "model options? texts generations",                                \
             ARGS(causal, &generate_options, &text, &made_generations),                            \
             mh_generate_texts(c, p[0], p[1], p[2], 1, p[3]),                                      \
             mh_generations_free(made_generations))                                                \
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

#define NULL_OPTIONS &encode_options
static mh_transformer_options encode_options;
static mh_tensor weights_view;
static void *each_weights(void) { return &weights_view; }

static mh_tokenizer *new_tokenizer(void)
{
    mh_tokenizer *made = NULL;
    test_ok(o.context, mh_tokenizer_load(o.context, paths[3], &made));
    return made;
}

static void free_page(mh_context *c)
{
    if (c)
        mh_buffer_free(c, &page);
}

static void free_model_texts(mh_context *c)
{
    if (c)
        mh_model_texts_free(c, made_texts);
}

static const char *log_path(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/run/log.jsonl", o.directory);
    return path;
}

// Forgets what a call has made, so that it is not freed twice.
static void forget_results(void)
{
    made_context = NULL, made_file = NULL, made_cache = NULL, made_tape = NULL, made_mha = NULL;
    made_transformer = NULL, made_decoding = NULL, made_packed = NULL, made_tokenizer = NULL;
    made_packed_weights = NULL;
    made_model = NULL, made_texts = NULL, made_model_trace = NULL, made_generations = NULL;
    made_translator = NULL, made_translations = NULL, made_trace = NULL, made_trace_file = NULL;
}

#define TRY(name, parameters, values, call, cleanup)                                               \
    static mh_status try_##name(mh_context *c, int null)                                           \
    {                                                                                              \
        const void *given[] = values;                                                              \
        void *p[POINTERS_MOST];                                                                    \
        for (size_t i = 0; i < sizeof given / sizeof *given; i++)                                  \
            p[i] = (int)i == null ? NULL : constant(given[i]);                                     \
        forget_results();                                                                          \
        const mh_status status = call;                                                             \
        cleanup;                                                                                   \
        return status;                                                                             \
    }
CALLS(TRY)

typedef struct function {
    const char *name, *parameters;
    mh_status (*call)(mh_context *c, int null);
} function;

#define ENTRY(name, parameters, values, call, cleanup) {#name, parameters, try_##name},
static const function functions[] = {CALLS(ENTRY)};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// ---- arguments --------------------------------------------------------------------------------

static void make_tensors(void)
{
    for (size_t i = 0; i < 24; i++) {
        for (size_t k = 0; k < sizeof data[i] / sizeof *data[i]; k++)
            data[i][k] = (float)(k % 7) / 8;
        tensors[i] = i < SQUARE   ? mh_tensor_2d(data[i], MH_F32, N, W)
                     : i < VECTOR ? mh_tensor_2d(data[i], MH_F32, W, W)
                     : i < EACH   ? mh_tensor_1d(data[i], MH_F32, W)
                     : i < HEADS  ? mh_tensor_1d(data[i], MH_F32, N)
                     : i < IDS    ? mh_tensor_4d(data[i], MH_F32, 1, API_HEADS, N, E)
                                  : mh_tensor_1d(ids, MH_I32, N);
    }
    for (size_t i = 0; i < 6; i++) {
        modules[i] = mh_tensor_3d(data[i], MH_F32, 1, N, W);
        modules[6 + i] = mh_tensor_3d(data[8 + i], MH_F32, N, 1, W);
    }
    modules[5] = mh_tensor_3d(data[20], MH_F32, N, 1, W); // the sixth of that shape: a gradient
    lse = mh_tensor_3d(other, MH_F32, 1, API_HEADS, N);
    weights_view = mh_tensor_3d(other + 64, MH_F32, 1, N, N);
    for (size_t i = 0; i < N; i++)
        ids[i] = (int32_t)(3 + i);
    for (size_t i = 0; i < N; i++)
        ((int32_t *)tensors[IDS].data)[i] = (int32_t)i;
    arrays[0] = data[0];
    top_ids = mh_tensor_2d(few_ids, MH_I32, N, 2);
    top_values = mh_tensor_2d(few_values, MH_F64, N, 2);
}

static void make_options(void)
{
    attention = mh_attention_options_default();
    attention.lse = &lse;
    gradients = mh_attention_gradients_default();
    plan = mh_attention_plan_default();
    bleu = mh_bleu_score_default();
    train_result = mh_train_result_default();
    gradients.dq = heads(5);
    decoding_options = mh_decoding_options_default();
    cache_options = mh_kv_cache_options_default();
    cache_options.sequences = 1, cache_options.heads = API_HEADS, cache_options.key_width = E;
    dropout = mh_dropout_options_default();
    rope = tables = mh_rope_options_default();
    tables.width = 2 * W;
    entropy = mh_cross_entropy_options_default();
    topk = mh_topk_options_default();
    linear = mh_linear_options_default();
    adamw = mh_adamw_options_default();
    sgd = mh_sgd_options_default();
    sgd.momentum = 0.5;
    limits = mh_limits_default();
    mha_config = mh_mha_config_default();
    mha_config.embed_dim = W, mha_config.num_heads = API_HEADS;
    mha_options = mh_mha_options_default();
    transformer_config = mh_transformer_config_default();
    transformer_config.d_model = W, transformer_config.nhead = API_HEADS;
    transformer_config.dim_feedforward = W;
    transformer_config.num_encoder_layers = transformer_config.num_decoder_layers = 1;
    for (int i = 0; i < 2; i++) {
        blocks[i] = mh_block_config_default();
        blocks[i].d_model = blocks[i].dim_feedforward = W;
        blocks[i].num_heads = API_HEADS;
        blocks[i].cross_attention = i;
        stacks[i] = mh_stack_config_default();
        stacks[i].layers = 1;
        stacks[i].blocks = &block_pointers[i];
    }
    transformer_options = encode_options = mh_transformer_options_default();
    parameters_options = mh_parameters_options_default();
    tokenizer_options = mh_tokenizer_options_default();
    text_options = mh_encode_options_default();
    vocabulary = mh_vocabulary_default();
    vocabulary.tokens = vocabulary_tokens;
    vocabulary.count = 1;
    translator_config = mh_translator_config_default();
    translator_config.d_model = W, translator_config.nhead = API_HEADS;
    translator_config.dim_feedforward = W, translator_config.max_length = 16;
    translate_options = mh_translate_options_default();
    load_options = mh_translator_load_options_default();
    view_options = mh_view_options_default();
    context_options = mh_context_options_default();
    tap = (mh_tap){.struct_size = sizeof(mh_tap), .kind = MH_TAP_ENCODER};
    train_options = mh_train_options_default();
}

static size_t read_bytes(const char *path, char *to, size_t size)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t count = fread(to, 1, size, stream);
    fclose(stream);
    return count;
}

// Files that some calls read, and a training run of one update.
static void make_files(mh_context *context)
{
    static char run[96], sentences[96];
    static const char *const names[] = {"x.npy", "written", "mha.safetensors", "tokenizer.json"};
    for (size_t i = 0; i < 4; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", o.directory, names[i]);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(paths[3], '/') - paths[3]), paths[3]);
    npy_size = read_bytes(paths[0], npy_bytes, sizeof npy_bytes);
    test_ok(context, mh_tensor_file_open(context, paths[0], &tensor_file));
    assert_true(mh_tensor_file_describe(tensor_file, 0, &tensor_read));
    tensor_read.data = read_numbers;
    row_read = mh_tensor_slice(tensor_read, 0, 0, 1);
    assert_true(mh_tensor_count(&tensor_read) <= sizeof read_numbers / sizeof *read_numbers);
    tokenizer_size = read_bytes(paths[3], tokenizer_bytes, sizeof tokenizer_bytes);
    trace_size = read_bytes(api_path(&o, "trace.safetensors"), trace_bytes, sizeof trace_bytes);
    test_ok(context, mh_parameters_save(context, mh_mha_parameters(o.mha), paths[2]));
    named = (mh_named_tensor){"x", *(mh_tensor *)rows(0)};
    part = (mh_parameters_part){"", mh_mha_parameters(o.mha)};
    snprintf(run, sizeof run, "%s/run", o.directory);
    snprintf(sentences, sizeof sentences, "%s/data.tsv", o.directory);
    FILE *stream = fopen(sentences, "w");
    assert_non_null(stream);
    fputs("un deux\tone two\ntrois\tthree\n", stream);
    fclose(stream);
    train_options.data = train_options.valid = sentences;
    train_options.directory = run;
    train_options.merges = 2;
    train_model = translator_config;
    train_model.num_encoder_layers = train_model.num_decoder_layers = 1;
    train_options.model = &train_model;
    train_options.after = (mh_duration){1, MH_UPDATES};
    test_ok(context, mh_train(context, &train_options, &train_result));
}

// ---- pretrained models --------------------------------------------------------------------------

static const char *pretrained_file(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", pretrained, name);
    return path;
}

// The encoder's files, and a vocabulary.
static void make_pretrained_files(void)
{
    snprintf(pretrained, sizeof pretrained, "%s/pretrained", o.directory);
    assert_int_equal(mkdir(pretrained, 0777), 0);
    assert_int_equal(symlink(MH_GOLDENS "/models/bert/config.json", pretrained_file("config.json")),
                     0);
    assert_int_equal(
        symlink(MH_GOLDENS "/models/bert/model.safetensors", pretrained_file("model.safetensors")),
        0);
    FILE *stream = fopen(pretrained_file("vocab.txt"), "w");
    assert_non_null(stream);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\ndeux\n", stream);
    fclose(stream);
}

static void make_pretrained(mh_context *context)
{
    make_pretrained_files();
    causal_files = causal_directory_make();
    causal_directory_write(
        &causal_files, "chat_template.jinja",
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' "
        "+ message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if "
        "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
    causal = causal_directory_load(context, &causal_files);
    generate_options = mh_generate_options_default();
    generate_options.max_tokens = 2;
    model_options = mh_model_options_default();
    model_options.trainable = true;
    test_ok(context, mh_model_load(context, pretrained, &model_options, &encoder));
    test_ok(context,
            mh_model_load(context, MH_GOLDENS "/translations/marian", &model_options, &seq2seq));
    test_ok(context,
            mh_model_load(context, MH_GOLDENS "/models/bert-mlm", &model_options, &filler));
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/bert-classifier", &model_options,
                                   &classifier));
    test_ok(context, mh_tape_create(context, &model_tape));
    model_gradients = mh_model_gradients_default();
    model_input = mh_model_input_default();
    model_input.sequences = 1;
    model_input.starts = model_starts;
    model_input.ids = ids;
    classifier_input = model_input;
    model_input.tape = model_tape;
    for (int i = 0; i < 2; i++) {
        hidden[i] = mh_tensor_2d(model_data[i], MH_F32, N, PRETRAINED_WIDTH);
        pooled[i] = mh_tensor_2d(model_data[2 + i], MH_F32, 1, PRETRAINED_WIDTH);
    }
    vocabulary_logits = mh_tensor_2d(model_data[4], MH_F32, N, PRETRAINED_VOCABULARY);
    label_logits = mh_tensor_2d(model_data[5], MH_F32, 1, PRETRAINED_LABELS);
}

static void free_pretrained(void)
{
    mh_model_free(encoder);
    mh_model_free(seq2seq);
    mh_model_free(filler);
    mh_model_free(classifier);
    mh_tape_free(model_tape);
    mh_model_free(causal);
    causal_directory_remove(&causal_files);
    remove(pretrained_file("config.json"));
    remove(pretrained_file("model.safetensors"));
    remove(pretrained_file("vocab.txt"));
    remove(pretrained);
}

static void remove_files(void)
{
    static const char *const names[] = {"written",
                                        "mha.safetensors",
                                        "data.tsv",
                                        "run/config.json",
                                        "run/tokenizer.json",
                                        "run/model.safetensors",
                                        "run/README.md",
                                        "run/log.jsonl",
                                        "run/checkpoint.safetensors",
                                        "run/loss.svg",
                                        "run/snapshot-0.safetensors",
                                        "run/snapshot-1.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(api_path(&o, names[i]));
    remove(api_path(&o, "run"));
}

static int set_up(void **state)
{
    mh_context *context = test_context(NULL, 1);
    *state = context;
    make_tensors();
    make_options();
    api_files_make(context, &o);
    api_objects_make(context, &o);
    make_files(context);
    make_pretrained(context);
    transformer_options.tape = o.tape;
    test_ok(context, mh_tape_create(context, &mha_tape));
    mha_options.tape = mha_tape;
    return 0;
}

static int tear_down(void **state)
{
    mh_context *context = *state;
    mh_buffer_free(context, &buffer);
    mh_tokens_free(context, &tokens);
    mh_encoding_free(context, &encoding);
    mh_text_stream_free(context, &streaming);
    mh_tensor_file_free(tensor_file);
    mh_tape_free(mha_tape);
    free_pretrained();
    api_objects_free(&o);
    mh_context_free(context);
    remove_files();
    api_files_free(&o);
    return 0;
}

// ---- one NULL at a time -------------------------------------------------------------------------

typedef struct parameter {
    char name[32];
    bool optional;
} parameter;

static size_t split_parameters(const char *list, parameter *to)
{
    size_t count = 0, length;
    for (; *list; list += strspn(list, " ")) {
        length = strcspn(list, " ");
        assert_true(count < POINTERS_MOST && length < sizeof to->name);
        parameter *p = &to[count++];
        p->optional = list[length - 1] == '?';
        snprintf(p->name, sizeof p->name, "%.*s", (int)(length - p->optional), list);
        list += length;
    }
    return count;
}

// Whether a message has this word, not as a part of another.
static bool names_argument(const char *found, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = found; (at = strstr(at, word)) != NULL; at++) {
        const bool begins = at == found || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !(isalnum((unsigned char)at[length]) || at[length] == '_'))
            return true;
    }
    return false;
}

// Functions that need a forward's tape, or whose options hold what they need, name that.
static const char *needed_instead(const char *function_name, const char *name)
{
    const bool options = strcmp(name, "options") == 0;
    if (options && strncmp(function_name, "mh_attention_backward", 21) == 0)
        return "lse";
    if (options && (strcmp(function_name, "mh_mha_backward") == 0 ||
                    strcmp(function_name, "mh_transformer_backward") == 0))
        return "tape";
    if (options && strcmp(function_name, "mh_rope_tables") == 0)
        return "width";
    return name;
}

static void one_null_at_a_time(void **state)
{
    mh_context *context = *state;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        const function *f = &functions[i];
        parameter parameters[POINTERS_MOST];
        const size_t count = split_parameters(f->parameters, parameters);
        mh_status status = f->call(context, -1);
        if (status != MH_OK)
            fail_msg("%s with all arguments: %s", f->name, mh_error_message(context));
        for (size_t k = 0; k < count; k++) {
            const parameter *p = &parameters[k];
            mh_fail(context, MH_OK, "nothing yet");
            status = f->call(context, (int)k);
            const bool named_it =
                names_argument(mh_error_message(context), needed_instead(f->name, p->name));
            if (p->optional ? status != MH_OK : status != MH_ERROR_ARGUMENT || !named_it)
                fail_msg("%s without %s: found status %d, \"%s\"", f->name, p->name, (int)status,
                         mh_error_message(context));
            test_ok(context, f->call(context, -1)); // nothing is broken
        }
    }
}

static void without_context(void **state)
{
    (void)state;
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (functions[i].call(NULL, -1) != MH_ERROR_ARGUMENT)
            fail_msg("%s without a context", functions[i].name);
}

static void contexts(void **state)
{
    (void)state;
    assert_int_equal(mh_context_create(&context_options, NULL, message, sizeof message),
                     MH_ERROR_ARGUMENT);
    assert_true(names_argument(message, "context"));
    assert_int_equal(mh_context_create(NULL, &made_context, NULL, 0), MH_OK);
    mh_context_free(made_context);
    assert_int_equal(mh_fail(NULL, MH_ERROR_FILE, "x"), MH_ERROR_FILE);
}

// ---- functions that cannot fail -----------------------------------------------------------------

// NULL is fine, or they ask about what exists; those of contexts are tested above.
static const char *const others[] = {"mh_context_create",
                                     "mh_fail",
                                     "mh_alibi_slope",
                                     "mh_status_name",
                                     "mh_version",
                                     "mh_version_number",
                                     "mh_context_free",
                                     "mh_error_message",
                                     "mh_context_threads",
                                     "mh_context_isa",
                                     "mh_context_allocator",
                                     "mh_context_native_bf16",
                                     "mh_context_cancel",
                                     "mh_isa_levels",
                                     "mh_isa_supported",
                                     "mh_cpu_features",
                                     "mh_log",
                                     "mh_alloc",
                                     "mh_free",
                                     "mh_parallel_for",
                                     "mh_tensor_file_free",
                                     "mh_tensor_file_count",
                                     "mh_tensor_file_name",
                                     "mh_tensor_file_index",
                                     "mh_tensor_file_describe",
                                     "mh_tensor_file_at",
                                     "mh_tensor_file_find",
                                     "mh_tensor_file_stored",
                                     "mh_tensor_file_metadata",
                                     "mh_tensor_file_metadata_at",
                                     "mh_kv_cache_free",
                                     "mh_kv_cache_length",
                                     "mh_kv_cache_bytes",
                                     "mh_activation_name",
                                     "mh_parameters_lay_out",
                                     "mh_parameters_init",
                                     "mh_parameters_find",
                                     "mh_parameter_view",
                                     "mh_tape_free",
                                     "mh_tape_bytes",
                                     "mh_mha_free",
                                     "mh_mha_parameters",
                                     "mh_transformer_free",
                                     "mh_transformer_parameters",
                                     "mh_transformer_bytes",
                                     "mh_decoding_free",
                                     "mh_decoding_disable_heads",
                                     "mh_decoding_sequences",
                                     "mh_decoding_length",
                                     "mh_decoding_bytes",
                                     "mh_packed_matrix_free",
                                     "mh_packed_matrix_bytes",
                                     "mh_packed_weights_free",
                                     "mh_operand_dtype",
                                     "mh_clip_factor",
                                     "mh_dtype_name",
                                     "mh_dtype_size",
                                     "mh_tensor_view",
                                     "mh_tensor_1d",
                                     "mh_tensor_2d",
                                     "mh_tensor_3d",
                                     "mh_tensor_4d",
                                     "mh_tensor_swap",
                                     "mh_tensor_slice",
                                     "mh_tensor_split",
                                     "mh_tensor_count",
                                     "mh_tensor_is_contiguous",
                                     "mh_tensor_same_shape",
                                     "mh_tensor_describe",
                                     "mh_utf8_valid",
                                     "mh_sentence_length",
                                     "mh_tokenizer_free",
                                     "mh_tokenizer_size",
                                     "mh_tokenizer_pad",
                                     "mh_tokenizer_bos",
                                     "mh_tokenizer_eos",
                                     "mh_tokenizer_token",
                                     "mh_tokenizer_role",
                                     "mh_tokenizer_name",
                                     "mh_tokenizer_id",
                                     "mh_encoding_free",
                                     "mh_text_stream_free",
                                     "mh_tokens_free",
                                     "mh_model_free",
                                     "mh_model_describe",
                                     "mh_model_label",
                                     "mh_model_tokenizer",
                                     "mh_model_transformer",
                                     "mh_model_texts_free",
                                     "mh_model_texts_input",
                                     "mh_model_trace_free",
                                     "mh_model_trace_view",
                                     "mh_model_texts_encoding",
                                     "mh_model_parameters",
                                     "mh_model_generation_defaults",
                                     "mh_model_chat_template",
                                     "mh_generations_at",
                                     "mh_generations_free",
                                     "mh_duration_parse",
                                     "mh_translator_free",
                                     "mh_translator_model",
                                     "mh_translator_configuration",
                                     "mh_translator_tokenizer",
                                     "mh_translator_parameters",
                                     "mh_translations_free",
                                     "mh_translations_at",
                                     "mh_translation_trace_free",
                                     "mh_translation_trace_view",
                                     "mh_trace_kind_name",
                                     "mh_trace_file_trace",
                                     "mh_trace_file_free",
                                     "mh_buffer_free"};

static void freeing_null(void **state)
{
    mh_context *context = *state;
    mh_context_free(NULL);
    mh_free(context, NULL, 1);
    mh_tensor_file_free(NULL);
    mh_kv_cache_free(NULL);
    mh_tape_free(NULL);
    mh_mha_free(NULL);
    mh_transformer_free(NULL);
    mh_decoding_free(NULL);
    mh_packed_matrix_free(NULL);
    mh_packed_weights_free(NULL);
    mh_buffer_free(context, NULL);
    mh_tokenizer_free(NULL);
    mh_model_free(NULL);
    mh_model_texts_free(context, NULL);
    mh_model_trace_free(NULL);
    mh_generations_free(NULL);
    assert_int_equal(mh_packed_matrix_bytes(NULL), 0);
    mh_tokens_free(context, NULL);
    mh_translator_free(NULL);
    mh_translations_free(NULL);
    mh_translation_trace_free(NULL);
    mh_trace_file_free(NULL);
    assert_string_equal(mh_error_message(NULL), "");
    test_refused(context, mh_trace_file_parse(context, NULL, npy_bytes, npy_size, &made_trace_file),
                 MH_ERROR_FORMAT, "(memory)");
}

// ---- the headers --------------------------------------------------------------------------------

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The names of pointer parameters but the context's, as the list has them, without "?".
static void read_pointers(const char *at, const char *end, char *to, size_t size)
{
    size_t used = 0;
    to[0] = '\0';
    while (at < end) {
        const char *stop = at;
        while (stop < end && *stop != ',')
            stop++;
        const char *last = stop;
        while (last > at && !is_word(last[-1]))
            last--;
        const char *begin = last;
        while (begin > at && is_word(begin[-1]))
            begin--;
        const bool pointer = memchr(at, '*', (size_t)(stop - at)) != NULL;
        if (pointer && strncmp(begin, "context", 7) != 0)
            used += (size_t)snprintf(to + used, size - used, "%s%.*s", used ? " " : "",
                                     (int)(last - begin), begin);
        at = stop + 1;
    }
}

static const function *find_function(const char *name)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}

static bool is_other(const char *name)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], name) == 0)
            return true;
    return false;
}

// A declaration from behind MH_API to its semicolon.
static void check_declaration(const char *at)
{
    char name[64], pointers[256], listed[256];
    const char *open = strchr(at, '('), *close = strchr(at, ';');
    assert_true(open && close && open < close);
    const char *begin = open;
    while (is_word(begin[-1]))
        begin--;
    snprintf(name, sizeof name, "%.*s", (int)(open - begin), begin);
    const function *f = find_function(name);
    if (!f && !is_other(name))
        fail_msg("%s is in a header, but not in the list of this test", name);
    if (!f)
        return;
    while (*close != ')')
        close--;
    read_pointers(open + 1, close, pointers, sizeof pointers);
    size_t used = 0;
    for (const char *c = f->parameters; *c; c++)
        if (*c != '?')
            listed[used++] = *c;
    listed[used] = '\0';
    if (strcmp(pointers, listed) != 0)
        fail_msg("%s: found \"%s\" in the list, expected \"%s\" as in its header", name, listed,
                 pointers);
}

static void every_function_is_listed(void **state)
{
    (void)state;
    size_t found = 0;
    DIR *directory = opendir(MH_HEADERS);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        static char path[512], header[1 << 17];
        const size_t length = strlen(entry->d_name);
        if (length < 2 || strcmp(entry->d_name + length - 2, ".h") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", MH_HEADERS, entry->d_name);
        header[read_bytes(path, header, sizeof header - 1)] = '\0';
        for (const char *at = header; (at = strstr(at, "\nMH_API ")) != NULL; at++, found++)
            check_declaration(at + strlen("\nMH_API "));
    }
    closedir(directory);
    assert_int_equal(found, FUNCTIONS + sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_listed),
        cmocka_unit_test_setup_teardown(one_null_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_context, set_up, tear_down),
        cmocka_unit_test(contexts),
        cmocka_unit_test_setup_teardown(freeing_null, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
