// SPDX-License-Identifier: MIT
// The only file that reads the environment, so that all influence on the library from outside is
// easy to audit.
#include "base/env.h"

#include <stdlib.h>

const char *mh_env_isa(void)
{
    const char *value = getenv("MH_ISA");
    return value && *value ? value : NULL;
}
