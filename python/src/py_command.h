// SPDX-License-Identifier: MIT
// The command, and how it finds models.
#ifndef MH_PYTHON_PY_COMMAND_H
#define MH_PYTHON_PY_COMMAND_H

#include "py.h"

// command(arguments as bytes): runs the command; its exit code. Once per process.
PyObject *py_command(PyObject *self, PyObject *arguments);

// find_model(name as bytes): its path. FileNotFoundError says where models were searched.
PyObject *py_find_model(PyObject *self, PyObject *name);

#endif
