// SPDX-License-Identifier: MIT
// The name of a model that a run starts from, by its path.
#ifndef MH_TRAIN_MODEL_NAME_H
#define MH_TRAIN_MODEL_NAME_H

#include <multihead/text.h>

// Parts of a path, without the end of a string.
typedef struct mh_model_name {
    mh_text organisation; // "" unless the path has one
    mh_text name;
} mh_model_name;

// The last part of the path; where the path is one of Hugging Face's cache,
// .../models--ORG--NAME/snapshots/HASH, ORG and NAME. "" has neither.
mh_model_name mh_model_name_of(const char *path);

#endif
