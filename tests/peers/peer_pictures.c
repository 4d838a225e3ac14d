// SPDX-License-Identifier: MIT
// usage: peer_pictures MODEL PICTURE...
// Writes the numbers that a model reads of each picture, as raw f32 behind channels, height and
// width as u64; for check_pictures.py.
#include <multihead/pretrained.h>
#include <stdio.h>
#include <stdlib.h>

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "peer_pictures: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

static void write_picture(const mh_model *model, const char *path)
{
    mh_image image;
    mh_model_pictures *pictures;
    must(mh_image_read(context, path, &image));
    must(mh_model_encode_pictures(context, model, &image, 1, &pictures));
    const mh_tensor *pixels = mh_model_pictures_input(pictures)->pixels;
    const uint64_t shape[3] = {pixels->shape[0], pixels->shape[1], pixels->shape[2]};
    fwrite(shape, sizeof *shape, 3, stdout);
    fwrite(pixels->data, sizeof(float), mh_tensor_count(pixels), stdout);
    mh_model_pictures_free(pictures);
    mh_image_free(context, &image);
}

int main(int argc, char **argv)
{
    mh_model *model;
    if (argc < 3 || mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return EXIT_FAILURE;
    must(mh_model_load(context, argv[1], NULL, &model));
    for (int i = 2; i < argc; i++)
        write_picture(model, argv[i]);
    mh_model_free(model);
    mh_context_free(context);
    return ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
