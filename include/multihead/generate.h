// SPDX-License-Identifier: MIT
// multihead/generate.h: text generation with causal language models.
//
//     mh_generate_options options = mh_generate_options_default(); // greedy, 128 tokens
//     mh_generate_texts(context, model, &options, &prompt, 1, &generations);
//     const mh_generation *g = mh_generations_at(generations, 0);
//     fwrite(g->text.bytes, 1, g->text.size, stdout);
//     mh_generations_free(generations);
//
// Many prompts are continued together: when one is finished, the next joins the batch. What is
// generated for a prompt depends on the prompt, its index, the options and the seed only, bitwise:
// not on the batch, the number of threads or how the prompt is split.
//
// Part of libmultihead-model. Stability: experimental.
#ifndef MULTIHEAD_GENERATE_H
#define MULTIHEAD_GENERATE_H

#include <multihead/pretrained.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- options ------------------------------------------------------------------------------------

// Why a sequence ended.
typedef enum mh_finish {
    MH_FINISH_STOP = 0,    // an end-of-text token, or a stop string
    MH_FINISH_LENGTH = 1,  // max_tokens, max_length, or the model's longest input
    MH_FINISH_STOPPED = 2, // the callback has ended it
} mh_finish;

// A token and the logarithm of its probability, log softmax(logits): what the model says, before
// penalty, temperature and filters.
typedef struct mh_token_score {
    int32_t id;
    double logprob;
} mh_token_score;

// What the callback receives for each token. Without a beam, the first tokens of prompts come in
// the order of the prompts; a prompt that leaves no room for a token is not reported. Later
// versions append members.
typedef struct mh_generated_token {
    size_t sequence; // index of the prompt
    size_t position; // 0 for the first generated token
    mh_token_score token;
    mh_text text; // what can be shown since the last call: whole characters, possibly none; text
                  // that may be the beginning of a stop string is held back
    const mh_token_score *top; // (top_count) the likeliest tokens, best first
    size_t top_count;
    bool last; // of its sequence
    mh_finish finish;
    const struct mh_generation *result; // with `last`, what mh_generations_at() will return for the
                                        // prompt, valid until the generations are freed; else NULL
} mh_generated_token;

typedef enum mh_generate_action {
    MH_GENERATE_CONTINUE = 0,
    MH_GENERATE_STOP = 1,     // ends this sequence after this token
    MH_GENERATE_STOP_ALL = 2, // ends all sequences
} mh_generate_action;

typedef mh_generate_action (*mh_generate_fn)(void *user, const mh_generated_token *token);

// Filters apply in this order: repetition penalty, the model's token rules, temperature, top_k,
// top_p, min_p. Ties are in favour of the lowest id.
typedef struct mh_generate_options {
    size_t struct_size; // sizeof(mh_generate_options)
    size_t max_tokens;  // 128, at least 1: generated tokens, the end-of-text token included
    size_t max_length;  // 0: no limit; of prompt and generated tokens together
    double temperature; // 0: greedy, the likeliest token; else, up to 10^6,
                        // softmax(logits / temperature)
    size_t top_k;       // 0: all; only the k likeliest tokens, and those as likely as the k-th
    double top_p;       // 1: all; the fewest likeliest tokens whose probabilities reach top_p
    double min_p;       // 0: all; tokens of at least min_p times the highest probability
    double repetition_penalty; // 1: none; positive logits of tokens that the prompt or the
                               // generated text contains are divided by it, negative ones
                               // multiplied; in beam search, their log-probabilities are multiplied
    uint64_t seed;             // 0
    size_t beam;               // 1; more: beam search, only with temperature 0
    double length_penalty;     // 1: beam search compares log-probability / tokens^length_penalty
    const mh_text *stop;       // NULL; strings that end a sequence, not empty; the text ends before
    size_t stop_count;         // 0
    size_t top_logprobs;       // 0: number of the likeliest tokens to report for each step
    bool ignore_eos;           // false; true: end-of-text tokens do not end a sequence
    bool add_special_tokens;   // true: to texts, as the tokenizer says; false for rendered chats
    mh_dtype cache_dtype;      // MH_F32, of keys and values
    size_t segment;            // 512: prompt tokens per step, over all sequences
    size_t batch;              // 16: sequences at a time, or hypotheses of beam search
    const bool *disabled_heads;           // NULL; (layers, heads)
    mh_generate_fn on_token;              // NULL; called by the calling thread
    void *user;                           // NULL
    struct mh_prompt_cache *prompt_cache; // NULL; for one prompt, without a beam; see below
} mh_generate_options;

static inline mh_generate_options mh_generate_options_default(void)
{
    mh_generate_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.max_tokens = 128;
    options.top_p = 1;
    options.repetition_penalty = 1;
    options.beam = 1;
    options.length_penalty = 1;
    options.add_special_tokens = true;
    options.cache_dtype = MH_F32;
    options.segment = 512;
    options.batch = 16;
    return options;
}

// What the model's generation_config.json asks for beyond rules for tokens; not used unless a
// program does so. Owned by the model; later versions append members. 0 where the file has none.
typedef struct mh_generation_defaults {
    bool sample; // do_sample
    double temperature, top_p, min_p, repetition_penalty, length_penalty;
    size_t top_k; // the whole vocabulary where the file has 0
    size_t beam, max_length, max_new_tokens;
    char unsupported[512]; // names of settings in the file that have no effect here, each behind a
                           // space but the first; "" if there are none
} mh_generation_defaults;

MH_API const mh_generation_defaults *mh_model_generation_defaults(const mh_model *model);

// ---- results ------------------------------------------------------------------------------------

typedef struct mh_generation {
    mh_text text;              // "" if the model has no tokenizer
    const int32_t *ids;        // (count): all generated tokens, the end-of-text token included
    const double *logprobs;    // (count)
    const mh_token_score *top; // (count, top_count)
    size_t count, top_count;   //
    const int32_t *prompt;     // (prompt_count): the tokens before them
    size_t prompt_count;       //
    mh_finish finish;
} mh_generation;

// Immutable: any thread may read it.
typedef struct mh_generations mh_generations;

// NULL if there is no such prompt. Borrowed.
MH_API const mh_generation *mh_generations_at(const mh_generations *generations, size_t i);
MH_API void mh_generations_free(mh_generations *generations); // NULL is allowed

// ---- generation ---------------------------------------------------------------------------------

// Continues prompts of token ids: prompt b is ids[starts[b]] to ids[starts[b + 1] - 1]. An empty
// one begins with the beginning-of-text token, if the model has one. Token rules of the model's
// generation_config.json apply: end-of-text tokens, suppressed tokens, bad words, forced tokens,
// shortest length. Logits and text of a prompt do not depend on the others.
// Errors: MH_ERROR_UNSUPPORTED (not a causal language model), MH_ERROR_ARGUMENT (an option, an id
// outside the vocabulary, a prompt longer than the model's longest input), MH_ERROR_FORMAT (logits
// that are not finite: damaged weights), MH_ERROR_MEMORY, MH_ERROR_CANCELLED.
MH_API MH_MUST_CHECK mh_status mh_generate(mh_context *context, const mh_model *model,
                                           const mh_generate_options *options,
                                           const int64_t *starts, const int32_t *ids, size_t count,
                                           mh_generations **generations);

// The same for texts. Errors: also MH_ERROR_UNSUPPORTED (no tokenizer), MH_ERROR_FORMAT (text i is
// not UTF-8).
MH_API MH_MUST_CHECK mh_status mh_generate_texts(mh_context *context, const mh_model *model,
                                                 const mh_generate_options *options,
                                                 const mh_text *texts, size_t count,
                                                 mh_generations **generations);

// ---- prompts that begin alike -------------------------------------------------------------------

// The keys and values of the last prompt and of what was generated for it. The next prompt is read
// from the first token on that differs: a conversation does not read its history again. Results are
// bitwise those without it. Not thread-safe.
typedef struct mh_prompt_cache mh_prompt_cache;

// Returns an empty one; the model is borrowed. Errors: MH_ERROR_UNSUPPORTED (not a causal language
// model), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_prompt_cache_create(mh_context *context, const mh_model *model,
                                                      mh_prompt_cache **cache);
MH_API void mh_prompt_cache_free(mh_prompt_cache *cache); // NULL is allowed

// The tokens held; the tokens of the last prompt that were not read again.
MH_API size_t mh_prompt_cache_length(const mh_prompt_cache *cache);
MH_API size_t mh_prompt_cache_reused(const mh_prompt_cache *cache);

// ---- conversations ------------------------------------------------------------------------------

typedef enum mh_chat_role {
    MH_CHAT_SYSTEM = 0, // only the first message
    MH_CHAT_USER = 1,
    MH_CHAT_ASSISTANT = 2,
} mh_chat_role;

typedef struct mh_chat_message {
    mh_chat_role role;
    mh_text content;
} mh_chat_message;

// The format that the model's chat template writes: "chatml", "llama3", "gemma", "mistral",
// "zephyr", or "other"; NULL if the model has none, or one that is not supported.
MH_API const char *mh_model_chat_template(const mh_model *model);

// Replaces `text` by the conversation as a chat template writes it, ready for the assistant's
// answer; equal to Hugging Face's apply_chat_template with add_generation_prompt. `name`: one of
// the first five names above, for a template of ours, or NULL for the model's own, a program in
// Jinja, which is run within limits of steps and memory. Generate from the text with
// add_special_tokens false.
// Errors: MH_ERROR_UNSUPPORTED (the model has no template, or one that uses a part of Jinja that is
// not supported), MH_ERROR_ARGUMENT (an unknown name; messages that the template refuses, such as a
// system message or roles that do not alternate), MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_model_chat(mh_context *context, const mh_model *model,
                                             const char *name, const mh_chat_message *messages,
                                             size_t count, mh_buffer *text);

#ifdef __cplusplus
}
#endif
#endif
