// SPDX-License-Identifier: MIT
// BLEU and chrF of translations.
#include "py_tokenizer.h"

typedef struct score_call {
    py_texts hypotheses, references;
    size_t reference_count;
} score_call;

static void release_call(score_call *c)
{
    py_texts_release(&c->hypotheses);
    py_texts_release(&c->references);
}

static bool read_call(PyObject *hypotheses, PyObject *references, score_call *c)
{
    *c = (score_call){0};
    if (!py_texts_from(hypotheses, "hypotheses", &c->hypotheses) ||
        !py_texts_from(references, "references", &c->references))
        return false;
    const size_t count = c->hypotheses.count, given = c->references.count;
    c->reference_count = count ? given / count : 0;
    if (count && given && given % count == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "references: found %zu texts, expected %s%zu of hypotheses",
                 given, count ? "a multiple of the " : "some, and more than ", count);
    return false;
}

PyObject *py_bleu(PyObject *self, PyObject *arguments)
{
    (void)self;
    mh_context *context = py_context();
    PyObject *hypotheses, *references, *found = NULL;
    int lowercase;
    score_call c;
    mh_bleu_score s = mh_bleu_score_default();
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "OOp:bleu", &hypotheses, &references, &lowercase))
        return NULL;
    if (read_call(hypotheses, references, &c)) {
        PY_RUN(context, status,
               mh_bleu(context, c.hypotheses.texts, c.references.texts, c.hypotheses.count,
                       c.reference_count, lowercase, &s));
        found = status ? py_raise(context, status)
                       : Py_BuildValue("(dNdKK)", s.score,
                                       py_list_of_doubles(s.precisions, MH_BLEU_ORDER),
                                       s.brevity_penalty, (unsigned long long)s.hypothesis_length,
                                       (unsigned long long)s.reference_length);
    }
    release_call(&c);
    return found;
}

PyObject *py_chrf(PyObject *self, PyObject *arguments)
{
    (void)self;
    mh_context *context = py_context();
    PyObject *hypotheses, *references, *found = NULL;
    Py_ssize_t word_order;
    int lowercase;
    score_call c;
    double score = 0;
    mh_status status;
    if (!context || !PyArg_ParseTuple(arguments, "OOnp:chrf", &hypotheses, &references, &word_order,
                                      &lowercase))
        return NULL;
    if (word_order < 0)
        return PyErr_Format(PyExc_ValueError, "word_order: found %zd, expected 0 or more",
                            word_order);
    if (read_call(hypotheses, references, &c)) {
        PY_RUN(context, status,
               mh_chrf(context, c.hypotheses.texts, c.references.texts, c.hypotheses.count,
                       c.reference_count, (size_t)word_order, lowercase, &score));
        found = status ? py_raise(context, status) : PyFloat_FromDouble(score);
    }
    release_call(&c);
    return found;
}
