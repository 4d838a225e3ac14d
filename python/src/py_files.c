// SPDX-License-Identifier: MIT
// Files of tensors as dictionaries of arrays.
#include "py_files.h"

#include <multihead/io.h>

// ---- reading ------------------------------------------------------------------------------------

// An array of integers of f64's size, seen as float64.
static PyObject *make_f64(const mh_tensor *t, mh_tensor *to)
{
    PyObject *bits = py_output(PY_NUMPY, MH_U64, t->rank, t->shape, to);
    PyObject *array = bits ? PyObject_CallMethod(bits, "view", "s", "float64") : NULL;
    Py_XDECREF(bits); // the view keeps it
    to->dtype = MH_F64;
    return array;
}

// bf16 as ml_dtypes.bfloat16 or, without that package, widened to f32, which is exact.
static PyObject *make_array(const mh_tensor *t, mh_tensor *to)
{
    if (t->dtype == MH_F64)
        return make_f64(t, to);
    PyObject *array = py_output(PY_NUMPY, t->dtype, t->rank, t->shape, to);
    if (array || t->dtype != MH_BF16 || !PyErr_ExceptionMatches(PyExc_ImportError))
        return array;
    PyErr_Clear();
    return py_output(PY_NUMPY, MH_F32, t->rank, t->shape, to);
}

static PyObject *read_tensor(mh_context *context, const mh_tensor_file *file, size_t i)
{
    mh_tensor described, to;
    mh_status status;
    if (!mh_tensor_file_describe(file, i, &described))
        return PyErr_Format(PyExc_ValueError, "tensor %zu: cannot be described", i);
    PyObject *array = make_array(&described, &to);
    if (!array)
        return NULL;
    PY_RUN(context, status, mh_tensor_file_read(context, file, i, &to));
    if (!status)
        return array;
    Py_DECREF(array);
    return py_raise(context, status);
}

static PyObject *read_all(mh_context *context, const mh_tensor_file *file)
{
    PyObject *all = PyDict_New();
    for (size_t i = 0; i < mh_tensor_file_count(file) && all; i++) {
        PyObject *array = read_tensor(context, file, i);
        if (!array || PyDict_SetItemString(all, mh_tensor_file_name(file, i), array) != 0)
            Py_CLEAR(all);
        Py_XDECREF(array);
    }
    return all;
}

PyObject *py_read_tensors(PyObject *self, PyObject *path)
{
    (void)self;
    PyObject *bytes, *found;
    mh_tensor_file *file = NULL;
    mh_context *context = py_context();
    mh_status status;
    if (!context || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    PY_RUN(context, status, mh_tensor_file_open(context, PyBytes_AsString(bytes), &file));
    Py_DECREF(bytes);
    if (status)
        return py_raise(context, status);
    found = read_all(context, file);
    mh_tensor_file_free(file);
    return found;
}

// ---- writing ------------------------------------------------------------------------------------

typedef struct file_contents {
    size_t count, metadata_count;
    mh_named_tensor *tensors; // (count)
    py_tensor *held;          // (count)
    mh_metadata *metadata;    // (metadata_count)
} file_contents;

static void release_contents(file_contents *c)
{
    for (size_t i = 0; i < c->count && c->held; i++)
        py_tensor_release(&c->held[i]);
    PyMem_Free(c->held);
    PyMem_Free(c->tensors);
    PyMem_Free(c->metadata);
}

// The text of a string, which the dictionary keeps alive.
static const char *text_of(PyObject *object, const char *what)
{
    if (PyUnicode_Check(object))
        return PyUnicode_AsUTF8AndSize(object, NULL);
    PyErr_Format(PyExc_TypeError, "%s: found %R, expected a string", what, object);
    return NULL;
}

// NumPy's float64, which tensors elsewhere are rounded from, is stored as it is: its bits are those
// of a view as integers.
static bool hold_tensor(PyObject *array, const char *name, py_tensor *to)
{
    PyObject *type = PyObject_GetAttrString(array, "dtype");
    PyObject *text = type ? PyObject_Str(type) : NULL;
    const bool wide = text && PyUnicode_CompareWithASCIIString(text, "float64") == 0;
    Py_XDECREF(text);
    Py_XDECREF(type);
    PyErr_Clear();
    if (!wide)
        return py_tensor_from(array, name, to);
    PyObject *bits = PyObject_CallMethod(array, "view", "s", "uint64");
    const bool ok = bits && py_tensor_from(bits, name, to);
    Py_XDECREF(bits); // the buffer keeps it
    to->tensor.dtype = MH_F64;
    return ok;
}

static bool hold_tensors(PyObject *tensors, file_contents *c)
{
    PyObject *name, *array;
    Py_ssize_t at = 0;
    for (size_t i = 0; PyDict_Next(tensors, &at, &name, &array); i++) {
        const char *text = text_of(name, "name");
        if (!text || !hold_tensor(array, text, &c->held[i]))
            return false;
        c->tensors[i] = (mh_named_tensor){text, c->held[i].tensor};
    }
    return true;
}

static bool hold_metadata(PyObject *metadata, file_contents *c)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (size_t i = 0; PyDict_Next(metadata, &at, &key, &value); i++) {
        c->metadata[i] = (mh_metadata){text_of(key, "metadata"), NULL};
        if (c->metadata[i].key)
            c->metadata[i].value = text_of(value, "metadata");
        if (!c->metadata[i].value)
            return false;
    }
    return true;
}

static bool take_contents(PyObject *tensors, PyObject *metadata, file_contents *c)
{
    const size_t count = (size_t)PyDict_Size(tensors), pairs = (size_t)PyDict_Size(metadata);
    *c = (file_contents){.count = count, .metadata_count = pairs};
    c->tensors = PyMem_Calloc(count + 1, sizeof *c->tensors);
    c->held = PyMem_Calloc(count + 1, sizeof *c->held);
    c->metadata = PyMem_Calloc(pairs + 1, sizeof *c->metadata);
    if (!c->tensors || !c->held || !c->metadata) {
        PyErr_NoMemory();
        return false;
    }
    return hold_tensors(tensors, c) && hold_metadata(metadata, c);
}

static PyObject *write_contents(const char *path, const file_contents *c)
{
    mh_context *context = py_context();
    mh_status status;
    if (!context)
        return NULL;
    PY_RUN(
        context, status,
        mh_safetensors_write(context, path, c->tensors, c->count, c->metadata, c->metadata_count));
    return status ? py_raise(context, status) : Py_NewRef(Py_None);
}

PyObject *py_write_tensors(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *path, *tensors, *metadata, *found = NULL;
    file_contents contents = {0};
    if (!PyArg_ParseTuple(arguments, "O&O!O!:write_tensors", PyUnicode_FSConverter, &path,
                          &PyDict_Type, &tensors, &PyDict_Type, &metadata))
        return NULL;
    tensors = PyDict_Copy(tensors); // taking an array may run code that changes the dictionary
    metadata = PyDict_Copy(metadata);
    if (tensors && metadata && take_contents(tensors, metadata, &contents))
        found = write_contents(PyBytes_AsString(path), &contents);
    release_contents(&contents);
    Py_XDECREF(tensors);
    Py_XDECREF(metadata);
    Py_DECREF(path);
    return found;
}
