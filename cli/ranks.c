// SPDX-License-Identifier: MIT
// Processes of one command; see ranks.h. Launchers tell each process its rank in the environment,
// before MPI is initialised:
//
//     Open MPI          OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE
//     MPICH, Intel MPI  PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS
//     srun              the same PMI variables, or PMIX_RANK with SLURM_STEP_NUM_TASKS; and
//                       SLURM_STEP_TASKS_PER_NODE, as in "4(x2),3"
#include "ranks.h"
#include "command.h"
#include "installed.h"
#include "messages.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIBRARY "libmultihead-mpi.so.0"

static const struct {
    const char *rank, *ranks, *local_ranks;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
};

static size_t number_in(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoul(text, NULL, 10) : 0;
}

// The launcher, an index; -1 without one, or for a single process.
static int find_launcher(void)
{
    for (int i = 0; i < (int)(sizeof launchers / sizeof *launchers); i++)
        if (getenv(launchers[i].rank))
            return number_in(launchers[i].ranks) > 1 ? i : -1;
    return -1;
}

// ---- silence ------------------------------------------------------------------------------------

static int saved_stderr = -1;

void ranks_silence(void)
{
    const int launcher = find_launcher();
    if (launcher < 0 || number_in(launchers[launcher].rank) == 0)
        return;
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (nothing >= 0 && saved_stderr >= 0) {
        dup2(nothing, STDERR_FILENO);
        dup2(nothing, STDOUT_FILENO);
        close(nothing);
    }
}

void ranks_speak(void)
{
    if (saved_stderr >= 0)
        dup2(saved_stderr, STDERR_FILENO);
}

size_t ranks_threads(size_t threads)
{
    const int launcher = find_launcher();
    cpu_set_t own;
    if (launcher < 0 || sched_getaffinity(0, sizeof own, &own) ||
        CPU_COUNT(&own) < sysconf(_SC_NPROCESSORS_ONLN))
        return threads;
    size_t local = number_in(launchers[launcher].local_ranks);
    if (local == 0)
        local = number_in("SLURM_STEP_TASKS_PER_NODE");
    return local <= 1 ? threads : threads > local ? threads / local : 1;
}

// ---- the library --------------------------------------------------------------------------------

typedef struct mpi_functions {
    mh_status (*open)(mh_communicator *communicator, char *error, size_t size);
    void (*close)(mh_communicator *communicator);
    void (*abort)(const mh_communicator *communicator, int code);
    const char *(*library)(void);
} mpi_functions;

static mpi_functions mpi;

static void *load_from(const char *directory, const char *folder)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s" LIBRARY, directory, folder);
    // global: plug-ins of MPI look for its symbols there
    return length < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

// Beside the command, where it was installed, or where the system looks. That of MPICH is in a
// directory of its own where there are both.
static void *load_library(int launcher)
{
    char program[PATH_MAX], lib[PATH_MAX + 8];
    static const char *const folders[] = {"mpich/", ""};
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return NULL;
    program[length] = 0;
    const char *directory = dirname(program);
    snprintf(lib, sizeof lib, "%s/../lib", directory);
    const char *const places[] = {directory, lib, installed_libraries};
    for (size_t f = strncmp(launchers[launcher].rank, "PMI_", 4) ? 1 : 0; f < 2; f++)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            void *library = load_from(places[i], folders[f]);
            if (library)
                return library;
        }
    return dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
}

static bool find_functions(void *library)
{
    void *const found[] = {dlsym(library, "mh_mpi_open"), dlsym(library, "mh_mpi_close"),
                           dlsym(library, "mh_mpi_abort"), dlsym(library, "mh_mpi_library")};
    _Static_assert(sizeof found == sizeof mpi, "in the order of mpi_functions");
    memcpy(&mpi, found, sizeof mpi);
    return found[0] && found[1] && found[2] && found[3];
}

// ---- messages -----------------------------------------------------------------------------------

void ranks_must(const mh_communicator *c, mh_status status)
{
    if (!status)
        return;
    ranks_speak();
    complain("rank %zu: a message to or from another rank failed", c->rank);
    ranks_abort(c, EXIT_FAILED);
}

void *ranks_must_have(const mh_communicator *c, void *memory)
{
    if (memory)
        return memory;
    ranks_speak();
    if (c->ranks > 1)
        complain("rank %zu: out of memory", c->rank);
    else
        complain("out of memory");
    ranks_abort(c, EXIT_MEMORY);
    return NULL;
}

// The records of all ranks, to be freed.
static void *gather_records(const mh_communicator *c, const void *own, size_t size)
{
    char *records = ranks_must_have(c, calloc(c->ranks, size));
    size_t *starts = ranks_must_have(c, calloc(c->ranks + 1, sizeof *starts));
    for (size_t r = 0; r <= c->ranks; r++)
        starts[r] = r * size;
    memcpy(records + starts[c->rank], own, size);
    ranks_must(c, mh_communicator_gather(c, records, starts));
    free(starts);
    return records;
}

void ranks_broadcast(const mh_communicator *c, void *data, size_t bytes)
{
    ranks_must(c, mh_communicator_broadcast(c, data, bytes));
}

char *ranks_broadcast_text(const mh_communicator *c, const char *text)
{
    uint64_t size = text ? strlen(text) + 1 : 0;
    ranks_broadcast(c, &size, sizeof size);
    char *copy = size ? ranks_must_have(c, malloc(size)) : NULL;
    if (copy && c->rank == 0)
        memcpy(copy, text, size);
    ranks_broadcast(c, copy, size);
    return copy;
}

// ---- agreement ----------------------------------------------------------------------------------

static mh_communicator opened; // until it is closed; one rank without `user`

typedef struct outcome {
    int32_t code, ended; // ended: in ranks_exit()
    char message[504];
} outcome;

// The first rank that failed; all ranks find the same, or `ranks`.
static size_t first_failed(const outcome *all, size_t ranks)
{
    size_t first = 0;
    while (first < ranks && !all[first].code)
        first++;
    return first;
}

static int agree(const mh_communicator *c, int code, bool ended)
{
    outcome own = {.code = code, .ended = ended};
    if (!c->user)
        return code;
    snprintf(own.message, sizeof own.message, "%s", code ? first_complaint() : "");
    outcome *all = gather_records(c, &own, sizeof own);
    const size_t first = first_failed(all, c->ranks);
    bool any_ended = false;
    for (size_t r = 0; r < c->ranks; r++)
        any_ended = any_ended || all[r].ended;
    code = first < c->ranks ? all[first].code : EXIT_DONE;
    if (first < c->ranks && first > 0)
        complain("rank %zu: %s", first, all[first].message);
    free(all);
    if (first > 0 && code == EXIT_INPUT)
        code = EXIT_FAILED; // rank 0 has that file
    if (any_ended) {
        ranks_close(&opened);
        exit(code);
    }
    return code;
}

int ranks_agree(const mh_communicator *c, int code) { return agree(c, code, false); }

void ranks_exit(int code)
{
    agree(&opened, code, true);
    exit(code);
}

// ---- differences --------------------------------------------------------------------------------

// FNV-1a of words, and of the bytes after them.
uint64_t ranks_hash(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    const uint64_t prime = UINT64_C(0x100000001b3);
    for (uint64_t word; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * prime;
        hash ^= hash >> 32; // so that a word's last bytes change all
    }
    for (; size > 0; at++, size--)
        hash = (hash ^ *at) * prime;
    return hash;
}

static uint64_t hash_program(void)
{
    uint64_t hash = 0;
    FILE *file = fopen("/proc/self/exe", "rbe");
    unsigned char bytes[4096];
    for (size_t n; file && (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        hash = ranks_hash(hash, bytes, n);
    if (file)
        fclose(file);
    return hash;
}

// All ranks find the same first rank that differs from rank 0.
int ranks_compare(const mh_communicator *c, uint64_t hash, const char *difference)
{
    if (c->ranks == 1)
        return EXIT_DONE;
    uint64_t *hashes = gather_records(c, &hash, sizeof hash);
    size_t other = 0;
    while (other < c->ranks && hashes[other] == hashes[0])
        other++;
    if (other < c->ranks)
        complain("rank %zu has %s than rank 0", other, difference);
    free(hashes);
    return other < c->ranks ? EXIT_FAILED : EXIT_DONE;
}

int ranks_compare_levels(const mh_communicator *c, const mh_context *context)
{
    const char *level = mh_context_isa(context);
    return ranks_compare(c, ranks_hash(0, level, strlen(level)),
                         "another instruction-set level (--isa sets it)");
}

// ---- opening ------------------------------------------------------------------------------------

// Open MPI ends the other ranks when one has failed; MPICH's Hydra does if it is asked to, by a
// line of its protocol PMI.
static void end_others(void)
{
    const struct timespec pause = {0, 300000000}; // in which Hydra passes on what was said
    if (!getenv("PMI_FD"))
        return;
    nanosleep(&pause, NULL);
    dprintf((int)number_in("PMI_FD"), "cmd=abort exitcode=%d\n", EXIT_FAILED);
}

// Of a rank that is not connected to the others. Rank 0 says it at once; others in turn, if the
// launcher has not ended all by then: Open MPI does so a second after the first one has ended.
static void complain_alone(size_t rank, const char *format, ...) MH_PRINTF(2, 3);
static void complain_alone(size_t rank, const char *format, ...)
{
    enum { TURNS = 5 };
    const struct timespec turn = {2, 0};
    va_list arguments;
    for (size_t i = 0; i < rank && i < TURNS; i++)
        nanosleep(&turn, NULL);
    ranks_speak();
    va_start(arguments, format);
    complain_list(format, arguments);
    va_end(arguments);
}

static int connect_ranks(int launcher, mh_communicator *c)
{
    const size_t expected = number_in(launchers[launcher].ranks);
    const size_t rank = number_in(launchers[launcher].rank);
    char error[256] = "";
    void *library = load_library(launcher);
    if (!library || !find_functions(library))
        complain_alone(rank,
                       "started as %zu processes, but rank %zu finds no " LIBRARY
                       " to connect them: 'make mpi' builds it",
                       expected, rank);
    else if (mpi.open(c, error, sizeof error))
        complain_alone(rank, "rank %zu: %s", rank, error);
    else if (c->ranks != expected)
        complain_alone(rank,
                       "started as %zu processes, but " LIBRARY " (%s) finds %zu: it was built for "
                       "another MPI than the launcher's",
                       expected, mpi.library(), c->ranks);
    else
        return EXIT_DONE;
    end_others();
    return EXIT_FAILED;
}

// A rank has failed before it was connected: the launcher ends those that wait for it in MPI_Init,
// which have nothing to add.
static void on_end_of_others(int number)
{
    (void)number;
    _exit(EXIT_FAILED);
}

int ranks_open(mh_communicator *c)
{
    const struct sigaction ends = {.sa_handler = on_end_of_others};
    const int launcher = find_launcher();
    struct sigaction before;
    *c = mh_communicator_default();
    if (launcher < 0)
        return EXIT_DONE;
    sigaction(SIGTERM, &ends, &before);
    int code = connect_ranks(launcher, c);
    opened = *c;
    if (code == EXIT_DONE) {
        sigaction(SIGTERM, &before, NULL);
        code = ranks_compare(c, hash_program(), "another build of multihead");
    }
    if (code != EXIT_DONE)
        ranks_close(c);
    return code;
}

// All ranks meet in close, and only then exit. A launcher that sees one exit with an error sends
// SIGTERM to the others, which have nothing to add.
void ranks_close(mh_communicator *c)
{
    if (!c->user)
        return;
    signal(SIGTERM, SIG_IGN);
    mpi.close(c);
    opened = mh_communicator_default();
}

void ranks_abort(const mh_communicator *c, int code)
{
    if (c->user)
        mpi.abort(c, code);
    exit(code);
}
