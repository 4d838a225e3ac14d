// SPDX-License-Identifier: MIT
// Our side of tests/peers/check_tokenizers.py and tests/peers/time_tokenizers.py. PATH is a
// tokenizer.json, a .spm or .model file, or a directory:
//
//     peer_tokenizers encode PATH single|pair|bare [MAX] <texts >encodings
//     peer_tokenizers decode PATH skip|keep <ids >texts
//     peer_tokenizers stream PATH skip|keep <ids >texts       decoded token by token
//     peer_tokenizers time PATH FILE SECONDS                  lines of FILE; prints MB per second
//
// A record is a 32-bit length and so many bytes of text, or so many 32-bit numbers. An encoding is
// one of 5 numbers per token: id, begin, end (in bytes), type, word. `bare` adds no special tokens.
#include "peer_records.h"

#include <sys/stat.h>
#include <time.h>

static mh_context *context;

static void check(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "peer_tokenizers: %s\n", mh_error_message(context));
    exit(1);
}

static bool ends_with(const char *path, const char *end)
{
    size_t size = strlen(path), length = strlen(end);
    return size >= length && strcmp(path + size - length, end) == 0;
}

static mh_tokenizer *load(const char *path)
{
    mh_tokenizer *tokenizer = NULL;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        check(mh_tokenizer_load_directory(context, path, &tokenizer));
    } else if (ends_with(path, ".spm") || ends_with(path, ".model")) {
        mh_text file = read_file(path);
        check(mh_tokenizer_parse_spm(context, path, file.bytes, file.size, &tokenizer));
        free((void *)(uintptr_t)file.bytes);
    } else {
        check(mh_tokenizer_load(context, path, &tokenizer));
    }
    return tokenizer;
}

static void write_encoding(const mh_encoding *e)
{
    int32_t *numbers = allocate(5 * e->count * sizeof *numbers);
    for (size_t i = 0; i < e->count; i++) {
        const int32_t five[5] = {e->ids[i], (int32_t)e->begins[i], (int32_t)e->ends[i], e->types[i],
                                 e->words[i]};
        memcpy(numbers + 5 * i, five, sizeof five);
    }
    write_record(numbers, sizeof *numbers, 5 * e->count);
    free(numbers);
}

static void encode(const mh_tokenizer *tokenizer, const char *how, size_t most)
{
    mh_encoding encoding = {0};
    mh_encode_options options = mh_encode_options_default();
    mh_text text, second;
    options.add_special_tokens = strcmp(how, "bare") != 0;
    options.max_length = most;
    bool pair = strcmp(how, "pair") == 0;
    for (char *bytes, *more = NULL; (bytes = read_record(1, &text.size)) != NULL; free(bytes)) {
        text.bytes = bytes;
        if (pair)
            second.bytes = more = read_record(1, &second.size);
        check(mh_tokenizer_encode_text(context, tokenizer, &options, text, pair ? &second : NULL,
                                       &encoding));
        write_encoding(&encoding);
        free(more);
        more = NULL;
    }
    mh_encoding_free(context, &encoding);
}

static void decode(const mh_tokenizer *tokenizer, bool skip, bool stream)
{
    mh_buffer text = {0}, part = {0};
    size_t count;
    for (int32_t *ids; (ids = read_record(sizeof *ids, &count)) != NULL; free(ids)) {
        mh_text_stream s = {0};
        char *all = NULL;
        size_t size = 0;
        if (!stream)
            check(mh_tokenizer_decode_text(context, tokenizer, skip, ids, count, &text));
        for (size_t i = 0; stream && i <= count; i++) {
            int32_t id = i < count ? ids[i] : -1;
            check(mh_text_stream_next(context, tokenizer, skip, id, &s, &part));
            all = realloc(all, size + part.size + 1);
            if (part.size > 0)
                memcpy(all + size, part.data, part.size);
            size += part.size;
        }
        write_record(stream ? all : text.data, 1, stream ? size : text.size);
        free(all);
        mh_text_stream_free(context, &s);
    }
    mh_buffer_free(context, &text);
    mh_buffer_free(context, &part);
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// The best of the passes over all lines that fit into the time.
static void measure(const mh_tokenizer *tokenizer, const char *path, double limit)
{
    mh_text all = read_file(path);
    mh_encoding encoding = {0};
    double best = 1e9, start = seconds();
    size_t tokens = 0;
    while (seconds() - start < limit) {
        double begin = seconds();
        tokens = 0;
        for (size_t at = 0, end; at < all.size; at = end + 1) {
            const char *newline = memchr(all.bytes + at, '\n', all.size - at);
            end = newline ? (size_t)(newline - all.bytes) : all.size;
            check(mh_tokenizer_encode_text(context, tokenizer, NULL,
                                           (mh_text){all.bytes + at, end - at}, NULL, &encoding));
            tokens += encoding.count;
        }
        double took = seconds() - begin;
        best = took < best ? took : best;
    }
    printf("%.3f %zu\n", (double)all.size / best / 1e6, tokens);
    mh_encoding_free(context, &encoding);
    free((void *)(uintptr_t)all.bytes);
}

int main(int argc, char **argv)
{
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    if (argc < 4 || mh_context_create(&options, &context, NULL, 0) != MH_OK) {
        fprintf(stderr, "usage: peer_tokenizers encode|decode|stream|time PATH ...\n");
        return 2;
    }
    mh_tokenizer *tokenizer = load(argv[2]);
    if (strcmp(argv[1], "encode") == 0)
        encode(tokenizer, argv[3], argc > 4 ? strtoul(argv[4], NULL, 10) : 0);
    else if (strcmp(argv[1], "time") == 0)
        measure(tokenizer, argv[3], argc > 4 ? strtod(argv[4], NULL) : 2);
    else
        decode(tokenizer, strcmp(argv[3], "skip") == 0, strcmp(argv[1], "stream") == 0);
    mh_tokenizer_free(tokenizer);
    mh_context_free(context);
    return fflush(stdout) != 0;
}
