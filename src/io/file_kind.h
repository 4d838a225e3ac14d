// SPDX-License-Identifier: MIT
// Identifies unsupported file formats, for error messages.
#ifndef MH_IO_FILE_KIND_H
#define MH_IO_FILE_KIND_H

#include "support/source.h"

// Fails with a message of what was found and expected if the format is known; else MH_OK.
mh_status mh_refuse_known_kind(const mh_source *source);

#endif
