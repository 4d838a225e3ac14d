// SPDX-License-Identifier: MIT
// Memory of the library with the buffer protocol, and helpers for types.
#include "py_view.h"

typedef struct view {
    PyObject_HEAD PyObject *owner;
    mh_tensor tensor;
    bool writable;
    Py_ssize_t shape[MH_MAX_RANK], strides[MH_MAX_RANK];
} view;

static PyObject *view_type;

static const char *format_of(mh_dtype dtype)
{
    switch (dtype) {
    case MH_F32:
        return "f";
    case MH_F64:
        return "d";
    case MH_F16:
        return "e";
    case MH_I32:
        return "i";
    case MH_I64:
        return "l";
    case MH_BOOL:
        return "?";
    case MH_U8:
        return "B";
    default:
        return "H"; // bf16
    }
}

static int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    view *v = (view *)self;
    const mh_tensor *t = &v->tensor;
    const size_t size = mh_dtype_size(t->dtype);
    if ((flags & PyBUF_WRITABLE) && !v->writable) {
        PyErr_SetString(PyExc_BufferError, "this memory is read-only");
        return -1;
    }
    *buffer = (Py_buffer){.buf = t->data,
                          .obj = Py_NewRef(self),
                          .len = (Py_ssize_t)(mh_tensor_count(t) * size),
                          .itemsize = (Py_ssize_t)size,
                          .readonly = !v->writable,
                          .ndim = t->rank,
                          .shape = v->shape,
                          .strides = v->strides};
    buffer->format = flags & PyBUF_FORMAT ? (char *)format_of(t->dtype) : NULL;
    return 0;
}

static void view_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((view *)self)->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot view_slots[] = {
    {Py_tp_dealloc, view_dealloc}, {Py_bf_getbuffer, get_buffer}, {0, NULL}};
static PyType_Spec view_spec = {"multihead._multihead.View", sizeof(view), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, view_slots};

bool py_view_ready(PyObject *module)
{
    view_type = py_type(module, &view_spec);
    return view_type;
}

PyObject *py_new_object(PyObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    return allocate((PyTypeObject *)type, 0);
}

PyObject *py_view(PyObject *owner, const mh_tensor *tensor, bool writable)
{
    view *v = (view *)py_new_object(view_type);
    if (!v)
        return NULL;
    v->owner = Py_XNewRef(owner);
    v->tensor = *tensor;
    v->writable = writable;
    for (int i = 0; i < tensor->rank; i++) {
        v->shape[i] = (Py_ssize_t)tensor->shape[i];
        v->strides[i] = tensor->stride[i] * (Py_ssize_t)mh_dtype_size(tensor->dtype);
    }
    return (PyObject *)v;
}

PyObject *py_view_array(PyObject *owner, const mh_tensor *tensor, bool writable)
{
    static PyObject *asarray;
    if (!asarray) {
        PyObject *numpy = PyImport_ImportModule("numpy");
        asarray = numpy ? PyObject_GetAttrString(numpy, "asarray") : NULL;
        Py_XDECREF(numpy);
        if (!asarray)
            return NULL;
    }
    PyObject *memory = py_view(owner, tensor, writable);
    PyObject *array = memory ? PyObject_CallFunctionObjArgs(asarray, memory, NULL) : NULL;
    Py_XDECREF(memory);
    return array;
}

PyObject *py_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type)
        return NULL;
    const char *name = strrchr(spec->name, '.') + 1;
    if (PyModule_AddObjectRef(module, name, type) != 0)
        Py_CLEAR(type);
    return type;
}
