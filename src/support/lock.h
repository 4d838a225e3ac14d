// SPDX-License-Identifier: MIT
// A mutex, for the rare object that many threads read and one of them completes.
#ifndef MH_SUPPORT_LOCK_H
#define MH_SUPPORT_LOCK_H

#include <pthread.h>
#include <stdbool.h>

typedef struct mh_lock {
    pthread_mutex_t mutex;
} mh_lock;

// False if the system has no resources for it.
static inline bool mh_lock_init(mh_lock *lock)
{
    return pthread_mutex_init(&lock->mutex, NULL) == 0;
}

static inline void mh_lock_destroy(mh_lock *lock) { pthread_mutex_destroy(&lock->mutex); }
static inline void mh_lock_enter(mh_lock *lock) { pthread_mutex_lock(&lock->mutex); }
static inline void mh_lock_leave(mh_lock *lock) { pthread_mutex_unlock(&lock->mutex); }

#endif
