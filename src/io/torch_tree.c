// SPDX-License-Identifier: MIT
// The value of a checkpoint to named tensors, depth first, with the names of nested dictionaries
// joined by dots:
//
//     {"epoch": 3, "model": {"a": T, "layers": [T, T]}}      model.a, model.layers.0,
//     model.layers.1
//
// A tensor by itself is called "". Whatever is not a tensor is ignored. A container may occur many
// times in others, by way of the memo; the number of steps is bounded by that of the pickle's
// values, so that a small file cannot describe billions of names, and so are the names' bytes.
#include "io/torch.h"

#include <stdio.h>
#include <string.h>

#include "base/overflow.h"

enum { STEPS_PER_NODE = 8, NAME_BYTES_PER_BYTE = 16, STEPS_LEAST = 64, NAME_BYTES_LEAST = 65536 };

typedef struct walk {
    mh_torch *t;
    mh_tensor_file *file; // NULL in the first pass
    size_t steps, tensors, text;
    char name[MH_TORCH_NAME_MAX + 1];
} walk;

// Where the walk is: the length of the name so far, and why nothing below can have one, or NULL.
typedef struct place {
    size_t length;
    int depth;
    const char *problem;
} place;

static mh_status visit(walk *w, const mh_pickle_value *value, place at);

// ---- names --------------------------------------------------------------------------------------

// Whether the bytes are UTF-8 without zero bytes, overlong forms and surrogates.
static bool is_utf8(const unsigned char *b, size_t size)
{
    for (size_t i = 0; i < size;) {
        const unsigned c = b[i++];
        const size_t more = c < 0x80 ? 0 : c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
        if (c == 0 || (c >= 0x80 && c < 0xC2) || c > 0xF4 || more > size - i)
            return false;
        const unsigned next = more ? b[i] : 0;
        if ((c == 0xE0 && next < 0xA0) || (c == 0xED && next > 0x9F) ||
            (c == 0xF0 && next < 0x90) || (c == 0xF4 && next > 0x8F))
            return false;
        for (size_t j = 0; j < more; j++)
            if ((b[i++] & 0xC0) != 0x80)
                return false;
    }
    return true;
}

// The place of a container's item: its name is that of the container, a dot and the key.
static place below(walk *w, place at, const mh_pickle_value *key)
{
    char digits[24];
    const void *text = digits;
    size_t size;
    place item = {at.length, at.depth + 1, at.problem};
    if (item.problem)
        return item;
    if (key->kind == MH_PICKLE_TEXT) {
        text = key->as.bytes;
        size = key->size;
    } else if (key->kind == MH_PICKLE_INT) {
        size = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)key->as.number);
    } else {
        item.problem = "a tensor has a key that is neither text nor an integer";
        return item;
    }
    const size_t dot = at.depth > 0;
    if (size > MH_TORCH_NAME_MAX || at.length + dot + size > MH_TORCH_NAME_MAX) {
        item.problem = "a tensor has a name of more than 4096 bytes";
    } else if (!is_utf8(text, size)) {
        item.problem = "a tensor has a name that is not UTF-8";
    } else {
        if (dot)
            w->name[at.length] = '.';
        memcpy(w->name + at.length + dot, text, size);
        item.length = at.length + dot + size;
    }
    return item;
}

// ---- tensors ------------------------------------------------------------------------------------

// The mapping may change under us: the second pass must not get beyond what the first counted.
static mh_status torch_tree_fill_entry(walk *w, const mh_torch_storage *s, size_t offset,
                                       const mh_tensor *tensor, size_t length)
{
    mh_tensor_file *file = w->file;
    size_t needed;
    if (w->tensors >= file->count || length + 1 > file->text_size - w->text || !s->bytes ||
        !mh_torch_storage_bytes(s, &needed) || needed > s->size)
        return mh_source_fail(w->t->source, MH_ERROR_FORMAT, "was changed while it was read");
    mh_file_entry *entry = &file->entries[w->tensors];
    const size_t start = mh_tensor_count(tensor) ? offset * mh_dtype_size(tensor->dtype) : 0;
    *entry = (mh_file_entry){.name = file->text + w->text,
                             .bytes = s->bytes + start,
                             .size = mh_tensor_count(tensor) * mh_dtype_size(tensor->dtype),
                             .whole = s->bytes,
                             .whole_size = needed,
                             .tensor = *tensor};
    memcpy(file->text + w->text, w->name, length);
    file->text[w->text + length] = '\0';
    return MH_OK;
}

static mh_status add_tensor(walk *w, const mh_pickle_value *value, place at)
{
    mh_torch_storage *storage;
    mh_tensor tensor;
    size_t offset;
    mh_status status = MH_OK;
    if (at.problem)
        return mh_source_fail(w->t->source, MH_ERROR_FORMAT, "%s, below %s", at.problem,
                              mh_quote(w->name, at.length).text);
    w->name[at.length] = '\0';
    status = mh_torch_tensor(w->t, w->name, value, &storage, &offset, &tensor);
    if (!status && w->file)
        status = torch_tree_fill_entry(w, storage, offset, &tensor, at.length);
    if (status)
        return status;
    w->tensors++;
    w->text += at.length + 1;
    if (w->tensors > MH_TORCH_TENSORS_MAX)
        return mh_source_fail(w->t->source, MH_ERROR_FORMAT, "more than %d tensors",
                              MH_TORCH_TENSORS_MAX);
    if (w->text > NAME_BYTES_LEAST + NAME_BYTES_PER_BYTE * w->t->pickle_size)
        return mh_source_fail(w->t->source, MH_ERROR_FORMAT,
                              "the names of the tensors have more than %zu bytes, for a pickle of "
                              "%zu",
                              w->text, w->t->pickle_size);
    return MH_OK;
}

// ---- containers ---------------------------------------------------------------------------------

static mh_status torch_tree_step(walk *w)
{
    if (w->steps++ < STEPS_LEAST + STEPS_PER_NODE * w->t->pickle.node_count)
        return MH_OK;
    return mh_source_fail(w->t->source, MH_ERROR_FORMAT,
                          "the same containers occur in each other too many times");
}

static mh_status visit_dictionary(walk *w, const mh_pickle_value *value, place at)
{
    const mh_pickle_node *nodes = w->t->pickle.nodes;
    mh_status status = MH_OK;
    for (uint32_t i = mh_pickle_of(&w->t->pickle, value)->first; i && !status;) {
        const uint32_t item = nodes[i].next; // there is one for every key
        status = torch_tree_step(w);
        if (!status)
            status = visit(w, &nodes[item].value, below(w, at, &nodes[i].value));
        i = nodes[item].next;
    }
    return status;
}

static mh_status visit_pairs(walk *w, const mh_pickle_value *value, place at)
{
    const mh_pickle_node *nodes = w->t->pickle.nodes;
    mh_status status = MH_OK;
    for (uint32_t i = mh_pickle_of(&w->t->pickle, value)->first; i && !status; i = nodes[i].next) {
        mh_pickle_value pair[2];
        const mh_pickle_kind kind = nodes[i].value.kind;
        if ((kind != MH_PICKLE_LIST && kind != MH_PICKLE_TUPLE) ||
            mh_pickle_items(&w->t->pickle, &nodes[i].value, 2, pair) != 2)
            return mh_source_fail(w->t->source, MH_ERROR_FORMAT,
                                  "an OrderedDict has an item that is not a pair");
        status = torch_tree_step(w);
        if (!status)
            status = visit(w, &pair[1], below(w, at, &pair[0]));
    }
    return status;
}

static mh_status visit_list(walk *w, const mh_pickle_value *value, place at)
{
    const mh_pickle_node *nodes = w->t->pickle.nodes;
    mh_pickle_value index = {.kind = MH_PICKLE_INT};
    mh_status status = MH_OK;
    for (uint32_t i = mh_pickle_of(&w->t->pickle, value)->first; i && !status; i = nodes[i].next) {
        status = torch_tree_step(w);
        if (!status)
            status = visit(w, &nodes[i].value, below(w, at, &index));
        index.as.number++;
    }
    return status;
}

// Recursion is bounded by the nesting.
static mh_status visit(walk *w, const mh_pickle_value *value, place at)
{
    mh_torch_storage *storage;
    if (at.depth > MH_TORCH_NESTING_MAX)
        return mh_source_fail(w->t->source, MH_ERROR_FORMAT,
                              "containers are nested deeper than %d levels", MH_TORCH_NESTING_MAX);
    switch (value->kind) {
    case MH_PICKLE_TENSOR:
        return add_tensor(w, value, at);
    case MH_PICKLE_STORAGE: // no tensor, but a legacy file has its bytes
        w->name[at.length] = '\0';
        return mh_torch_use(w->t, w->name, value, &storage);
    case MH_PICKLE_DICT:
        return visit_dictionary(w, value, at);
    case MH_PICKLE_PAIRS:
        return visit_pairs(w, value, at);
    case MH_PICKLE_LIST:
    case MH_PICKLE_TUPLE:
        return visit_list(w, value, at);
    default:
        return MH_OK;
    }
}

// ---- the two passes -----------------------------------------------------------------------------

mh_status mh_torch_count(mh_torch *t, const mh_pickle_value *root)
{
    walk w = {.t = t};
    mh_status status = visit(&w, root, (place){0});
    t->tensors = w.tensors;
    t->text_size = w.text;
    if (status)
        return status;
    return w.tensors > 0
               ? MH_OK
               : mh_source_fail(t->source, MH_ERROR_FORMAT,
                                "is a PyTorch file without tensors: found %s, expected a state "
                                "dict",
                                mh_pickle_kind_name(root->kind));
}

mh_status mh_torch_fill(mh_torch *t, const mh_pickle_value *root, mh_tensor_file *file)
{
    walk w = {.t = t, .file = file};
    mh_status status =
        mh_tensor_file_reserve(t->source->context, file, t->tensors, 0, t->text_size);
    if (!status)
        status = visit(&w, root, (place){0});
    if (!status && (w.tensors != file->count || w.text != file->text_size))
        status = mh_source_fail(t->source, MH_ERROR_FORMAT, "was changed while it was read");
    return status;
}
