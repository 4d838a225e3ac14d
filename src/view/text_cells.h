// SPDX-License-Identifier: MIT
// Cells of a terminal that are shaded by a weight; heatmaps are made of them.
#ifndef MH_VIEW_TEXT_CELLS_H
#define MH_VIEW_TEXT_CELLS_H

#include "support/buffer.h"

void mh_text_spaces(mh_appender *to, size_t count);

// A cell of `width` columns for a weight that is `part` of the largest, 0 to 1. Colours remain set.
void mh_text_cell(mh_appender *to, float part, size_t width, bool colour);

// The weights that shades stand for.
void mh_text_legend(mh_appender *to, float most, size_t width, bool colour);

#endif
