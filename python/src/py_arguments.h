// SPDX-License-Identifier: MIT
// Arguments of functions with many options.
#ifndef MH_PYTHON_PY_ARGUMENTS_H
#define MH_PYTHON_PY_ARGUMENTS_H

#include "py.h"

// Sorts the arguments of a METH_FASTCALL | METH_KEYWORDS call into `values`, in the order of
// `names` (NULL-terminated), borrowed. The first `positional` may be given without a name, the
// first `required` must be given. Options that are missing or None are NULL.
bool py_arguments(const char *function, const char *const *names, size_t positional,
                  size_t required, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                  PyObject **values);

// A value of this type; NULL leaves *to as it is. False with TypeError or ValueError.
bool py_bool(PyObject *value, const char *name, bool *to);
bool py_float(PyObject *value, const char *name, float *to);
bool py_integer(PyObject *value, const char *name, int64_t *to);
bool py_choice(PyObject *value, const char *name, const char *const *choices, int *to);

// ---- configurations -----------------------------------------------------------------------------

// A field of a configuration, set by a keyword argument of the same name.
typedef enum py_field_kind {
    PY_IS_BOOL,
    PY_IS_SIZE,
    PY_IS_INTEGER,
    PY_IS_FLOAT,
    PY_IS_DOUBLE,
    PY_IS_CHOICE,
    PY_IS_OBJECT // borrowed
} py_field_kind;

typedef struct py_field {
    const char *name;
    py_field_kind kind;
    void *to;
    const char *const *choices; // *to is an int, the index of one
} py_field;

#define PY_BOOL(config, field)                                                                     \
    {                                                                                              \
#field, PY_IS_BOOL, &(config)->field, NULL                                                 \
    }
#define PY_SIZE(config, field)                                                                     \
    {                                                                                              \
#field, PY_IS_SIZE, &(config)->field, NULL                                                 \
    }
#define PY_INTEGER(config, field)                                                                  \
    {                                                                                              \
#field, PY_IS_INTEGER, &(config)->field, NULL                                              \
    }
#define PY_FLOAT(config, field)                                                                    \
    {                                                                                              \
#field, PY_IS_FLOAT, &(config)->field, NULL                                                \
    }
#define PY_DOUBLE(config, field)                                                                   \
    {                                                                                              \
#field, PY_IS_DOUBLE, &(config)->field, NULL                                               \
    }

// Whether there are no positional arguments. False with TypeError.
bool py_no_arguments(const char *type, PyObject *arguments);

// Sets the fields that `keywords` (a dictionary or NULL) names; the list ends with name NULL.
bool py_fields(const char *type, PyObject *keywords, const py_field *fields);

#define PY_WITH_OPTIONS(function)                                                                  \
    (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

#endif
