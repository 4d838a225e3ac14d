// SPDX-License-Identifier: MIT
#include "train_support.h"

#include "train/numbers.h"

#include <ftw.h>

static bool write_pairs(const char *path, uint32_t first, uint32_t count)
{
    FILE *file = fopen(path, "w");
    char french[MH_NUMBER_TEXT], english[MH_NUMBER_TEXT];
    for (uint32_t n = first; file && n < first + count; n++) {
        mh_numbers_pair(n, french, english);
        fprintf(file, "%s\t%s\n", french, english);
    }
    return file && fclose(file) == 0;
}

bool train_place_create(train_place *place)
{
    strcpy(place->root, "/tmp/multihead-train-XXXXXX");
    if (!mkdtemp(place->root))
        return false;
    snprintf(place->data, sizeof place->data, "%s/train.tsv", place->root);
    snprintf(place->valid, sizeof place->valid, "%s/valid.tsv", place->root);
    return write_pairs(place->data, 0, 90) && write_pairs(place->valid, 90, 9);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

void train_place_remove(train_place *place)
{
    enum { MOST_OPEN = 16 };
    nftw(place->root, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
}

mh_train_options train_place_options(const train_place *place, const char *folder)
{
    mh_train_options o = mh_train_options_default();
    o.data = place->data;
    o.valid = place->valid;
    o.folder = folder;
    o.merges = 30;
    o.model.d_model = 16;
    o.model.nhead = 2;
    o.model.num_encoder_layers = o.model.num_decoder_layers = 1;
    o.model.dim_feedforward = 32;
    o.model.max_length = 40;
    o.batch_tokens = 300;
    o.accumulate = 2;
    o.warmup = 5;
    o.after = (mh_duration){14, MH_UPDATES};
    o.save_every = (mh_duration){3, MH_UPDATES};
    o.valid_every = (mh_duration){5, MH_UPDATES};
    o.average = 2;
    return o;
}

static bool files_equal(const char *folder, const char *other, const char *name)
{
    char path[2][256];
    snprintf(path[0], sizeof path[0], "%s/%s", folder, name);
    snprintf(path[1], sizeof path[1], "%s/%s", other, name);
    blob a = blob_read(path[0]), b = blob_read(path[1]);
    const bool equal = a.size && a.size == b.size && !memcmp(a.bytes, b.bytes, a.size);
    if (!equal)
        fprintf(stderr, "%s and %s differ\n", path[0], path[1]);
    blob_free(&a);
    blob_free(&b);
    return equal;
}

bool train_runs_equal(const char *folder, const char *other)
{
    static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors",
                                        "README.md", "checkpoint.safetensors"};
    bool equal = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        equal &= files_equal(folder, other, names[i]);
    return equal;
}
