// SPDX-License-Identifier: MIT
// Tensors in several files, and the index that says which is where, as in models of Hugging Face:
//
//     model.safetensors.index.json
//     {"metadata": {...}, "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors",
//     ...}}
#ifndef MH_IO_SHARDS_H
#define MH_IO_SHARDS_H

#include "io/tensor_file.h"

enum { MH_SHARDS_TENSORS_MAX = 1000000, MH_SHARD_NAME_MAX = 255 };

bool mh_is_shard_index(const mh_source *source);

// Opens all files of the index, which are in `directory` ("" or ending in a slash); NULL: rejects
// it. Every tensor of the index must be in its file. The entries are those of the index only.
mh_status mh_shards_read(const mh_source *source, const char *directory, mh_tensor_file *file);

#endif
