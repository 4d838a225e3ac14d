// SPDX-License-Identifier: MIT
// The opcodes of Python's pickle, protocols 0 to 5: all by name, and those that state dicts need
// with what they do. Of protocols 0 and 1 only INT is among them, which Python 2 writes in protocol
// 2 for integers of more than 32 bits.
#include "base/compiler.h"
#include "io/pickle.h"

#include <string.h>

#include "support/grow.h"

// ---- arguments ----------------------------------------------------------------------------------

static mh_status pickle_opcodes_take(mh_pickle *p, uint64_t size, const unsigned char **bytes)
{
    if (size > p->end - p->at)
        return mh_pickle_fail(p, "needs %llu bytes, but only %zu follow", (unsigned long long)size,
                              p->end - p->at);
    *bytes = p->bytes + p->at;
    p->at += (size_t)size;
    return MH_OK;
}

// `size` bytes, little-endian, not sign-extended.
static mh_status pickle_opcodes_take_number(mh_pickle *p, int size, uint64_t *number)
{
    const unsigned char *b = NULL;
    mh_status status = pickle_opcodes_take(p, (uint64_t)size, &b);
    *number = 0;
    for (int i = 0; !status && i < size; i++)
        *number |= (uint64_t)b[i] << (8 * i);
    return status;
}

static mh_status push_int(mh_pickle *p, int64_t number)
{
    return mh_pickle_push(p, (mh_pickle_value){.kind = MH_PICKLE_INT, .as = {.number = number}});
}

// ---- the frame of a pickle ----------------------------------------------------------------------

static mh_status proto(mh_pickle *p)
{
    uint64_t version;
    MH_TRY(pickle_opcodes_take_number(p, 1, &version));
    if (p->opcode_at != 0)
        return mh_pickle_fail(p, "found it after the beginning");
    return version >= 2 && version <= 5
               ? MH_OK
               : mh_pickle_fail(p, "protocol %d, expected 2 to 5", (int)version);
}

static mh_status frame(mh_pickle *p)
{
    uint64_t size;
    MH_TRY(pickle_opcodes_take_number(p, 8, &size));
    return size <= p->end - p->at ? MH_OK
                                  : mh_pickle_fail(p, "frame of %llu bytes, but only %zu follow",
                                                   (unsigned long long)size, p->end - p->at);
}

static mh_status stop(mh_pickle *p)
{
    p->stopped = true;
    return MH_OK;
}

// ---- plain values -------------------------------------------------------------------------------

static mh_status none(mh_pickle *p)
{
    return mh_pickle_push(p, (mh_pickle_value){.kind = MH_PICKLE_NONE});
}

static mh_status push_bool(mh_pickle *p, bool value)
{
    return mh_pickle_push(p, (mh_pickle_value){.kind = MH_PICKLE_BOOL, .as = {.number = value}});
}

static mh_status newtrue(mh_pickle *p) { return push_bool(p, true); }
static mh_status newfalse(mh_pickle *p) { return push_bool(p, false); }

static mh_status unsigned_int(mh_pickle *p, int size)
{
    uint64_t number;
    MH_TRY(pickle_opcodes_take_number(p, size, &number));
    return push_int(p, (int64_t)number);
}

static mh_status binint1(mh_pickle *p) { return unsigned_int(p, 1); }
static mh_status binint2(mh_pickle *p) { return unsigned_int(p, 2); }

static mh_status binint(mh_pickle *p)
{
    uint64_t number;
    MH_TRY(pickle_opcodes_take_number(p, 4, &number));
    return push_int(p, (int64_t)number - (number >> 31 ? INT64_C(1) << 32 : 0));
}

// Decimal digits up to a newline: at most 18, so that nothing overflows.
static mh_status int_line(mh_pickle *p)
{
    enum { DIGITS = 18 };
    const bool negative = p->at < p->end && p->bytes[p->at] == '-';
    const size_t first = p->at + negative;
    int64_t number = 0;
    size_t i = first;
    for (; i < p->end && i - first < DIGITS && p->bytes[i] >= '0' && p->bytes[i] <= '9'; i++)
        number = number * 10 + (p->bytes[i] - '0');
    if (i == first || i >= p->end || p->bytes[i] != '\n')
        return mh_pickle_fail(p, "expected a line of up to %d decimal digits", DIGITS);
    p->at = i + 1;
    return push_int(p, negative ? -number : number);
}

// Of up to 8 bytes it is an integer; longer ones keep their bytes.
static mh_status push_long(mh_pickle *p, uint64_t size)
{
    const unsigned char *b = NULL;
    MH_TRY(pickle_opcodes_take(p, size, &b));
    if (size > 8)
        return mh_pickle_push(
            p,
            (mh_pickle_value){.kind = MH_PICKLE_LONG, .size = (uint32_t)size, .as = {.bytes = b}});
    uint64_t number = size > 0 && b[size - 1] >> 7 ? UINT64_MAX : 0;
    for (size_t i = (size_t)size; i-- > 0;)
        number = number << 8 | b[i];
    int64_t result;
    memcpy(&result, &number, sizeof result);
    return push_int(p, result);
}

static mh_status long1(mh_pickle *p)
{
    uint64_t size;
    MH_TRY(pickle_opcodes_take_number(p, 1, &size));
    return push_long(p, size);
}

static mh_status binfloat(mh_pickle *p)
{
    const unsigned char *b = NULL;
    MH_TRY(pickle_opcodes_take(p, 8, &b));
    return mh_pickle_push(p, (mh_pickle_value){.kind = MH_PICKLE_FLOAT});
}

// ---- texts and bytes ----------------------------------------------------------------------------

static mh_status push_bytes(mh_pickle *p, mh_pickle_kind kind, int length_size)
{
    uint64_t size;
    const unsigned char *bytes = NULL;
    MH_TRY(pickle_opcodes_take_number(p, length_size, &size));
    MH_TRY(pickle_opcodes_take(p, size, &bytes));
    return mh_pickle_push(
        p, (mh_pickle_value){.kind = kind, .size = (uint32_t)size, .as = {.bytes = bytes}});
}

static mh_status short_text(mh_pickle *p) { return push_bytes(p, MH_PICKLE_TEXT, 1); }
static mh_status long_text(mh_pickle *p) { return push_bytes(p, MH_PICKLE_TEXT, 4); }
static mh_status short_bytes(mh_pickle *p) { return push_bytes(p, MH_PICKLE_BYTES, 1); }
static mh_status long_bytes(mh_pickle *p) { return push_bytes(p, MH_PICKLE_BYTES, 4); }

// ---- containers ---------------------------------------------------------------------------------

static mh_status mark(mh_pickle *p)
{
    return mh_pickle_push(p, (mh_pickle_value){.kind = MH_PICKLE_MARK});
}

// The position of the topmost mark. The values above it are removed by whoever asks, so that all
// searches together are as long as the pickle at most.
static mh_status find_mark(mh_pickle *p, size_t *at)
{
    for (size_t i = p->stack_count; i-- > 0;)
        if (p->stack[i].kind == MH_PICKLE_MARK) {
            *at = i;
            return MH_OK;
        }
    return mh_pickle_fail(p, "found no mark on the stack");
}

static mh_status collect_top(mh_pickle *p, mh_pickle_kind kind, size_t count)
{
    if (p->stack_count < count)
        return mh_pickle_fail(p, "found %zu values on the stack, expected %zu", p->stack_count,
                              count);
    for (size_t i = 0; i < count; i++)
        if (p->stack[p->stack_count - 1 - i].kind == MH_PICKLE_MARK)
            return mh_pickle_fail(p, "found a mark on the stack, expected %zu values", count);
    return mh_pickle_collect(p, kind, p->stack_count - count);
}

static mh_status empty_tuple(mh_pickle *p) { return collect_top(p, MH_PICKLE_TUPLE, 0); }
static mh_status empty_list(mh_pickle *p) { return collect_top(p, MH_PICKLE_LIST, 0); }
static mh_status empty_dict(mh_pickle *p) { return collect_top(p, MH_PICKLE_DICT, 0); }
static mh_status tuple1(mh_pickle *p) { return collect_top(p, MH_PICKLE_TUPLE, 1); }
static mh_status tuple2(mh_pickle *p) { return collect_top(p, MH_PICKLE_TUPLE, 2); }
static mh_status tuple3(mh_pickle *p) { return collect_top(p, MH_PICKLE_TUPLE, 3); }

static mh_status tuple(mh_pickle *p)
{
    size_t at = 0;
    MH_TRY(find_mark(p, &at));
    memmove(p->stack + at, p->stack + at + 1, (p->stack_count - at - 1) * sizeof *p->stack);
    p->stack_count--; // the mark
    return mh_pickle_collect(p, MH_PICKLE_TUPLE, at);
}

// Appends the values from stack[from] on to the container of `kind` at stack[from - 1 - marks].
static mh_status extend(mh_pickle *p, mh_pickle_kind kind, size_t from, size_t marks)
{
    const mh_pickle_value *to = from > marks ? &p->stack[from - 1 - marks] : NULL;
    if (!to || to->kind != kind)
        return mh_pickle_fail(p, "found %s on the stack, expected %s",
                              to ? mh_pickle_kind_name(to->kind) : "nothing",
                              mh_pickle_kind_name(kind));
    if (kind == MH_PICKLE_DICT && (p->stack_count - from) % 2 != 0)
        return mh_pickle_fail(p, "found a key without a value");
    mh_status status = MH_OK;
    for (size_t i = from; i < p->stack_count && !status; i++)
        status = p->stack[i].kind == MH_PICKLE_MARK
                     ? mh_pickle_fail(p, "found a mark on the stack, expected a value")
                     : mh_pickle_append(p, to, p->stack[i]);
    p->stack_count = from - marks;
    return status;
}

static mh_status extend_by(mh_pickle *p, mh_pickle_kind kind, size_t count)
{
    return p->stack_count < count ? mh_pickle_fail(p, "the stack is empty")
                                  : extend(p, kind, p->stack_count - count, 0);
}

static mh_status extend_to_mark(mh_pickle *p, mh_pickle_kind kind)
{
    size_t at = 0;
    MH_TRY(find_mark(p, &at));
    return extend(p, kind, at + 1, 1);
}

static mh_status pickle_opcodes_append(mh_pickle *p) { return extend_by(p, MH_PICKLE_LIST, 1); }
static mh_status appends(mh_pickle *p) { return extend_to_mark(p, MH_PICKLE_LIST); }
static mh_status setitem(mh_pickle *p) { return extend_by(p, MH_PICKLE_DICT, 2); }
static mh_status setitems(mh_pickle *p) { return extend_to_mark(p, MH_PICKLE_DICT); }

// ---- the memo -----------------------------------------------------------------------------------

// Whoever writes pickles counts from 0 or 1, so that a number beyond the bytes that were read is an
// attempt to make the memo large.
static mh_status pickle_opcodes_put(mh_pickle *p, uint64_t index)
{
    if (p->stack_count == 0 || p->stack[p->stack_count - 1].kind == MH_PICKLE_MARK)
        return mh_pickle_fail(p, "found nothing to remember on the stack");
    if (index > p->at)
        return mh_pickle_fail(p, "memo index %llu after %zu bytes, expected at most that many",
                              (unsigned long long)index, p->at);
    const size_t count = (size_t)index + 1;
    if (!mh_grow(p->source->context, &p->memo, &p->memo_capacity, count, sizeof *p->memo))
        return MH_ERROR_MEMORY;
    for (; p->memo_count < count; p->memo_count++)
        p->memo[p->memo_count] = (mh_pickle_value){.kind = MH_PICKLE_MARK}; // not set
    p->memo[index] = p->stack[p->stack_count - 1];
    return MH_OK;
}

static mh_status get(mh_pickle *p, uint64_t index)
{
    if (index >= p->memo_count || p->memo[index].kind == MH_PICKLE_MARK)
        return mh_pickle_fail(p, "memo index %llu was never set", (unsigned long long)index);
    return mh_pickle_push(p, p->memo[index]);
}

static mh_status with_index(mh_pickle *p, int size, mh_status (*use)(mh_pickle *, uint64_t))
{
    uint64_t index;
    MH_TRY(pickle_opcodes_take_number(p, size, &index));
    return use(p, index);
}

static mh_status binput(mh_pickle *p) { return with_index(p, 1, pickle_opcodes_put); }
static mh_status long_binput(mh_pickle *p) { return with_index(p, 4, pickle_opcodes_put); }
static mh_status binget(mh_pickle *p) { return with_index(p, 1, get); }
static mh_status long_binget(mh_pickle *p) { return with_index(p, 4, get); }
static mh_status memoize(mh_pickle *p) { return pickle_opcodes_put(p, p->memo_count); }

// ---- all opcodes --------------------------------------------------------------------------------

const mh_pickle_opcode mh_pickle_opcodes[256] = {
    ['('] = {"MARK", mark},
    ['.'] = {"STOP", stop},
    ['0'] = {"POP", NULL},
    ['1'] = {"POP_MARK", NULL},
    ['2'] = {"DUP", NULL},
    ['F'] = {"FLOAT", NULL},
    ['I'] = {"INT", int_line},
    ['J'] = {"BININT", binint},
    ['K'] = {"BININT1", binint1},
    ['L'] = {"LONG", NULL},
    ['M'] = {"BININT2", binint2},
    ['N'] = {"NONE", none},
    ['P'] = {"PERSID", NULL},
    ['Q'] = {"BINPERSID", mh_pickle_persistent},
    ['R'] = {"REDUCE", mh_pickle_reduce},
    ['S'] = {"STRING", NULL},
    ['T'] = {"BINSTRING", long_text},
    ['U'] = {"SHORT_BINSTRING", short_text},
    ['V'] = {"UNICODE", NULL},
    ['X'] = {"BINUNICODE", long_text},
    ['a'] = {"APPEND", pickle_opcodes_append},
    ['b'] = {"BUILD", mh_pickle_build},
    ['c'] = {"GLOBAL", mh_pickle_global},
    ['d'] = {"DICT", NULL},
    ['}'] = {"EMPTY_DICT", empty_dict},
    ['e'] = {"APPENDS", appends},
    ['g'] = {"GET", NULL},
    ['h'] = {"BINGET", binget},
    ['i'] = {"INST", NULL},
    ['j'] = {"LONG_BINGET", long_binget},
    ['l'] = {"LIST", NULL},
    [']'] = {"EMPTY_LIST", empty_list},
    ['o'] = {"OBJ", NULL},
    ['p'] = {"PUT", NULL},
    ['q'] = {"BINPUT", binput},
    ['r'] = {"LONG_BINPUT", long_binput},
    ['s'] = {"SETITEM", setitem},
    ['t'] = {"TUPLE", tuple},
    [')'] = {"EMPTY_TUPLE", empty_tuple},
    ['u'] = {"SETITEMS", setitems},
    ['G'] = {"BINFLOAT", binfloat},
    [0x80] = {"PROTO", proto},
    [0x81] = {"NEWOBJ", NULL},
    [0x82] = {"EXT1", NULL},
    [0x83] = {"EXT2", NULL},
    [0x84] = {"EXT4", NULL},
    [0x85] = {"TUPLE1", tuple1},
    [0x86] = {"TUPLE2", tuple2},
    [0x87] = {"TUPLE3", tuple3},
    [0x88] = {"NEWTRUE", newtrue},
    [0x89] = {"NEWFALSE", newfalse},
    [0x8A] = {"LONG1", long1},
    [0x8B] = {"LONG4", NULL},
    ['B'] = {"BINBYTES", long_bytes},
    ['C'] = {"SHORT_BINBYTES", short_bytes},
    [0x8C] = {"SHORT_BINUNICODE", short_text},
    [0x8D] = {"BINUNICODE8", NULL},
    [0x8E] = {"BINBYTES8", NULL},
    [0x8F] = {"EMPTY_SET", NULL},
    [0x90] = {"ADDITEMS", NULL},
    [0x91] = {"FROZENSET", NULL},
    [0x92] = {"NEWOBJ_EX", NULL},
    [0x93] = {"STACK_GLOBAL", mh_pickle_stack_global},
    [0x94] = {"MEMOIZE", memoize},
    [0x95] = {"FRAME", frame},
    [0x96] = {"BYTEARRAY8", NULL},
    [0x97] = {"NEXT_BUFFER", NULL},
    [0x98] = {"READONLY_BUFFER", NULL},
};
