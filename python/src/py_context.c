// SPDX-License-Identifier: MIT
// A few contexts per thread, errors as exceptions, and Ctrl-C.
#include "py.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

// What jansson's unused file functions refer to, see CMakeLists.txt.
__attribute__((visibility("hidden"))) FILE *mh_python_no_stdin;

// ---- contexts -----------------------------------------------------------------------------------

// A thread keeps its last few contexts: one that is busy, because Python code runs within its call
// (a callback), is not used again meanwhile, and one that was made for another number of threads
// may still be in use by the caller of that code.
enum { KEPT = 4 };
typedef struct kept_context {
    mh_context *context;
    size_t threads; // that it was made for
    bool busy;
} kept_context;
typedef struct thread_contexts {
    kept_context kept[KEPT];
    size_t current, oldest;
} thread_contexts;

static _Thread_local thread_contexts *mine;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static atomic_size_t wanted_threads;

static void free_contexts(void *contexts)
{
    thread_contexts *all = contexts;
    for (size_t i = 0; i < KEPT; i++)
        mh_context_free(all->kept[i].context);
    free(all);
}

static void make_key(void) { (void)pthread_key_create(&key, free_contexts); }

void py_set_threads(size_t threads) { atomic_store(&wanted_threads, threads); }

size_t py_threads(void)
{
    mh_context *context = py_context();
    return context ? mh_context_threads(context) : 0;
}

// The library's remarks go to logging.getLogger("multihead"), as Python's packages do it: warnings
// are shown unless a program says otherwise.
static void on_log(void *user, mh_log_level level, const char *message)
{
    (void)user;
    if (level == MH_LOG_DEBUG)
        return;
    PyObject *type, *value, *traceback;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *logging = PyImport_ImportModule("logging");
    PyObject *logger = logging ? PyObject_CallMethod(logging, "getLogger", "s", "multihead") : NULL;
    PyObject *done = logger ? PyObject_CallMethod(logger, level == MH_LOG_INFO ? "info" : "warning",
                                                  "ss", "%s", message)
                            : NULL;
    Py_XDECREF(done);
    Py_XDECREF(logger);
    Py_XDECREF(logging);
    PyErr_Restore(type, value, traceback); // one that logging raised is dropped
    PyGILState_Release(state);
}

static bool make_mine(void)
{
    if (mine)
        return true;
    pthread_once(&key_once, make_key);
    mine = calloc(1, sizeof *mine);
    if (!mine) {
        PyErr_NoMemory();
        return false;
    }
    pthread_setspecific(key, mine); // freed when the thread ends
    return true;
}

// A new context in the place of the oldest that is not busy.
static mh_context *make_context(size_t threads)
{
    size_t place = mine->oldest, tried = 0;
    while (mine->kept[place].busy && ++tried <= KEPT)
        place = (place + 1) % KEPT;
    if (mine->kept[place].busy)
        return (mh_context *)PyErr_Format(PyExc_RuntimeError,
                                          "found %d calls within each other, expected fewer", KEPT);
    char error[256];
    mh_context_options options = mh_context_options_default();
    options.threads = threads;
    options.log = on_log;
    mh_context *context;
    mh_status status = mh_context_create(&options, &context, error, sizeof error);
    if (status) {
        PyErr_SetString(status == MH_ERROR_MEMORY ? PyExc_MemoryError : PyExc_ValueError, error);
        return NULL;
    }
    mh_context_free(mine->kept[place].context);
    mine->kept[place] = (kept_context){.context = context, .threads = threads};
    mine->current = place;
    mine->oldest = (place + 1) % KEPT;
    return context;
}

mh_context *py_context(void)
{
    const size_t threads = atomic_load(&wanted_threads);
    if (!make_mine())
        return NULL;
    for (size_t i = 0; i < KEPT; i++) {
        const size_t place = (mine->current + i) % KEPT;
        const kept_context *k = &mine->kept[place];
        if (k->context && k->threads == threads && !k->busy) {
            mine->current = place;
            return k->context;
        }
    }
    return make_context(threads);
}

static void set_busy(const mh_context *context, bool busy)
{
    for (size_t i = 0; i < KEPT; i++)
        if (mine->kept[i].context == context)
            mine->kept[i].busy = busy;
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

// Signals are handled by the main thread, in the child of a fork by the one that forked.
static _Thread_local enum { UNKNOWN, MAIN, OTHER } role;

static void forget_role(void) { role = UNKNOWN; }

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, forget_role); }

static bool is_main_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (role == UNKNOWN) {
        pthread_once(&once, watch_forks);
        role = gettid() == getpid() ? MAIN : OTHER;
    }
    return role == MAIN;
}

py_call py_begin(mh_context *context)
{
    py_call call = {.context = context, .outer = NULL};
    if (is_main_thread() && watch_interrupts())
        call.outer = atomic_exchange(&running, context);
    set_busy(context, true);
    call.state = PyEval_SaveThread();
    return call;
}

bool py_end(py_call call, mh_status *status)
{
    if (is_main_thread())
        atomic_store(&running, call.outer);
    PyEval_RestoreThread(call.state);
    set_busy(call.context, false);
    // Cancelled, and no signal that raises: the signal came after the end of the call before.
    return *status == MH_ERROR_CANCELLED && PyErr_CheckSignals() == 0;
}
