// SPDX-License-Identifier: MIT
// Fuzzes pictures in idx files, as the trainer reads them: byte 0 is the share of the input, in
// 256ths, that is the file of images; the rest is the file of labels. Byte 1 asks for a size. A
// header may promise one picture of the largest size before a byte of it is there, no more.
#include "fuzz_context.h"
#include "train/picture_data.h"

#include <stdio.h>
#include <unistd.h>

static char images_path[64], labels_path[64];

static void make_paths(void)
{
    snprintf(images_path, sizeof images_path, "/tmp/fuzz_idx.%d-images.idx3", (int)getpid());
    snprintf(labels_path, sizeof labels_path, "/tmp/fuzz_idx.%d-labels.idx1", (int)getpid());
}

static void remove_paths(void)
{
    unlink(images_path);
    unlink(labels_path);
}

static void write_part(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

static void check_read(const mh_run *run, const mh_dataset *examples)
{
    const mh_pictures *p = &run->pictures;
    if (p->count != examples->count || p->count == 0 || run->labels.count < 2)
        abort();
    float *values = malloc(p->side * p->side * p->channels * sizeof *values);
    if (!values)
        abort();
    for (size_t i = 0; i < p->count; i++) {
        const int32_t label = mh_dataset_target(examples, (uint32_t)i).ids[0];
        if (label < 0 || (size_t)label >= run->labels.count)
            abort();
        mh_picture_values(p, i, 1, -1, i % 2, values);
    }
    free(values);
}

static void release(mh_run *run)
{
    mh_shrink(run->context, &run->pictures.pixels, &run->pictures.capacity, 1);
    mh_labels_free(run->context, &run->labels);
    mh_dataset_free(run->context, &run->examples);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    mh_train_options options = mh_train_options_default();
    if (size < 2)
        return 0;
    if (!*images_path) {
        make_paths();
        atexit(remove_paths);
    }
    const size_t before = fuzz_memory.live, images = (size - 2) * bytes[0] / 256;
    mh_run *run = calloc(1, sizeof *run);
    if (!run)
        abort();
    write_part(images_path, bytes + 2, images);
    write_part(labels_path, bytes + 2 + images, size - 2 - images);
    options.data = images_path;
    options.label_names = bytes[1] & 1 ? "a,b,c,d" : NULL;
    run->context = context;
    run->options = &options;
    run->pictures.side = bytes[1] & 2 ? 0 : 1 + (size_t)(bytes[1] >> 4);
    mh_status status = mh_picture_data_read(run, images_path, &run->pictures, &run->examples);
    if (!status)
        check_read(run, &run->examples);
    if (!status && options.label_names) {
        status = mh_picture_data_name_labels(run, options.label_names);
        status = status == MH_ERROR_ARGUMENT ? MH_ERROR_FORMAT : status;
    }
    if (status && (status != MH_ERROR_FORMAT || !*mh_error_message(context)))
        abort();
    release(run);
    free(run);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
