// SPDX-License-Identifier: MIT
// multihead/heads.h: what heads do, over many sentences: where their attention goes on average, and
// what the model loses without them.
//
//     mh_head_statistics_create(context, NULL, &statistics);
//     for each text: mh_head_statistics_count_words(context, statistics, text);
//     for each text: mh_head_statistics_add(context, statistics, trace);       // view.h
//     mh_head_statistics_read(context, statistics, MH_TRACE_ENCODER, layer, head, &figures);
//     mh_head_statistics_free(statistics);
//
// Part of libmultihead-model. Stability: experimental (base.h).
#ifndef MULTIHEAD_HEADS_H
#define MULTIHEAD_HEADS_H

#include <multihead/translator.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- where attention goes -----------------------------------------------------------------------

// Keys of a query. Positions are relative to the query's own; in cross-attention to the aligned
// one: the source token, not a special one, that the mean of all heads of all layers weights most.
// In pictures, whose tokens are named "row,column", queries are the patches.
typedef enum mh_head_pattern {
    MH_PATTERN_NONE = -1,
    MH_PATTERN_PREVIOUS = 0, // the position before
    MH_PATTERN_NEXT,         // the position after
    MH_PATTERN_ITSELF,       // the query itself; the aligned token
    MH_PATTERN_DIAGONAL,     // cross-attention: the proportional position, t (S - 1) / (T - 1)
    MH_PATTERN_FIRST,        // position 0
    MH_PATTERN_SPECIAL,      // tokens in brackets: [CLS], [SEP], <s>, </s>, <|endoftext|>
    MH_PATTERN_OWN_WORD,     // other tokens of the query's word
    MH_PATTERN_SAME_TOKEN,   // equal tokens elsewhere; in cross-attention anywhere
    MH_PATTERN_SAME_WORD,    // tokens of an equal word elsewhere, in either case
    MH_PATTERN_PUNCTUATION,  // tokens without letters or digits
    MH_PATTERN_RARE,         // tokens of rare words: the least frequent ones, a quarter of the text
    MH_PATTERN_FAR,          // positions beyond mh_head_options.far
    MH_PATTERN_NEIGHBOUR,    // pictures: the up to 8 patches around the query's
    MH_PATTERN_ROW,          // pictures: other patches of its row
    MH_PATTERN_COLUMN,       // pictures: other patches of its column
    MH_PATTERN_COUNT,
} mh_head_pattern;

// "previous", ...; "aligned", "before" and "after" in cross-attention. NULL for anything else.
MH_API const char *mh_head_pattern_name(mh_trace_kind kind, mh_head_pattern pattern);

typedef struct mh_head_options {
    size_t struct_size; // sizeof(mh_head_options)
    size_t far;         // 5: tokens or patches, at least 1
} mh_head_options;

static inline mh_head_options mh_head_options_default(void)
{
    mh_head_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.far = 5;
    return options;
}

// Sums over traces. All calls take the context that created it; one thread at a time.
typedef struct mh_head_statistics mh_head_statistics;

// options NULL: the defaults. Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_head_statistics_create(mh_context *context,
                                                         const mh_head_options *options,
                                                         mh_head_statistics **statistics);
MH_API void mh_head_statistics_free(mh_head_statistics *statistics); // NULL is allowed

// Counts the words of a text: runs of letters and digits, in lower case. All texts come before the
// first trace; without any there is no pattern "rare". Errors: MH_ERROR_ARGUMENT (traces were added
// before; 2 GiB or more), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_head_statistics_count_words(mh_context *context,
                                                              mh_head_statistics *statistics,
                                                              mh_text text);

// Words that occur at most this often are rare; 0 if none were counted.
MH_API uint64_t mh_head_statistics_rare(const mh_head_statistics *statistics);

// Adds the attention of a trace. A query's keys are those that the group's mask allows; without a
// mask all, in decoder self-attention those up to itself. Queries without keys are left out.
// Errors: MH_ERROR_ARGUMENT (an invalid trace, or other numbers of layers and heads than before),
// MH_ERROR_UNSUPPORTED (a batch), MH_ERROR_MEMORY. Nothing is added then.
MH_API MH_MUST_CHECK mh_status mh_head_statistics_add(mh_context *context,
                                                      mh_head_statistics *statistics,
                                                      const mh_trace *trace);

// The layers and heads of a group, and whether its tokens are patches; false if no trace had it.
// The pointers may be NULL.
MH_API bool mh_head_statistics_size(const mh_head_statistics *statistics, mh_trace_kind kind,
                                    size_t *layers, size_t *heads, bool *picture);

enum { MH_PATTERN_MOST = 32 }; // of arrays: a later pattern does not change their size

// A head on average. weight[p] is the sum of weights that a query gives to its keys of pattern p,
// averaged over the queries that have such keys; uniform[p] is what a head with equal weights on
// all keys of a query would give. All are 0 if queries[p] is.
typedef struct mh_head_figures {
    size_t struct_size; // sizeof(mh_head_figures)
    double weight[MH_PATTERN_MOST], uniform[MH_PATTERN_MOST];
    double score[MH_PATTERN_MOST]; // (weight - uniform) / (1 - uniform): 0 of a uniform head, 1 of
                                   // one that does nothing else; 0 if less than 10 queries had
                                   // such keys
    uint64_t queries[MH_PATTERN_MOST]; // that had such keys
    uint64_t all_queries;
    double distance, uniform_distance; // weighted mean from the position to the key, in tokens; of
                                       // pictures in patches, Euclidean, over the keys that are
                                       // patches, averaged over queries
    double entropy;          // of the weights, as a part of its maximum, 0 to 1; averaged over the
                             // queries with 2 or more keys
    mh_head_pattern pattern; // of those whose score is MH_HEAD_SCORE or more, the one whose score
                             // times its part of all queries is largest
} mh_head_figures;

#define MH_HEAD_SCORE 0.3
#define MH_HEAD_BROAD 0.85

static inline mh_head_figures mh_head_figures_default(void)
{
    mh_head_figures figures;
    memset(&figures, 0, sizeof figures);
    figures.struct_size = sizeof figures;
    return figures;
}

// What the head does: the name of its pattern; without one "broad", if its entropy is
// MH_HEAD_BROAD or more, else "mixed". NULL if figures is NULL. Any thread.
MH_API const char *mh_head_name(mh_trace_kind kind, const mh_head_figures *figures);

// Errors: MH_ERROR_ARGUMENT (no such group, layer or head).
MH_API MH_MUST_CHECK mh_status mh_head_statistics_read(mh_context *context,
                                                       const mh_head_statistics *statistics,
                                                       mh_trace_kind kind, size_t layer,
                                                       size_t head, mh_head_figures *figures);

// ---- what a model loses without a head ----------------------------------------------------------

// What a model's loss is of.
typedef enum mh_text_loss {
    MH_LOSS_NONE = 0,       // it predicts no tokens
    MH_LOSS_NEXT_TOKEN = 1, // causal language models: every token but the first
    MH_LOSS_TARGET = 2,     // encoder-decoders: the tokens of a given target, and its end
    MH_LOSS_MASKED = 3,     // masked language models: every token, in 7 passes over a text; pass i
                            // masks tokens i, i + 7, ... that are not special
} mh_text_loss;

MH_API mh_text_loss mh_model_text_loss_kind(const mh_model *model);

// *loss: the sum of -log p over the predicted tokens of `count` texts, in nats; *tokens: how many.
// targets (count) for MH_LOSS_TARGET, else NULL. disabled_heads as in mh_model_input, or NULL. The
// bits do not depend on threads. Errors: MH_ERROR_UNSUPPORTED (MH_LOSS_NONE), MH_ERROR_ARGUMENT (a
// text that is too long, by its number), MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_model_text_loss(mh_context *context, const mh_model *model,
                                                  const bool *disabled_heads, const mh_text *texts,
                                                  const mh_text *targets, size_t count,
                                                  double *loss, size_t *tokens);

#ifdef __cplusplus
}
#endif
#endif
