// SPDX-License-Identifier: MIT
// Arrays of NumPy, PyTorch and others as tensors, without a copy.
#include "py.h"

// ---- packages that may not be there -------------------------------------------------------------

// An attribute of a package that is imported already or can be; borrowed for ever. NULL with an
// exception.
static PyObject *package_attribute(const char *package, const char *name, PyObject **cache)
{
    if (*cache)
        return *cache;
    PyObject *module = PyImport_ImportModule(package);
    if (!module)
        return NULL;
    *cache = PyObject_GetAttrString(module, name);
    Py_DECREF(module);
    return *cache;
}

// An interned name, made once: looking up attributes by it needs no new string.
static PyObject *interned(PyObject **cache, const char *name)
{
    if (!*cache)
        *cache = PyUnicode_InternFromString(name);
    return *cache;
}

static PyObject *attribute(PyObject *object, PyObject **cache, const char *name)
{
    return interned(cache, name) ? PyObject_GetAttr(object, *cache) : NULL;
}

static PyObject *call_method(PyObject *object, PyObject **cache, const char *name)
{
    return interned(cache, name) ? PyObject_CallMethodObjArgs(object, *cache, NULL) : NULL;
}

// ---- dtypes -------------------------------------------------------------------------------------

typedef struct dtype_names {
    const char *format; // of the buffer protocol
    mh_dtype dtype;
    const char *numpy, *torch;
} dtype_names;

static const dtype_names dtypes[] = {
    {"f", MH_F32, "float32", "float32"}, {"d", MH_F64, "float64", "float64"},
    {"e", MH_F16, "float16", "float16"}, {"?", MH_BOOL, "bool", "bool"},
    {"b", MH_I8, "int8", "int8"},        {"h", MH_I16, "int16", "int16"},
    {"i", MH_I32, "int32", "int32"},     {"l", MH_I64, "int64", "int64"},
    {"B", MH_U8, "uint8", "uint8"},      {"H", MH_U16, "uint16", "uint16"},
    {"I", MH_U32, "uint32", "uint32"},   {"L", MH_U64, "uint64", "uint64"},
    {NULL, MH_BF16, NULL, "bfloat16"},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static bool dtype_of_format(const char *format, size_t size, mh_dtype *dtype)
{
    if (!format)
        format = "B";
    if (*format == '@' || *format == '=' || *format == '<') // little-endian machines only
        format++;
    if (strcmp(format, "q") == 0 || strcmp(format, "n") == 0)
        format = "l";
    if (strcmp(format, "Q") == 0 || strcmp(format, "N") == 0)
        format = "L";
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].format && strcmp(format, dtypes[i].format) == 0) {
            *dtype = dtypes[i].dtype;
            return mh_dtype_size(*dtype) == size;
        }
    return false;
}

// ---- the buffer protocol ------------------------------------------------------------------------

static bool describe_buffer(const Py_buffer *b, const char *name, mh_tensor *t)
{
    if (!dtype_of_format(b->format, (size_t)b->itemsize, &t->dtype)) {
        PyErr_Format(PyExc_TypeError,
                     "%s: found elements of format '%s', expected float32, float16, bfloat16, "
                     "bool or integers in native byte order",
                     name, b->format ? b->format : "");
        return false;
    }
    if (b->ndim > MH_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "%s: found %d dimensions, expected at most %d", name,
                     b->ndim, MH_MAX_RANK);
        return false;
    }
    if ((uintptr_t)b->buf % (size_t)b->itemsize) {
        PyErr_Format(PyExc_ValueError, "%s: found an unaligned array, expected an aligned one",
                     name);
        return false;
    }
    t->data = b->buf;
    t->rank = b->ndim;
    for (int i = 0; i < b->ndim; i++) {
        t->shape[i] = (size_t)b->shape[i];
        if (b->strides[i] % b->itemsize && b->shape[i] > 1) {
            PyErr_Format(PyExc_ValueError, "%s: found strides that are not whole elements", name);
            return false;
        }
        t->stride[i] = b->strides[i] / b->itemsize;
    }
    return true;
}

static bool from_buffer(PyObject *array, const char *name, py_tensor *to)
{
    if (PyObject_GetBuffer(array, &to->buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0)
        return false;
    to->has_buffer = true;
    return describe_buffer(&to->buffer, name, &to->tensor);
}

// array.view("uint16") of ml_dtypes' bfloat16, which the buffer protocol does not know.
static bool from_bfloat16(PyObject *array, const char *name, py_tensor *to)
{
    PyObject *view = PyObject_CallMethod(array, "view", "s", "uint16");
    const bool ok = view && from_buffer(view, name, to);
    Py_XDECREF(view);
    to->tensor.dtype = MH_BF16;
    return ok;
}

// A copy in f32 of NumPy's float64.
static bool from_float64(PyObject *array, const char *name, py_tensor *to)
{
    PyObject *copy = PyObject_CallMethod(array, "astype", "s", "float32");
    if (!copy) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: found float64, expected float32", name);
        return false;
    }
    py_tensor_release(to);
    const bool ok = from_buffer(copy, name, to);
    Py_DECREF(copy); // the buffer keeps it
    return ok;
}

// Keeps the exception that is set, of the buffer protocol.
static bool is_bfloat16(PyObject *array)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    PyObject *text = dtype ? PyObject_Str(dtype) : NULL;
    const bool is = text && PyUnicode_CompareWithASCIIString(text, "bfloat16") == 0;
    Py_XDECREF(text);
    Py_XDECREF(dtype);
    PyErr_Restore(type, value, traceback);
    return is;
}

// ---- PyTorch ------------------------------------------------------------------------------------

static PyObject *torch_tensor_type;           // once the package is imported by somebody
static const dl_exchange_api *torch_exchange; // of that type, or NULL

static bool is_torch(PyObject *array)
{
    if (!torch_tensor_type) {
        PyObject *modules = PyImport_GetModuleDict();
        PyObject *torch = PyDict_GetItemString(modules, "torch");
        torch_tensor_type = torch ? PyObject_GetAttrString(torch, "Tensor") : NULL;
        PyErr_Clear();
        torch_exchange = torch_tensor_type ? py_exchange_api(torch_tensor_type) : NULL;
    }
    return torch_tensor_type && PyType_Check(torch_tensor_type) &&
           PyObject_TypeCheck(array, (PyTypeObject *)torch_tensor_type);
}

static bool torch_dtype(PyObject *array, const char *name, mh_dtype *dtype)
{
    static PyObject *known[DTYPES], *word;
    PyObject *found = attribute(array, &word, "dtype");
    if (!found)
        return false;
    for (size_t i = 0; i < DTYPES; i++)
        if (package_attribute("torch", dtypes[i].torch, &known[i]) == found) {
            *dtype = dtypes[i].dtype;
            Py_DECREF(found);
            return true;
        }
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: found dtype %S, expected torch.float32, bfloat16 or float16",
                 name, found);
    Py_DECREF(found);
    return false;
}

static bool read_sizes(PyObject *tuple, int rank, ptrdiff_t *to)
{
    for (int i = 0; i < rank; i++) {
        PyObject *item = tuple ? PyTuple_GetItem(tuple, i) : NULL;
        const Py_ssize_t value = item ? PyLong_AsSsize_t(item) : -1;
        if (value == -1 && PyErr_Occurred())
            return false;
        to[i] = value;
    }
    return true;
}

static bool torch_shape(PyObject *array, const char *name, mh_tensor *t)
{
    static PyObject *words[2];
    PyObject *shape = attribute(array, &words[0], "shape");
    PyObject *stride = call_method(array, &words[1], "stride");
    const Py_ssize_t rank = shape ? PyTuple_Size(shape) : -1;
    ptrdiff_t sizes[MH_MAX_RANK];
    bool ok = rank >= 0 && stride;
    if (ok && rank > MH_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "%s: found %zd dimensions, expected at most %d", name, rank,
                     MH_MAX_RANK);
        ok = false;
    }
    t->rank = (int)rank;
    ok = ok && read_sizes(shape, t->rank, sizes) && read_sizes(stride, t->rank, t->stride);
    for (int i = 0; i < t->rank && ok; i++)
        t->shape[i] = (size_t)sizes[i];
    Py_XDECREF(shape);
    Py_XDECREF(stride);
    return ok;
}

static bool torch_address(PyObject *array, mh_tensor *t)
{
    static PyObject *word;
    PyObject *address = call_method(array, &word, "data_ptr");
    if (!address)
        return false;
    t->data = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return !PyErr_Occurred();
}

static bool torch_data(PyObject *array, const char *name, mh_tensor *t)
{
    static PyObject *word;
    PyObject *on_cpu = attribute(array, &word, "is_cpu");
    const int cpu = on_cpu ? PyObject_IsTrue(on_cpu) : -1;
    Py_XDECREF(on_cpu);
    if (cpu == 0)
        PyErr_Format(PyExc_ValueError, "%s: expected a tensor on the CPU", name);
    return cpu == 1 && torch_address(array, t);
}

// Whether the elements in memory are the negated ones: the imaginary part of a conjugate.
static int torch_is_negated(PyObject *array)
{
    static PyObject *word;
    PyObject *negated = call_method(array, &word, "is_neg");
    const int is = negated ? PyObject_IsTrue(negated) : -1;
    Py_XDECREF(negated);
    return is;
}

static bool from_torch(PyObject *array, const char *name, py_tensor *to)
{
    static PyObject *resolve;
    const int negated = torch_is_negated(array);
    if (negated != 0) {
        PyObject *copy = negated < 0 ? NULL : call_method(array, &resolve, "resolve_neg");
        const bool ok = copy && from_torch(copy, name, to);
        Py_XDECREF(copy);
        return ok;
    }
    to->origin = PY_TORCH;
    const bool exact = (PyObject *)Py_TYPE(array) == torch_tensor_type && torch_exchange;
    if (!(exact && py_exchange_describe(torch_exchange, array, &to->tensor)) &&
        (!torch_dtype(array, name, &to->tensor.dtype) || !torch_shape(array, name, &to->tensor) ||
         !torch_data(array, name, &to->tensor)))
        return false;
    if (to->tensor.dtype == MH_F64) {
        PyErr_Format(PyExc_TypeError,
                     "%s: found torch.float64, expected float32, bfloat16 or "
                     "float16",
                     name);
        return false;
    }
    to->owner = Py_NewRef(array);
    return true;
}

// ---- anything else ------------------------------------------------------------------------------

// numpy.from_dlpack(array): JAX, CuPy's host arrays and others.
static bool from_dlpack(PyObject *array, const char *name, py_tensor *to)
{
    static PyObject *from;
    if (!PyObject_HasAttrString(array, "__dlpack__") ||
        !package_attribute("numpy", "from_dlpack", &from)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: found %s, expected an array of NumPy, PyTorch or DLPack",
                     name, array == Py_None ? "None" : "an object that is not an array");
        return false;
    }
    PyObject *view = PyObject_CallFunctionObjArgs(from, array, NULL);
    const bool ok = view && from_buffer(view, name, to);
    Py_XDECREF(view);
    return ok;
}

bool py_tensor_from(PyObject *array, const char *name, py_tensor *to)
{
    *to = (py_tensor){.origin = PY_NUMPY};
    bool ok;
    if (PyObject_CheckBuffer(array)) {
        ok = from_buffer(array, name, to);
        if (!ok && !to->has_buffer && is_bfloat16(array)) {
            PyErr_Clear();
            ok = from_bfloat16(array, name, to);
        }
        if (ok && to->tensor.dtype == MH_F64)
            ok = from_float64(array, name, to);
    } else {
        ok = is_torch(array) ? from_torch(array, name, to) : from_dlpack(array, name, to);
    }
    if (!ok)
        py_tensor_release(to);
    return ok;
}

bool py_tensor_from_writable(PyObject *array, const char *name, py_tensor *to)
{
    if (!py_tensor_from(array, name, to))
        return false;
    const bool read_only = to->has_buffer && to->buffer.readonly;
    const bool copied = to->has_buffer && to->buffer.obj != array && PyObject_CheckBuffer(array) &&
                        to->tensor.dtype != MH_BF16;
    const bool negated = to->owner && to->owner != array;
    if (read_only || copied || negated) {
        PyErr_Format(PyExc_ValueError, "%s: found %s, expected one that can be written", name,
                     read_only ? "a read-only array"
                     : negated ? "a negated view"
                               : "float64");
        py_tensor_release(to);
        return false;
    }
    return true;
}

void py_tensor_release(py_tensor *t)
{
    if (t->has_buffer)
        PyBuffer_Release(&t->buffer);
    t->has_buffer = false;
    Py_CLEAR(t->owner);
}

// ---- outputs ------------------------------------------------------------------------------------

static const dtype_names *names_of(mh_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return &dtypes[i];
    return &dtypes[0];
}

PyObject *py_shape(int rank, const size_t *shape)
{
    PyObject *tuple = PyTuple_New(rank);
    for (int i = 0; i < rank && tuple; i++) {
        PyObject *size = PyLong_FromSize_t(shape[i]);
        if (!size || PyTuple_SetItem(tuple, i, size) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *numpy_empty(PyObject *shape, mh_dtype dtype)
{
    static PyObject *empty, *bfloat16, *words[DTYPES];
    const dtype_names *names = names_of(dtype);
    if (!package_attribute("numpy", "empty", &empty))
        return NULL;
    PyObject *name = interned(&words[names - dtypes], dtype == MH_BF16 ? "uint16" : names->numpy);
    PyObject *array = name ? PyObject_CallFunctionObjArgs(empty, shape, name, NULL) : NULL;
    if (!array || dtype != MH_BF16)
        return array;
    PyObject *type = package_attribute("ml_dtypes", "bfloat16", &bfloat16);
    PyObject *view = type ? PyObject_CallMethod(array, "view", "O", type) : NULL;
    Py_DECREF(array);
    return view;
}

static PyObject *torch_empty(PyObject *shape, mh_dtype dtype)
{
    static PyObject *empty, *types[DTYPES], *word;
    const dtype_names *names = names_of(dtype);
    PyObject *type = package_attribute("torch", names->torch, &types[names - dtypes]);
    if (!type || !package_attribute("torch", "empty", &empty))
        return NULL;
    if (!word)
        word = PyUnicode_InternFromString("dtype");
    PyObject *arguments = PyTuple_Pack(1, shape), *options = PyDict_New(), *array = NULL;
    if (arguments && options && PyDict_SetItem(options, word, type) == 0)
        array = PyObject_Call(empty, arguments, options);
    Py_XDECREF(arguments);
    Py_XDECREF(options);
    return array;
}

PyObject *py_output(py_origin origin, mh_dtype dtype, int rank, const size_t *shape, mh_tensor *to)
{
    PyObject *tuple = py_shape(rank, shape);
    if (!tuple)
        return NULL;
    PyObject *array = origin == PY_TORCH ? torch_empty(tuple, dtype) : numpy_empty(tuple, dtype);
    Py_DECREF(tuple);
    py_tensor view = {0};
    if (!array || !py_tensor_from(array, "output", &view)) {
        Py_XDECREF(array);
        return NULL;
    }
    *to = view.tensor;
    py_tensor_release(&view); // the array itself keeps the memory
    return array;
}

// Dimensions of 1 in front, up to rank 4.
mh_tensor py_four_dimensions(mh_tensor t, int rank)
{
    mh_tensor four = t;
    four.rank = 4 - rank + t.rank;
    for (int i = 0; i < four.rank; i++) {
        const bool added = i < 4 - rank;
        four.shape[i] = added ? 1 : t.shape[i - (4 - rank)];
        four.stride[i] = added ? 0 : t.stride[i - (4 - rank)];
    }
    return four;
}

PyObject *py_output_like(const py_tensor *like, mh_tensor *to)
{
    static PyObject *empty_like;
    if (!package_attribute("torch", "empty_like", &empty_like))
        return NULL;
    PyObject *array = PyObject_CallFunctionObjArgs(empty_like, like->owner, NULL);
    py_tensor view = {0};
    bool ok = false;
    if (array && mh_tensor_is_contiguous(&like->tensor)) { // so is the new one
        *to = like->tensor;
        ok = torch_address(array, to);
    } else if (array && py_tensor_from(array, "output", &view)) {
        *to = py_four_dimensions(view.tensor, view.tensor.rank);
        py_tensor_release(&view);
        ok = true;
    }
    if (!ok)
        Py_CLEAR(array);
    return array;
}
