// SPDX-License-Identifier: MIT
// Shared by the trace's reader, writer and views: names, token lists of a group, and reading
// weights of any dtype and strides as f32.
#ifndef MH_VIEW_TRACE_H
#define MH_VIEW_TRACE_H

#include <multihead/view.h>

enum { MH_TRACE_KINDS = MH_TRACE_ATTENTION + 1 };

// The tensors of a group besides its weights, one list for reading, writing and checking.
enum {
    MH_TRACE_Q,
    MH_TRACE_K,
    MH_TRACE_V,
    MH_TRACE_OUT,
    MH_TRACE_MASK,
    MH_TRACE_X, // from here on of the group's stream
    MH_TRACE_SUM,
    MH_TRACE_HIDDEN,
    MH_TRACE_TENSORS,
};
extern const char *const mh_trace_tensor_names[MH_TRACE_TENSORS]; // "q", ...

#define MH_TRACE_BATCH_AXES "batch,heads" // metadata GROUP.axes of weights (B, H, T, S)
#define MH_TRACE_LAYER_AXES "layers,heads"

// One without data if the group does not have it.
static inline const mh_tensor *mh_trace_tensor_const(const mh_trace_group *g, int tap)
{
    static const mh_trace_stream none;
    const mh_trace_stream *stream = g->stream ? g->stream : &none;
    const mh_tensor *taps[MH_TRACE_TENSORS] = {&g->q,    &g->k,      &g->v,        &g->out,
                                               &g->mask, &stream->x, &stream->sum, &stream->hidden};
    return taps[tap];
}

static inline bool mh_trace_has(const mh_trace *trace, int kind)
{
    return trace->groups[kind].weights.data != NULL;
}

// What the first dimension of a group's weights counts: "layer" or "sequence".
static inline const char *mh_trace_axis(const mh_trace_group *group)
{
    return group->sequences ? "sequence" : "layer";
}

// The tokens that label a group's queries or keys; count 0 if unknown.
mh_trace_tokens mh_trace_queries(const mh_trace *trace, mh_trace_kind kind);
mh_trace_tokens mh_trace_keys(const mh_trace *trace, mh_trace_kind kind);

// Copies of an (L, H, T, S) tensor: one head (T, S), `count` rows from `row` on, as f32 in C order;
// u8 and u16 become k/255 and k/65535.
mh_status mh_trace_rows(mh_context *context, const mh_tensor *weights, size_t layer, size_t head,
                        size_t row, size_t count, float *to);

// Rejects weights that are not (layers, heads, T, S), on which everything else relies.
mh_status mh_trace_check_rank(mh_context *context, mh_trace_kind kind, const mh_tensor *weights);

// Rejects a picture that is too large, or whose patches are not the tokens of encoder.self.
mh_status mh_trace_check_picture(mh_context *context, const mh_trace *trace);

// The tokens of encoder.self before those of the picture's patches.
static inline size_t mh_trace_patch_first(const mh_trace *trace)
{
    return trace->groups[MH_TRACE_ENCODER].weights.shape[2] -
           trace->picture.rows * trace->picture.columns;
}

#define MH_TRACE_PICTURE         "picture"         // tensor (height, width, 3)
#define MH_TRACE_PICTURE_PATCHES "picture.patches" // metadata "ROWS,COLUMNS"

// A complete copy of the caller's struct in `trace`, checked as mh_trace_check() does; its warning
// only if `warn`: it is reported once, when a trace is opened.
mh_status mh_trace_read(mh_context *context, const mh_trace *given, bool warn, mh_trace *trace);

// The group selected by the options; an error if the trace lacks it, or the layer or head.
mh_status mh_view_choose(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                         mh_trace_kind *kind);

#endif
