// SPDX-License-Identifier: MIT
// Names of tensors in files of models that read pictures: those of all versions of transformers,
// with and without the prefix that classifiers put before them, and CLIP's towers by themselves. A
// golden model is written again with other names, and must load to the same bits, with nothing left
// over.
#include "model/model_internal.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIDE = 16, IDS = 5, MOST_FLOATS = 4096, MOST_TENSORS = 128, NAME = 128 };

// A part of a name, and what takes its place; the first in a list that ends with NULL are done
// first.
typedef struct renaming {
    const char *from, *to;
} renaming;

typedef struct names {
    const char *golden, *what;
    const renaming *renamings;
    const char *stripped, *added; // prefixes, or NULL
    const char *only;             // tensors that begin so, or NULL: all
    const char *section;          // of config.json that is the new one, or NULL
    bool old_buffers;             // position_ids and mask_token, which older files have
} names;

static const renaming to_new[] = {
    {"encoder.layer.", "layers."},
    {"attention.attention.query", "attention.q_proj"},
    {"attention.attention.key", "attention.k_proj"},
    {"attention.attention.value", "attention.v_proj"},
    {"attention.output.dense", "attention.o_proj"},
    {"intermediate.dense", "mlp.fc1"},
    {"output.dense", "mlp.fc2"},
    {NULL, NULL},
};
static const renaming to_old[] = {
    {"layers.", "encoder.layer."},
    {"attention.q_proj", "attention.attention.query"},
    {"attention.k_proj", "attention.attention.key"},
    {"attention.v_proj", "attention.attention.value"},
    {"attention.o_proj", "attention.output.dense"},
    {"mlp.fc1", "intermediate.dense"},
    {"mlp.fc2", "output.dense"},
    {NULL, NULL},
};
// "mlp.weights_in" is written as its halves, gate_proj and up_proj.
static const renaming dinov2_to_new[] = {
    {"attention.attention.query", "attention.q_proj"},
    {"attention.attention.key", "attention.k_proj"},
    {"attention.attention.value", "attention.v_proj"},
    {"attention.output.dense", "attention.o_proj"},
    {"mlp.weights_in", "mlp.gate_proj"},
    {"mlp.weights_out", "mlp.down_proj"},
    {NULL, NULL},
};
static const renaming none[] = {{NULL, NULL}};

static const names cases[] = {
    {"vit", "new", to_new, NULL, NULL, NULL, NULL, false},
    {"vit", "new, no prefix", to_new, "vit.", NULL, NULL, NULL, false},
    {"vit", "no prefix", none, "vit.", NULL, NULL, NULL, true},
    {"vit-renamed", "old", to_old, NULL, NULL, NULL, NULL, false},
    {"vit-renamed", "old, prefix", to_old, NULL, "vit.", NULL, NULL, true},
    {"vit-renamed", "prefix", none, NULL, "vit.", NULL, NULL, false},
    {"deit", "new", to_new, NULL, NULL, NULL, NULL, false},
    {"deit", "no prefix", none, "deit.", NULL, NULL, NULL, true},
    {"deit-student", "new, no prefix", to_new, "deit.", NULL, NULL, NULL, false},
    {"dinov2", "new", dinov2_to_new, NULL, NULL, NULL, NULL, false},
    {"dinov2", "no prefix", none, "dinov2.", NULL, NULL, NULL, false},
    {"dinov2-gated", "new", dinov2_to_new, NULL, NULL, NULL, NULL, false},
    {"dinov2-gated", "new, prefix", dinov2_to_new, NULL, "dinov2.", NULL, NULL, false},
    {"clip", "old buffers", none, NULL, NULL, NULL, NULL, true},
    {"clip", "pictures", none, NULL, NULL, "vis", "vision_config", true},
    {"clip", "pictures, no prefix", none, "vision_model.", NULL, "vis", "vision_config", false},
    {"clip", "texts", none, NULL, NULL, "text_", "text_config", true},
    {"clip", "texts, no prefix", none, "text_model.", NULL, "text_", "text_config", false},
};

// ---- another file -------------------------------------------------------------------------------

typedef struct output {
    mh_named_tensor list[MOST_TENSORS];
    char names[MOST_TENSORS][NAME];
    size_t count;
} output;

static void put(output *o, const char *name, mh_tensor tensor)
{
    assert_true(o->count < MOST_TENSORS);
    snprintf(o->names[o->count], NAME, "%s", name);
    o->list[o->count] = (mh_named_tensor){o->names[o->count], tensor};
    o->count++;
}

static void replace(char name[NAME], const char *from, const char *to)
{
    char rest[NAME];
    char *at = strstr(name, from);
    if (!at)
        return;
    snprintf(rest, NAME, "%s", at + strlen(from));
    snprintf(at, NAME - (size_t)(at - name), "%s%s", to, rest);
}

// Heads have no prefix.
static bool is_head(const char *name)
{
    return strstr(name, "classifier") || strstr(name, "_projection") ||
           strcmp(name, "logit_scale") == 0;
}

static void rename_tensor(const names *c, const char *from, char name[NAME])
{
    const size_t stripped = c->stripped ? strlen(c->stripped) : 0;
    const bool strips = c->stripped && strncmp(from, c->stripped, stripped) == 0;
    snprintf(name, NAME, "%s%s", c->added && !is_head(from) ? c->added : "",
             from + (strips ? stripped : 0));
    for (const renaming *r = c->renamings; r->from; r++)
        replace(name, r->from, r->to);
}

static void put_renamed(output *o, const names *c, const char *from, mh_tensor t)
{
    char name[NAME];
    rename_tensor(c, from, name);
    if (!strstr(name, "mlp.gate_proj")) {
        put(o, name, t);
        return;
    }
    put(o, name, mh_tensor_slice(t, 0, 0, t.shape[0] / 2));
    replace(name, "gate_proj", "up_proj");
    put(o, name, mh_tensor_slice(t, 0, t.shape[0] / 2, t.shape[0] / 2));
}

static void put_old_buffers(output *o, const names *c)
{
    static int64_t positions[32];
    static float mask[32];
    const mh_tensor ids = mh_tensor_2d(positions, MH_I64, 1, 32);
    char name[NAME];
    if (strcmp(c->golden, "clip") != 0) {
        snprintf(name, NAME, "%sembeddings.mask_token", c->added ? c->added : "");
        put(o, name, mh_tensor_3d(mask, MH_F32, 1, 1, 32));
        return;
    }
    if (!c->only || strcmp(c->only, "vis") == 0)
        put(o, "vision_model.embeddings.position_ids", ids);
    if (!c->only || strcmp(c->only, "vis") != 0)
        put(o, "text_model.embeddings.position_ids", ids);
}

static void write_tensors(mh_context *context, const names *c, const char *directory)
{
    static output o;
    char path[512];
    mh_tensor_file *file;
    o.count = 0;
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s/model.safetensors", c->golden);
    test_ok(context, mh_tensor_file_open(context, path, &file));
    for (size_t i = 0; i < mh_tensor_file_count(file); i++) {
        const char *name = mh_tensor_file_name(file, i);
        mh_tensor t;
        assert_true(mh_tensor_file_at(file, i, &t));
        if (!c->only || strncmp(name, c->only, strlen(c->only)) == 0)
            put_renamed(&o, c, name, t);
    }
    if (c->old_buffers)
        put_old_buffers(&o, c);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    test_ok(context, mh_safetensors_write(context, path, o.list, o.count, NULL, 0));
    mh_tensor_file_free(file);
}

// A section of the golden's config.json, which has no objects in it, or all of it.
static void write_config(mh_context *context, const names *c, const char *directory)
{
    char path[512], text[4096];
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s/config.json", c->golden);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *begin = text;
    if (c->section) {
        begin = strchr(strstr(text, c->section), '{');
        size = (size_t)(strchr(begin, '}') + 1 - begin);
    }
    snprintf(path, sizeof path, "%s/config.json", directory);
    test_ok(context, mh_bytes_write(context, path, begin, size));
}

// ---- comparison ---------------------------------------------------------------------------------

// Everything that the model makes of a picture: hidden states, logits, pooled rows, embedding.
static size_t run_picture(mh_context *context, const mh_model *model, float *out)
{
    static float values[3 * SIDE * SIDE];
    const mh_model_info *info = mh_model_describe(model);
    const mh_vision *vision = &model->description.vision;
    const mh_tensor pixels = mh_tensor_3d(values, MH_F32, vision->channels, SIDE, SIDE);
    const size_t rows = mh_model_picture_rows(vision, &pixels);
    const int64_t starts[] = {0, (int64_t)rows};
    test_rng rng = {1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = (float)test_uniform(&rng, -1, 1);
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.pixels = &pixels;
    mh_tensor hidden = mh_tensor_2d(out, MH_F32, rows, info->d_model);
    size_t count = rows * info->d_model;
    test_ok(context, mh_model_hidden(context, model, &input, &hidden));
    if (info->abilities & MH_CAN_CLASSIFY) {
        mh_tensor logits = mh_tensor_2d(out + count, MH_F32, 1, info->labels);
        test_ok(context, mh_model_classify(context, model, &input, &hidden, &logits));
        count += info->labels;
    }
    mh_tensor pooled = mh_tensor_2d(out + count, MH_F32, 1, info->d_model);
    if (mh_model_pool(context, model, &input, &hidden, &pooled) == MH_OK)
        count += info->d_model;
    mh_tensor embedding = mh_tensor_2d(out + count, MH_F32, 1, info->embedding_dim);
    test_ok(context, mh_model_embed(context, model, MH_POOLING_CLS, false, &input, &embedding));
    return count + info->embedding_dim;
}

static size_t run_text(mh_context *context, const mh_model *model, float *out)
{
    const int32_t ids[IDS] = {97, 5, 6, 7, 98};
    const int64_t starts[] = {0, IDS};
    const size_t width = mh_model_describe(model)->embedding_dim;
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.ids = ids;
    mh_tensor embedding = mh_tensor_2d(out, MH_F32, 1, width);
    test_ok(context, mh_model_embed(context, model, MH_POOLING_LAST, false, &input, &embedding));
    return width;
}

// What of the golden model a case has: pictures, texts, or both.
static size_t run_model(mh_context *context, const mh_model *model, const names *c, float *out)
{
    const bool texts_only = c->section && strcmp(c->section, "text_config") == 0;
    const mh_model *tower = mh_model_text_tower(model);
    size_t count = texts_only ? 0 : run_picture(context, model, out);
    if (texts_only || (!c->section && tower))
        count += run_text(context, tower ? tower : model, out + count);
    assert_true(count <= MOST_FLOATS);
    return count;
}

static void note_surplus(void *user, mh_log_level level, const char *message)
{
    (void)level;
    if (strstr(message, "not used"))
        snprintf(user, 256, "%s", message);
}

static void check_case(const names *c)
{
    static float expected[MOST_FLOATS], found[MOST_FLOATS];
    char directory[] = "/tmp/mh-names-XXXXXX", path[512], surplus[256] = "";
    mh_context_options o = mh_context_options_default();
    mh_context *context;
    mh_model *golden, *renamed;
    o.log = note_surplus;
    o.log_user = surplus;
    assert_int_equal(mh_context_create(&o, &context, NULL, 0), MH_OK);
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s", c->golden);
    test_ok(context, mh_model_load(context, path, NULL, &golden));
    write_config(context, c, directory);
    write_tensors(context, c, directory);
    if (mh_model_load(context, directory, NULL, &renamed))
        fail_msg("%s, %s: %s", c->golden, c->what, mh_error_message(context));
    if (*surplus)
        fail_msg("%s, %s: %s", c->golden, c->what, surplus);
    const size_t count = run_model(context, golden, c, expected);
    if (run_model(context, renamed, c, found) != count ||
        memcmp(expected, found, count * sizeof *found) != 0)
        fail_msg("%s, %s: other results", c->golden, c->what);
    mh_model_free(golden);
    mh_model_free(renamed);
    mh_context_free(context);
    snprintf(path, sizeof path, "%s/config.json", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    unlink(path);
    rmdir(directory);
}

static void all_names_load(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

// The message names the tensor of files, not its halves of newer ones.
static void missing_tensors_are_named(void **state)
{
    static const renaming wrong[] = {{"mlp.fc1", "mlp.fc3"}, {NULL, NULL}};
    static const names c = {"dinov2", "wrong", wrong, NULL, NULL, NULL, NULL, false};
    char directory[] = "/tmp/mh-names-XXXXXX", path[512];
    mh_context *context = test_context(NULL, 1);
    mh_model *model;
    (void)state;
    assert_non_null(mkdtemp(directory));
    write_config(context, &c, directory);
    write_tensors(context, &c, directory);
    test_refused(context, mh_model_load(context, directory, NULL, &model), MH_ERROR_FORMAT,
                 "tensor \"dinov2.encoder.layer.0.mlp.fc1.weight\" is missing");
    mh_context_free(context);
    snprintf(path, sizeof path, "rm -r %s", directory);
    assert_int_equal(system(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_names_load),
        cmocka_unit_test(missing_tensors_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
