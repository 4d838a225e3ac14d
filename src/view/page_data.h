// SPDX-License-Identifier: MIT
// The data of a page: a description as JSON, and numbered chunks of compressed values.
//
//     description   title, tokens, and for each group its kind, shape and first chunk
//     chunk         deflated, in base64; one for each head's weights, one for each layer of each
//                   tap, and the pixels of the picture, if there is one
//
// A head's chunk: T row maxima (f32), then its T x S weights as fractions of their row's maximum in
// steps of 1/(2^bits - 1); with 16 bits, all high bytes first, then all low ones, because adjacent
// high bytes compress better. A tap's chunk: f32 or f16, C order.
#ifndef MH_VIEW_PAGE_DATA_H
#define MH_VIEW_PAGE_DATA_H

#include <jansson.h>

#include "support/buffer.h"
#include <multihead/view.h>

// Receives the description, then every chunk in order.
typedef struct mh_page_sink {
    void (*description)(mh_appender *to, const char *json);
    void (*chunk)(mh_appender *to, size_t number, const unsigned char *bytes, size_t size);
} mh_page_sink;

// The trace must have passed mh_trace_check.
mh_status mh_page_data(const mh_view_options *options, const mh_trace *trace,
                       const mh_page_sink *sink, mh_appender *to);

// Members of the description; NULL if out of memory. Those of choices are in millionths.
json_t *mh_page_choices(mh_context *context, const mh_trace *trace);    // {count, tokens, ...}
json_t *mh_page_hypotheses(mh_context *context, const mh_trace *trace); // [{text, score}, ...]
json_t *mh_page_labels(mh_context *context, const mh_trace *trace);     // [{text, probability}]

#endif
