// SPDX-License-Identifier: MIT
// Pictures of Python, files or arrays, for a vision model: embeddings, logits and traces.
#include "py_pictures.h"

#include "py_trace.h"

#include <multihead/image.h>

// Pictures that are read from files, or borrow arrays. All zeros is empty.
typedef struct py_pictures {
    mh_image *images;  // (count)
    py_tensor *arrays; // (count), all zeros for a file's
    PyObject **paths;  // (count), bytes, or NULL for an array's
    size_t count;
    PyObject *held;
} py_pictures;

static void release_pictures(mh_context *context, py_pictures *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->paths && p->paths[i] && context)
            mh_image_free(context, &p->images[i]);
        if (p->paths)
            Py_XDECREF(p->paths[i]);
        if (p->arrays)
            py_tensor_release(&p->arrays[i]);
    }
    PyMem_Free(p->images);
    PyMem_Free(p->arrays);
    PyMem_Free(p->paths);
    Py_XDECREF(p->held);
    *p = (py_pictures){0};
}

// (height, width), (height, width, 1) or (height, width, 3) of bytes in C order.
static bool picture_of_array(PyObject *array, const char *name, py_tensor *held, mh_image *image)
{
    char shape[160];
    if (!py_tensor_from(array, name, held))
        return false;
    const mh_tensor *t = &held->tensor;
    const size_t channels = t->rank == 3 ? t->shape[2] : 1;
    if (t->dtype != MH_U8 || t->rank < 2 || t->rank > 3 || (channels != 1 && channels != 3)) {
        PyErr_Format(PyExc_ValueError,
                     "%s: found %s, expected u8 (height, width), (height, width, 1) or "
                     "(height, width, 3)",
                     name, mh_tensor_describe(t, shape, sizeof shape));
        return false;
    }
    if (!mh_tensor_is_contiguous(t)) {
        PyErr_Format(PyExc_ValueError, "%s: expected an array in C order", name);
        return false;
    }
    *image = (mh_image){t->shape[1], t->shape[0], channels, t->data};
    return true;
}

static bool collect_picture(py_pictures *p, size_t i)
{
    char name[64];
    PyObject *item = PyTuple_GetItem(p->held, (Py_ssize_t)i);
    PyOS_snprintf(name, sizeof name, "pictures[%zu]", i);
    if (PyBytes_Check(item)) {
        p->paths[i] = Py_NewRef(item);
        return true;
    }
    return picture_of_array(item, name, &p->arrays[i], &p->images[i]);
}

static mh_status read_files(mh_context *context, py_pictures *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->paths[i]) {
            mh_image_free(context, &p->images[i]); // of a call that was cancelled and is made again
            const mh_status status =
                mh_image_read(context, PyBytes_AsString(p->paths[i]), &p->images[i]);
            if (status)
                return status;
        }
    return MH_OK;
}

// A list of paths (bytes) and arrays.
static bool pictures_from(mh_context *context, PyObject *list, py_pictures *p)
{
    mh_status status;
    *p = (py_pictures){.held = PySequence_Tuple(list)};
    if (!p->held)
        return false;
    const size_t count = (size_t)PyTuple_Size(p->held);
    p->images = PyMem_Calloc(count + 1, sizeof *p->images);
    p->arrays = PyMem_Calloc(count + 1, sizeof *p->arrays);
    p->paths = PyMem_Calloc(count + 1, sizeof *p->paths);
    bool ok = p->images && p->arrays && p->paths;
    if (!ok)
        PyErr_NoMemory();
    p->count = count;
    for (size_t i = 0; i < count && ok; i++)
        ok = collect_picture(p, i);
    if (ok) {
        PY_RUN(context, status, read_files(context, p));
        ok = !status;
        if (!ok)
            py_raise(context, status);
    }
    if (!ok)
        release_pictures(context, p);
    return ok;
}

// ---- embeddings and classes ---------------------------------------------------------------------

PyObject *py_model_embed_pictures(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                  PyObject *keywords)
{
    static const char *const names[] = {"pictures", "pooling", "normalize", NULL};
    static const char *const poolings[] = {"mean", "cls", "last", "max", NULL};
    const mh_model *model = ((py_model *)self)->model;
    const mh_model_info *info = mh_model_describe(model);
    mh_context *context = py_context();
    PyObject *values[3], *found;
    int pooling = (int)info->pooling;
    bool normalize = info->normalize;
    py_pictures p;
    mh_tensor embeddings;
    mh_status status;
    if (!context || !py_arguments("embed", names, 3, 1, arguments, count, keywords, values) ||
        !py_choice(values[1], "pooling", poolings, &pooling) ||
        !py_bool(values[2], "normalize", &normalize) || !pictures_from(context, values[0], &p))
        return NULL;
    const size_t shape[2] = {p.count, info->embedding_dim};
    found = py_output(PY_NUMPY, MH_F32, 2, shape, &embeddings);
    if (found && p.count) {
        PY_RUN(context, status,
               mh_model_embed_pictures(context, model, (mh_pooling)pooling, normalize, p.images,
                                       p.count, &embeddings));
        if (status) {
            Py_CLEAR(found);
            py_raise(context, status);
        }
    }
    release_pictures(context, &p);
    return found;
}

PyObject *py_model_classify_pictures(PyObject *self, PyObject *list)
{
    const mh_model *model = ((py_model *)self)->model;
    mh_context *context = py_context();
    py_pictures p;
    mh_tensor logits;
    mh_status status;
    if (!context || !pictures_from(context, list, &p))
        return NULL;
    const size_t shape[2] = {p.count, mh_model_describe(model)->labels};
    PyObject *found = py_output(PY_NUMPY, MH_F32, 2, shape, &logits);
    if (found && p.count) {
        PY_RUN(context, status,
               mh_model_classify_pictures(context, model, p.images, p.count, &logits));
        if (status) {
            Py_CLEAR(found);
            py_raise(context, status);
        }
    }
    release_pictures(context, &p);
    return found;
}

// ---- traces -------------------------------------------------------------------------------------

PyObject *py_model_trace_picture(PyObject *self, PyObject *arguments)
{
    const mh_model *model = ((py_model *)self)->model;
    const mh_model_info *info = mh_model_describe(model);
    mh_context *context = py_context();
    PyObject *list, *heads, *made = NULL;
    const char *name;
    const bool *disabled = NULL;
    mh_model_trace *trace = NULL;
    py_pictures p;
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "OzO:trace_picture", &list, &name, &heads) ||
        !py_heads_from(heads, info->layers * info->heads, &disabled) ||
        !pictures_from(context, list, &p))
        return NULL;
    if (p.count != 1) {
        PyErr_Format(PyExc_ValueError, "pictures: found %zu, expected 1", p.count);
    } else {
        PY_RUN(context, status,
               mh_model_trace_picture(context, model, disabled, name, p.images, &trace));
        made = status ? py_raise(context, status) : py_trace_of_model(trace);
    }
    release_pictures(context, &p);
    return made;
}
