// SPDX-License-Identifier: MIT
// What the parts of `multihead info` share: cmd_info.c has the options and this machine's features,
// info_preset.c the sizes of well-known models, info_model.c a pretrained model's directory.
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include "arguments.h"
#include "presets/presets.h"

// One model's sizes, parameters, memory and FLOPs on stdout, or all models with a line each.
void show_preset(const model_preset *p, bool json);
void list_presets(bool json);

// The metadata and the tensors of a file. Returns an exit code.
int show_file(const common_options *common, const char *path, bool json);

// What -m NAME has and can do, on stdout. Returns an exit code after reporting errors.
int show_model(const common_options *common, const char *name, bool json);

#endif
