// SPDX-License-Identifier: MIT
// The extension module's own header: contexts, errors, and arrays as tensors.
//
// All of it is written to CPython's limited API. A function of the module
//
//     1. describes its arguments as tensors (py_tensor_from), which keeps them alive,
//     2. makes its outputs (py_output),
//     3. runs the library without the GIL (PY_RUN),
//     4. releases the arguments.
#ifndef MH_PYTHON_PY_H
#define MH_PYTHON_PY_H

#include <Python.h>

#include <multihead/multihead.h>

// ---- contexts and errors (py_context.c) ---------------------------------------------------------

// A context of the calling thread that no call is using, made when it is first needed. NULL with an
// exception set.
mh_context *py_context(void);

// The number of threads of all contexts from now on, 0 for all CPUs.
void py_set_threads(size_t threads);
size_t py_threads(void);

// Raises the exception for a status other than MH_OK, with the context's message: ValueError,
// MemoryError, OSError or KeyboardInterrupt. Returns NULL.
PyObject *py_raise(mh_context *context, mh_status status);

// Before and after a call of the library without the GIL: Ctrl-C in between cancels the call.
typedef struct py_call {
    PyThreadState *state;
    mh_context *context;
    mh_context *outer; // of the call that this one is within, or NULL
} py_call;

py_call py_begin(mh_context *context);
// Whether the call was cancelled by a signal that came too late for the one before, and must be
// made again.
bool py_end(py_call call, mh_status *status);

// status = the value of an expression that calls the library, without the GIL.
#define PY_RUN(context, status, expression)                                                        \
    do {                                                                                           \
        py_call py_call_ = py_begin(context);                                                      \
        (status) = (expression);                                                                   \
        if (!py_end(py_call_, &(status)))                                                          \
            break;                                                                                 \
    } while (true)

// ---- arrays (py_tensor.c) -----------------------------------------------------------------------

// Where an array came from, which is what outputs are made as.
typedef enum py_origin { PY_NUMPY, PY_TORCH } py_origin;

// An argument as a tensor, and what keeps its memory alive.
typedef struct py_tensor {
    mh_tensor tensor;
    py_origin origin;
    bool has_buffer;
    Py_buffer buffer;
    PyObject *owner; // or NULL
} py_tensor;

// How a package's tensors are described quickly (py_exchange.c); NULL if its type does not say.
typedef struct dl_exchange_api dl_exchange_api;
const dl_exchange_api *py_exchange_api(PyObject *type);
// False, without an exception, if the tensor has to be described in another way.
bool py_exchange_describe(const dl_exchange_api *api, PyObject *array, mh_tensor *to);

// An array as a tensor: by the buffer protocol, by PyTorch's own description, or by DLPack. f64 is
// converted to f32. False with an exception that names the argument.
bool py_tensor_from(PyObject *array, const char *name, py_tensor *to);
// The same of an array that is written: read-only and converted ones are refused.
bool py_tensor_from_writable(PyObject *array, const char *name, py_tensor *to);
void py_tensor_release(py_tensor *tensor); // all zeros is allowed

// A tuple of sizes.
PyObject *py_shape(int rank, const size_t *shape);

// A new array of the kind, and a tensor of it. f32, bf16, f16, bool or an integer.
PyObject *py_output(py_origin origin, mh_dtype dtype, int rank, const size_t *shape, mh_tensor *to);

// Dimensions of 1 in front: what belongs to an array of this rank, as if that had rank 4.
mh_tensor py_four_dimensions(mh_tensor t, int rank);

// torch.empty_like of a tensor of PyTorch, with the same order of strides; its view has rank 4, as
// that of `like`.
PyObject *py_output_like(const py_tensor *like, mh_tensor *to);

#endif
