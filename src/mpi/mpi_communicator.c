// SPDX-License-Identifier: MIT
// A communicator over MPI. Every message is one nonblocking send or receive with one tag: MPI keeps
// the order of messages between two ranks. Counts are int in MPI, so a message of 2 GiB or more is
// one element of a derived type: blocks of 1 MiB and the rest.
#include <multihead/mpi.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG = 1, BLOCK = 1 << 20 };

typedef struct endpoint {
    MPI_Comm comm;
    bool initialised; // MPI, by us
} endpoint;

_Static_assert(sizeof(MPI_Request) <= sizeof(mh_transfer), "a request fits a transfer");

static mh_status status_of(int result) { return result == MPI_SUCCESS ? MH_OK : MH_ERROR_FILE; }

// *type: so many bytes as one element.
static int make_type(size_t bytes, MPI_Datatype *type)
{
    MPI_Datatype block;
    const int lengths[2] = {(int)(bytes / BLOCK), (int)(bytes % BLOCK)};
    const MPI_Aint offsets[2] = {0, (MPI_Aint)(bytes - bytes % BLOCK)};
    int result = MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    if (result != MPI_SUCCESS)
        return result;
    const MPI_Datatype types[2] = {block, MPI_BYTE};
    result = MPI_Type_create_struct(2, lengths, offsets, types, type);
    MPI_Type_free(&block);
    return result == MPI_SUCCESS ? MPI_Type_commit(type) : result;
}

static mh_status begin_transfer(const endpoint *e, size_t rank, void *data, size_t bytes,
                                bool sends, mh_transfer *transfer)
{
    const bool large = bytes > INT32_MAX;
    const int count = large ? 1 : (int)bytes;
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request = MPI_REQUEST_NULL;
    int result = large ? make_type(bytes, &type) : MPI_SUCCESS;
    if (result != MPI_SUCCESS)
        return status_of(result);
    result = sends ? MPI_Isend(data, count, type, (int)rank, TAG, e->comm, &request)
                   : MPI_Irecv(data, count, type, (int)rank, TAG, e->comm, &request);
    if (large)
        MPI_Type_free(&type); // once the message is done
    memcpy(transfer, &request, sizeof request);
    return status_of(result);
}

static mh_status mpi_send(void *user, size_t to, const void *data, size_t bytes,
                          mh_transfer *transfer)
{
    return begin_transfer(user, to, (void *)(uintptr_t)data, bytes, true, transfer);
}

static mh_status mpi_receive(void *user, size_t from, void *data, size_t bytes,
                             mh_transfer *transfer)
{
    return begin_transfer(user, from, data, bytes, false, transfer);
}

static mh_status mpi_test(void *user, mh_transfer *transfer, bool wait, bool *done)
{
    MPI_Request request;
    int flag = 1;
    (void)user;
    memcpy(&request, transfer, sizeof request);
    const int result =
        wait ? MPI_Wait(&request, MPI_STATUS_IGNORE) : MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    memcpy(transfer, &request, sizeof request); // MPI_REQUEST_NULL when done: may be tested again
    *done = flag;
    return status_of(result);
}

static mh_status fail(int result, const char *what, char *error, size_t size)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(result, text, &length);
    if (error && size)
        snprintf(error, size, "%s: %s", what, text);
    return MH_ERROR_UNSUPPORTED;
}

static mh_status open_comm(MPI_Comm from, bool initialised, mh_communicator *c, char *error,
                           size_t size)
{
    endpoint *e = malloc(sizeof *e);
    if (!e) {
        if (error && size)
            snprintf(error, size, "out of memory");
        return MH_ERROR_MEMORY;
    }
    int rank, ranks, result = MPI_Comm_dup(from, &e->comm);
    if (result != MPI_SUCCESS) {
        free(e);
        return fail(result, "MPI_Comm_dup", error, size);
    }
    e->initialised = initialised;
    MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(e->comm, &rank);
    MPI_Comm_size(e->comm, &ranks);
    *c = mh_communicator_default();
    c->user = e;
    c->rank = (size_t)rank;
    c->ranks = (size_t)ranks;
    c->send = mpi_send;
    c->receive = mpi_receive;
    c->test = mpi_test;
    return MH_OK;
}

mh_status mh_mpi_open(mh_communicator *communicator, char *error, size_t size)
{
    int given, initialised;
    if (!communicator)
        return MH_ERROR_ARGUMENT;
    MPI_Initialized(&initialised);
    if (!initialised) {
        // The threads of a context compute; only the caller's sends.
        const int result = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
        if (result != MPI_SUCCESS)
            return fail(result, "MPI_Init_thread", error, size);
    }
    return open_comm(MPI_COMM_WORLD, !initialised, communicator, error, size);
}

mh_status mh_mpi_open_handle(int handle, mh_communicator *communicator, char *error, size_t size)
{
    if (!communicator)
        return MH_ERROR_ARGUMENT;
    return open_comm(MPI_Comm_f2c(handle), false, communicator, error, size);
}

void mh_mpi_close(mh_communicator *communicator)
{
    if (!communicator || !communicator->user)
        return;
    endpoint *e = communicator->user;
    const bool finalise = e->initialised;
    MPI_Comm_free(&e->comm);
    free(e);
    *communicator = mh_communicator_default();
    if (finalise)
        MPI_Finalize();
}

void mh_mpi_abort(const mh_communicator *communicator, int code)
{
    if (communicator && communicator->user)
        MPI_Abort(((const endpoint *)communicator->user)->comm, code);
    exit(code);
}

const char *mh_mpi_library(void)
{
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = 0;
    for (char *at = name; (at = strchr(at, '\t'));) // as in "MPICH Version:\t4.0.2"
        *at = ' ';
    return name;
}
