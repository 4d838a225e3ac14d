// SPDX-License-Identifier: MIT
// multihead embed: vectors of texts or pictures, by a pretrained model.
#include "arrays.h"
#include "embed/embed.h"
#include "messages.h"
#include "pretrained/pictures.h"
#include "progress.h"

static void show_progress(void *user, size_t done, size_t total)
{
    (void)user;
    progress_show(done, total, "texts");
}

static int allocate_vectors(embed *e, size_t rows)
{
    const mh_model_info *info = mh_model_describe(e->texts.model);
    const size_t shape[2] = {rows,
                             e->pooling == POOLING_NONE ? info->d_model : info->embedding_dim};
    return array_allocate(e->texts.context, "the embeddings", MH_F32, 2, shape, &e->out.tensor,
                          &e->out.size);
}

static int embed_texts(embed *e)
{
    const text_arguments *t = &e->texts;
    const mh_model_info *info = mh_model_describe(t->model);
    const mh_pooling pooling = e->pooling == POOLING_MODEL ? info->pooling : (mh_pooling)e->pooling;
    const bool normalize = e->normalize == NORMALIZE_MODEL ? info->normalize : e->normalize;
    int code = allocate_vectors(e, t->count);
    if (code != EXIT_DONE)
        return code;
    mh_status status =
        mh_model_embed_texts(t->context, t->model, pooling, normalize, t->truncate, e->batch,
                             t->texts, t->count, show_progress, NULL, &e->out.tensor);
    progress_clear();
    return status ? complain_texts(t, status) : EXIT_DONE;
}

static int embed_picture(embed *e, size_t row, mh_pooling pooling, bool normalize)
{
    const text_arguments *t = &e->texts;
    mh_tensor to = mh_tensor_slice(e->out.tensor, 0, row, 1);
    mh_image image;
    int code = picture_read(t, t->texts[row], &image);
    if (code != EXIT_DONE)
        return code;
    const mh_status status =
        mh_model_embed_pictures(t->context, t->model, pooling, normalize, &image, 1, &to);
    mh_image_free(t->context, &image);
    return status ? complain_texts(t, status) : EXIT_DONE;
}

// CLIP's tower for texts has a pooling of its own.
static int embed_beside(embed *e, size_t row, bool normalize)
{
    const text_arguments *t = &e->texts;
    const mh_model *text = mh_model_text_tower(t->model);
    mh_tensor to = mh_tensor_slice(e->out.tensor, 0, row, 1);
    const mh_status status =
        mh_model_embed_texts(t->context, text, mh_model_describe(text)->pooling, normalize,
                             t->truncate, 0, &t->texts[row], 1, NULL, NULL, &to);
    return status ? complain_text(t, status, row + 1) : EXIT_DONE;
}

static int embed_pictures(embed *e)
{
    const text_arguments *t = &e->texts;
    const mh_model_info *info = mh_model_describe(t->model);
    const mh_pooling pooling = e->pooling == POOLING_MODEL ? info->pooling : (mh_pooling)e->pooling;
    const bool normalize = e->normalize == NORMALIZE_MODEL ? info->normalize : e->normalize;
    int code = allocate_vectors(e, t->count);
    for (size_t i = 0; i < t->count && code == EXIT_DONE; i++) {
        progress_show(i, t->count, "pictures");
        code = is_picture(t, t->texts[i]) ? embed_picture(e, i, pooling, normalize)
                                          : embed_beside(e, i, normalize);
    }
    progress_clear();
    return code;
}

static int embed_tokens(embed *e)
{
    const text_arguments *t = &e->texts;
    if (reads_pictures(t)) {
        complain("--pooling none is for texts, and %s reads pictures", t->directory);
        return EXIT_USAGE;
    }
    if (t->count != 1) {
        complain("--pooling none: found %zu texts, expected one", t->count);
        return EXIT_USAGE;
    }
    mh_status status =
        mh_model_encode(t->context, t->model, t->truncate, t->texts, t->count, &e->encoded);
    if (status)
        return complain_texts(t, status);
    e->texts.truncated += mh_model_texts_encoding(e->encoded, 0)->truncated;
    int code = allocate_vectors(e, mh_model_texts_encoding(e->encoded, 0)->count);
    if (code != EXIT_DONE)
        return code;
    status =
        mh_model_hidden(t->context, t->model, mh_model_texts_input(e->encoded), &e->out.tensor);
    return status ? complain_texts(t, status) : EXIT_DONE;
}

static int embed_show(embed *e)
{
    int code = outputs_save(e->texts.context, &e->out, &e->out.tensor, 1);
    if (code != EXIT_DONE)
        return code;
    if (e->similarity)
        print_similarity(e);
    else if (e->texts.json || !e->out.path)
        print_embeddings(e);
    return EXIT_DONE;
}

static int run_embed(int argc, char **argv)
{
    embed e = {.texts = text_arguments_default(&embed_command),
               .pooling = POOLING_MODEL,
               .normalize = NORMALIZE_MODEL,
               .out = {.option = "--out"}};
    e.texts.pictures = true;
    int code = parse_arguments(&embed_argp, argc, argv, &e);
    if (code == EXIT_DONE)
        code = text_arguments_open(&e.texts);
    if (code == EXIT_DONE)
        code = text_arguments_read(&e.texts);
    if (code == EXIT_DONE && e.pooling == POOLING_NONE)
        code = embed_tokens(&e);
    else if (code == EXIT_DONE && (e.texts.count > 0 || e.out.path))
        code = reads_pictures(&e.texts) ? embed_pictures(&e) : embed_texts(&e);
    if (code == EXIT_DONE)
        code = embed_show(&e);
    if (e.texts.context) {
        mh_model_texts_free(e.texts.context, e.encoded);
        outputs_free(e.texts.context, &e.out, 1);
    }
    text_arguments_close(&e.texts);
    return code;
}

const command embed_command = {
    .name = "embed",
    .summary = "vectors of texts or pictures by a pretrained model, and their similarity",
    .argp = &embed_argp,
    .run = run_embed,
};
