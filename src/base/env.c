// SPDX-License-Identifier: MIT
// The only place that reads the environment, so that what can influence the library from
// outside is seen at a glance.
#include "base/env.h"

#include <stdlib.h>

const char *mh_env_isa(void)
{
    const char *value = getenv("MH_ISA");
    return value && *value ? value : NULL;
}
