// SPDX-License-Identifier: MIT
// Fuzzes texts with the components of published tokenizers: the first byte chooses one of the
// golden files, the rest is the text, as it is and repaired. Offsets stay within the text and at
// characters' boundaries, text comes out valid, and token by token the same.
#include "fuzz_context.h"
#include "text_support.h"

#include <jansson.h>

enum { MOST = 256 };

static mh_tokenizer *tokenizers[MOST];
static size_t tokenizer_count;

static void load(void)
{
    json_t *entries = json_load_file(MH_GOLDENS "/tokenizers.json", 0, NULL), *entry;
    size_t i;
    json_array_foreach(entries, i, entry)
    {
        char *file = json_dumps(json_object_get(entry, "tokenizer"), JSON_COMPACT);
        if (!file || tokenizer_count == MOST ||
            mh_tokenizer_parse(fuzz_context(), "golden", file, strlen(file),
                               &tokenizers[tokenizer_count++]) != MH_OK)
            abort();
        free(file);
    }
    json_decref(entries);
    if (tokenizer_count == 0)
        abort();
}

static void check_offsets(const mh_encoding *e, mh_text text)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->begins[i] > e->ends[i] || e->ends[i] > text.size ||
            (e->begins[i] < text.size && (text.bytes[e->begins[i]] & 0xC0) == 0x80) ||
            (e->ends[i] < text.size && (text.bytes[e->ends[i]] & 0xC0) == 0x80))
            abort();
}

static void check_text(const mh_tokenizer *t, mh_text text)
{
    mh_context *context = fuzz_context();
    mh_encoding e = {0};
    mh_buffer back = {0}, part = {0};
    mh_text_stream stream = {0};
    mh_status status = mh_tokenizer_encode_text(context, t, NULL, text, NULL, &e);
    bool valid = mh_utf8_valid(text.bytes, text.size) == text.size;
    if ((status == MH_ERROR_FORMAT) == valid ||
        (status != MH_OK && status != MH_ERROR_FORMAT && status != MH_ERROR_UNSUPPORTED))
        abort();
    check_offsets(&e, text);
    if (mh_tokenizer_decode_text(context, t, true, e.ids, e.count, &back) != MH_OK ||
        mh_utf8_valid(back.data, back.size) != back.size)
        abort();
    for (size_t i = 0; i <= e.count; i++)
        if (mh_text_stream_next(context, t, true, i < e.count ? e.ids[i] : -1, &stream, &part) !=
                MH_OK ||
            mh_utf8_valid(part.data, part.size) != part.size)
            abort();
    mh_text_stream_free(context, &stream);
    mh_buffer_free(context, &back);
    mh_buffer_free(context, &part);
    mh_encoding_free(context, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_buffer repaired = {0};
    if (tokenizer_count == 0)
        load();
    if (size == 0)
        return 0;
    size_t before = fuzz_memory.live;
    const mh_tokenizer *t = tokenizers[bytes[0] % tokenizer_count];
    const char *text = (const char *)bytes + 1;
    check_text(t, (mh_text){text, size - 1});
    if (mh_utf8_repair(fuzz_context(), text, size - 1, &repaired) != MH_OK)
        abort();
    check_text(t, (mh_text){repaired.data, repaired.size});
    mh_buffer_free(fuzz_context(), &repaired);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
