// SPDX-License-Identifier: MIT
// All environment variables that the library reads.
#ifndef MH_BASE_ENV_H
#define MH_BASE_ENV_H

// $MH_ISA: the instruction-set level to use; NULL if unset or empty.
const char *mh_env_isa(void);

#endif
