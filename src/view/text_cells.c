// SPDX-License-Identifier: MIT
// See text_cells.h.
#include "view/text_cells.h"

#include <math.h>

enum { SHADES = 5 };

void mh_text_spaces(mh_appender *to, size_t count)
{
    while (count-- > 0)
        mh_append(to, " ", 1);
}

// Dark to light in even steps of lightness, blue to yellow: colour-blind safe.
static void colour_of(float part_of_most, int rgb[3])
{
    static const unsigned char anchors[][3] = {{16, 19, 28},   {28, 58, 94},    {31, 111, 139},
                                               {53, 167, 156}, {167, 219, 160}, {251, 247, 197}};
    enum { LAST = sizeof anchors / sizeof *anchors - 1 };
    float place = sqrtf(part_of_most < 1 ? part_of_most : 1) * LAST;
    int below = (int)place < LAST ? (int)place : LAST - 1;
    float part = place - (float)below;
    for (int c = 0; c < 3; c++)
        rgb[c] = (int)((float)anchors[below][c] * (1 - part) + (float)anchors[below + 1][c] * part +
                       0.5f);
}

static const char *shade_of(float part_of_most)
{
    static const char *const shades[SHADES] = {" ", "\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93",
                                               "\xE2\x96\x88"};
    int shade = (int)(sqrtf(part_of_most) * SHADES);
    return shades[shade < SHADES ? shade : SHADES - 1];
}

void mh_text_cell(mh_appender *to, float part, size_t width, bool colour)
{
    int rgb[3];
    if (colour) {
        colour_of(part, rgb);
        mh_append_format(to, "\033[48;2;%d;%d;%dm", rgb[0], rgb[1], rgb[2]);
    }
    for (size_t i = 0; i < width; i++)
        mh_append_string(to, colour ? " " : shade_of(part));
}

void mh_text_legend(mh_appender *to, float most, size_t width, bool colour)
{
    static const float marks[] = {0, 0.01f, 0.04f, 0.16f, 0.36f, 0.64f, 1};
    mh_append_string(to, "\n");
    if (colour) {
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            mh_text_cell(to, marks[i], width, true);
            mh_append_format(to, "%s\033[0m %.2g  ", width == 1 ? " " : "",
                             (double)(marks[i] * most));
        }
        mh_append_string(to, "\n");
    } else {
        for (size_t i = 2; i < 6; i++)
            mh_append_format(to, "%s from %.2g  ", shade_of(marks[i] + 0.01f),
                             (double)(marks[i] * most));
        mh_append_format(to, "largest %.2g\n", (double)most);
    }
}
