// SPDX-License-Identifier: MIT
// Arrays that a command reads from files: FILE.npy, FILE.npz:NAME or
// FILE.safetensors:NAME.
//
// A path may contain colons, too. The longest part before a colon (or the whole) that is a file is
// taken as the file, what follows the colon as the tensor's name. A file is mapped; "-", which is
// standard input, and pipes are read into memory.
//
// Functions return an exit code after reporting errors; messages name the option, the file, what
// was found and what was expected.
#ifndef CLI_ARRAYS_H
#define CLI_ARRAYS_H

#include <multihead/io.h>

typedef struct array {
    const char *option; // "--q"
    const char *spec;   // as given on the command line; NULL: not given
    mh_tensor found;    // as it is in the file
    mh_tensor tensor;   // to work with: the same, extended or converted
    mh_tensor_file *file;
    char *bytes; // of a file that is not mapped
    void *copy;
    size_t copy_size;
} array;

int array_open(mh_context *context, array *a);
void array_close(mh_context *context, array *a); // may never have been opened

// Prints "--q q.npy: f32 (2, 3): MESSAGE" and returns EXIT_INPUT.
int array_complain(const array *a, const char *format, ...) MH_PRINTF(2, 3);

bool array_is_float(const array *a);

// Converts the array to `dtype`; a copy unless it already is. `contiguous`: C order as well.
int array_convert(mh_context *context, array *a, mh_dtype dtype, bool contiguous);

// Converts a float array to an additive mask: f32 in C order, finite values stay finite. Warns if
// it looks like a mask of another kind, which must be as `instead` says.
int array_to_added_mask(mh_context *context, array *a, const char *instead);

// Prepends dimensions of 1 up to `rank`.
void array_extend(array *a, int rank);

// Widths of --model FILE, which is untrusted, may ask for any amount of memory: large ones must be
// backed by as many elements in the file.
int array_check_elements(const char *path, const mh_tensor_file *file, double expected,
                         size_t width);

// Memory for an array of this shape, with a message on failure; *size for mh_free.
int array_allocate(mh_context *context, const char *what, mh_dtype dtype, int rank,
                   const size_t *shape, mh_tensor *tensor, size_t *size);

#endif
