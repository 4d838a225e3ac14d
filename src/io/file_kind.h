// SPDX-License-Identifier: MIT
// What a file is that holds no tensors we read.
#ifndef MH_IO_FILE_KIND_H
#define MH_IO_FILE_KIND_H

#include "base/source.h"

// Fails with what the bytes are, if they are known, and what was expected; else MH_OK.
mh_status mh_refuse_known_kind(const mh_source *source);

#endif
