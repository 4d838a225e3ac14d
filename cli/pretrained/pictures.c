// SPDX-License-Identifier: MIT
// Picture files; see pictures.h.
#include "pretrained/pictures.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool reads_pictures(const text_arguments *t) { return mh_model_describe(t->model)->image_size > 0; }

bool is_picture(const text_arguments *t, mh_text argument)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".pnm"};
    if (!reads_pictures(t) || !mh_model_text_tower(t->model))
        return reads_pictures(t);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t size = strlen(endings[i]);
        if (argument.size > size &&
            strncasecmp(argument.bytes + argument.size - size, endings[i], size) == 0)
            return true;
    }
    return false;
}

int picture_read(const text_arguments *t, mh_text path, mh_image *image)
{
    char *name = strndup(path.bytes, path.size);
    *image = (mh_image){0};
    if (!name) {
        complain("out of memory for a file name");
        return EXIT_MEMORY;
    }
    const mh_status status = mh_image_read(t->context, name, image);
    free(name);
    return status ? complain_input(t->context, status) : EXIT_DONE;
}
