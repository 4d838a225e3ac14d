// SPDX-License-Identifier: MIT
// Saving parameters in a narrower dtype; everything else is in multihead/model.h.
#ifndef MH_MODEL_PARAMETERS_FILE_H
#define MH_MODEL_PARAMETERS_FILE_H

#include <multihead/model.h>

// Advice in messages about a model that was changed after saving.
#define MH_MODEL_ADVICE                                                                            \
    "restore the file, or load it as it is with --no-verify (options.verify = false)"

// mh_parameters_save() with f32, bf16 or f16 in the file; arguments are not checked.
mh_status mh_parameters_save_as(mh_context *context, const mh_parameters *parameters,
                                mh_dtype dtype, const char *path);

#endif
