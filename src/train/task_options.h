// SPDX-License-Identifier: MIT
// Which options are for which tasks: one that has no effect is refused.
#ifndef MH_TRAIN_TASK_OPTIONS_H
#define MH_TRAIN_TASK_OPTIONS_H

#include <multihead/train.h>

// Error: MH_ERROR_ARGUMENT, with the option's name. Values that options have by default are allowed
// everywhere.
mh_status mh_task_options_check(mh_context *context, const mh_train_options *options);

#endif
