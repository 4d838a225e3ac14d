// SPDX-License-Identifier: MIT
// The kernel table: every piece of code that is written per instruction set is a member of one of
// its families, and its contract is the comment above it, in the family's header. Kernels are
// straight-line numeric code on pointers and sizes: no threads, no allocation, no errors. Strides
// are in elements; no alignment is required unless stated; nothing outside the named extents is
// read or written.
//
// Results do not depend on batch composition, query count or threads, because in every kernel a
// row's result depends on that row alone, each sum has one fixed order, and a masked entry
// contributes exactly nothing.
#ifndef MH_KERNELS_H
#define MH_KERNELS_H

#include "kernels/activation_kernels.h"
#include "kernels/attention_kernels.h"
#include "kernels/elementwise_kernels.h"
#include "kernels/gemm_kernels.h"
#include "kernels/matrix_kernels.h"
#include "kernels/optimiser_kernels.h"
#include "kernels/rowwise_kernels.h"

// Machine peak: independent operations in registers. Return the number of floating-point
// operations.
typedef struct mh_peak_kernels {
    double (*fma)(size_t iterations, float *sink);
    // bf16 products summed in f32, on the unit that the bf16 GEMM uses: fma itself at levels that
    // widen to f32.
    double (*bf16)(size_t iterations, float *sink);

    // The sum of n floats in memory, each cache line read once: in `streams` parts side by side,
    // with prefetch `ahead` bytes ahead in each (0: none). Which is fastest depends on the machine.
    float (*read)(size_t n, const float *x, size_t streams, size_t ahead);
} mh_peak_kernels;

typedef struct mh_kernels {
    size_t lanes;     // floats per vector
    bool native_bf16; // bf16 has packed operands and bf16 instructions; else it is f32 itself

    // f32: FMAs on unpacked rows. Each element is one chain of FMAs in the order of k; C is added
    // at the end, so that sums over several kc blocks lose less accuracy.
    // bf16: operands may be rounded to bf16, sums are f32; the same as f32 at levels without bf16
    // products.
    mh_gemm f32, bf16;

    mh_matrix_kernels matrix;
    mh_attention_kernels attention;
    mh_rowwise_kernels rowwise;
    mh_elementwise_kernels elementwise;
    mh_activation_kernels activation;
    mh_optimiser_kernels optimiser;
    mh_peak_kernels peak;
} mh_kernels;

// Fills the table level by level ("scalar", then "avx2", ...), each level replacing the entries it
// improves, up to max_isa (NULL: all that this CPU supports). Returns the name of the last level
// used, or NULL if max_isa is unknown.
const char *mh_kernels_init(mh_kernels *table, const char *max_isa);

// The level that mh_kernels_init would use on a CPU with these features.
struct mh_cpu;
const char *mh_isa_choose(const struct mh_cpu *cpu, const char *max_isa);

// The levels of this build in order, NULL-terminated; a CPU may lack the later ones.
extern const char *const mh_isa_names[];

// Whether a level is in this build and this CPU supports it.
bool mh_isa_available(const char *name);

#endif
