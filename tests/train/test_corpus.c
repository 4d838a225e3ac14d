// SPDX-License-Identifier: MIT
// Corpora from files: TSV and parallel, plain and gzip, standard input; every bad line told once
// with its number and reason; damaged, unlike and empty files refused; nothing lost or leaked.
#include "support.h"

#include "io/line_reader.h"
#include "text_support.h"
#include "train/held_out.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static mh_context *context;
static scarce memory;
static char directory[] = "/tmp/mh_test_corpus_XXXXXX";
static char paths[2][64];

static int set_up(void **state)
{
    (void)state;
    mh_context_options options = scarce_options(&memory);
    if (mkdtemp(directory) == NULL || mh_context_create(&options, &context, NULL, 0) != MH_OK)
        return -1;
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%d", directory, i);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mh_context_free(context);
    unlink(paths[0]);
    unlink(paths[1]);
    return rmdir(directory) != 0 || memory.live != 0;
}

// ---- files --------------------------------------------------------------------------------------

static void write_file(int which, const void *bytes, size_t size)
{
    FILE *stream = fopen(paths[which], "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}

static void write_text(int which, const char *text) { write_file(which, text, strlen(text)); }

// One gzip member.
static blob gzip(const void *bytes, size_t size)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    blob out = blob_join("", 0, "", 0, deflateBound(&z, size));
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (unsigned)size;
    z.next_out = out.bytes;
    z.avail_out = (unsigned)out.size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.size -= z.avail_out;
    deflateEnd(&z);
    return out;
}

static blob joined(blob a, blob b) // frees both
{
    blob both = {malloc(a.size + b.size), a.size + b.size};
    assert_non_null(both.bytes);
    memcpy(both.bytes, a.bytes, a.size);
    memcpy(both.bytes + a.size, b.bytes, b.size);
    blob_free(&a);
    blob_free(&b);
    return both;
}

// ---- what was told ------------------------------------------------------------------------------

typedef struct told {
    size_t count;
    char text[2000]; // "line: why; line: why; "
    char file[64];
} told;

static void tell(void *user, const char *file, size_t line, const char *why)
{
    told *t = user;
    size_t used = strlen(t->text);
    t->count++;
    snprintf(t->text + used, sizeof t->text - used, "%zu: %s; ", line, why);
    snprintf(t->file, sizeof t->file, "%s", file);
}

static mh_status parse(const void *bytes, size_t size, told *t, mh_corpus *corpus)
{
    mh_corpus_files files = {.sources = "memory.tsv", .bad_line = t ? tell : NULL, .user = t};
    blob copy = blob_copy(bytes, size); // exactly so large, and gone afterwards
    mh_status status = mh_corpus_parse(context, &files, copy.bytes, copy.size, corpus);
    blob_free(&copy);
    return status;
}

static mh_status read_files(bool parallel, told *t, mh_corpus *corpus)
{
    mh_corpus_files files = {paths[0], parallel ? paths[1] : NULL, t ? tell : NULL, t, {NULL}};
    return mh_corpus_read(context, &files, corpus);
}

static void check_text(mh_text found, const char *expected)
{
    assert_int_equal(found.size, strlen(expected));
    assert_memory_equal(found.bytes, expected, found.size);
}

static void check_pair(const mh_corpus *c, size_t i, size_t line, const char *source,
                       const char *target)
{
    assert_true(i < c->count);
    assert_int_equal(c->lines[i], line);
    check_text(c->sources[i], source);
    check_text(c->targets[i], target);
}

// ---- good files ---------------------------------------------------------------------------------

static void test_tsv(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBFOui.\tYes.\r\n"
                               " \xC2\xA0 Où ?\xE2\x80\xAF\t Where? \tCC-BY 2.0 (\xFF)\tmore\n"
                               "a\0b\tc\n"
                               "last\tline";
    mh_corpus c;
    test_ok(context, parse(text, sizeof text - 1, NULL, &c));
    assert_int_equal(c.count, 4);
    assert_int_equal(c.bad_lines, 0);
    assert_string_equal(c.name, "memory.tsv");
    check_pair(&c, 0, 1, "Oui.", "Yes.");
    check_pair(&c, 1, 2, "Où ?", "Where?");
    assert_int_equal(c.sources[2].size, 3);
    assert_memory_equal(c.sources[2].bytes, "a\0b", 3);
    check_pair(&c, 3, 4, "last", "line");
    mh_corpus_free(context, &c);
    mh_corpus_free(context, &c);
}

// Longer than every buffer, so that lines lie across their borders; with and without gzip.
static void test_large(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    size_t capacity = COUNT * 40, used = 0;
    char *text = malloc(capacity), source[40];
    assert_non_null(text);
    for (size_t i = 0; i < COUNT; i++)
        used += (size_t)sprintf(text + used, "phrase %zu%.*s\tsentence %zu\n", i, (int)(i % 7),
                                "......", i);
    for (int way = 0; way < 3; way++) {
        blob packed = gzip(text, used / 2);
        packed = joined(packed, gzip(text + used / 2, used - used / 2)); // two members
        if (way == 0)
            write_file(0, text, used);
        else
            write_file(0, packed.bytes, packed.size);
        mh_corpus c;
        test_ok(context, way == 2 ? parse(packed.bytes, packed.size, NULL, &c)
                                  : read_files(false, NULL, &c));
        assert_int_equal(c.count, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            snprintf(source, sizeof source, "phrase %zu%.*s", i, (int)(i % 7), "......");
            check_text(c.sources[i], source);
            assert_int_equal(c.lines[i], i + 1);
        }
        mh_corpus_free(context, &c);
        blob_free(&packed);
    }
    free(text);
}

static void test_parallel(void **state)
{
    (void)state;
    told t = {0};
    mh_corpus c;
    write_text(0, "un\r\ndeux\n\ncol\tonne\nx\n");
    blob packed = gzip("one\ntwo\nthree\ncolumn\n\xFF\n", 23);
    write_file(1, packed.bytes, packed.size);
    blob_free(&packed);
    test_ok(context, read_files(true, &t, &c));
    assert_int_equal(c.count, 3);
    check_pair(&c, 0, 1, "un", "one");
    check_pair(&c, 2, 4, "col\tonne", "column"); // no columns here
    assert_int_equal(c.bad_lines, 2);
    assert_string_equal(t.text, "3: the source is empty; "
                                "5: the target's byte 0 (0xff) is not valid UTF-8; ");
    assert_string_equal(t.file, paths[1]);
    mh_corpus_free(context, &c);
}

// Standard input stays open for others.
static void test_standard_input(void **state)
{
    (void)state;
    int saved = dup(STDIN_FILENO), ends[2];
    told t = {0};
    mh_corpus c;
    mh_corpus_files files = {.sources = "-", .bad_line = tell, .user = &t};
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "a\tb\nc\nd\te\n", 10), 10);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    test_ok(context, mh_corpus_read(context, &files, &c));
    assert_int_equal(c.count, 2);
    assert_string_equal(c.name, "standard input");
    assert_string_equal(t.file, "standard input");
    mh_corpus_free(context, &c);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    files.targets = "-";
    test_refused(context, mh_corpus_read(context, &files, &c), MH_ERROR_ARGUMENT, "both");
    dup2(saved, STDIN_FILENO);
    close(saved);
}

// ---- bad lines ----------------------------------------------------------------------------------

static void test_bad_lines(void **state)
{
    (void)state;
    static const char text[] = "no tab here\n"
                               "\n"
                               "good\tline\n"
                               "\tno source\n"
                               "no target\t \xC2\xA0\n"
                               "no target\t\tthird\n"
                               "ab\xC3\tcut off\n"
                               "x\tsurrogate \xED\xA0\x80\n"
                               "x\t\xC0\x80 overlong";
    told t = {0};
    mh_corpus c;
    test_ok(context, parse(text, sizeof text - 1, &t, &c));
    assert_int_equal(c.count, 1);
    check_pair(&c, 0, 3, "good", "line");
    assert_int_equal(c.bad_lines, 8);
    assert_int_equal(t.count, 8);
    assert_string_equal(t.file, "memory.tsv");
    assert_string_equal(t.text, "1: no tab between source and target; "
                                "2: no tab between source and target; "
                                "4: the source is empty; "
                                "5: the target is empty; "
                                "6: the target is empty; "
                                "7: the source's byte 2 (0xc3) is not valid UTF-8; "
                                "8: the target's byte 10 (0xed) is not valid UTF-8; "
                                "9: the target's byte 0 (0xc0) is not valid UTF-8; ");
    mh_corpus_free(context, &c);
}

// Commas from the first line on are said once, and counted; a comma in a sentence is no CSV.
static void test_csv(void **state)
{
    (void)state;
    static const char csv[] = "un,one\ndeux;two\ntrois,three\n";
    static const char late[] = "un,one\nle chat\tthe cat\noui, merci\n";
    told t = {0};
    mh_corpus c;
    test_refused(context, parse(csv, sizeof csv - 1, &t, &c), MH_ERROR_FORMAT,
                 "no sentence pairs: 3 lines, 3 of them bad");
    assert_string_equal(t.text, "1: looks like CSV: expected a tab between source and target, on "
                                "every line; ");
    static const char quoted[] = "\"un\", \"one\"\n";
    t = (told){0};
    test_refused(context, parse(quoted, sizeof quoted - 1, &t, &c), MH_ERROR_FORMAT, "1 of them");
    assert_non_null(strstr(t.text, "looks like CSV"));
    static const char running[] = "It was late, and 1,000 people; all left.\nNobody came.\n";
    t = (told){0};
    test_refused(context, parse(running, sizeof running - 1, &t, &c), MH_ERROR_FORMAT,
                 "2 of them bad; of running text without tabs, --task lm makes a language model");
    assert_null(strstr(t.text, "CSV"));
    t = (told){0};
    test_ok(context, parse(late, sizeof late - 1, &t, &c));
    assert_int_equal(c.count, 1);
    assert_int_equal(c.bad_lines, 2);
    assert_int_equal(t.count, 2);
    mh_corpus_free(context, &c);
}

// Lines of n bytes around the limit, with either end and the mark before them.
static void check_length(size_t n, const char *mark, const char *end)
{
    char *text = malloc(n + 100);
    told t = {0};
    mh_corpus c;
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "%s", mark);
    memset(text + used, 'a', n);
    text[used + 1] = '\t';
    used += n;
    used += (size_t)sprintf(text + used, "%snext\tline\n", end);
    test_ok(context, parse(text, used, &t, &c));
    if (n <= MH_LINE_MAX) {
        assert_int_equal(c.count, 2);
        assert_int_equal(c.targets[0].size, n - 2);
    } else {
        assert_string_equal(t.text, "1: more than 65536 bytes; ");
        assert_int_equal(c.bad_lines, 1);
    }
    check_pair(&c, c.count - 1, 2, "next", "line");
    mh_corpus_free(context, &c);
    free(text);
}

static void test_long_lines(void **state)
{
    (void)state;
    static const size_t sizes[] = {MH_LINE_MAX - 1,     MH_LINE_MAX,         MH_LINE_MAX + 1,
                                   MH_LINE_MAX + 4,     MH_LINE_MAX + 5,     MH_LINE_MAX + 6,
                                   2 * MH_LINE_MAX - 1, 2 * MH_LINE_MAX,     2 * MH_LINE_MAX + 1,
                                   4 * MH_LINE_MAX - 1, 20 * MH_LINE_MAX + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_length(sizes[i], "", "\n");
        check_length(sizes[i], "", "\r\n");
        check_length(sizes[i], "\xEF\xBB\xBF", "\r\n");
    }
}

// Megabytes without an end are one bad line, and take no memory.
static void test_endless_line(void **state)
{
    (void)state;
    blob zeros = blob_join("", 0, "", 0, 64 << 20);
    memset(zeros.bytes, 0, zeros.size);
    mh_corpus c;
    told t = {0};
    size_t before = memory.live;
    memory.peak = before;
    test_refused(context, parse(zeros.bytes, zeros.size, &t, &c), MH_ERROR_FORMAT,
                 "memory.tsv: no sentence pairs: 1 line, 1 of them bad");
    assert_true(memory.peak - before < 1 << 20);
    assert_int_equal(t.count, 1);
    blob_free(&zeros);
}

// `pairs` times the same short pair: deflate makes a thousandth of it.
static blob repeated_pairs(size_t pairs)
{
    blob text = blob_join("", 0, "", 0, 4 * pairs);
    for (size_t i = 0; i < pairs; i++)
        memcpy(text.bytes + 4 * i, "a\tb\n", 4);
    blob packed = gzip(text.bytes, text.size);
    blob_free(&text);
    return packed;
}

// 39 KB that expand to 40 MB, and those to twenty times as much of corpus, are refused before they
// do, in one member or in several; as much as a megabyte may expand as it likes.
static void test_bomb(void **state)
{
    (void)state;
    mh_corpus c;
    told t = {0};
    for (int members = 1; members <= 2; members++) {
        blob packed = repeated_pairs(10000000 / (size_t)members);
        if (members == 2)
            packed = joined(packed, repeated_pairs(5000000));
        size_t before = memory.live;
        memory.peak = before;
        test_refused(context, parse(packed.bytes, packed.size, &t, &c), MH_ERROR_FORMAT,
                     "memory.tsv: the gzip data expands more than 100 times");
        assert_true(memory.peak - before < 32 << 20);
        assert_int_equal(memory.live, before);
        blob_free(&packed);
    }
    blob packed = repeated_pairs(1 << 18);
    test_ok(context, parse(packed.bytes, packed.size, &t, &c));
    assert_int_equal(c.count, 1 << 18);
    mh_corpus_free(context, &c);
    blob_free(&packed);
}

// ---- refused ------------------------------------------------------------------------------------

static void test_unlike_files(void **state)
{
    (void)state;
    mh_corpus c;
    char expected[2][200];
    write_text(0, "a\nb\nc\n");
    write_text(1, "a\nb\nc\nd\n\ne");
    snprintf(expected[0], sizeof *expected, "%s has 3 lines, %s 6:", paths[0], paths[1]);
    test_refused(context, read_files(true, NULL, &c), MH_ERROR_FORMAT, expected[0]);
    assert_int_equal(c.count, 0);
    write_text(1, "");
    snprintf(expected[1], sizeof *expected, "%s has 3 lines, %s 0:", paths[0], paths[1]);
    test_refused(context, read_files(true, NULL, &c), MH_ERROR_FORMAT, expected[1]);
}

static void test_nothing(void **state)
{
    (void)state;
    mh_corpus c;
    test_refused(context, parse("", 0, NULL, &c), MH_ERROR_FORMAT, "no sentence pairs: 0 lines");
    test_refused(context, parse("\xEF\xBB\xBF", 3, NULL, &c), MH_ERROR_FORMAT, "no sentence");
    test_refused(context, parse("x\n\ny\n", 5, NULL, &c), MH_ERROR_FORMAT, "3 of them bad");
    write_text(0, "");
    write_text(1, "");
    test_refused(context, read_files(true, NULL, &c), MH_ERROR_FORMAT, paths[0]);
    mh_corpus_files none = {0}, missing = {.sources = "/nonexistent/corpus.tsv"},
                    a_directory = {.sources = directory};
    test_refused(context, mh_corpus_read(context, &none, &c), MH_ERROR_ARGUMENT, "no file");
    test_refused(context, mh_corpus_read(context, &missing, &c), MH_ERROR_FILE,
                 "/nonexistent/corpus.tsv: cannot be opened: No such file");
    test_refused(context, mh_corpus_read(context, &a_directory, &c), MH_ERROR_FILE,
                 "Is a directory");
    missing = (mh_corpus_files){.sources = paths[0], .targets = "/nonexistent/corpus.tsv"};
    test_refused(context, mh_corpus_read(context, &missing, &c), MH_ERROR_FILE, "/nonexistent");
}

// A gzip file cut off at any byte, or with any byte changed, never gives other sentences. Some
// bits (time, operating system, the last byte's unused ones) mean nothing and may change.
static void test_damaged_gzip(void **state)
{
    (void)state;
    static const char text[] = "Je suis là.\tI am here.\nTu es là.\tYou are here.\n";
    blob packed = gzip(text, sizeof text - 1);
    mh_corpus c;
    size_t harmless = 0;
    for (size_t size = 0; size < packed.size; size++)
        test_refused(context, parse(packed.bytes, size, NULL, &c), MH_ERROR_FORMAT,
                     size < 2 ? "no sentence" : "truncated");
    for (size_t i = 0; i < packed.size; i++) {
        packed.bytes[i] ^= 0x10;
        mh_status status = parse(packed.bytes, packed.size, NULL, &c);
        if (status == MH_OK) {
            check_pair(&c, 0, 1, "Je suis là.", "I am here.");
            check_pair(&c, 1, 2, "Tu es là.", "You are here.");
        }
        assert_true(status == MH_OK || status == MH_ERROR_FORMAT);
        harmless += status == MH_OK;
        mh_corpus_free(context, &c);
        packed.bytes[i] ^= 0x10;
    }
    assert_true(harmless < 10);
    blob_free(&packed);
}

static void test_after_gzip(void **state)
{
    (void)state;
    mh_corpus c;
    blob zeros = blob_copy("\0\0\0\0\0", 5), rest = blob_copy("x\ty\n", 4);
    blob packed = joined(gzip("a\tb\n", 4), zeros);
    test_ok(context, parse(packed.bytes, packed.size, NULL, &c));
    assert_int_equal(c.count, 1);
    mh_corpus_free(context, &c);
    packed = joined(packed, rest);
    test_refused(context, parse(packed.bytes, packed.size, NULL, &c), MH_ERROR_FORMAT,
                 "found bytes after the gzip data");
    blob_free(&packed);
    packed = joined(gzip("", 0), gzip("a\tb", 3));
    test_ok(context, parse(packed.bytes, packed.size, NULL, &c));
    assert_int_equal(c.count, 1);
    mh_corpus_free(context, &c);
    blob_free(&packed);
}

// ---- faults -------------------------------------------------------------------------------------

static void test_no_memory(void **state)
{
    (void)state;
    char text[4000] = "";
    for (size_t i = 0; i < 200; i++)
        snprintf(text + strlen(text), 20, "zz %zu\n", i);
    blob packed = gzip(text, strlen(text));
    write_file(0, packed.bytes, packed.size);
    write_text(1, text);
    blob_free(&packed);
    for (int always = 0; always < 2; always++) {
        mh_status status = MH_ERROR_MEMORY;
        size_t before = memory.live, n;
        memory.always = always;
        for (n = 1; status; n++) {
            mh_corpus c;
            memory.calls = 0;
            memory.fail_at = n;
            status = read_files(true, NULL, &c);
            assert_true(status == MH_OK || status == MH_ERROR_MEMORY);
            assert_int_equal(c.count, status ? 0 : 200);
            mh_corpus_free(context, &c);
            assert_int_equal(memory.live, before);
            assert_true(n < 1000);
        }
        memory.fail_at = 0;
        assert_true(n > 10);
    }
    memory.always = false;
}

// A descriptor that cannot be read.
// What is held out leaves the arrays of the rest as large as they were: they are freed as such.
static void test_held_out(void **state)
{
    (void)state;
    const mh_holding how = {.seed = 1, .part = 0.2, .least = 10, .most = 100};
    test_memory counted = {0};
    mh_context_options options = mh_context_options_default();
    mh_context *own;
    mh_corpus corpus, held = {0};
    char line[32];
    options.threads = 1;
    options.allocator = test_allocator(&counted);
    assert_int_equal(mh_context_create(&options, &own, NULL, 0), MH_OK);
    test_ok(own, mh_corpus_begin(own, "numbers", &corpus));
    for (size_t i = 0; i < 200; i++) {
        const mh_text text = {line, (size_t)snprintf(line, sizeof line, "number %zu", i)};
        test_ok(own, mh_corpus_add(own, &corpus, text, text, i + 1));
    }
    test_ok(own, mh_corpus_end(own, &corpus));
    test_ok(own, mh_hold_out(own, &how, &corpus, &held));
    assert_in_range(held.count, 10, 100);
    assert_int_equal(corpus.count + held.count, 200);
    mh_corpus_free(own, &corpus);
    mh_corpus_free(own, &held);
    mh_context_free(own);
    assert_int_equal(counted.live, 0);
}

static void test_read_error(void **state)
{
    (void)state;
    mh_corpus c;
    mh_corpus_files files = {.sources = "/proc/self/mem"}; // address 0 is not mapped
    if (access(files.sources, R_OK) != 0)
        skip();
    test_refused(context, mh_corpus_read(context, &files, &c), MH_ERROR_FILE,
                 "/proc/self/mem: cannot be read");
}

// ---- real sizes ---------------------------------------------------------------------------------

static void test_tatoeba(void **state)
{
    (void)state;
    const char *data = getenv("MH_TEST_DATA");
    char path[1024];
    mh_corpus c;
    if (!data) {
        print_message("MH_TEST_DATA is not set: no sentence pairs to read\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/tatoeba-fra-eng/train.tsv", data);
    mh_corpus_files files = {.sources = path};
    test_ok(context, mh_corpus_read(context, &files, &c));
    assert_int_equal(c.count, 161312);
    assert_int_equal(c.bad_lines, 0);
    mh_corpus_free(context, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tsv),        cmocka_unit_test(test_large),
        cmocka_unit_test(test_parallel),   cmocka_unit_test(test_standard_input),
        cmocka_unit_test(test_bad_lines),  cmocka_unit_test(test_csv),
        cmocka_unit_test(test_long_lines), cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_bomb),       cmocka_unit_test(test_unlike_files),
        cmocka_unit_test(test_nothing),    cmocka_unit_test(test_damaged_gzip),
        cmocka_unit_test(test_after_gzip), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_read_error), cmocka_unit_test(test_tatoeba),
        cmocka_unit_test(test_held_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
