// SPDX-License-Identifier: MIT
// A command that mpirun or srun has started as several processes: rank 0 leads, the others are
// silent. libmultihead-mpi is loaded then, and only then.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <multihead/communicator.h>

// From now on a process that is not the launcher's rank 0 prints nothing. To be called first.
void ranks_silence(void);

// Undoes that, for an error that the other ranks do not have.
void ranks_speak(void);

// Threads of each process, if several share a machine and no CPUs are reserved for each; 0: let the
// context choose.
size_t ranks_threads(void);

// The communicator of all processes; of one alone if no launcher has started several. Returns an
// exit code after reporting an error: no libmultihead-mpi, one of another MPI than the launcher's,
// different programs on the ranks.
int ranks_open(mh_communicator *communicator);
// Reports the first rank whose hash is not that of rank 0: "rank 2 has `difference` than rank 0".
// Returns an exit code, the same on all ranks.
int ranks_compare(const mh_communicator *communicator, uint64_t hash, const char *difference);
int ranks_compare_levels(const mh_communicator *communicator, const mh_context *context);
uint64_t ranks_hash(uint64_t hash, const void *bytes, size_t size); // continues a hash, from 0

void ranks_close(mh_communicator *communicator);

// Ends all processes; does not return.
void ranks_abort(const mh_communicator *communicator, int code);

#endif
