// SPDX-License-Identifier: MIT
// Example 15: what is in a picture? Loads a Vision Transformer as Hugging Face publishes it, reads
// a picture file, and prints the likeliest labels.
//
// usage: 15_classify_a_picture [MODEL PICTURE]
// Without arguments, the model of this project that tells clothes apart gets a small picture; run
// it from the top of this project.
#include <multihead/ops.h>
#include <multihead/pretrained.h>
#include <stdio.h>
#include <stdlib.h>

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "15_classify_a_picture: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// The three likeliest labels of the logits (labels), which become probabilities.
static void print_labels(const mh_model *model, mh_tensor *logits)
{
    const size_t labels = logits->shape[1];
    float *p = logits->data;
    must(mh_softmax(context, logits, 1, logits));
    for (int rank = 0; rank < 3; rank++) {
        size_t best = 0;
        for (size_t i = 1; i < labels; i++)
            best = p[i] > p[best] ? i : best;
        printf("  %.3f  %s\n", (double)p[best], mh_model_label(model, best));
        p[best] = -1; // not again
    }
}

int main(int argc, char **argv)
{
    const char *directory = argc > 2 ? argv[1] : "models/fashion-vit";
    const char *path = argc > 2 ? argv[2] : "examples/pictures/shirt.pgm";
    mh_model *model;
    mh_image image;
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return EXIT_FAILURE;
    must(mh_model_load(context, directory, NULL, &model));
    const mh_model_info *info = mh_model_describe(model);
    if (!(info->abilities & MH_CAN_CLASSIFY) || !info->image_size || info->labels < 3) {
        fprintf(stderr, "15_classify_a_picture: %s does not classify pictures\n", directory);
        return EXIT_FAILURE;
    }

    // PPM, PGM, and with libmultihead-media PNG and JPEG; rotated as its EXIF data say
    must(mh_image_read(context, path, &image));
    printf("%s, %zu x %zu pixels, in patches of %zu x %zu\n", path, image.width, image.height,
           info->patch_size, info->patch_size);

    // Resized and normalised as preprocessor_config.json says, then the model
    float *values = malloc(info->labels * sizeof *values);
    if (!values)
        return EXIT_FAILURE;
    mh_tensor logits = mh_tensor_2d(values, MH_F32, 1, info->labels);
    must(mh_model_classify_pictures(context, model, &image, 1, &logits));
    print_labels(model, &logits);

    free(values);
    mh_image_free(context, &image);
    mh_model_free(model);
    mh_context_free(context);
    return EXIT_SUCCESS;
}
