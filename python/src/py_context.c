// SPDX-License-Identifier: MIT
// One context per thread, errors as exceptions, and Ctrl-C.
#include "py.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

// What jansson's unused file functions refer to, see CMakeLists.txt.
__attribute__((visibility("hidden"))) FILE *mh_python_no_stdin;

// ---- contexts -----------------------------------------------------------------------------------

typedef struct thread_context {
    mh_context *context;
    size_t threads; // that it was made for
} thread_context;

static _Thread_local thread_context mine;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static atomic_size_t wanted_threads;

static void free_context(void *context) { mh_context_free(context); }

static void make_key(void) { (void)pthread_key_create(&key, free_context); }

void py_set_threads(size_t threads) { atomic_store(&wanted_threads, threads); }

size_t py_threads(void)
{
    mh_context *context = py_context();
    return context ? mh_context_threads(context) : 0;
}

mh_context *py_context(void)
{
    const size_t threads = atomic_load(&wanted_threads);
    char error[256];
    if (mine.context && mine.threads == threads)
        return mine.context;
    mh_context_options options = mh_context_options_default();
    options.threads = threads;
    mh_context *context;
    mh_status status = mh_context_create(&options, &context, error, sizeof error);
    if (status) {
        PyErr_SetString(status == MH_ERROR_MEMORY ? PyExc_MemoryError : PyExc_ValueError, error);
        return NULL;
    }
    pthread_once(&key_once, make_key);
    mh_context_free(mine.context);
    mine = (thread_context){context, threads};
    pthread_setspecific(key, context); // freed when the thread ends
    return context;
}

// ---- errors -------------------------------------------------------------------------------------

static PyObject *exception_of(mh_status status)
{
    switch (status) {
    case MH_ERROR_MEMORY:
        return PyExc_MemoryError;
    case MH_ERROR_FILE:
        return PyExc_OSError;
    case MH_ERROR_THREAD:
    case MH_ERROR_DIVERGED:
        return PyExc_RuntimeError;
    case MH_ERROR_CANCELLED:
        return PyExc_KeyboardInterrupt;
    case MH_ERROR_UNSUPPORTED:
    case MH_ERROR_ARGUMENT:
    case MH_ERROR_FORMAT:
    case MH_OK:
        break;
    }
    return PyExc_ValueError;
}

PyObject *py_raise(mh_context *context, mh_status status)
{
    const char *message = mh_error_message(context);
    if (!PyErr_Occurred())
        PyErr_SetString(exception_of(status), *message ? message : mh_status_name(status));
    return NULL;
}

// ---- Ctrl-C -------------------------------------------------------------------------------------

// Python's own handler only sets a flag that nobody reads while a kernel runs. Ours cancels the
// main thread's call and then does what was installed before.
static _Atomic(mh_context *) running;
static void (*handler_before)(int);

static void on_interrupt(int number)
{
    mh_context *context = atomic_load(&running);
    if (context)
        mh_context_cancel(context);
    if (handler_before)
        handler_before(number);
}

// signal.signal() replaces the handler, so that this is looked at before each call.
static bool watch_interrupts(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) ||
        now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
        return false;
    if (now.sa_handler == on_interrupt)
        return true;
    handler_before = now.sa_handler;
    now.sa_handler = on_interrupt;
    return sigaction(SIGINT, &now, NULL) == 0;
}

// Signals are handled by the main thread.
static bool is_main_thread(void)
{
    static pthread_t first;
    static atomic_bool known;
    if (!atomic_load(&known)) { // the thread that imports the module; as a rule the main one
        first = pthread_self();
        atomic_store(&known, true);
    }
    return pthread_equal(first, pthread_self());
}

py_call py_begin(mh_context *context)
{
    if (is_main_thread() && watch_interrupts())
        atomic_store(&running, context);
    return (py_call){PyEval_SaveThread(), context};
}

bool py_end(py_call call, mh_status *status)
{
    if (atomic_load(&running) == call.context)
        atomic_store(&running, NULL);
    PyEval_RestoreThread(call.state);
    // Cancelled, and no signal that raises: the signal came after the end of the call before.
    return *status == MH_ERROR_CANCELLED && PyErr_CheckSignals() == 0;
}
