// SPDX-License-Identifier: MIT
// Writes a small translator with random weights to a directory that exists: make_model DIRECTORY
// SEED
#include "translator_fixture.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    mh_context *context;
    if (argc != 3 || mh_context_create(NULL, &context, NULL, 0)) {
        fprintf(stderr, "usage: make_model FOLDER SEED\n");
        return 2;
    }
    mh_translator *t = fixture_translator(context, MH_PRECISION_F32, strtoull(argv[2], NULL, 10));
    if (t)
        fixture_speak(t);
    const bool good = t && !mh_translator_save(context, t, argv[1], MH_F32);
    if (!good)
        fprintf(stderr, "make_model: %s\n", mh_error_message(context));
    mh_translator_free(t);
    mh_context_free(context);
    return good ? 0 : 1;
}
