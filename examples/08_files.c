// SPDX-License-Identifier: MIT
// Example 8: tensors in files. Writes q, k, v of a sentence as .npy for NumPy and all three as
// one .safetensors, reads them back, and runs attention directly on the mapped file.
//
// usage: 08_files [DIRECTORY]    default: a temporary directory, which is removed again
#define _POSIX_C_SOURCE 200809L // mkdtemp
#include <multihead/io.h>
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { T = 4, E = 4 }; // words, width; one head, one sentence: "the cat, it purred"

// What each word looks for, and what it is: a thing, an action, a stand-in, a filler.
static float q[T][E] = {{6, 0, 0, 0}, {0, 4, 0, 0}, {8, 0, 0, 0}, {4, 0, 6, 0}};
static float k[T][E] = {{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 0, 1, 0}, {0, 1, 0, 0}};
static float v[T][E] = {{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 0, 1, 0}, {0, 1, 0, 0}};
static float out[T][E];

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "08_files: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

static const char *path_in(const char *directory, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_files(const char *directory)
{
    const mh_named_tensor tensors[] = {
        {"q", mh_tensor_2d(q, MH_F32, T, E)},
        {"k", mh_tensor_2d(k, MH_F32, T, E)},
        {"v", mh_tensor_2d(v, MH_F32, T, E)},
    };
    must(mh_npy_write(context, path_in(directory, "q.npy"), &tensors[0].tensor));
    must(mh_npy_write(context, path_in(directory, "k.npy"), &tensors[1].tensor));
    must(mh_npy_write(context, path_in(directory, "v.npy"), &tensors[2].tensor));
    const mh_metadata made_by = {"made_by", "examples/08_files.c"};
    must(mh_safetensors_write(context, path_in(directory, "qkv.safetensors"), tensors, 3, &made_by,
                              1));
}

// A tensor of the file as (1, 1, T, E), which is what attention takes.
static mh_tensor find(const mh_tensor_file *file, const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(file, name, &t) || mh_tensor_count(&t) != T * E) {
        fprintf(stderr, "08_files: no tensor %s of %d numbers\n", name, T * E);
        exit(EXIT_FAILURE);
    }
    return mh_tensor_4d(t.data, t.dtype, 1, 1, T, E);
}

static void attend_from_file(const char *directory)
{
    mh_tensor_file *file;
    must(mh_tensor_file_open(context, path_in(directory, "qkv.safetensors"), &file));
    mh_tensor qt = find(file, "q"), kt = find(file, "k"), vt = find(file, "v");
    mh_tensor ot = mh_tensor_4d(out, MH_F32, 1, 1, T, E);
    must(mh_attention_forward(context, NULL, &qt, &kt, &vt, &ot));
    mh_tensor_file_free(file);
}

int main(int argc, char **argv)
{
    char temporary[] = "/tmp/multihead-example-XXXXXX";
    const char *directory = argc > 1 ? argv[1] : mkdtemp(temporary);
    char error[256];
    if (!directory || mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "08_files: %s\n", directory ? error : "no temporary directory");
        return EXIT_FAILURE;
    }
    write_files(directory);
    attend_from_file(directory);
    printf("  wrote q.npy, k.npy, v.npy and qkv.safetensors\n");
    printf("  read back, \"it\" is now: thing %.2f, action %.2f, stand-in %.2f, filler %.2f\n",
           (double)out[2][0], (double)out[2][1], (double)out[2][2], (double)out[2][3]);
    if (argc < 2) {
        const char *const names[] = {"q.npy", "k.npy", "v.npy", "qkv.safetensors"};
        for (int i = 0; i < 4; i++)
            remove(path_in(directory, names[i]));
        rmdir(directory);
    }
    mh_context_free(context);
    return out[2][0] > 0.9f ? EXIT_SUCCESS : EXIT_FAILURE;
}
