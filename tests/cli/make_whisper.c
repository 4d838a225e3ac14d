// SPDX-License-Identifier: MIT
// Writes a small Whisper model to a directory that exists: make_whisper DIRECTORY SCRIPT
#include "whisper_fixture.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char *const names[] = {"speaks", "repeats", "hums",    "guesses",
                                        "marks",  "french",  "japanese"};
    const size_t count = sizeof names / sizeof *names;
    mh_context *context;
    size_t script = 0;
    while (argc == 3 && script < count && strcmp(names[script], argv[2]) != 0)
        script++;
    if (argc != 3 || script == count || mh_context_create(NULL, &context, NULL, 0)) {
        fprintf(stderr, "usage: make_whisper DIRECTORY SCRIPT\n");
        return 2;
    }
    const bool good = fixture_whisper(context, argv[1], (whisper_script)script);
    if (!good)
        fprintf(stderr, "make_whisper: %s\n", mh_error_message(context));
    mh_context_free(context);
    return good ? 0 : 1;
}
