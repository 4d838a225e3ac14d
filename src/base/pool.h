// SPDX-License-Identifier: MIT
// A pool of threads that run one parallel loop at a time.
//
// Idle workers spin for 100 us and then sleep, so that loops in quick succession start at the cost
// of a cache miss and an idle program uses no CPU time. Of n workers each takes every n-th
// iteration, one by one, and then what others have left. The calling thread is worker 0.
//
// fork(): threads do not survive in the child. The pool detects this on its next loop there and
// starts new ones; if that fails, the loop runs on the calling thread.
#ifndef MH_BASE_POOL_H
#define MH_BASE_POOL_H

#include <multihead/base.h>

typedef struct mh_pool mh_pool;

// Starts threads - 1 workers (2 <= threads <= MH_MAX_THREADS); memory and messages are the
// context's. MH_ERROR_MEMORY or MH_ERROR_THREAD: *pool is NULL, nothing is left running.
mh_status mh_pool_create(mh_context *context, size_t threads, mh_pool **pool);
void mh_pool_free(mh_pool *pool);

// task(arg, i, worker) for i in 0..count-1, each inside the default floating-point environment.
void mh_pool_run(mh_pool *pool, size_t count, mh_task_fn task, void *arg);

// CPUs this process may use: affinity mask and cgroup quota (v1 and v2), at least 1.
size_t mh_usable_cpus(void);

// The cgroup part of it, SIZE_MAX without a quota. The arguments are for tests; in production they
// are "/proc/self/cgroup" and "/sys/fs/cgroup".
size_t mh_cgroup_cpus(const char *membership, const char *mount);

#endif
