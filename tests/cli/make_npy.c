// SPDX-License-Identifier: MIT
// Writes and shows small arrays for the command's tests, so that these need no Python.
//
//     make_npy FILE.npy DTYPE SHAPE NUMBER...               SHAPE as 2x3; numbers repeat
//     make_npy FILE.safetensors NAME DTYPE SHAPE NUMBER... [+ NAME DTYPE SHAPE NUMBER...]...
//     make_npy [--deflate] FILE.npz FILE.npy...             as numpy.savez and savez_compressed do
//     make_npy --show FILE                                  type, shape, numbers by rows
//     make_npy --close FILE FILE.safetensors NAME BOUND     whether the shapes are equal and no
//     number differs by more
//                                                           than BOUND times the largest one of
//                                                           NAME
#include "zip_support.h"

#include <math.h>
#include <multihead/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 16 };

static mh_context *context;

static void die(const char *message)
{
    fprintf(stderr, "make_npy: %s\n", message);
    exit(EXIT_FAILURE);
}

static void must(mh_status status)
{
    if (status != MH_OK)
        die(mh_error_message(context));
}

static mh_dtype parse_dtype(const char *name)
{
    for (int d = MH_F32; d <= MH_U64; d++)
        if (strcmp(name, mh_dtype_name((mh_dtype)d)) == 0)
            return (mh_dtype)d;
    die("no such dtype");
    return MH_F32;
}

static int parse_shape(const char *text, size_t *shape)
{
    int rank = 0;
    for (const char *at = text; *at && rank < MH_MAX_RANK;) {
        char *end;
        shape[rank++] = strtoul(at, &end, 10);
        at = *end ? end + 1 : end;
    }
    return rank;
}

// DTYPE SHAPE NUMBER... up to "+" or the end; *used counts the arguments.
static mh_tensor make_tensor(int argc, char **argv, int *used)
{
    size_t shape[MH_MAX_RANK];
    if (argc < 3)
        die("expected DTYPE SHAPE NUMBER...");
    int rank = parse_shape(argv[1], shape), numbers = 0;
    while (2 + numbers < argc && strcmp(argv[2 + numbers], "+") != 0)
        numbers++;
    mh_tensor wide = mh_tensor_view(NULL, MH_F64, rank, shape);
    size_t count = mh_tensor_count(&wide);
    double *values = calloc(count + 1, sizeof *values);
    mh_tensor t = mh_tensor_view(calloc(count + 1, 8), parse_dtype(argv[0]), rank, shape);
    if (!values || !t.data || numbers == 0)
        die("no memory, or no numbers");
    for (size_t i = 0; i < count; i++)
        values[i] = strtod(argv[2 + i % (size_t)numbers], NULL);
    wide.data = values;
    must(mh_tensor_copy(context, &wide, &t));
    free(values);
    *used = 2 + numbers;
    return t;
}

static void make_safetensors(const char *path, int argc, char **argv)
{
    mh_named_tensor tensors[MOST_TENSORS] = {{0}};
    size_t count = 0;
    for (int at = 0; at < argc && count < MOST_TENSORS; at++) {
        int used;
        const char *name = argv[at++];
        tensors[count++] = (mh_named_tensor){name, make_tensor(argc - at, argv + at, &used)};
        at += used;
    }
    must(mh_safetensors_write(context, path, tensors, count, NULL, 0));
    for (size_t i = 0; i < count; i++)
        free(tensors[i].tensor.data);
}

static void make_npz(const char *path, int argc, char **argv, bool deflated)
{
    zip_entry entries[MOST_TENSORS] = {{0}};
    size_t count = 0;
    for (; count < (size_t)argc && count < MOST_TENSORS; count++)
        entries[count] = (zip_entry){argv[count], blob_read(argv[count]), deflated};
    blob archive = zip_make(entries, count, ZIP_NUMPY);
    must(mh_bytes_write(context, path, archive.bytes, archive.size));
    blob_free(&archive);
    for (size_t i = 0; i < count; i++)
        blob_free(&entries[i].content);
}

static void show(const char *path)
{
    mh_tensor_file *file;
    mh_tensor t;
    char text[128];
    must(mh_tensor_file_open(context, path, &file));
    if (!mh_tensor_file_at(file, 0, &t))
        die("no tensor");
    size_t count = mh_tensor_count(&t), row = t.rank ? t.shape[t.rank - 1] : 1;
    mh_tensor wide = mh_tensor_view(calloc(count + 1, sizeof(double)), MH_F64, t.rank, t.shape);
    if (!wide.data)
        die("no memory");
    must(mh_tensor_copy(context, &t, &wide));
    printf("%s\n", mh_tensor_describe(&t, text, sizeof text));
    for (size_t i = 0; i < count; i++)
        printf("%.4f%c", ((double *)wide.data)[i], (i + 1) % row ? ' ' : '\n');
    free(wide.data);
    mh_tensor_file_free(file);
}

static double *to_doubles(const mh_tensor *t)
{
    mh_tensor wide =
        mh_tensor_view(calloc(mh_tensor_count(t) + 1, sizeof(double)), MH_F64, t->rank, t->shape);
    if (!wide.data)
        die("no memory");
    must(mh_tensor_copy(context, t, &wide));
    return wide.data;
}

static void compare(const char *path, const char *expected_path, const char *name, double bound)
{
    mh_tensor_file *file, *expected_file;
    mh_tensor t, expected;
    must(mh_tensor_file_open(context, path, &file));
    must(mh_tensor_file_open(context, expected_path, &expected_file));
    if (!mh_tensor_file_at(file, 0, &t) || !mh_tensor_file_find(expected_file, name, &expected))
        die("no tensor");
    if (!mh_tensor_same_shape(&t, &expected))
        die("another shape");
    double *a = to_doubles(&t), *b = to_doubles(&expected), largest = 0, error = 0;
    for (size_t i = 0; i < mh_tensor_count(&t); i++) {
        largest = fmax(largest, fabs(b[i]));
        error = fabs(a[i] - b[i]) <= error ? error : fabs(a[i] - b[i]);
    }
    if (error <= bound * largest)
        printf("within %g\n", bound);
    else
        printf("differs by %.2g of %.2g\n", error, largest);
    free(a);
    free(b);
    mh_tensor_file_free(file);
    mh_tensor_file_free(expected_file);
}

int main(int argc, char **argv)
{
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    if (argc < 3 || mh_context_create(&options, &context, NULL, 0) != MH_OK)
        die("see the head of make_npy.c");
    const bool deflated = strcmp(argv[1], "--deflate") == 0;
    argv += deflated;
    argc -= deflated;
    const char *path = argv[1], *dot = strrchr(path, '.');
    if (strcmp(path, "--show") == 0) {
        show(argv[2]);
    } else if (strcmp(path, "--close") == 0 && argc == 6) {
        compare(argv[2], argv[3], argv[4], strtod(argv[5], NULL));
    } else if (dot && strcmp(dot, ".safetensors") == 0) {
        make_safetensors(path, argc - 2, argv + 2);
    } else if (dot && strcmp(dot, ".npz") == 0) {
        make_npz(path, argc - 2, argv + 2, deflated);
    } else {
        int used;
        mh_tensor t = make_tensor(argc - 2, argv + 2, &used);
        must(mh_npy_write(context, path, &t));
        free(t.data);
    }
    mh_context_free(context);
    return EXIT_SUCCESS;
}
