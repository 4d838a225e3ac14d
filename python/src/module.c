// SPDX-License-Identifier: MIT
// multihead._multihead: the C libraries for Python. What users call is in the package's own
// modules.
#include "py_attention.h"
#include "py_command.h"
#include "py_docs.h"
#include "py_files.h"
#include "py_model.h"
#include "py_modules.h"
#include "py_tokenizer.h"
#include "py_trace.h"

static PyObject *set_num_threads(PyObject *self, PyObject *value)
{
    (void)self;
    int64_t threads = 0;
    if (!py_integer(value, "threads", &threads))
        return NULL;
    if (threads < 0 || threads > MH_MAX_THREADS)
        return PyErr_Format(PyExc_ValueError, "threads: found %lld, expected 0 to %d",
                            (long long)threads, MH_MAX_THREADS);
    py_set_threads((size_t)threads);
    Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    const size_t threads = py_threads();
    return threads ? PyLong_FromSize_t(threads) : NULL;
}

static PyObject *isa(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    mh_context *context = py_context();
    return context ? PyUnicode_FromString(mh_context_isa(context)) : NULL;
}

static PyMethodDef functions[] = {
    {"attention", PY_WITH_OPTIONS(py_attention), PY_ATTENTION_DOC},
    {"attention_backward", PY_WITH_OPTIONS(py_attention_backward), PY_ATTENTION_BACKWARD_DOC},
    {"explain", PY_WITH_OPTIONS(py_attention_explain), PY_EXPLAIN_DOC},
    {"read_tensors", py_read_tensors, METH_O, NULL},
    {"write_tensors", py_write_tensors, METH_VARARGS, NULL},
    {"gradient_norm", py_gradient_norm, METH_O, NULL},
    {"clip_factor", py_clip_factor, METH_VARARGS, NULL},
    {"adamw_step", PY_WITH_OPTIONS(py_adamw_step), NULL},
    {"cross_entropy", PY_WITH_OPTIONS(py_cross_entropy), NULL},
    {"set_num_threads", set_num_threads, METH_O, PY_SET_NUM_THREADS_DOC},
    {"get_num_threads", get_num_threads, METH_NOARGS, PY_GET_NUM_THREADS_DOC},
    {"isa", isa, METH_NOARGS, PY_ISA_DOC},
    {"command", py_command, METH_O, NULL},
    {"find_model", py_find_model, METH_O, NULL},
    {"top", PY_WITH_OPTIONS(py_top), NULL},
    {"load_tokenizer", py_load_tokenizer, METH_O, NULL},
    {"train_tokenizer", (PyCFunction)(void (*)(void))py_train_tokenizer,
     METH_VARARGS | METH_KEYWORDS, NULL},
    {"bleu", py_bleu, METH_VARARGS, NULL},
    {"chrf", py_chrf, METH_VARARGS, NULL},
    {"parse_trace", py_parse_trace, METH_O, NULL},
    {"open_trace", py_open_trace, METH_O, NULL},
    {"head_statistics", py_head_statistics, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

// Types and the objects of other packages are kept in static variables.
static bool is_main_interpreter(void)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
        return true;
    PyErr_SetString(PyExc_ImportError, "multihead: found a subinterpreter, expected the main one");
    return false;
}

static int execute(PyObject *module)
{
    if (!is_main_interpreter())
        return -1;
    if (!py_view_ready(module) || !py_tape_ready(module) || !py_kv_cache_ready(module) ||
        !py_mha_ready(module) || !py_transformer_ready(module) || !py_model_ready(module) ||
        !py_tokenizer_ready(module) || !py_trace_ready(module))
        return -1;
    return PyModule_AddStringConstant(module, "version", mh_version());
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "multihead._multihead",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__multihead(void);

PyMODINIT_FUNC PyInit__multihead(void) { return PyModuleDef_Init(&definition); }
