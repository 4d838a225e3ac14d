// SPDX-License-Identifier: MIT
// Fuzzes the reader of tokenizer.json: each input as it is, and once more inside a file that is
// right but for it: what is before the first newline among the tokens, what is behind it among the
// merges. What is accepted must encode a text and give it back,
// or, if it is not of our components, do no harm.
#include "fuzz_context.h"
#include "text_support.h"

#include <unistd.h>

enum { MEMORY_PER_BYTE = 256, MEMORY_FIXED = 1 << 23 }; // an added token may have id 65536

// One with other components than ours: no text comes back for sure, but ids exist.
static void use_other(const mh_tokenizer *tokenizer, mh_text text)
{
    mh_context *context = fuzz_context();
    mh_encoding e = {0};
    mh_buffer back = {0};
    mh_status status = mh_tokenizer_encode_text(context, tokenizer, NULL, text, &text, &e);
    if ((status != MH_OK && status != MH_ERROR_UNSUPPORTED) ||
        mh_tokenizer_decode_text(context, tokenizer, false, e.ids, e.count, &back) != MH_OK ||
        mh_utf8_valid(back.data, back.size) != back.size)
        abort();
    mh_encoding_free(context, &e);
    mh_buffer_free(context, &back);
}

static void use(const mh_tokenizer *tokenizer)
{
    static const char text[] = "the then th\xC3\xA9 </s> 12 abab";
    mh_context *context = fuzz_context();
    mh_tokens tokens = {0};
    mh_buffer back = {0};
    mh_status status = mh_tokenizer_encode(context, tokenizer, text, sizeof text, &tokens);
    if (status == MH_ERROR_UNSUPPORTED) {
        use_other(tokenizer, (mh_text){text, sizeof text});
        return;
    }
    if (status != MH_OK ||
        mh_tokenizer_decode(context, tokenizer, tokens.ids, tokens.count, &back) != MH_OK ||
        back.size != sizeof text || memcmp(back.data, text, sizeof text) != 0)
        abort();
    mh_tokens_free(context, &tokens);
    mh_buffer_free(context, &back);
}

static void parse(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    mh_tokenizer *tokenizer;
    size_t before = fuzz_memory.live;
    fuzz_memory.peak = before;
    mh_status status = mh_tokenizer_parse(context, "fuzz", bytes, size, &tokenizer);
    if (fuzz_memory.peak - before > MEMORY_FIXED + size * MEMORY_PER_BYTE)
        abort();
    if (status == MH_OK)
        use(tokenizer);
    else if (status != MH_ERROR_FORMAT || tokenizer || mh_error_message(context)[0] == '\0')
        abort();
    mh_tokenizer_free(tokenizer);
    if (fuzz_memory.live != before)
        abort();
}

// A file without merges, as mh_tokenizer_save writes it.
static blob good_file(void)
{
    char path[] = "/tmp/mh_fuzz_XXXXXX";
    mh_tokenizer *tokenizer;
    int fd = mkstemp(path);
    if (fd < 0 || mh_tokenizer_train(fuzz_context(), NULL, NULL, 0, &tokenizer) != MH_OK ||
        mh_tokenizer_save(fuzz_context(), tokenizer, path) != MH_OK)
        abort();
    blob b = blob_read(path);
    mh_tokenizer_free(tokenizer);
    close(fd);
    unlink(path);
    return b;
}

static size_t append(uint8_t *to, size_t at, const void *bytes, size_t size)
{
    if (size > 0)
        memcpy(to + at, bytes, size);
    return at + size;
}

static void parse_inside(const uint8_t *bytes, size_t size)
{
    static blob good;
    if (good.size == 0)
        good = good_file();
    static const char tokens_end[] = "\n    },\n    \"merges\": [";
    const uint8_t *place = memmem(good.bytes, good.size, tokens_end, sizeof tokens_end - 1);
    const uint8_t *newline = memchr(bytes, '\n', size);
    if (!place)
        abort();
    size_t tokens = newline ? (size_t)(newline - bytes) : size;
    size_t merges = newline ? size - tokens - 1 : 0, head = (size_t)(place - good.bytes);
    uint8_t *file = malloc(good.size + size + 1);
    if (!file)
        abort();
    size_t used = append(file, 0, good.bytes, head);
    if (tokens > 0)
        used = append(file, used, ",", 1);
    used = append(file, used, bytes, tokens);
    used = append(file, used, tokens_end, sizeof tokens_end - 1);
    used = append(file, used, bytes + size - merges, merges);
    used = append(file, used, place + sizeof tokens_end - 1,
                  good.size - head - (sizeof tokens_end - 1));
    parse(file, used);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    parse(bytes, size);
    if (size > 0)
        parse_inside(bytes, size);
    return 0;
}
