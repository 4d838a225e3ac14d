// SPDX-License-Identifier: MIT
// multihead/tensor.h: strided views of memory. A view never owns its data; transposing, slicing and
// broadcasting return another view of the same bytes.
//
//     shape  {2, 3}      data  a b c d e f        element (i, j) is at
//     stride {3, 1}            ^(0,0)  ^(1,0)     data + i*stride[0] + j*stride[1]
//
// Strides count elements, not bytes, and may be 0 (broadcast) or negative. A view spans at most
// PTRDIFF_MAX bytes.
//
// A function takes its inputs as const mh_tensor *, and what it writes as mh_tensor *: the view
// that describes an output does not change, its elements do. Views of a file (io.h) are read-only;
// keep them const.
//
// Outputs: no two elements of an output share an address (a stride of 0 is for inputs only), and
// outputs overlap neither each other nor an input, unless a function documents that an output may
// be an input: then it must be the same view. This is checked exactly, element by element and not
// just by address range, so views interleaved in one buffer are fine; the message of
// MH_ERROR_ARGUMENT names both tensors. Views with strides so irregular that a search of a few
// thousand steps is undecided are accepted. Memory that is not a tensor, such as a workspace, is
// not checked.
//
// Stability: stable (base.h).
#ifndef MULTIHEAD_TENSOR_H
#define MULTIHEAD_TENSOR_H

#include <multihead/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MH_MAX_RANK = 8 };

typedef enum mh_dtype {
    MH_F32 = 0,
    MH_F64 = 1,
    MH_BF16 = 2, // the upper 16 bits of an f32
    MH_F16 = 3,  // IEEE 754 binary16
    MH_BOOL = 4, // one byte, zero or nonzero
    MH_I8 = 5,
    MH_I16 = 6,
    MH_I32 = 7,
    MH_I64 = 8,
    MH_U8 = 9,
    MH_U16 = 10,
    MH_U32 = 11,
    MH_U64 = 12,
} mh_dtype;

// The precision of matrix products; accumulation is in f32 either way. With bf16, operands of any
// dtype may be rounded to bf16 first where that is faster (AVX512_BF16; on AMX, by far).
typedef enum mh_precision {
    MH_PRECISION_AUTO = 0, // bf16 if all operands are bf16, else f32
    MH_PRECISION_F32 = 1,
    MH_PRECISION_BF16 = 2,
    MH_PRECISION_WEIGHTS = 3, // linear layers: bf16 if the weight is bf16, whatever x is
    MH_PRECISION_NATIVE = 4, // translators: bf16 where the level multiplies bf16 natively, else f32
} mh_precision;

typedef struct mh_tensor {
    void *data; // borrowed; aligned to its dtype
    mh_dtype dtype;
    int rank;
    size_t shape[MH_MAX_RANK];
    ptrdiff_t stride[MH_MAX_RANK]; // in elements
} mh_tensor;

MH_API const char *mh_dtype_name(mh_dtype dtype); // "f32"
MH_API size_t mh_dtype_size(mh_dtype dtype);      // in bytes; 0 for an invalid dtype

// A view of `data` as a C array of the given shape (last dimension contiguous). A rank
// outside 0..MH_MAX_RANK gives a view of rank -1, which every function rejects.
MH_API mh_tensor mh_tensor_view(void *data, mh_dtype dtype, int rank, const size_t *shape);

// The same for the usual ranks: mh_tensor_2d(x, MH_F32, rows, columns).
MH_API mh_tensor mh_tensor_1d(void *data, mh_dtype dtype, size_t n0);
MH_API mh_tensor mh_tensor_2d(void *data, mh_dtype dtype, size_t n0, size_t n1);
MH_API mh_tensor mh_tensor_3d(void *data, mh_dtype dtype, size_t n0, size_t n1, size_t n2);
MH_API mh_tensor mh_tensor_4d(void *data, mh_dtype dtype, size_t n0, size_t n1, size_t n2,
                              size_t n3);

// Swaps two dimensions: (B, T, H, E) becomes (B, H, T, E) by mh_tensor_swap(t, 1, 2).
MH_API mh_tensor mh_tensor_swap(mh_tensor t, int a, int b);

// Restricts dimension `dim` to [begin, begin + count).
MH_API mh_tensor mh_tensor_slice(mh_tensor t, int dim, size_t begin, size_t count);

// Splits a dimension of n = outer * inner into two: (B, T, H*E) becomes (B, T, H, E).
MH_API mh_tensor mh_tensor_split(mh_tensor t, int dim, size_t outer);

// The view as NumPy would broadcast it to `shape`: aligned on the right, dimensions of 1 are
// repeated.
// Error: MH_ERROR_ARGUMENT if a dimension is neither 1 nor full.
MH_API MH_MUST_CHECK mh_status mh_tensor_broadcast(mh_context *context, const mh_tensor *t,
                                                   int rank, const size_t *shape, mh_tensor *out);

// The number of elements, SIZE_MAX if it overflows.
MH_API size_t mh_tensor_count(const mh_tensor *t);

MH_API bool mh_tensor_is_contiguous(const mh_tensor *t);
MH_API bool mh_tensor_same_shape(const mh_tensor *a, const mh_tensor *b);

// "f32 (2, 8, 10, 64)" into `text`; returns text.
MH_API char *mh_tensor_describe(const mh_tensor *t, char *text, size_t text_size);

// Copies element by element between views of equal shape, converting between any two dtypes
// (to a narrower float: round to nearest even; float to integer: toward zero, saturating,
// NaN to 0; to bool: != 0). The views must not overlap unless they are the same. Not a hot
// path: one thread.
MH_API MH_MUST_CHECK mh_status mh_tensor_copy(mh_context *context, const mh_tensor *from,
                                              mh_tensor *to);

#ifdef __cplusplus
}
#endif
#endif
