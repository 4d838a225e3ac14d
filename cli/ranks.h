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

// Threads of each process, of `threads` that one alone would have: fewer if several share a machine
// and no CPUs are reserved for each.
size_t ranks_threads(size_t threads);

// The communicator of all processes; of one alone if no launcher has started several. To be called
// before a rank can fail: those that wait for it would be ended by the launcher. Returns an exit
// code after reporting an error: no libmultihead-mpi, one of another MPI than the launcher's,
// different programs on the ranks.
int ranks_open(mh_communicator *communicator);

// All ranks call this, with the exit code of what each has done since the last call, after
// reporting an error. Returns the code of the first rank that failed, and rank 0 reports its error.
// If a rank alone lacks a file that rank 0 has read, that is EXIT_FAILED.
int ranks_agree(const mh_communicator *communicator, int code);

// exit(), together with the others at their next ranks_agree(), which does not return.
_Noreturn void ranks_exit(int code);

// Reports the first rank whose hash is not that of rank 0: "rank 2 has `difference` than rank 0".
// Returns an exit code, the same on all ranks.
int ranks_compare(const mh_communicator *communicator, uint64_t hash, const char *difference);
int ranks_compare_levels(const mh_communicator *communicator, const mh_context *context);
uint64_t ranks_hash(uint64_t hash, const void *bytes, size_t size); // continues a hash, from 0

// Sends rank 0's bytes to all.
void ranks_broadcast(const mh_communicator *communicator, void *data, size_t bytes);
// Rank 0's text, or NULL, for all; free() it.
char *ranks_broadcast_text(const mh_communicator *communicator, const char *text);

// Errors that the others cannot know, as they may wait for this rank: reports them, and ends all
// processes, unless the status is MH_OK, and the memory is not NULL.
void ranks_must(const mh_communicator *communicator, mh_status status);
void *ranks_must_have(const mh_communicator *communicator, void *memory);

void ranks_close(mh_communicator *communicator);

// Ends all processes; does not return.
void ranks_abort(const mh_communicator *communicator, int code);

#endif
