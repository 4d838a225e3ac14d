// SPDX-License-Identifier: MIT
// Preloaded into a program (LD_PRELOAD), makes the Nth call of a kind fail:
//
//     MH_FAIL_KIND=memory|thread|file     which calls count
//     MH_FAIL_AT=N                        the first that fails, from 1
//     MH_FAIL_ALWAYS=1                    and all after it; otherwise only that one
//     MH_FAIL_LEAST=BYTES                 smaller allocations do not count, such as MPI's own
//     MH_FAIL_LOG=PATH                    is created when a call was made to fail
//
// Counting starts when the program's own start-up is over. Used by tools/check_faults.sh.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { NONE, MEMORY, THREAD, FILES };

static enum kind failing_kind;
static long fail_at;
static bool fail_always;
static size_t fail_least;
static const char *log_path;
static atomic_long calls;

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("MH_FAIL_KIND"), *at = getenv("MH_FAIL_AT");
    log_path = getenv("MH_FAIL_LOG");
    if (!name || !at || !log_path)
        return;
    fail_at = atol(at);
    fail_always = getenv("MH_FAIL_ALWAYS") != NULL;
    const char *least = getenv("MH_FAIL_LEAST");
    fail_least = least ? strtoul(least, NULL, 10) : 0;
    failing_kind = !strcmp(name, "memory")   ? MEMORY
                   : !strcmp(name, "thread") ? THREAD
                   : !strcmp(name, "file")   ? FILES
                                             : NONE;
}

// Whether this call is one that fails.
static bool fails(enum kind kind)
{
    if (kind != failing_kind)
        return false;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (n != fail_at && !(fail_always && n > fail_at))
        return false;
    long fd = syscall(SYS_openat, AT_FDCWD, log_path, O_CREAT | O_WRONLY, 0600);
    if (fd >= 0)
        syscall(SYS_close, fd);
    return true;
}

static bool fails_memory(size_t size) { return size >= fail_least && fails(MEMORY); }

// ---- memory -------------------------------------------------------------------------------------
// The C library's own entries: dlsym() may itself allocate.

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size) { return fails_memory(size) ? no_memory() : __libc_malloc(size); }

void *calloc(size_t count, size_t size)
{
    return fails_memory(count * size) ? no_memory() : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails_memory(size) ? no_memory() : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails_memory(size) ? no_memory() : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    void *result = fails_memory(size) ? NULL : __libc_memalign(alignment, size);
    if (!result)
        return ENOMEM;
    *memory = result;
    return 0;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 ? fails_memory(size) : fails(FILES)) {
        errno = fd < 0 ? ENOMEM : ENODEV;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

// ---- threads ------------------------------------------------------------------------------------

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return fails(THREAD) ? EAGAIN : real(thread, attributes, run, arg);
}

// ---- files --------------------------------------------------------------------------------------

#define FAIL_OR(error, call) (fails(FILES) ? (errno = (error), -1) : (int)(call))

static mode_t mode_of(int flags, va_list arguments)
{
    return (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return FAIL_OR(EIO, syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return FAIL_OR(EIO, syscall(SYS_openat, directory, path, flags, mode));
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    if (fd > 2 && fails(FILES)) { // what is printed is not meant
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, fd, bytes, size);
}

ssize_t read(int fd, void *bytes, size_t size)
{
    if (fails(FILES)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_read, fd, bytes, size);
}

int fstat(int fd, struct stat *status) { return FAIL_OR(EIO, syscall(SYS_fstat, fd, status)); }
int fsync(int fd) { return FAIL_OR(EIO, syscall(SYS_fsync, fd)); }
int fchmod(int fd, mode_t mode) { return FAIL_OR(EPERM, syscall(SYS_fchmod, fd, mode)); }

int renameat(int directory, const char *from, int other, const char *to)
{
    return FAIL_OR(EIO, syscall(SYS_renameat2, directory, from, other, to, 0));
}

int linkat(int directory, const char *from, int other, const char *to, int flags)
{
    return FAIL_OR(EIO, syscall(SYS_linkat, directory, from, other, to, flags));
}

int rename(const char *from, const char *to)
{
    return FAIL_OR(EIO, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
