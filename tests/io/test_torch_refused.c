// SPDX-License-Identifier: MIT
// Pickles that are more than tensors, and files that lie about their sizes: all are rejected by the
// name of the opcode or global, in ZIP archives and in legacy files alike. Nothing here has an
// effect.
#include "parser_support.h"
#include "pickle_globals_refused.h"
#include "torch_support.h"

#define BYTES(text) text, sizeof text - 1

// ---- the two ways to pack a pickle --------------------------------------------------------------

static void refuse_zip(const char *pickle, size_t size, const char *word)
{
    test_parse_refused("x.pt", torch_zip(pickle, size, (torch_zip_options){.style = ZIP_64}), word);
}

static void refuse_legacy(const char *pickle, size_t size, const char *word)
{
    test_parse_refused("x.pt", torch_legacy(pickle, size, (torch_legacy_options){0}), word);
}

static void refuse_both(const char *pickle, size_t size, const char *word)
{
    refuse_zip(pickle, size, word);
    refuse_legacy(pickle, size, word);
}

// ---- globals ------------------------------------------------------------------------------------

static void test_globals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        const char *module = globals[i].module, *name = globals[i].name;
        const int sizes[] = {(int)strlen(module), (int)strlen(name)};
        char by_line[256], by_stack[256], word[256], shown[128];
        snprintf(shown, sizeof shown, "%s.%s", module, name);
        char *unprintable = strchr(shown, '\r');
        if (unprintable)
            strcpy(unprintable, "\\x0d");
        snprintf(word, sizeof word, "opcode GLOBAL: the global \"%s\" is rejected", shown);
        int size = snprintf(by_line, sizeof by_line, "%sc%s\n%s\nU\2id\x85R.", PROTO, module, name);
        refuse_both(by_line, (size_t)size, word);
        snprintf(word, sizeof word, "opcode STACK_GLOBAL: the global \"%s\" is rejected", shown);
        size = snprintf(by_stack, sizeof by_stack, "\x80\4U%c%sU%c%s\x93.", sizes[0], module,
                        sizes[1], name);
        if (sizes[0] && sizes[1]) // an empty length would end the string
            refuse_both(by_stack, (size_t)size, word);
    }
}

// ---- opcodes ------------------------------------------------------------------------------------

#define DICT_CLASS "ccollections\nOrderedDict\n"
#define REJECTED   ": is not needed for tensors and is rejected; nothing is executed"

static void test_opcodes(void **state)
{
    (void)state;
    static const struct {
        const char *pickle;
        size_t size;
        const char *word;
    } cases[] = {
        {BYTES(PROTO "(S'id'\nios\nsystem\n."), "opcode STRING" REJECTED},
        {BYTES(PROTO "(U\2idios\nsystem\n."), "opcode INST" REJECTED},
        {BYTES(PROTO "(" DICT_CLASS "o."), "opcode OBJ" REJECTED},
        {BYTES(PROTO DICT_CLASS ")\x81."), "opcode NEWOBJ" REJECTED},
        {BYTES(PROTO DICT_CLASS ")}\x92."), "opcode NEWOBJ_EX" REJECTED},
        {BYTES(PROTO "\x82\1."), "opcode EXT1" REJECTED},
        {BYTES(PROTO "\x83\1\0."), "opcode EXT2" REJECTED},
        {BYTES(PROTO "\x84\1\0\0\0."), "opcode EXT4" REJECTED},
        {BYTES(PROTO "N0N."), "opcode POP" REJECTED},
        {BYTES(PROTO "(N1N."), "opcode POP_MARK" REJECTED},
        {BYTES(PROTO "](N2222e."), "opcode DUP" REJECTED},
        {BYTES(PROTO "Pid\n."), "opcode PERSID" REJECTED},
        {BYTES(PROTO "\x8b\xff\xff\xff\x7f."), "opcode LONG4" REJECTED},
        {BYTES(PROTO "L1L\n."), "opcode LONG" REJECTED},
        {BYTES(PROTO "F1.0\n."), "opcode FLOAT" REJECTED},
        {BYTES(PROTO "Vid\n."), "opcode UNICODE" REJECTED},
        {BYTES(PROTO "Ng0\n."), "opcode GET" REJECTED},
        {BYTES(PROTO "Np0\n."), "opcode PUT" REJECTED},
        {BYTES(PROTO "(l."), "opcode LIST" REJECTED},
        {BYTES(PROTO "(d."), "opcode DICT" REJECTED},
        {BYTES(PROTO "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "opcode BINUNICODE8" REJECTED},
        {BYTES(PROTO "\x8e\xff\xff\xff\xff\xff\xff\xff\xff."), "opcode BINBYTES8" REJECTED},
        {BYTES(PROTO "\x96\xff\xff\xff\xff\xff\xff\xff\xff."), "opcode BYTEARRAY8" REJECTED},
        {BYTES(PROTO "\x97."), "opcode NEXT_BUFFER" REJECTED},
        {BYTES(PROTO "N\x98."), "opcode READONLY_BUFFER" REJECTED},
        {BYTES(PROTO "\x8f."), "opcode EMPTY_SET" REJECTED},
        {BYTES(PROTO "(N\x91."), "opcode FROZENSET" REJECTED},
        {BYTES(PROTO "(N\x90."), "opcode ADDITEMS" REJECTED},
        {BYTES(PROTO "\xff."), "opcode 0xff: there is no such opcode"},
        // the protocol and the frame
        {BYTES("\x80\6N."), "opcode PROTO: protocol 6, expected 2 to 5"},
        {BYTES("\x80\1N."), "protocol 1, expected 2 to 5"},
        {BYTES("N."), "opcode NONE: expected PROTO first"},
        {BYTES(PROTO PROTO "N."), "opcode PROTO: found it after the beginning"},
        {BYTES("\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\x7fN."),
         "opcode FRAME: frame of 9223372036"},
        // calls of what is no function
        {BYTES(PROTO "U\2id)R."), "REDUCE: found a call of text with a tuple, expected a global"},
        {BYTES(PROTO DICT_CLASS "]R."), "REDUCE: found a call of a global with a list"},
        {BYTES(PROTO FLOATS ")R."), "found a call of torch.FloatStorage, which is rejected"},
        {BYTES(PROTO "ctorch\nfloat32\n)R."), "found a call of torch.float32, which is rejected"},
        {BYTES(PROTO DICT_CLASS "N\x85R."), "found other arguments of collections.OrderedDict"},
        {BYTES(PROTO "ctorch\nSize\n)R."), "found other arguments of torch.Size than torch.save"},
        {BYTES(PROTO "ctorch._utils\n_rebuild_parameter\nN\x85R."),
         "found other arguments of torch"},
        // states
        {BYTES(PROTO TENSOR "}b."), "BUILD: found a state for a tensor, expected one for a dict"},
        {BYTES(PROTO DICT_CLASS "}b."), "BUILD: found a state for a global"},
        {BYTES(PROTO "}}U\14__setstate__" DICT_CLASS "sb."), "that is not {\"_metadata\": ...}"},
        {BYTES(PROTO "}}U\11__class__" DICT_CLASS "sb."), "that is not {\"_metadata\": ...}"},
        {BYTES(PROTO "}N}\x86"
                     "b."),
         "that is not {\"_metadata\": ...}"},
        {BYTES(PROTO "}b."), "BUILD: found a state for nothing"},
        // persistent ids
        {BYTES(PROTO "U\2idQ."), "BINPERSID: found a persistent id that is not (\"storage\""},
        {BYTES(PROTO ")Q."), "found a persistent id that is not"},
        {BYTES(PROTO "(U\6module" DICT_CLASS "U\1aU\1bU\1ctQ."),
         "found a persistent id that is not"},
        {BYTES(PROTO STORAGE_OF(DICT_CLASS, TEXT1("0"), "K\6") "."), "a persistent id that is not"},
        {BYTES(PROTO STORAGE_OF(FLOATS, TEXT1("0"), "K\6)") "."), "a part of another one"},
        // the stack and the memo
        {BYTES(PROTO "."), "STOP: found 0 values on the stack, expected one"},
        {BYTES(PROTO "NN."), "STOP: found 2 values on the stack, expected one"},
        {BYTES(PROTO "(."), "STOP: found a mark on the stack"},
        {BYTES(PROTO "t."), "TUPLE: found no mark on the stack"},
        {BYTES(PROTO "N\x86."), "TUPLE2: found 1 values on the stack, expected 2"},
        {BYTES(PROTO "(N\x86."), "TUPLE2: found a mark on the stack, expected 2 values"},
        {BYTES(PROTO "NNa."), "APPEND: found None on the stack, expected a list"},
        {BYTES(PROTO "a."), "APPEND: the stack is empty"},
        {BYTES(PROTO "Na."), "APPEND: found nothing on the stack, expected a list"},
        {BYTES(PROTO "](a."), "APPEND: found a mark on the stack, expected a value"},
        {BYTES(PROTO "(Ne."), "APPENDS: found nothing on the stack, expected a list"},
        {BYTES(PROTO "](Nu."), "SETITEMS: found a list on the stack, expected a dictionary"},
        {BYTES(PROTO "}(Nu."), "SETITEMS: found a key without a value"},
        {BYTES(PROTO "R."), "REDUCE: the stack is empty"},
        {BYTES(PROTO "b."), "BUILD: the stack is empty"},
        {BYTES(PROTO "NN\x93."), "STACK_GLOBAL: found None and None, expected two names"},
        {BYTES(PROTO "h\5."), "BINGET: memo index 5 was never set"},
        {BYTES(PROTO "Nq\5h\4."), "BINGET: memo index 4 was never set"},
        {BYTES(PROTO "Nr\xff\xff\xff\x7f."), "LONG_BINPUT: memo index 2147483647 after 8 bytes"},
        {BYTES(PROTO "q\0."), "BINPUT: found nothing to remember on the stack"},
        {BYTES(PROTO "(q\0."), "BINPUT: found nothing to remember on the stack"},
        // lengths
        {BYTES(PROTO "X\xff\xff\xff\xff."), "BINUNICODE: needs 4294967295 bytes, but only"},
        {BYTES(PROTO "B\xff\xff\xff\x7f."), "BINBYTES: needs 2147483647 bytes, but only"},
        {BYTES(PROTO "Ia\n."), "INT: expected a line of up to 18 decimal digits"},
        {BYTES(PROTO "I1234567890123456789\n."), "INT: expected a line of up to 18 decimal digits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_both(cases[i].pickle, cases[i].size, cases[i].word);
    refuse_zip(BYTES(PROTO "N"), "data.pkl: the pickle ends at byte 3 without STOP");
    refuse_zip(BYTES(PROTO "\x8a\xff\1."), "LONG1: needs 255 bytes, but only 2 follow");
    refuse_zip(BYTES(PROTO "cos"), "GLOBAL: expected a name of at most 256 bytes and a newline");
    refuse_zip(BYTES(STATE(TENSOR) "N."), "the pickle ends at byte");
}

// ---- tensors ------------------------------------------------------------------------------------

#define T(offset, shape, strides) STATE(TENSOR_OF(STORAGE, offset, shape, strides))
#define MINUS                     "J\xff\xff\xff\xff"
#define HUGE                      "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f" // 2^63 - 1
#define LONGER                    "\x8a\x9\xff\xff\xff\xff\xff\xff\xff\xff\0"
#define USE(class, key, count)    STATE(TENSOR_OF(STORAGE_OF(class, key, count), "K\0", "K\2", "K\1"))

static void test_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *pickle;
        size_t size;
        const char *word;
    } cases[] = {
        {BYTES(T("K\0", MINUS, "K\1")), "tensor \"w\": its shape has a negative number, expected"},
        {BYTES(T("K\0", "K\2", MINUS)), "tensor \"w\": its strides has a negative number"},
        {BYTES(T(MINUS, "K\2", "K\1")), "found other arguments than (storage, offset"},
        {BYTES(T("N", "K\2", "K\1")), "found other arguments than (storage, offset"},
        {BYTES(T("K\0", "N", "K\1")), "its shape has None, expected integers"},
        {BYTES(T("K\0", LONGER, "K\1")), "its shape has a long integer, expected integers"},
        {BYTES(T("K\0", "K\7", "K\1")),
         "f32 (7) from element 0 on does not lie in its storage of 6"},
        {BYTES(T("K\1", "K\6", "K\1")), "f32 (6) from element 1 on does not lie in its storage"},
        {BYTES(T(HUGE, "K\6", "K\1")), "from element 9223372036854775807 on does not lie"},
        {BYTES(T("K\7", "K\0", "K\1")), "from element 7 on does not lie in its storage"},
        {BYTES(T("K\0", "K\2K\3", "K\4K\1")), "f32 (2, 3) from element 0 on does not lie"},
        {BYTES(T("K\0", "K\2", HUGE)), "f32 (2) from element 0 on does not lie in its storage"},
        {BYTES(T("K\0", "K\3K\3K\3", HUGE HUGE HUGE)), "from element 0 on does not lie"},
        {BYTES(T("K\0", HUGE, "K\1")), "the shape's product overflows"},
        {BYTES(T("K\0", "K\0" HUGE HUGE, "K\0K\0K\0")), "the shape's product overflows"},
        {BYTES(T("K\0", "K\7", "K\0")), "f32 (7) has more elements than its storage, which has 6"},
        {BYTES(T("K\0", "M\xff\xffM\xff\xff", "K\0K\0")), "has more elements than its storage"},
        {BYTES(T("K\0", "K\2K\3", "K\1")), "another number of strides than dimensions"},
        {BYTES(T("K\0", "K\1K\1K\1K\1K\1K\1K\1K\1K\1", "")),
         "has 9 dimensions, expected at most 8"},
        {BYTES(STATE(REBUILD "(N"
                             "K\0)))tR")),
         "found other arguments than (storage"},
        {BYTES(STATE(REBUILD ")R")), "found other arguments than (storage, offset, shape"},
        {BYTES(STATE(REBUILD "(" STORAGE "K\0NN\x89)tR")), "its shape and strides are not tuples"},
        // storages
        {BYTES(USE(FLOATS, TEXT1("1"), "K\6")),
         "tensor \"w\": its storage \"1\" is not in the file"},
        {BYTES(USE(FLOATS, TEXT1("0"), MINUS)), "its storage has -1 elements, expected what fits"},
        {BYTES(USE("ctorch\nUntypedStorage\n", TEXT1("0"), "K\x18")), "its storage has no dtype"},
        {BYTES(PROTO "](" TENSOR TENSOR_OF(STORAGE_OF("ctorch\nIntStorage\n", TEXT1("0"), "K\6"),
                                           "K\0", "K\2", "K\1") "e."),
         "tensor \"1\": its storage \"0\" is 6 elements of torch.IntStorage here, and something"},
        // names
        {BYTES(PROTO "}U\3a\0b" TENSOR "s."), "a tensor has a name that is not UTF-8, below \"\""},
        {BYTES(PROTO "}U\2\xc0\x80" TENSOR "s."), "a tensor has a name that is not UTF-8"},
        {BYTES(PROTO "}U\3\xed\xa0\x80" TENSOR "s."), "a tensor has a name that is not UTF-8"},
        {BYTES(PROTO "}U\1\xc3" TENSOR "s."), "a tensor has a name that is not UTF-8"},
        {BYTES(PROTO "}U\1a}N" TENSOR "ss."), "neither text nor an integer, below \"a\""},
        {BYTES(PROTO "}(U\1a}U\1b" TENSOR "sU\3a.b" TENSOR "u."), "two tensors are called \"a.b\""},
        {BYTES(PROTO "}(U\1a" TENSOR "U\1a" TENSOR "u."), "two tensors are called \"a\""},
        {BYTES(PROTO "N."), "is a PyTorch file without tensors: found None, expected a state dict"},
        {BYTES(PROTO DICT_CLASS "]Na\x85R."), "an OrderedDict has an item that is not a pair"},
        {BYTES(PROTO "}q\0U\1ah\0s."), "containers are nested deeper than 64 levels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_both(cases[i].pickle, cases[i].size, cases[i].word);
    refuse_zip(BYTES(USE(FLOATS, TEXT1("0"), "K\7")),
               "storage \"0\": has 24 bytes, but its tensors "
               "expect 7 elements of 4 bytes");
    refuse_zip(BYTES(USE(FLOATS, TEXT1("0"), HUGE)), "expect 9223372036854775807 elements of 4");
    refuse_zip(BYTES(USE("ctorch\nDoubleStorage\n", TEXT1("0"), "K\6")), "6 elements of 8 bytes");
    refuse_legacy(BYTES(USE(FLOATS, TEXT1("0"), "K\7")),
                  "found 6 elements, but its tensors expect 7");
    refuse_legacy(BYTES(USE("ctorch\nDoubleStorage\n", TEXT1("0"), "K\6")), "do not fit in the 24");
}

// ---- sizes that grow ----------------------------------------------------------------------------

static void repeat(blob *b, const char *piece, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++)
        zip_put(b, piece, size);
}

// As refuse_zip, without a limit of memory besides that of the file's size.
static void refuse_large(blob pickle, const char *word)
{
    mh_tensor_file *file;
    blob b = torch_zip(pickle.bytes, pickle.size, (torch_zip_options){.style = ZIP_PLAIN});
    const size_t before = memory.live;
    memory.peak = before;
    test_refused(context, mh_tensor_file_parse(context, "x.pt", b.bytes, b.size, &file),
                 MH_ERROR_FORMAT, word);
    assert_true(memory.peak - before < 65536 + 128 * b.size);
    blob_free(&b);
    blob_free(&pickle);
}

// Dictionaries of the same two items, 40 deep: a million millions of names.
static void test_bombs(void **state)
{
    (void)state;
    blob laughs = {0}, stack = {0}, nested = {0}, name = {0};
    zip_put(&laughs, BYTES(PROTO "(" TENSOR "q\0"));
    for (unsigned char i = 0; i < 40; i++) {
        const unsigned char up = (unsigned char)(i + 1);
        const unsigned char level[] = {'}', '(', 'U', 1, 'a', 'h', i, 'U',
                                       1,   'b', 'h', i, 'u', 'q', up};
        zip_put(&laughs, level, sizeof level);
    }
    zip_put(&laughs, "t.", 2); // all of them, since each is on the stack
    refuse_large(laughs, "the same containers occur in each other too many times");

    zip_put(&stack, BYTES(PROTO));
    repeat(&stack, "NNNNNNNNNNNNNNNN", 16, 70000);
    refuse_large(stack, "the stack has more than 1048576 values");

    zip_put(&nested, BYTES(PROTO));
    repeat(&nested, "]", 1, 100);
    repeat(&nested, "a", 1, 99);
    zip_put(&nested, ".", 1);
    refuse_large(nested, "containers are nested deeper than 64 levels");

    zip_put(&name, BYTES(PROTO "}X\1\20\0\0"));
    repeat(&name, "n", 1, 4097);
    zip_put(&name, BYTES(TENSOR "s."));
    refuse_large(name, "a tensor has a name of more than 4096 bytes");
}

// ---- archives -----------------------------------------------------------------------------------

static void test_archives(void **state)
{
    (void)state;
    const blob text = {(unsigned char *)"abcd", 4};
    const zip_entry pickle = {"n/data.pkl", text, false}, datum = {"m/data/0", text, false};
    const zip_entry script = {"m/constants.pkl", text, false}, code = {"m/code/a.py", text, false};
#define REFUSE_ZIP(word, ...)                                                                      \
    test_parse_refused("x.pt", torch_zip(BYTES(STATE(TENSOR)), (torch_zip_options){__VA_ARGS__}),  \
                       word)
    REFUSE_ZIP("has 2 members data.pkl, expected one", .more = &pickle, .more_count = 1);
    REFUSE_ZIP("two storages have the key \"0\"", .more = &datum, .more_count = 1);
    REFUSE_ZIP("is a TorchScript archive", .more = &script, .more_count = 1);
    REFUSE_ZIP("is a TorchScript archive", .more = &code, .more_count = 1);
    REFUSE_ZIP("byteorder is \"big\", expected \"little\"", .byteorder = "big");
    REFUSE_ZIP("byteorder is \"\", expected \"little\"", .byteorder = "");
    REFUSE_ZIP("its storage \"0\" is not in the file", .no_datum = "m/datum/0");
    REFUSE_ZIP("its storage \"0\" is not in the file", .name = "data.pkl");
    REFUSE_ZIP("storage \"0\": has 23 bytes", .storage = 23);
    REFUSE_ZIP("storage \"0\": has 25 bytes", .storage = 25, .deflated = true);
    REFUSE_ZIP("is a ZIP archive without arrays", .name = "m/data.pickle");
}

static void test_legacy_parts(void **state)
{
    (void)state;
#define PART(text) {(unsigned char *)(uintptr_t)(text), sizeof text - 1}
#define REFUSE_LEGACY(part, text, word)                                                            \
    test_parse_refused(                                                                            \
        "x.pt", torch_legacy(BYTES(STATE(TENSOR)), (torch_legacy_options){.part = PART(text)}),    \
        word)
    REFUSE_LEGACY(version, PROTO "M\xe8\3.",
                  "pickle 2: found an integer, expected the version 1001");
    REFUSE_LEGACY(version, PROTO "N.", "pickle 2: found None, expected the version 1001");
    REFUSE_LEGACY(system, PROTO "N.",
                  "pickle 3: found None, expected a dictionary with little_end");
    REFUSE_LEGACY(system, PROTO "}.", "pickle 3: found a dictionary, expected a dictionary with");
    REFUSE_LEGACY(system, PROTO "}X\15\0\0\0little_endian\x89s.", "from a big-endian machine");
    REFUSE_LEGACY(system, PROTO "cos\nsystem\n.", "pickle 3, byte 2, opcode GLOBAL: the global");
    REFUSE_LEGACY(keys, PROTO "N.", "pickle 5: found None, expected the list of the storages'");
    REFUSE_LEGACY(keys, PROTO "]Na.", "pickle 5: found None among the storages' keys");
    REFUSE_LEGACY(keys, PROTO "].", "its storage \"0\" is not in the file");
    REFUSE_LEGACY(keys, PROTO "](U\0010U\0010e.", "two storages have the key \"0\"");
    REFUSE_LEGACY(keys, PROTO "](U\0010U\0011e.", "storage \"1\": no tensor uses it");
    REFUSE_LEGACY(keys, PROTO "cos\nsystem\n.", "pickle 5, byte 2, opcode GLOBAL: the global");
    REFUSE_LEGACY(tail, "\6\0\0\0", "storage \"0\": the file ends before it");
    REFUSE_LEGACY(tail, "\6\0\0\0\0\0\0\0abcd", "6 elements do not fit in the 4 bytes left");
    REFUSE_LEGACY(tail, "\377\377\377\377\377\377\377\377abcd", "found 18446744073709551615 elem");
    REFUSE_LEGACY(tail, "\6\0\0\0\0\0\0\0abcdefghijklmnopqrstuvwxy", "but the file has");
}

static void test_tar(void **state)
{
    (void)state;
    blob b = blob_join("sys_info", 8, "", 0, 600);
    memset(b.bytes + 8, 0, 600);
    memcpy(b.bytes + 257, "ustar", 5);
    test_parse_refused("x.tar", b, "is a tar archive");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_globals),  cmocka_unit_test(test_opcodes),
        cmocka_unit_test(test_tensors),  cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_archives), cmocka_unit_test(test_legacy_parts),
        cmocka_unit_test(test_tar),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
