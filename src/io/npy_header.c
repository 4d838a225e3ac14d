// SPDX-License-Identifier: MIT
// The header of a .npy file is the text of a Python dictionary. NumPy evaluates it as Python;
// we accept what NumPy and its imitators write and nothing else:
//
//     dict   = "{" pair ("," pair)* [","] "}" " "* "\n"
//     pair   = string ":" value                   three keys, any order, each once
//     value  = string | "True" | "False" | tuple  which one depends on the key
//     tuple  = "()" | "(" int "," ")" | "(" int ("," int)+ [","] ")"
//
// Spaces are allowed between tokens. There is no recursion and no allocation; every step either
// consumes a byte or ends.
#include "io/npy.h"

#include <string.h>

typedef struct cursor {
    const mh_source *source;
    const char *start, *at, *end;
} cursor;

typedef struct span {
    const char *text;
    size_t size;
} span;

// ---- tokens -------------------------------------------------------------------------------------

static mh_status expected(const cursor *c, const char *what)
{
    size_t position = (size_t)(c->at - c->start), left = (size_t)(c->end - c->at);
    if (left == 0)
        return mh_source_fail(c->source, MH_ERROR_FORMAT, "header ends at byte %zu, expected %s",
                              position, what);
    return mh_source_fail(c->source, MH_ERROR_FORMAT, "header byte %zu: found %s, expected %s",
                          position, mh_quote(c->at, left < 16 ? left : 16).text, what);
}

static void skip_spaces(cursor *c)
{
    while (c->at < c->end && *c->at == ' ')
        c->at++;
}

// Consumes `byte` (after spaces) if it is next.
static bool npy_header_accept(cursor *c, char byte)
{
    skip_spaces(c);
    if (c->at == c->end || *c->at != byte)
        return false;
    c->at++;
    return true;
}

static bool accept_word(cursor *c, const char *word)
{
    size_t size = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0)
        return false;
    c->at += size;
    return true;
}

static mh_status read_string(cursor *c, const char *what, span *string)
{
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return expected(c, what);
    const char *text = c->at + 1;
    const char *close = memchr(text, *c->at, (size_t)(c->end - text));
    if (close == NULL)
        return expected(c, "a string that is closed");
    *string = (span){text, (size_t)(close - text)};
    c->at = close + 1;
    return MH_OK;
}

static bool npy_is_digit(const cursor *c)
{
    return c->at < c->end && *c->at >= '0' && *c->at <= '9';
}

static mh_status read_dimension(cursor *c, size_t *value)
{
    skip_spaces(c);
    const cursor begin = *c;
    size_t number = 0;
    if (!npy_is_digit(c))
        return expected(c, "a dimension (an integer >= 0)");
    for (; npy_is_digit(c); c->at++) {
        size_t digit = (size_t)(*c->at - '0');
        if (number > (SIZE_MAX - digit) / 10)
            return expected(&begin, "a dimension that fits in memory");
        number = number * 10 + digit;
    }
    if (c->at < c->end && *c->at == 'L') // Python 2 wrote long integers so
        c->at++;
    *value = number;
    return MH_OK;
}

// ---- values -------------------------------------------------------------------------------------

static const char *const type_names[] = {
    [MH_F32] = "f4", [MH_F64] = "f8", [MH_F16] = "f2", [MH_BOOL] = "b1",
    [MH_I8] = "i1",  [MH_I16] = "i2", [MH_I32] = "i4", [MH_I64] = "i8",
    [MH_U8] = "u1",  [MH_U16] = "u2", [MH_U32] = "u4", [MH_U64] = "u8",
};
enum { TYPE_COUNT = sizeof type_names / sizeof *type_names };

const char *mh_npy_type(mh_dtype dtype)
{
    return (size_t)dtype < TYPE_COUNT ? type_names[dtype] : NULL;
}

static bool find_type(span descr, mh_dtype *dtype)
{
    if (descr.size != 3)
        return false;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (type_names[i] != NULL && memcmp(descr.text + 1, type_names[i], 2) == 0) {
            *dtype = (mh_dtype)i;
            return true;
        }
    return false;
}

// Why a dtype is rejected, and how to convert it.
static const char *advice(span descr)
{
    char kind = descr.size < 2 ? '\0' : descr.text[1];
    switch (kind) {
    case 'O':
        return "object arrays hold pickled Python code, which is never run; save numbers, for "
               "example with astype('<f4')";
    case 'c':
        return "complex numbers are not supported; save .real and .imag as two files";
    case 'S':
    case 'a':
    case 'U':
        return "strings are not supported; save numbers, for example token ids with astype('<i4')";
    case 'M':
    case 'm':
        return "dates are not supported; save them with astype('<i8')";
    case 'V':
        return "it may be bfloat16, which .npy cannot name; save it with astype('<f4')";
    default:
        return "expected f2, f4, f8, b1, i1..i8 or u1..u8; save it with astype('<f4')";
    }
}

static mh_status read_descr(cursor *c, mh_npy_header *header)
{
    span descr;
    if (npy_header_accept(c, '['))
        return mh_source_fail(c->source, MH_ERROR_FORMAT,
                              "structured dtype: save each field in its own file, for example "
                              "x['field'].astype('<f4')");
    mh_status status = read_string(c, "a dtype such as '<f4'", &descr);
    if (status != MH_OK)
        return status;
    const mh_quoted quoted = mh_quote(descr.text, descr.size);
    if (!find_type(descr, &header->dtype))
        return mh_source_fail(c->source, MH_ERROR_FORMAT, "dtype %s: %s", quoted.text,
                              advice(descr));
    char order = descr.text[0];
    bool one_byte = mh_dtype_size(header->dtype) == 1;
    header->big_endian = order == '>' && !one_byte;
    if (order == '<' || order == '=' || order == '>' || (one_byte && order == '|'))
        return MH_OK;
    return mh_source_fail(c->source, MH_ERROR_FORMAT,
                          "dtype %s: expected '<' or '>' (byte order) in front; save it "
                          "with astype('<%.2s')",
                          quoted.text, descr.text + 1);
}

static mh_status read_order(cursor *c, mh_npy_header *header)
{
    header->fortran_order = accept_word(c, "True");
    if (header->fortran_order || accept_word(c, "False"))
        return MH_OK;
    return expected(c, "fortran_order to be True or False");
}

static mh_status npy_read_shape(cursor *c, mh_npy_header *header)
{
    if (!npy_header_accept(c, '('))
        return expected(c, "a shape such as (2, 3)");
    header->rank = 0;
    bool comma = true;
    while (!npy_header_accept(c, ')')) {
        if (!comma)
            return expected(c, "',' or ')'");
        if (header->rank == MH_MAX_RANK)
            return mh_source_fail(c->source, MH_ERROR_FORMAT,
                                  "the shape has more than %d dimensions", MH_MAX_RANK);
        mh_status status = read_dimension(c, &header->shape[header->rank]);
        if (status != MH_OK)
            return status;
        header->rank++;
        comma = npy_header_accept(c, ',');
    }
    if (header->rank == 1 && !comma)
        return mh_source_fail(c->source, MH_ERROR_FORMAT,
                              "shape (%zu) is a number, not a tuple; expected (%zu,)",
                              header->shape[0], header->shape[0]);
    return MH_OK;
}

// ---- the dictionary -----------------------------------------------------------------------------

static const struct {
    const char *key;
    mh_status (*read)(cursor *c, mh_npy_header *header);
} fields[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", npy_read_shape}};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static mh_status npy_header_read_pair(cursor *c, bool seen[FIELD_COUNT], mh_npy_header *header)
{
    span key;
    size_t i = 0;
    mh_status status = read_string(c, "a key in quotes", &key);
    if (status != MH_OK)
        return status;
    while (i < FIELD_COUNT &&
           (strlen(fields[i].key) != key.size || memcmp(fields[i].key, key.text, key.size) != 0))
        i++;
    if (i == FIELD_COUNT || seen[i])
        return mh_source_fail(c->source, MH_ERROR_FORMAT, "header has %s key %s",
                              i == FIELD_COUNT ? "an unknown" : "a second",
                              mh_quote(key.text, key.size).text);
    seen[i] = true;
    if (!npy_header_accept(c, ':'))
        return expected(c, "':'");
    return fields[i].read(c, header);
}

mh_status mh_npy_parse_header(const mh_source *source, const char *text, size_t size,
                              mh_npy_header *header)
{
    cursor c = {source, text, text, text + size};
    bool seen[FIELD_COUNT] = {false}, comma = true;
    if (!npy_header_accept(&c, '{'))
        return expected(&c, "'{'");
    while (!npy_header_accept(&c, '}')) {
        if (!comma)
            return expected(&c, "',' or '}'");
        mh_status status = npy_header_read_pair(&c, seen, header);
        if (status != MH_OK)
            return status;
        comma = npy_header_accept(&c, ',');
    }
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (!seen[i])
            return mh_source_fail(source, MH_ERROR_FORMAT, "header has no key \"%s\"",
                                  fields[i].key);
    if (!npy_header_accept(&c, '\n') || c.at != c.end)
        return expected(&c, "spaces and one newline at the header's end");
    return MH_OK;
}
