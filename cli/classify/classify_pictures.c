// SPDX-License-Identifier: MIT
// Pictures for `multihead classify`: by the model's own labels, or by the embeddings of labels that
// are given (CLIP). A file that cannot be read is reported, and the others go on.
#include "classify/classify.h"
#include "messages.h"
#include "pretrained/pictures.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

// ---- given labels -------------------------------------------------------------------------------

// "a cat,a dog" into names without whitespace around them.
static int split_labels(classify *c)
{
    size_t count = 1;
    c->label_memory = strdup(c->given);
    for (const char *at = c->given; *at; at++)
        count += *at == ',';
    c->names = calloc(count, sizeof *c->names);
    if (!c->label_memory || !c->names) {
        complain("out of memory for the labels");
        return EXIT_MEMORY;
    }
    char *rest = c->label_memory, *name;
    while ((name = strsep(&rest, ",")) != NULL) {
        name += strspn(name, " \t");
        size_t size = strlen(name);
        while (size > 0 && strchr(" \t", name[size - 1]))
            name[--size] = '\0';
        if (size == 0 || mh_utf8_valid(name, size) < size) {
            complain("--labels: label %zu is %s", c->labels + 1,
                     size == 0 ? "empty" : "not valid UTF-8");
            return EXIT_USAGE;
        }
        c->names[c->labels++] = name;
    }
    return EXIT_DONE;
}

static int embed_labels(classify *c, const mh_model *text, mh_text *labels)
{
    const text_arguments *a = &c->arguments;
    const size_t width = mh_model_describe(text)->embedding_dim;
    mh_tensor embeddings = mh_tensor_2d(c->label_embeddings, MH_F32, c->labels, width);
    for (size_t i = 0; i < c->labels; i++)
        labels[i] = (mh_text){c->names[i], strlen(c->names[i])};
    const mh_status status =
        mh_model_embed_texts(a->context, text, mh_model_describe(text)->pooling, true, a->truncate,
                             0, labels, c->labels, NULL, NULL, &embeddings);
    return status ? complain_texts(a, status) : EXIT_DONE;
}

int labels_prepare(classify *c)
{
    const text_arguments *a = &c->arguments;
    const mh_model *text = mh_model_text_tower(a->model);
    if (!text) {
        complain("--labels: %s has labels of its own; it is for models that match pictures with "
                 "texts, such as CLIP",
                 a->directory);
        return EXIT_USAGE;
    }
    int code = split_labels(c);
    if (code != EXIT_DONE)
        return code;
    const size_t width = mh_model_describe(text)->embedding_dim;
    mh_text *labels = calloc(c->labels, sizeof *labels);
    c->label_embeddings = calloc(c->labels * width, sizeof *c->label_embeddings);
    if (!labels || !c->label_embeddings) {
        complain("out of memory for %zu labels", c->labels);
        code = EXIT_MEMORY;
    }
    if (code == EXIT_DONE)
        code = embed_labels(c, text, labels);
    free(labels);
    return code;
}

// ---- some pictures ------------------------------------------------------------------------------

// logits (count, labels): scaled cosines of pictures and labels.
static mh_status match_labels(const classify *c, const mh_image *images, size_t count,
                              float *logits)
{
    const text_arguments *a = &c->arguments;
    const mh_model_info *info = mh_model_describe(a->model);
    const size_t width = info->embedding_dim, bytes = count * width * sizeof(float);
    float *vectors = mh_alloc(a->context, bytes);
    if (!vectors)
        return MH_ERROR_MEMORY;
    mh_tensor embeddings = mh_tensor_2d(vectors, MH_F32, count, width);
    const mh_status status = mh_model_embed_pictures(a->context, a->model, info->pooling, true,
                                                     images, count, &embeddings);
    for (size_t i = 0; i < count && !status; i++)
        for (size_t j = 0; j < c->labels; j++) {
            double sum = 0;
            for (size_t k = 0; k < width; k++)
                sum += (double)vectors[i * width + k] * (double)c->label_embeddings[j * width + k];
            logits[i * c->labels + j] = (float)(info->logit_scale * sum);
        }
    mh_free(a->context, vectors, bytes);
    return status;
}

static mh_status run_pictures(const classify *c, const mh_image *images, size_t count,
                              float *logits)
{
    const text_arguments *a = &c->arguments;
    mh_tensor t = mh_tensor_2d(logits, MH_F32, count, c->labels);
    return c->names ? match_labels(c, images, count, logits)
                    : mh_model_classify_pictures(a->context, a->model, images, count, &t);
}

// Ranks and prints what was computed for these arguments.
static int print_pictures(const classify *c, const mh_text *paths, size_t count,
                          const float *logits)
{
    int code = EXIT_DONE;
    for (size_t i = 0; i < count; i++) {
        memcpy(c->logits, logits + i * c->labels, c->labels * sizeof *logits);
        const mh_status status = rank_labels(c);
        const int one = status ? complain_status(c->arguments.context, status, NULL)
                               : print_result(c, paths[i], paths[i]);
        code = code == EXIT_DONE ? one : code;
    }
    return code;
}

// The pictures that could be read, together; one by one if that fails, as one may be to blame.
static int classify_images(const classify *c, const mh_text *paths, const mh_image *images,
                           size_t count)
{
    const text_arguments *a = &c->arguments;
    const size_t bytes = count * c->labels * sizeof(float);
    float *logits = count ? mh_alloc(a->context, bytes) : NULL;
    int code = EXIT_DONE;
    if (count == 0)
        return EXIT_DONE;
    const mh_status status = logits ? run_pictures(c, images, count, logits) : MH_ERROR_MEMORY;
    progress_clear();
    if (!status)
        code = print_pictures(c, paths, count, logits);
    else if (count > 1 && status == MH_ERROR_ARGUMENT)
        for (size_t i = 0; i < count; i++) {
            const int one = classify_images(c, paths + i, images + i, 1);
            code = code == EXIT_DONE ? one : code;
        }
    if (status && !(count > 1 && status == MH_ERROR_ARGUMENT)) {
        static const char first[] = "picture 1: "; // of the call's one picture
        const char *message = mh_error_message(a->context);
        const bool named = strncmp(message, first, sizeof first - 1) == 0;
        complain("%.*s: %s", (int)paths[0].size, paths[0].bytes,
                 message + (named ? sizeof first - 1 : 0));
        code = status == MH_ERROR_MEMORY ? EXIT_MEMORY : EXIT_INPUT;
    }
    mh_free(a->context, logits, bytes);
    return code;
}

static int classify_some(const classify *c, const mh_text *paths, size_t count)
{
    mh_image images[PICTURES_AT_ONCE];
    mh_text read[PICTURES_AT_ONCE];
    size_t found = 0;
    int code = EXIT_DONE;
    for (size_t i = 0; i < count; i++) {
        const int one = picture_read(&c->arguments, paths[i], &images[found]);
        read[found] = paths[i];
        found += one == EXIT_DONE;
        code = code == EXIT_DONE ? one : code;
    }
    const int rest = classify_images(c, read, images, found);
    for (size_t i = 0; i < found; i++)
        mh_image_free(c->arguments.context, &images[i]);
    return code == EXIT_DONE ? rest : code;
}

int classify_pictures(classify *c)
{
    const text_arguments *a = &c->arguments;
    int code = EXIT_DONE;
    for (size_t i = 0; i < a->count; i += PICTURES_AT_ONCE) {
        const size_t left = a->count - i;
        if (left > PICTURES_AT_ONCE || i > 0)
            progress_show(i, a->count, "pictures");
        const int some =
            classify_some(c, a->texts + i, left < PICTURES_AT_ONCE ? left : PICTURES_AT_ONCE);
        code = code == EXIT_DONE ? some : code;
    }
    progress_clear();
    return code;
}
