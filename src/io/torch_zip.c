// SPDX-License-Identifier: MIT
// PyTorch checkpoints as torch.save writes them since version 1.6: a ZIP archive
//
//     NAME/data.pkl      the object: its tensors refer to storages by key
//     NAME/byteorder     "little" or "big"; absent before PyTorch 2.1
//     NAME/data/KEY      a storage
//     NAME/version ...   not used
//
// Stored members, which torch.save writes, are used in the mapping, and deflated ones inflated into
// one block, whose size is limited by deflate's maximum ratio. The CRC-32 is verified of inflated
// members only: of others it may be absent (torch.serialization.set_crc32_options), and verifying
// it would read all of a file that is only being mapped.
#include "base/compiler.h"
#include "io/torch.h"

#include <stdio.h>
#include <string.h>

#include "base/overflow.h"

#define PICKLE "data.pkl"

// ---- the members --------------------------------------------------------------------------------

// The members of interest; `prefix` is the beginning of every name: "NAME/".
typedef struct members {
    const char *prefix;
    size_t prefix_size;
    size_t pickles, storages;
    bool script; // torch.jit.save
    mh_zip_member pickle, byteorder;
} members;

static bool is_pickle(const mh_zip_member *m)
{
    const size_t size = sizeof PICKLE - 1;
    return m->name_size >= size && memcmp(m->name + m->name_size - size, PICKLE, size) == 0 &&
           (m->name_size == size || m->name[m->name_size - size - 1] == '/');
}

// Whether the member's name, after the prefix, begins with `begin`; *rest is what follows.
static bool has_name(const members *a, const mh_zip_member *m, const char *begin, size_t *rest)
{
    const size_t size = strlen(begin);
    if (m->name_size < a->prefix_size + size || memcmp(m->name, a->prefix, a->prefix_size) != 0 ||
        memcmp(m->name + a->prefix_size, begin, size) != 0)
        return false;
    *rest = m->name_size - a->prefix_size - size;
    return true;
}

static mh_status find_pickle(const mh_source *source, members *a)
{
    mh_zip zip;
    mh_zip_member m;
    mh_status status = mh_zip_open(source, &zip);
    while (!status && zip.left > 0) {
        status = mh_zip_next(&zip, &m);
        if (status || !is_pickle(&m))
            continue;
        a->pickles++;
        a->pickle = m;
        a->prefix = m.name;
        a->prefix_size = m.name_size - (sizeof PICKLE - 1);
    }
    return status;
}

mh_status mh_torch_zip_find(const mh_source *source, bool *found)
{
    members a = {0};
    mh_status status = find_pickle(source, &a);
    *found = a.pickles > 0;
    return status;
}

// Counts the storages, or, with `t`, reads them into t->storages.
static mh_status find_members(const mh_source *source, members *a, mh_torch *t)
{
    mh_zip zip;
    mh_zip_member m;
    size_t rest, storages = 0;
    mh_status status = mh_zip_open(source, &zip);
    while (!status && zip.left > 0) {
        status = mh_zip_next(&zip, &m);
        if (status)
            continue;
        a->script |= has_name(a, &m, "code/", &rest) || has_name(a, &m, "constants.pkl", &rest);
        if (has_name(a, &m, "byteorder", &rest) && rest == 0)
            a->byteorder = m;
        if (!has_name(a, &m, "data/", &rest))
            continue;
        if (t && storages == t->storage_count)
            return mh_source_fail(source, MH_ERROR_FORMAT, "was changed while it was read");
        if (t)
            t->storages[storages] = (mh_torch_storage){
                .key = m.name + m.name_size - rest, .key_size = rest, .member = m};
        storages++;
    }
    a->storages = storages;
    return status;
}

static mh_status check_members(const mh_source *source, const members *a)
{
    const mh_zip_member *order = &a->byteorder;
    if (a->pickles > 1)
        return mh_source_fail(source, MH_ERROR_FORMAT, "has %zu members " PICKLE ", expected one",
                              a->pickles);
    if (a->script)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "is a TorchScript archive (torch.jit.save), which holds a program "
                              "and is not read; in Python: "
                              "torch.save(torch.jit.load(FILE).state_dict(), \"weights.pt\")");
    if (order->name == NULL)
        return MH_OK;
    if (!order->deflated && order->size == 6 && memcmp(order->bytes, "little", 6) == 0)
        return MH_OK;
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "byteorder is %s, expected \"little\"; save the tensors with "
                          "safetensors.torch.save_file",
                          order->deflated ? "compressed"
                                          : mh_quote((const char *)order->bytes, order->size).text);
}

// ---- the pickle ---------------------------------------------------------------------------------

// The source of a member, for messages that name it. `label` is the memory of its name.
typedef struct member_label {
    char text[640];
} member_label;

static mh_source source_of(const mh_source *source, const mh_zip_member *m,
                           const unsigned char *bytes, member_label *label)
{
    const size_t length = strlen(source->name), shown = 400;
    const char *path = source->name + (length > shown ? length - shown : 0);
    snprintf(label->text, sizeof label->text, "%s: member %s", path,
             mh_quote(m->name, m->name_size).text);
    return (mh_source){source->context, label->text, bytes, m->size};
}

static mh_status inflate_checked(const mh_source *source, const mh_zip_member *m, unsigned char *to)
{
    member_label label;
    const mh_source inflated = source_of(source, m, to, &label);
    MH_TRY(mh_zip_inflate(&inflated, m, to));
    return mh_zip_check(&inflated, m->crc);
}

// The values refer to the pickle's bytes: *inflated, of m->size bytes, is freed after them.
static mh_status run_pickle(mh_torch *t, const mh_zip_member *m, unsigned char **inflated,
                            mh_pickle_value *root)
{
    const mh_source *source = t->source;
    const unsigned char *bytes = m->bytes;
    size_t used = 0;
    mh_status status = MH_OK;
    if (m->size > MH_HEADER_BYTES_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT, PICKLE " of %zu bytes, expected at most %zu",
                              m->size, MH_HEADER_BYTES_MAX);
    if (m->deflated) {
        bytes = *inflated = mh_alloc(source->context, m->size);
        status = bytes ? inflate_checked(source, m, *inflated) : MH_ERROR_MEMORY;
    }
    t->pickle_size = m->size;
    if (!status)
        status = mh_pickle_run(&t->pickle, bytes, m->size, root, &used);
    if (!status && used != m->size)
        status = mh_source_fail(source, MH_ERROR_FORMAT,
                                PICKLE ": the pickle ends at byte %zu, but has %zu bytes", used,
                                m->size);
    return status;
}

// ---- the storages -------------------------------------------------------------------------------

// Checks the sizes of those that are used, and adds the room for inflated ones.
static mh_status check_storages(const mh_torch *t, size_t *room)
{
    for (size_t i = 0; i < t->storage_count; i++) {
        const mh_torch_storage *s = &t->storages[i];
        size_t needed;
        if (!s->used)
            continue;
        if (!mh_torch_storage_bytes(s, &needed) || needed != s->member.size)
            return mh_source_fail(t->source, MH_ERROR_FORMAT,
                                  "storage %s: has %zu bytes, but its tensors expect %zu elements "
                                  "of %zu bytes",
                                  mh_quote(s->key, s->key_size).text, s->member.size, s->count,
                                  s->untyped ? 1 : mh_dtype_size(s->dtype));
        if (!mh_add_sizes(*room, mh_zip_room(&s->member), room))
            return mh_source_fail(t->source, MH_ERROR_FORMAT, "its storages do not fit in memory");
    }
    return MH_OK;
}

static mh_status torch_zip_locate_all(mh_torch *t, mh_tensor_file *file)
{
    size_t room = 0, at = 0;
    mh_status status = check_storages(t, &room);
    if (!status && room > 0) {
        file->inflated = mh_alloc(t->source->context, room);
        file->inflated_size = file->inflated ? room : 0;
        status = file->inflated ? MH_OK : MH_ERROR_MEMORY;
    }
    for (size_t i = 0; i < t->storage_count && !status; i++) {
        mh_torch_storage *s = &t->storages[i];
        if (!s->used)
            continue;
        s->size = s->member.size;
        s->bytes = s->member.deflated ? file->inflated + at : s->member.bytes;
        if (s->member.deflated)
            status = inflate_checked(t->source, &s->member, file->inflated + at);
        at += mh_zip_room(&s->member);
    }
    return status;
}

mh_status mh_torch_zip_read(const mh_source *source, mh_tensor_file *file)
{
    mh_torch t = {.source = source, .pickle = {.source = source, .label = PICKLE}};
    members a = {0};
    mh_pickle_value root;
    unsigned char *inflated = NULL;
    mh_status status = find_pickle(source, &a);
    if (!status)
        status = find_members(source, &a, NULL);
    if (!status)
        status = check_members(source, &a);
    if (!status)
        status = mh_torch_reserve(&t, a.storages);
    if (!status)
        status = find_members(source, &a, &t);
    if (!status && a.storages != t.storage_count)
        status = mh_source_fail(source, MH_ERROR_FORMAT, "was changed while it was read");
    if (!status)
        status = mh_torch_sort(&t);
    if (!status)
        status = run_pickle(&t, &a.pickle, &inflated, &root);
    if (!status)
        status = mh_torch_count(&t, &root);
    if (!status)
        status = torch_zip_locate_all(&t, file);
    if (!status)
        status = mh_torch_fill(&t, &root, file);
    mh_torch_free(&t);
    mh_free(source->context, inflated, a.pickle.size);
    return status;
}
