// SPDX-License-Identifier: MIT
// Classification of pictures by a Vision Transformer of the family `vit`:
//
//     pixels -> crop, mirror by the seed -> ViT -> logits of the class token -> cross-entropy
#include "base/compiler.h"
#include "base/philox.h"
#include "train/classifier.h"
#include "train/picture_data.h"
#include "train/run_ranks.h"
#include <inttypes.h>

enum { CROP_STREAM = 0x63726f70 }; // of random numbers, apart from shuffles

// ---- data and model -----------------------------------------------------------------------------

static mh_status check_sizes(mh_run *run)
{
    const mh_train_options *o = run->options;
    const size_t side = run->pictures.side;
    if (!o->patch_size || side % o->patch_size)
        return mh_fail(run->context, MH_ERROR_ARGUMENT,
                       "patch_size: found %zu, expected a divisor of the pictures' %zu pixels",
                       o->patch_size, side);
    MH_TRY(mh_model_task_check_heads(run));
    if (o->crop_padding >= side)
        return mh_fail(run->context, MH_ERROR_ARGUMENT,
                       "crop_padding: found %zu, expected less than the pictures' %zu pixels",
                       o->crop_padding, side);
    return MH_OK;
}

static mh_status write_config(mh_run *run)
{
    const mh_train_options *o = run->options;
    const mh_translator_config *m = o->model;
    mh_appender to = {.context = run->context};
    mh_append_string(&to, "{\n  \"architectures\": [\"ViTForImageClassification\"],\n"
                          "  \"model_type\": \"vit\",\n");
    mh_append_format(&to, "  \"image_size\": %zu,\n  \"patch_size\": %zu,\n", run->pictures.side,
                     o->patch_size);
    mh_append_format(&to, "  \"num_channels\": %zu,\n  \"hidden_size\": %zu,\n",
                     run->pictures.channels, m->d_model);
    mh_append_format(&to, "  \"num_hidden_layers\": %zu,\n  \"num_attention_heads\": %zu,\n",
                     m->num_encoder_layers, m->nhead);
    mh_append_format(&to, "  \"intermediate_size\": %zu,\n", m->dim_feedforward);
    mh_append_string(&to, "  \"hidden_act\": \"gelu\",\n  \"layer_norm_eps\": 1e-06,\n"
                          "  \"qkv_bias\": true,\n");
    mh_append_format(&to,
                     "  \"hidden_dropout_prob\": %.6g,\n"
                     "  \"attention_probs_dropout_prob\": %.6g,\n  \"id2label\": {",
                     (double)m->dropout, (double)m->dropout);
    mh_labels_put(&to, &run->labels, false);
    mh_append_string(&to, "},\n  \"label2id\": {");
    mh_labels_put(&to, &run->labels, true);
    mh_append_format(&to, "},\n  \"torch_dtype\": \"%s\"\n}\n",
                     o->weights == MH_BF16 ? "bfloat16" : "float32");
    return mh_append_finish(&to, MH_OK, &run->config);
}

static mh_status images_prepare(mh_run *run, size_t *bad_lines)
{
    const mh_train_options *o = run->options;
    run->pictures.side = o->image_size;
    MH_TRY(mh_picture_data_read(run, o->data, &run->pictures, &run->examples));
    MH_TRY(check_sizes(run));
    *bad_lines = 0;
    run->valid_pictures.side = run->pictures.side;
    run->valid_pictures.channels = run->pictures.channels;
    if (o->valid) {
        MH_TRY(mh_picture_data_read(run, o->valid, &run->valid_pictures, &run->valid.examples));
        *bad_lines = run->valid.examples.left_out;
    }
    if (o->label_names)
        MH_TRY(mh_picture_data_name_labels(run, o->label_names));
    MH_TRY(write_config(run));
    return mh_model_task_create(run);
}

static mh_status images_begin(mh_run *run)
{
    mh_buffer text = {0};
    mh_appender to = {.context = run->context};
    const size_t side = run->pictures.side;
    const char *half = run->pictures.channels == 1 ? "[0.5]" : "[0.5, 0.5, 0.5]";
    MH_TRY(mh_model_task_begin(run));
    mh_append_format(
        &to,
        "{\n  \"image_processor_type\": \"ViTImageProcessor\",\n  \"do_resize\": true,\n"
        "  \"size\": {\"height\": %zu, \"width\": %zu},\n",
        side, side);
    mh_append_format(&to, "  \"resample\": 2,\n  \"do_rescale\": true,\n"
                          "  \"rescale_factor\": 0.00392156862745098,\n");
    mh_append_format(&to,
                     "  \"do_normalize\": true,\n  \"image_mean\": %s,\n  \"image_std\": %s\n}\n",
                     half, half);
    mh_status status = mh_append_finish(&to, MH_OK, &text);
    if (!status)
        status = mh_model_task_write(run, "preprocessor_config.json", &text);
    mh_buffer_free(run->context, &text);
    return status;
}

// ---- sharing ------------------------------------------------------------------------------------

static mh_status share_pictures(mh_run *run, mh_pictures *p)
{
    uint64_t sizes[3] = {p->count, p->side, p->channels};
    MH_TRY(mh_run_broadcast(run, sizes, sizeof sizes));
    const size_t bytes = sizes[0] * sizes[1] * sizes[1] * sizes[2]; // the leader has as many
    p->count = sizes[0];
    p->side = sizes[1];
    p->channels = sizes[2];
    if (bytes == 0)
        return MH_OK;
    MH_TRY(mh_run_agree_memory(run, mh_run_leads(run) ||
                                        mh_grow(run->context, &p->pixels, &p->capacity, bytes, 1)));
    return mh_run_broadcast(run, p->pixels, bytes);
}

static mh_status images_share(mh_run *run)
{
    MH_TRY(share_pictures(run, &run->pictures));
    return share_pictures(run, &run->valid_pictures);
}

static uint64_t pixels_fingerprint(const mh_pictures *p)
{
    const size_t bytes = p->count * p->side * p->side * p->channels;
    return bytes ? mh_hash_bytes(0, (const char *)p->pixels, bytes) : 0;
}

static void images_settings(mh_run *run)
{
    const mh_train_options *o = run->options;
    const mh_translator_config *m = o->model;
    mh_model_task_set_dropout(run);
    mh_run_set(run, "task", "image-classification");
    mh_run_set(run, "pictures", "%016" PRIx64,
               pixels_fingerprint(&run->pictures) ^
                   mh_mix(pixels_fingerprint(&run->valid_pictures)));
    run->settings.list[run->settings.count - 1].checksum = true;
    mh_run_set(run, "model", "%zu %zu %zu %zu", m->d_model, m->nhead, m->num_encoder_layers,
               m->dim_feedforward);
    mh_run_set(run, "patches", "%zu of %zu", o->patch_size, run->pictures.side);
    mh_run_set(run, "crop_padding", "%zu", o->crop_padding);
    mh_run_set(run, "flip", "%d", o->flip);
}

// ---- loss ---------------------------------------------------------------------------------------

// Pixels, hidden states and logits follow each other in scratch memory.
static mh_status lay_out_images(mh_run *run, const mh_pictures *p, size_t count, float **values,
                                mh_classifier_batch *b)
{
    const mh_vision *v = &run->model->description.vision;
    const size_t D = run->model->description.block.d_model, L = run->model->description.labels;
    const size_t grid = v->image / v->patch, rows = count * (grid * grid + 1);
    const size_t one = p->channels * p->side * p->side;
    float *next = mh_model_task_floats(run, count * (one + L + 1) + 2 * rows * D);
    if (!next ||
        !mh_grow(run->context, &run->sequences, &run->sequences_capacity, count + 1,
                 sizeof *run->sequences) ||
        !mh_grow(run->context, &run->views, &run->views_capacity, count, sizeof *run->views))
        return MH_ERROR_MEMORY;
    *values = next;
    b->logits = mh_tensor_2d(next + count * one, MH_F32, count, L);
    b->labels = (int32_t *)(next + count * (one + L));
    b->hidden = mh_tensor_2d(next + count * (one + L + 1), MH_F32, rows, D);
    b->dhidden = mh_tensor_2d((float *)b->hidden.data + rows * D, MH_F32, rows, D);
    for (size_t i = 0; i <= count; i++)
        run->sequences[i] = (int64_t)(i * (grid * grid + 1));
    for (size_t i = 0; i < count; i++)
        run->views[i] = mh_tensor_3d(next + i * one, MH_F32, p->channels, p->side, p->side);
    b->input = mh_model_input_default();
    b->input.sequences = count;
    b->input.starts = run->sequences;
    b->input.pixels = run->views;
    return MH_OK;
}

// Picture `number` of a grain, cropped and mirrored by random numbers of its own.
static void put_augmented(const mh_run *run, const mh_loss_options *o, size_t picture,
                          size_t number, float *values)
{
    const uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)o->step, 0, CROP_STREAM};
    const size_t padding = run->options->crop_padding;
    uint32_t random[4];
    mh_philox(counter, key, random);
    const ptrdiff_t dy = (ptrdiff_t)(random[0] % (2 * padding + 1)) - (ptrdiff_t)padding;
    const ptrdiff_t dx = (ptrdiff_t)(random[1] % (2 * padding + 1)) - (ptrdiff_t)padding;
    mh_picture_values(&run->pictures, picture, dy, dx, run->options->flip && (random[2] & 1),
                      values);
}

static mh_status images_loss(mh_run *run, const mh_grain *grain, const mh_loss_options *options,
                             double *loss)
{
    mh_classifier_batch b;
    float *values;
    MH_TRY(lay_out_images(run, &run->pictures, grain->count, &values, &b));
    const size_t one = run->pictures.channels * run->pictures.side * run->pictures.side;
    for (size_t i = 0; i < grain->count; i++) {
        put_augmented(run, options, grain->examples[i], i, values + i * one);
        b.labels[i] = mh_dataset_target(&run->examples, grain->examples[i]).ids[0];
    }
    return mh_classifier_loss(run, &b, options, loss);
}

// ---- validation ---------------------------------------------------------------------------------

static mh_status score_pictures(mh_run *run, const uint32_t *examples, size_t count,
                                mh_batch_score *score)
{
    mh_classifier_batch b;
    float *values;
    const mh_pictures *p = &run->valid_pictures;
    const size_t one = p->channels * p->side * p->side;
    MH_TRY(lay_out_images(run, p, count, &values, &b));
    for (size_t i = 0; i < count; i++) {
        mh_picture_values(p, examples[i], 0, 0, false, values + i * one);
        b.labels[i] = mh_dataset_target(&run->valid.examples, examples[i]).ids[0];
    }
    return mh_classifier_score(run, &b, score);
}

static mh_status images_validate(mh_run *run, mh_validation_fn told, mh_validation_score *score,
                                 bool *stopped)
{
    return mh_classifier_validate(run, score_pictures, told, score, stopped);
}

const mh_task mh_task_images = {
    .kind = MH_TASK_IMAGES,
    .name = "image-classification",
    .grain = 32,
    .batch_tokens = 128,
    .prepare = images_prepare,
    .begin = images_begin,
    .model_file = "config.json",
    .receive = mh_model_task_receive,
    .parameters = mh_model_task_parameters,
    .vocabulary = mh_model_task_labels,
    .share = images_share,
    .settings = images_settings,
    .loss = images_loss,
    .validate = images_validate,
    .save = mh_model_task_save,
    .free = mh_model_task_free,
};
