// SPDX-License-Identifier: MIT
// Our side of tests/peers/check_tokenizer.py:
//
//     peer_text train CORPUS.tsv MERGES TOKENIZER.json     prints the seconds it took
//     peer_text encode TOKENIZER.json <texts >ids          both as records, below
//     peer_text decode TOKENIZER.json <ids >texts          repaired to valid UTF-8
//
// A record is a 32-bit length and so many bytes of text, or so many 32-bit ids; any text can be
// one.
#include "peer_records.h"

#include <time.h>

static mh_context *context;

static void check(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "peer_text: %s\n", mh_error_message(context));
    exit(1);
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Every field between tabs and newlines is a text.
static void train(const char *corpus, const char *merges, const char *path)
{
    mh_text all = read_file(corpus);
    mh_text *texts = allocate((all.size + 1) * sizeof *texts);
    mh_tokenizer_options options = mh_tokenizer_options_default();
    mh_tokenizer *tokenizer;
    size_t count = 0;
    for (size_t begin = 0, end; begin < all.size; begin = end + 1) {
        for (end = begin; end < all.size && all.bytes[end] != '\t' && all.bytes[end] != '\n'; end++)
            ;
        texts[count++] = (mh_text){all.bytes + begin, end - begin};
    }
    options.merges = (size_t)strtoul(merges, NULL, 10);
    double start = seconds();
    check(mh_tokenizer_train(context, &options, texts, count, &tokenizer));
    printf("%.3f\n", seconds() - start);
    check(mh_tokenizer_save(context, tokenizer, path));
    mh_tokenizer_free(tokenizer);
    free(texts);
    free((void *)(uintptr_t)all.bytes);
}

static void encode(const mh_tokenizer *tokenizer)
{
    mh_tokens tokens = {0};
    size_t size;
    for (char *text; (text = read_record(1, &size)) != NULL; free(text)) {
        check(mh_tokenizer_encode(context, tokenizer, text, size, &tokens));
        write_record(tokens.ids, sizeof *tokens.ids, tokens.count);
    }
    mh_tokens_free(context, &tokens);
}

static void decode(const mh_tokenizer *tokenizer)
{
    mh_buffer bytes = {0}, text = {0};
    size_t count;
    for (int32_t *ids; (ids = read_record(sizeof *ids, &count)) != NULL; free(ids)) {
        check(mh_tokenizer_decode(context, tokenizer, ids, count, &bytes));
        check(mh_utf8_repair(context, bytes.data, bytes.size, &text));
        write_record(text.data, 1, text.size);
    }
    mh_buffer_free(context, &bytes);
    mh_buffer_free(context, &text);
}

int main(int argc, char **argv)
{
    mh_tokenizer *tokenizer = NULL;
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return 1;
    if (argc == 5 && strcmp(argv[1], "train") == 0) {
        train(argv[2], argv[3], argv[4]);
    } else if (argc == 3) {
        check(mh_tokenizer_load(context, argv[2], &tokenizer));
        if (strcmp(argv[1], "encode") == 0)
            encode(tokenizer);
        else
            decode(tokenizer);
    } else {
        fprintf(stderr, "usage: peer_text train|encode|decode ...\n");
        return 2;
    }
    mh_tokenizer_free(tokenizer);
    mh_context_free(context);
    return fflush(stdout) != 0;
}
