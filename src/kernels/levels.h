// SPDX-License-Identifier: MIT
// One function per level, each in its own directory, compiled with its own flags.
#ifndef MH_KERNEL_LEVELS_H
#define MH_KERNEL_LEVELS_H

struct mh_kernels;
void mh_kernels_fill_scalar(struct mh_kernels *table);
void mh_kernels_fill_avx2(struct mh_kernels *table);
void mh_kernels_fill_avx512(struct mh_kernels *table);
void mh_kernels_fill_avx512bf16(struct mh_kernels *table);
void mh_kernels_fill_amx(struct mh_kernels *table);
void mh_kernels_fill_neon(struct mh_kernels *table);

#endif
