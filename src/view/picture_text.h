// SPDX-License-Identifier: MIT
// Attention over a picture, for a terminal.
#ifndef MH_VIEW_PICTURE_TEXT_H
#define MH_VIEW_PICTURE_TEXT_H

#include "support/buffer.h"
#include <multihead/view.h>

// Maps of the patches that the query of the options attends to: heads of a layer, and rollout. The
// trace has a picture, and passed mh_trace_check.
mh_status mh_picture_text(mh_appender *to, const mh_view_options *options, const mh_trace *trace);

#endif
