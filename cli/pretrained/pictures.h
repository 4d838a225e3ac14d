// SPDX-License-Identifier: MIT
// Picture files among the arguments of the commands on pretrained models.
#ifndef CLI_PICTURES_H
#define CLI_PICTURES_H

#include "pretrained/text_arguments.h"

enum { PICTURES_AT_ONCE = 8 }; // read and computed together

// Whether the model reads pictures.
bool reads_pictures(const text_arguments *t);

// Whether an argument is a picture: all are, unless the model also reads texts (CLIP); then those
// whose names end as picture files do.
bool is_picture(const text_arguments *t, mh_text argument);

// Reads a file, to be freed with mh_image_free; returns an exit code after reporting errors.
int picture_read(const text_arguments *t, mh_text path, mh_image *image);

#endif
