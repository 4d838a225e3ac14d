// SPDX-License-Identifier: MIT
// Python pickles as data. A pickle is a program for a stack machine whose instructions may import
// and call anything; this machine has only the instructions that state dicts need. It imports
// nothing and calls nothing: a global is an entry of a closed table, and the "call" of one makes a
// value that refers to its arguments. Whatever else a pickle contains is rejected by name.
//
//     \x80\x02 }q\0 X\1\0\0\0w ctorch._utils\n_rebuild_tensor_v2\n (...) t R s .
//     PROTO 2  {}   "w"        GLOBAL                               TUPLE REDUCE SETITEM STOP
//
// Values are 16 bytes; texts stay in the pickle. Tuples, lists and dictionaries are linked lists of
// nodes, so that work and memory are linear in the bytes of the pickle:
//
//     containers  [first last count] ...       dictionaries: key, value, key, value ...
//     nodes       [value next] ...             number 0 is the end of every list
#ifndef MH_IO_PICKLE_H
#define MH_IO_PICKLE_H

#include <multihead/tensor.h>

#include "support/source.h"

typedef enum mh_pickle_kind {
    MH_PICKLE_NONE,
    MH_PICKLE_BOOL,
    MH_PICKLE_INT,
    MH_PICKLE_LONG,  // an integer of more than 64 bits: its bytes
    MH_PICKLE_FLOAT, // its value is not kept
    MH_PICKLE_TEXT,
    MH_PICKLE_BYTES,
    MH_PICKLE_TUPLE,
    MH_PICKLE_LIST,
    MH_PICKLE_DICT,
    MH_PICKLE_PAIRS,   // a dictionary, given as a list of pairs
    MH_PICKLE_GLOBAL,  // .number is an index of mh_pickle_globals
    MH_PICKLE_STORAGE, // a persistent id: its tuple
    MH_PICKLE_TENSOR,  // a tuple (global, arguments)
    MH_PICKLE_MARK,
} mh_pickle_kind;

typedef struct mh_pickle_value {
    mh_pickle_kind kind;
    uint32_t size; // of a text or bytes
    union {
        int64_t number;
        uint32_t container;
        const unsigned char *bytes; // in the pickle
    } as;
} mh_pickle_value;

typedef struct mh_pickle_node {
    mh_pickle_value value;
    uint32_t next;
} mh_pickle_node;

typedef struct mh_pickle_container {
    uint32_t first, last, count;
} mh_pickle_container;

typedef struct mh_pickle {
    const mh_source *source; // for messages and memory
    const char *label;       // of the pickle in messages: "data.pkl"
    const unsigned char *bytes;
    size_t at, end;   // the next byte, and the end of what may be read
    size_t opcode_at; // the opcode that is executed
    bool stopped;

    mh_pickle_value *stack, *memo;
    size_t stack_count, stack_capacity, memo_count, memo_capacity;
    mh_pickle_node *nodes;
    size_t node_count, node_capacity;
    mh_pickle_container *containers;
    size_t container_count, container_capacity;
} mh_pickle;

// Executes the pickle at `bytes`, of at most `size` bytes; *used is its length. Values of earlier
// runs stay valid. Errors: MH_ERROR_FORMAT with opcode and position, MH_ERROR_MEMORY.
mh_status mh_pickle_run(mh_pickle *p, const unsigned char *bytes, size_t size,
                        mh_pickle_value *result, size_t *used);
void mh_pickle_free(mh_pickle *p);

const char *mh_pickle_kind_name(mh_pickle_kind kind); // "a tuple"
bool mh_pickle_is_text(const mh_pickle_value *value, const char *text);

// The container of a tuple, list, dictionary, storage or tensor, and up to `most` of its items;
// returns how many it has.
const mh_pickle_container *mh_pickle_of(const mh_pickle *p, const mh_pickle_value *value);
size_t mh_pickle_items(const mh_pickle *p, const mh_pickle_value *value, size_t most,
                       mh_pickle_value *items);

// ---- for the machine's own files ----------------------------------------------------------------

enum {
    MH_PICKLE_STACK_MAX = 1 << 20,
    MH_PICKLE_GLOBAL_NAME_MAX = 256, // bytes of a module's or a global's name
};

// mh_source_fail(MH_ERROR_FORMAT) with the pickle, the position and the opcode.
mh_status mh_pickle_fail(const mh_pickle *p, const char *format, ...) MH_PRINTF(2, 3);

mh_status mh_pickle_push(mh_pickle *p, mh_pickle_value value);
mh_status mh_pickle_pop(mh_pickle *p, mh_pickle_value *value); // no mark
// A container of the values above stack[from], which it removes from the stack, and pushes it.
mh_status mh_pickle_collect(mh_pickle *p, mh_pickle_kind kind, size_t from);
mh_status mh_pickle_append(mh_pickle *p, const mh_pickle_value *to, mh_pickle_value value);

typedef struct mh_pickle_opcode {
    const char *name;                   // NULL: there is no such opcode
    mh_status (*execute)(mh_pickle *p); // NULL: rejected
} mh_pickle_opcode;

// By code, (256).
extern const mh_pickle_opcode mh_pickle_opcodes[];

mh_status mh_pickle_global(mh_pickle *p);       // GLOBAL
mh_status mh_pickle_stack_global(mh_pickle *p); // STACK_GLOBAL
mh_status mh_pickle_persistent(mh_pickle *p);   // BINPERSID
mh_status mh_pickle_reduce(mh_pickle *p);       // REDUCE
mh_status mh_pickle_build(mh_pickle *p);        // BUILD

#endif
