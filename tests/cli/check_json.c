// SPDX-License-Identifier: MIT
// Reads lines, each of which must be one JSON object without duplicate keys, and prints the
// keys of each in order. Exit code 1 if a line is not.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    char line[16384];
    int lines = 0;
    while (fgets(line, sizeof line, stdin)) {
        json_error_t error;
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        lines++;
        if (!json_is_object(object)) {
            fprintf(stderr, "line %d: %s\n", lines, object ? "no object" : error.text);
            return EXIT_FAILURE;
        }
        const char *key;
        json_t *value;
        json_object_foreach(object, key, value) printf("%s ", key);
        printf("\n");
        json_decref(object);
    }
    return lines ? EXIT_SUCCESS : EXIT_FAILURE;
}
