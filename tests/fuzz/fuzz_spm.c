// SPDX-License-Identifier: MIT
// Fuzzes the reader of SentencePiece's models, and of their normalisation rules: what is accepted
// must encode texts and decode what comes out; what is refused, with a message.
#include "fuzz_context.h"
#include "text_support.h"

enum { MEMORY_PER_BYTE = 256, MEMORY_FIXED = 1 << 18 };

static void use(const mh_tokenizer *tokenizer, const uint8_t *bytes, size_t size)
{
    static const mh_text text =
        TEXT("the  th\xC3\xA9 e\xCC\x81 \xE2\x96\x81 \r\n<s>\xF0\x9F\x98\x80");
    mh_context *context = fuzz_context();
    mh_encoding e = {0};
    mh_buffer own = {0}, back = {0};
    if (mh_utf8_repair(context, (const char *)bytes, size, &own) != MH_OK)
        abort();
    const mh_text pair = {own.data, own.size};
    mh_status status = mh_tokenizer_encode_text(context, tokenizer, NULL, text, &pair, &e);
    if ((status != MH_OK && status != MH_ERROR_UNSUPPORTED) ||
        mh_tokenizer_decode_text(context, tokenizer, false, e.ids, e.count, &back) != MH_OK ||
        mh_utf8_valid(back.data, back.size) != back.size)
        abort();
    for (size_t i = 0; i < e.count; i++)
        if (e.begins[i] > e.ends[i] || e.ends[i] > (e.sequences[i] ? pair.size : text.size))
            abort();
    mh_encoding_free(context, &e);
    mh_buffer_free(context, &own);
    mh_buffer_free(context, &back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    mh_tokenizer *tokenizer;
    size_t before = fuzz_memory.live;
    fuzz_memory.peak = before;
    mh_status status = mh_tokenizer_parse_spm(context, "fuzz", bytes, size, &tokenizer);
    if (fuzz_memory.peak - before > MEMORY_FIXED + size * MEMORY_PER_BYTE)
        abort();
    if (status == MH_OK)
        use(tokenizer, bytes, size);
    else if (status != MH_ERROR_FORMAT || tokenizer || mh_error_message(context)[0] == '\0')
        abort();
    mh_tokenizer_free(tokenizer);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
