// SPDX-License-Identifier: MIT
// multihead/mpi.h: a communicator from MPI. The only part of libmultihead-mpi, which is built if
// MPI's development files are there and needs nothing else of multihead.
//
//     mh_communicator communicator = mh_communicator_default();
//     char error[256];
//     if (mh_mpi_open(&communicator, error, sizeof error)) ...
//     options.communicator = &communicator;            // mh_train_options, sharded attention
//     ...
//     mh_mpi_close(&communicator);
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_MPI_H
#define MULTIHEAD_MPI_H

#include <multihead/communicator.h>

#ifdef __cplusplus
extern "C" {
#endif

// The communicator of all processes that the launcher started: a duplicate of MPI_COMM_WORLD.
// Initialises MPI if the program has not. `error` (may be NULL) gets a message.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (MPI failed), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_mpi_open(mh_communicator *communicator, char *error, size_t size);

// The same of a program's own MPI communicator, given as MPI_Comm_c2f(comm); MPI is initialised.
// It is duplicated. All its processes call this.
MH_API MH_MUST_CHECK mh_status mh_mpi_open_handle(int handle, mh_communicator *communicator,
                                                  char *error, size_t size);

// Frees the communicator, and finalises MPI if mh_mpi_open() has initialised it. All ranks call
// this, with no transfer under way. One without messages (mh_communicator_default) is allowed.
MH_API void mh_mpi_close(mh_communicator *communicator);

// Ends all processes with this exit code, in whatever state they are; does not return.
MH_API void mh_mpi_abort(const mh_communicator *communicator, int code);

// "Open MPI v4.1.4", "MPICH Version: 4.0.2" and the like. Any thread.
MH_API const char *mh_mpi_library(void);

#ifdef __cplusplus
}
#endif
#endif
