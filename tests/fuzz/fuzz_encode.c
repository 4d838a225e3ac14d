// SPDX-License-Identifier: MIT
// Fuzzes what happens to text: each input is trained on, encoded, decoded, made plain, cut into
// sentences and scored, as it is and repaired. Valid text must come back in normal form, invalid
// text be refused.
#include "fuzz_context.h"
#include "text_support.h"

#include "text/plain_text.h"

static void round_trip(const mh_tokenizer *tokenizer, const char *text, size_t size)
{
    mh_context *context = fuzz_context();
    mh_tokens tokens = {0};
    mh_buffer normal = {0}, back = {0};
    if (mh_tokenizer_encode(context, tokenizer, text, size, &tokens) != MH_OK ||
        mh_text_nfc(context, text, size, &normal) != MH_OK ||
        mh_tokenizer_decode(context, tokenizer, tokens.ids, tokens.count, &back) != MH_OK ||
        back.size != normal.size ||
        (back.size > 0 && memcmp(back.data, normal.data, back.size) != 0) ||
        (tokens.count > 0 && tokens.ends[tokens.count - 1] != normal.size))
        abort();
    for (size_t i = 0; i < tokens.count; i++)
        if (tokens.ids[i] <= mh_tokenizer_eos(tokenizer))
            abort();
    mh_tokens_free(context, &tokens);
    mh_buffer_free(context, &normal);
    mh_buffer_free(context, &back);
}

// Valid, no longer, and once is enough.
static void make_plain(uint64_t foreign, const char *text, size_t size)
{
    mh_context *context = fuzz_context();
    mh_buffer once = {0}, twice = {0};
    if (mh_plain_text(context, foreign, text, size, &once) != MH_OK || once.size > size ||
        mh_plain_text(context, foreign, once.data, once.size, &twice) != MH_OK ||
        once.size != twice.size || memcmp(once.data, twice.data, once.size) != 0)
        abort();
    mh_buffer_free(context, &once);
    mh_buffer_free(context, &twice);
}

static void use(const char *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    mh_text text = {bytes, size};
    mh_tokenizer_options options = mh_tokenizer_options_default();
    mh_tokenizer *tokenizer;
    options.min_frequency = 1;
    options.merges = 50;
    if (mh_tokenizer_train(context, &options, &text, 1, &tokenizer) != MH_OK)
        abort();
    round_trip(tokenizer, bytes, size);
    make_plain(mh_plain_foreign(tokenizer), bytes, size);
    mh_tokenizer_free(tokenizer);
    for (size_t at = 0, length, most = 4 + size % 50; at < size; at += length) {
        length = mh_sentence_length(bytes + at, size - at, most);
        if (length == 0 || length > most || length > size - at ||
            mh_utf8_valid(bytes + at, length) != length)
            abort();
    }
}

// A text against itself and against a part of it: scores are in their range, and the best is best.
static void score(const char *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    mh_text whole = {bytes, size}, both[2] = {{bytes, mh_utf8_valid(bytes, size / 2)}, whole};
    mh_bleu_score bleu = mh_bleu_score_default();
    double chrf, best;
    if (mh_bleu(context, &whole, both, 1, 2, size % 2, &bleu) != MH_OK ||
        mh_chrf(context, &whole, both, 1, 1, 2, size % 2, &chrf) != MH_OK ||
        mh_chrf(context, &whole, both, 1, 2, 2, size % 2, &best) != MH_OK ||
        !(bleu.score >= 0 && bleu.score < 100.001) || !(chrf >= 0 && chrf <= best) ||
        !(best == 0 || best > 99.999))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    const char *text = (const char *)bytes;
    mh_buffer repaired = {0};
    size_t before = fuzz_memory.live;
    mh_status status = mh_text_nfc(context, text, size, &repaired);
    if ((status == MH_OK) != (mh_utf8_valid(text, size) == size) ||
        mh_utf8_repair(context, text, size, &repaired) != MH_OK)
        abort();
    use(repaired.data, repaired.size);
    score(repaired.data, repaired.size);
    mh_buffer_free(context, &repaired);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
