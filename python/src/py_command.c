// SPDX-License-Identifier: MIT
// The command: python -m multihead, and its way of finding models.
#include "py_command.h"

#include "py_texts.h"

#include "command.h"
#include "messages.h"
#include "model_path.h"

#include <signal.h>
#include <stdlib.h>

// ---- what the package leaves out ----------------------------------------------------------------

static int run_no_server(int argc, char **argv)
{
    (void)argc, (void)argv;
    complain("the server is not in the Python package: build the command from its sources");
    return EXIT_FAILED;
}

static const struct argp no_server_argp = {
    .args_doc = "",
    .doc = "Serves translations and attention over HTTP. Not in the Python package: it is in the "
           "command that is built from the sources with CMake.",
};

const command serve_command = {
    .name = "serve",
    .summary = "run a model in the browser (not in the Python package)",
    .argp = &no_server_argp,
    .run = run_no_server,
};

// ---- running it ---------------------------------------------------------------------------------

// As a program starts: Python's handlers only set flags, and it ignores closed pipes.
static void reset_signals(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
}

static int run_arguments(py_texts *arguments)
{
    const size_t count = arguments->count;
    char **argv = calloc(count + 2, sizeof *argv);
    if (!argv)
        return EXIT_MEMORY;
    argv[0] = "multihead";
    for (size_t i = 0; i < count; i++)
        argv[i + 1] = (char *)arguments->texts[i].bytes;
    reset_signals();
    PyThreadState *state = PyEval_SaveThread();
    const int code = run_program((int)count + 1, argv);
    const int written = flush_stdout(); // Python's own end would hide why that fails
    PyEval_RestoreThread(state);
    free(argv); // the options have been parsed, and the command is over
    return code == EXIT_DONE ? written : code;
}

// Arguments as they were on the command line, whatever their encoding.
static bool arguments_from(PyObject *list, py_texts *to)
{
    *to = (py_texts){.held = PySequence_Tuple(list)};
    to->count = to->held ? (size_t)PyTuple_Size(to->held) : 0;
    to->texts = PyMem_Calloc(to->count + 1, sizeof *to->texts);
    bool ok = to->held && to->texts;
    for (size_t i = 0; i < to->count && ok; i++) {
        to->texts[i].bytes = PyBytes_AsString(PyTuple_GetItem(to->held, (Py_ssize_t)i));
        ok = to->texts[i].bytes;
    }
    if (!ok && !PyErr_Occurred())
        PyErr_NoMemory();
    return ok;
}

PyObject *py_command(PyObject *self, PyObject *list)
{
    (void)self;
    static bool ran;
    py_texts arguments;
    PyObject *found = NULL;
    if (ran)
        return PyErr_Format(PyExc_RuntimeError, "the command runs once per process");
    if (arguments_from(list, &arguments)) {
        ran = true;
        found = PyLong_FromLong(run_arguments(&arguments));
    }
    py_texts_release(&arguments);
    return found;
}

// ---- models -------------------------------------------------------------------------------------

// find_model(name as bytes): the directory or file that the command's -m means.
PyObject *py_find_model(PyObject *self, PyObject *name)
{
    (void)self;
    const char *bytes = PyBytes_AsString(name);
    char *directory = NULL, *message = NULL;
    PyObject *found = NULL;
    if (!bytes)
        return NULL;
    const int code = model_path_search(bytes, "", &directory, &message);
    if (code == EXIT_DONE)
        found = PyUnicode_DecodeFSDefault(directory);
    else if (code == EXIT_MEMORY || !message)
        PyErr_NoMemory();
    else {
        PyObject *text = py_string((mh_text){message, strlen(message) - (*message != 0)});
        if (text)
            PyErr_SetObject(PyExc_FileNotFoundError, text);
        Py_XDECREF(text);
    }
    free(directory);
    free(message);
    return found;
}
