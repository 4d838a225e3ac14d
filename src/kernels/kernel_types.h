// SPDX-License-Identifier: MIT
// Types and sizes that all families of kernels share.
#ifndef MH_KERNEL_TYPES_H
#define MH_KERNEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Keys per tile: 64, so that the mask of a query row over a tile is one machine word, in which bit
// j is set if key j is live. And columns per panel of a packed B, at every level.
enum { MH_KEY_TILE = 64, MH_PANEL = 64 };

// The longest vector of any level, for buffers of one vector per row.
enum { MH_MAX_LANES = 16 };

// Element type of a row.
typedef enum mh_row_type { MH_ROW_F32, MH_ROW_BF16, MH_ROW_F16 } mh_row_type;

#endif
