// SPDX-License-Identifier: MIT
// Dynamic time warping: sums[i][j] = costs[i][j] + min of sums[i-1][j-1], sums[i-1][j],
// sums[i][j-1]; a path follows the choices back from the last corner.
#include "speech/speech_internal.h"
#include <math.h>

enum { DIAGONAL, UP, LEFT };

void mh_warp_path(const float *costs, size_t rows, size_t columns, unsigned char *trace,
                  float *sums, size_t *first)
{
    const size_t stride = columns + 1;
    float *above = sums, *here = sums + stride;
    for (size_t j = 0; j <= columns; j++)
        above[j] = j ? INFINITY : 0;
    for (size_t i = 0; i < rows; i++) {
        here[0] = INFINITY;
        for (size_t j = 0; j < columns; j++) {
            const float diagonal = above[j], up = above[j + 1], left = here[j];
            const bool is_diagonal = diagonal < up && diagonal < left;
            const bool is_up = !is_diagonal && up < diagonal && up < left;
            trace[i * stride + j] = is_diagonal ? DIAGONAL : is_up ? UP : LEFT;
            here[j + 1] = costs[i * columns + j] + (is_diagonal ? diagonal : is_up ? up : left);
        }
        float *swap = above;
        above = here;
        here = swap;
    }
    for (size_t i = rows - 1, j = columns - 1;;) {
        first[i] = j;
        const unsigned char from = i == 0 ? LEFT : j == 0 ? UP : trace[i * stride + j];
        if (i == 0 && j == 0)
            return;
        i -= from != LEFT;
        j -= from != UP;
    }
}
