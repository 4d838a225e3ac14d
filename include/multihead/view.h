// SPDX-License-Identifier: MIT
// multihead/view.h: visualise attention, and the curves of a training run.
//
//     mh_trace                  attention weights of a run, its tokens, and what else was tapped
//       <- mh_trace_file_open   from a safetensors file (docs/reference/trace-format.md)
//       -> mh_trace_write       to such a file
//       -> mh_view_page         one offline HTML page with every view
//       -> mh_view_text         heatmaps for a terminal
//
//     log.jsonl of a run        one JSON object per line (docs/guide/viewer.md)
//       -> mh_view_curve        losses and BLEU as a chart
//       -> mh_view_curve_text   the same for a terminal
//
// Part of libmultihead-model.
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_VIEW_H
#define MULTIHEAD_VIEW_H

#include <multihead/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- a trace ------------------------------------------------------------------------------------

typedef enum mh_trace_kind {
    MH_TRACE_ENCODER = 0, // encoder self-attention: queries and keys are source tokens
    MH_TRACE_DECODER = 1, // decoder masked self-attention: both are given tokens, or target tokens
    MH_TRACE_CROSS = 2,   // queries are target tokens, keys are source tokens
    MH_TRACE_ATTENTION = 3, // any other; labelled as in cross-attention or, if one list is missing
                            // and T = S, both by the one given
    MH_TRACE_ANY = -1, // as an option: the first of cross, encoder, decoder, attention that the
                       // trace has
} mh_trace_kind;

enum { MH_TRACE_KINDS_MAX = 8 }; // more than there are: later versions may add kinds

// "encoder.self", "decoder.self", "cross", "attention"; NULL for anything else. Any thread.
MH_API const char *mh_trace_kind_name(mh_trace_kind kind);

typedef struct mh_trace_tokens {
    size_t count;            // 0: unknown, positions are numbered instead
    const char *const *text; // (count), borrowed; invalid UTF-8 is shown as U+FFFD
    const bool *word_start;  // (count), whether a word begins here; NULL: from the tokens' marks
} mh_trace_tokens;

// What is around the attention of a group: the residual stream. All (L, T, D).
typedef struct mh_trace_stream {
    mh_tensor x;       // what the projection to q reads, after the norm if that is first
    mh_tensor sum;     // the residual sum after attention, and after the norm if that is last
    mh_tensor hidden;  // the layer's output; none in decoder.self before cross-attention
    const char *order; // "before", "after", "both" (norms around f) or "parallel"; NULL: unknown
} mh_trace_stream;

// Attention of all layers. A missing tensor has data NULL. Weights are f32, f64, f16 or bf16, or u8
// or u16 that represent k/255 and k/65535. The other tensors show the steps of the computation; q,
// k and v only together.
typedef struct mh_trace_group {
    mh_tensor weights; // (L, H, T, S), all at least 1
    bool sequences;    // L counts the sequences of a batch, all of one layer (default: layers)
    mh_tensor q;       // (L, H, T, E)
    mh_tensor k;       // (L, G, S, E), H a multiple of G
    mh_tensor v;       // (L, G, S, Ev)
    mh_tensor out;     // (L, T, D): the result of the output projection
    mh_tensor mask;    // (T, S), nonzero: may attend
    double scale;      // scale of q.k; 0: 1/sqrt(E)
    const mh_trace_stream *stream; // NULL: unknown
    void *reserved[3];             // NULL: for later versions
} mh_trace_group;

// What a decoder chose from. Row t of cross-attention chooses target token t; token t of a causal
// model chooses token t + 1.
typedef struct mh_trace_choices {
    size_t count;             // K: the likeliest tokens of each row; 0: unknown
    const char *const *text;  // (T, K), borrowed; best first, "" beyond the vocabulary
    const float *probability; // (T, K)
    const float *chosen;      // (T), of the token that was chosen; 0: unknown
} mh_trace_choices;

// A result of the search that made the target.
typedef struct mh_trace_hypothesis {
    const char *text; // borrowed
    double score;
} mh_trace_hypothesis;

// A label of a classifier.
typedef struct mh_trace_label {
    const char *text; // borrowed
    double probability;
} mh_trace_label;

enum { MH_TRACE_PICTURE_SIDE_MAX = 1024 }; // pixels

// The picture that a model read. Its patches, row by row, are the last tokens of MH_TRACE_ENCODER;
// those before them are others, such as [CLS].
typedef struct mh_trace_picture {
    const unsigned char *pixels; // (height, width, 3), RGB, borrowed; NULL: no picture
    size_t height, width;        // at most MH_TRACE_PICTURE_SIDE_MAX each
    size_t rows, columns;        // of patches
} mh_trace_picture;

// Views of memory that the caller owns; zeros and NULL for what is missing.
typedef struct mh_trace {
    size_t struct_size; // sizeof(mh_trace)
    const char *title;  // NULL: "Attention"
    const char *model;  // NULL
    mh_trace_tokens source, target;
    mh_trace_tokens given; // the decoder's input tokens, <s> first; label MH_TRACE_DECODER instead
                           // of target if present
    mh_trace_group groups[MH_TRACE_KINDS_MAX]; // by mh_trace_kind
    mh_trace_choices choices;                  // of as many rows as there are target tokens
    const mh_trace_hypothesis *hypotheses;     // (hypothesis_count), best first
    size_t hypothesis_count;
    mh_trace_picture picture;
    const mh_trace_label *labels; // (label_count), best first: what a classifier says of the input
    size_t label_count;
    const char *continuation; // what a causal model wrote after the title; NULL: nothing
} mh_trace;

static inline mh_trace mh_trace_default(void)
{
    mh_trace trace;
    memset(&trace, 0, sizeof trace);
    trace.struct_size = sizeof trace;
    return trace;
}

// Rejects a trace whose shapes or token counts are inconsistent, or whose weights are negative or
// not finite (MH_ERROR_ARGUMENT); warns through the context's log about rows that do not sum to 1.
// The functions below reject the same; of them only mh_trace_file_open and _parse warn.
MH_API MH_MUST_CHECK mh_status mh_trace_check(mh_context *context, const mh_trace *trace);

// ---- files --------------------------------------------------------------------------------------

// An open trace file, mapped read-only. Immutable: any thread may read it.
typedef struct mh_trace_file mh_trace_file;

// Opens a trace; docs/reference/trace-format.md describes the file. Errors:
// MH_ERROR_FILE, MH_ERROR_FORMAT (with the file's name, what was found and expected),
// MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_trace_file_open(mh_context *context, const char *path,
                                                  mh_trace_file **file);

// The same for bytes in memory; `name` (or NULL) replaces the path in messages. Borrows the bytes.
MH_API MH_MUST_CHECK mh_status mh_trace_file_parse(mh_context *context, const char *name,
                                                   const void *bytes, size_t size,
                                                   mh_trace_file **file);

// The trace, borrowed from the file.
MH_API const mh_trace *mh_trace_file_trace(const mh_trace_file *file);
MH_API void mh_trace_file_free(mh_trace_file *file); // NULL is allowed

// Writes a trace; the file is written atomically.
MH_API MH_MUST_CHECK mh_status mh_trace_write(mh_context *context, const char *path,
                                              const mh_trace *trace);

// ---- views --------------------------------------------------------------------------------------

typedef struct mh_view_options {
    size_t struct_size; // sizeof(mh_view_options)
    mh_trace_kind kind; // MH_TRACE_ANY
    ptrdiff_t layer;    // -1: a page starts with the overview, a text shows the last layer, or the
                        // first sequence
    ptrdiff_t head;     // -1: all
    int bits;           // of a weight in a page, 8 or 16; 0: 16 up to 4 million weights, 8 beyond
    bool served;        // the page may connect to the server it came from (default: no network
                        // access)
    size_t width;       // of a text, in columns; at least 20 (80)
    bool colour;        // of a text: 24-bit colours (default: shaded blocks)
    ptrdiff_t query;    // of a text of a picture: the token whose attention is shown; -1: the first
} mh_view_options;

static inline mh_view_options mh_view_options_default(void)
{
    mh_view_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kind = MH_TRACE_ANY;
    options.layer = options.head = options.query = -1;
    options.width = 80;
    return options;
}

// One self-contained HTML page: it makes no network requests, and its security policy allows none.
// Weights are quantised in steps of their row's largest weight / (2^bits - 1), so that each is
// within half a step. `options` may be NULL; without a trace (NULL) the page is empty and waits for
// its server. Returns new bytes. Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_view_page(mh_context *context, const mh_view_options *options,
                                            const mh_trace *trace, mh_buffer *page);

// The data of such a page alone, as JSON: what a server sends to an open page.
MH_API MH_MUST_CHECK mh_status mh_view_data(mh_context *context, const mh_view_options *options,
                                            const mh_trace *trace, mh_buffer *json);

// mh_view_page into a file, written atomically.
MH_API MH_MUST_CHECK mh_status mh_view_page_write(mh_context *context,
                                                  const mh_view_options *options,
                                                  const mh_trace *trace, const char *path);

// Heatmaps for a terminal, UTF-8: the heads of one layer, as many side by side as the width allows,
// shaded by the square root of the weight relative to the largest. Terminal control characters in
// tokens are replaced. A trace with a picture shows one token's attention to the patches, laid out
// as they are in the picture, and as the last map attention rollout, with A_l the mean of layer l's
// heads: (A_L + I)/2 ... (A_1 + I)/2 (Abnar and Zuidema, 2020). Returns new bytes.
MH_API MH_MUST_CHECK mh_status mh_view_text(mh_context *context, const mh_view_options *options,
                                            const mh_trace *trace, mh_buffer *text);

// ---- the curve of a run -------------------------------------------------------------------------

// A chart of the log at `path`, as one SVG image without external resources or scripts: training
// and validation loss (left axis) and BLEU (right axis) over updates and epochs, light or dark as
// the reader's system is. A series of more than 1,000 points is downsampled to 1,000; peaks are
// kept. The log may be of a run in progress: an incomplete last line is skipped. Returns new bytes.
// Errors: MH_ERROR_FILE, MH_ERROR_FORMAT (with the line's number, what was found and expected; also
// for an empty log), MH_ERROR_MEMORY. Any thread, one context each.
MH_API MH_MUST_CHECK mh_status mh_view_curve(mh_context *context, const char *path, mh_buffer *svg);

// mh_view_curve into a file, written atomically.
MH_API MH_MUST_CHECK mh_status mh_view_curve_write(mh_context *context, const char *path,
                                                   const char *svg_path);

// The same for a terminal, UTF-8, `width` columns (20 to 10,000): first, last and best figures, and
// the curves in blocks; a column shows the mean over its range of updates. Returns new bytes.
// Errors: as mh_view_curve, and MH_ERROR_ARGUMENT.
MH_API MH_MUST_CHECK mh_status mh_view_curve_text(mh_context *context, const char *path,
                                                  size_t width, mh_buffer *text);

#ifdef __cplusplus
}
#endif
#endif
