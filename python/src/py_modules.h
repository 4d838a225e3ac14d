// SPDX-License-Identifier: MIT
// The types of modules with parameters.
#ifndef MH_PYTHON_PY_MODULES_H
#define MH_PYTHON_PY_MODULES_H

#include "py_arguments.h"
#include "py_view.h"

typedef struct py_tape {
    PyObject_HEAD mh_tape *tape;
} py_tape;

// The tape of a Tape; NULL leaves *tape as it is.
bool py_tape_from(PyObject *object, mh_tape **tape);

bool py_mha_ready(PyObject *module);
bool py_transformer_ready(PyObject *module);

#endif
