// SPDX-License-Identifier: MIT
// Tapes, the lock of what belongs to one thread at a time, and arguments that modules share.
#include "py_modules.h"

// ---- locks --------------------------------------------------------------------------------------

bool py_lock_take(py_lock *lock, const char *what)
{
    if (!atomic_flag_test_and_set(lock))
        return true;
    PyErr_Format(PyExc_RuntimeError, "%s: in use by another thread", what);
    return false;
}

void py_lock_release(py_lock *lock) { atomic_flag_clear(lock); }

// ---- tapes --------------------------------------------------------------------------------------

static PyObject *tape_type;

static PyObject *tape_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    if (keywords && PyDict_Size(keywords) > 0)
        return PyErr_Format(PyExc_TypeError, "Tape() has no arguments");
    mh_context *context = py_no_arguments("Tape", arguments) ? py_context() : NULL;
    py_tape *self = context ? (py_tape *)py_new_object((PyObject *)type) : NULL;
    if (!self)
        return NULL;
    atomic_flag_clear(&self->lock);
    const mh_status status = mh_tape_create(context, &self->tape);
    if (status) {
        Py_DECREF(self);
        return py_raise(context, status);
    }
    return (PyObject *)self;
}

static void tape_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mh_tape_free(((py_tape *)self)->tape);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *tape_bytes(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    py_tape *tape = (py_tape *)self;
    if (!py_lock_take(&tape->lock, "tape"))
        return NULL;
    const size_t bytes = mh_tape_bytes(tape->tape);
    py_lock_release(&tape->lock);
    return PyLong_FromSize_t(bytes);
}

static PyMethodDef tape_methods[] = {{"nbytes", tape_bytes, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
static PyType_Slot tape_slots[] = {
    {Py_tp_new, tape_new}, {Py_tp_dealloc, tape_dealloc}, {Py_tp_methods, tape_methods}, {0, NULL}};
static PyType_Spec tape_spec = {"multihead._multihead.Tape", sizeof(py_tape), 0, Py_TPFLAGS_DEFAULT,
                                tape_slots};

bool py_tape_ready(PyObject *module)
{
    tape_type = py_type(module, &tape_spec);
    return tape_type;
}

bool py_tape_take(PyObject *object, py_tape **tape)
{
    if (!object)
        return true;
    if (!PyObject_TypeCheck(object, (PyTypeObject *)tape_type)) {
        PyErr_Format(PyExc_TypeError, "tape: found %R, expected a Tape", object);
        return false;
    }
    if (!py_lock_take(&((py_tape *)object)->lock, "tape"))
        return false;
    *tape = (py_tape *)object;
    return true;
}

void py_tape_release(py_tape *tape)
{
    if (tape)
        py_lock_release(&tape->lock);
}

// ---- arguments ----------------------------------------------------------------------------------

bool py_attention_some_options(const char *const *names, PyObject *const *values, size_t count,
                               const mh_tensor *q, py_attention_options *to)
{
    static const char *const all[] = {PY_ATTENTION_OPTIONS};
    enum { ALL = sizeof all / sizeof *all };
    PyObject *chosen[ALL] = {NULL};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < ALL; j++)
            if (strcmp(names[i], all[j]) == 0)
                chosen[j] = values[i];
    return py_attention_options_from(chosen, q, to);
}

const int64_t *py_int64_vector(PyObject *array, const char *name, size_t count, py_tensor *held)
{
    if (!py_tensor_from(array, name, held))
        return NULL;
    const mh_tensor *t = &held->tensor;
    if (t->dtype == MH_I64 && t->rank == 1 && mh_tensor_is_contiguous(t) &&
        (count == SIZE_MAX || t->shape[0] == count))
        return t->data;
    char found[96], size[32] = "";
    if (count != SIZE_MAX)
        PyOS_snprintf(size, sizeof size, " of %zu elements", count);
    PyErr_Format(PyExc_ValueError, "%s: found %s, expected a contiguous int64 vector%s", name,
                 mh_tensor_describe(t, found, sizeof found), size);
    py_tensor_release(held);
    return NULL;
}
