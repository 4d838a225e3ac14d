// SPDX-License-Identifier: MIT
// multihead info FILE: the metadata and the tensors of a file.
#include "info/info.h"
#include "messages.h"
#include "report.h"

#include <multihead/io.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPE_BYTES = 128, SHOWN_BYTES = 200 };

// "3 x 4 x 5"; "[3, 4, 5]" in JSON.
static void format_shape(const mh_tensor *t, bool json, char text[SHAPE_BYTES])
{
    size_t used = (size_t)snprintf(text, SHAPE_BYTES, "%s", json ? "[" : "");
    for (int i = 0; i < t->rank && used < SHAPE_BYTES - 24; i++)
        used += (size_t)snprintf(text + used, SHAPE_BYTES - used, "%s%zu",
                                 i == 0 ? ""
                                 : json ? ", "
                                        : " x ",
                                 t->shape[i]);
    snprintf(text + used, SHAPE_BYTES - used, "%s", json ? "]" : t->rank ? "" : "scalar");
}

// The first line of a value; control characters would reach the terminal.
static void print_value(const char *value)
{
    size_t size = 0;
    while (value[size] && (unsigned char)value[size] >= ' ' && value[size] != 0x7F &&
           size < SHOWN_BYTES)
        size++;
    while (size > 0 && value[size] && ((unsigned char)value[size] & 0xC0) == 0x80)
        size--; // not within a character
    printf("%.*s%s", (int)size, value, value[size] ? "..." : "");
}

static void print_text(const mh_tensor_file *file)
{
    mh_metadata pair;
    char shape[SHAPE_BYTES];
    for (size_t i = 0; mh_tensor_file_metadata_at(file, i, &pair); i++) {
        print_value(pair.key);
        printf(" = ");
        print_value(pair.value);
        putchar('\n');
    }
    for (size_t i = 0; i < mh_tensor_file_count(file); i++) {
        mh_tensor t;
        mh_stored_tensor stored;
        mh_tensor_file_describe(file, i, &t);
        mh_tensor_file_stored(file, i, &stored);
        format_shape(&t, false, shape);
        printf("%-5s %-16s ", stored.type, shape);
        print_value(mh_tensor_file_name(file, i));
        putchar('\n');
    }
}

static void print_json(const mh_tensor_file *file)
{
    mh_metadata pair;
    char shape[SHAPE_BYTES];
    fputs("{\"metadata\": {", stdout);
    for (size_t i = 0; mh_tensor_file_metadata_at(file, i, &pair); i++) {
        fputs(i ? ", " : "", stdout);
        put_json_string(stdout, pair.key, strlen(pair.key));
        fputs(": ", stdout);
        put_json_string(stdout, pair.value, strlen(pair.value));
    }
    fputs("}, \"tensors\": [", stdout);
    for (size_t i = 0; i < mh_tensor_file_count(file); i++) {
        mh_tensor t;
        mh_stored_tensor stored;
        const char *name = mh_tensor_file_name(file, i);
        mh_tensor_file_describe(file, i, &t);
        mh_tensor_file_stored(file, i, &stored);
        format_shape(&t, true, shape);
        printf("%s{\"name\": ", i ? ", " : "");
        put_json_string(stdout, name, strlen(name));
        printf(", \"type\": \"%s\", \"shape\": %s, \"bytes\": %zu}", stored.type, shape,
               stored.size);
    }
    fputs("]}\n", stdout);
}

int show_file(const common_options *common, const char *path, bool json)
{
    mh_context *context = NULL;
    mh_tensor_file *file = NULL;
    int code = open_context(common, &context);
    if (code == EXIT_DONE) {
        mh_status status = mh_tensor_file_open(context, path, &file);
        if (status)
            code = complain_status(context, status, NULL);
        else if (json)
            print_json(file);
        else
            print_text(file);
    }
    mh_tensor_file_free(file);
    mh_context_free(context);
    return code;
}
