// SPDX-License-Identifier: MIT
// Detects file formats by their first bytes, so that a message can name them; see file_kind.h. Only
// used when the file cannot be safetensors, whose first bytes may be anything.
#include "io/file_kind.h"

#include <string.h>

#define EXPECTED                                                                                   \
    "expected .npy (numpy.save), .npz (numpy.savez), .safetensors (safetensors.torch.save_file), " \
    "PyTorch (torch.save) or GGUF"

static const struct {
    const char *magic;
    size_t size;
    const char *kind;
} kinds[] = {
    {"\x89HDF", 4, "HDF5"},
    {"\x1f\x8b", 2, "gzip"},
    {"BZh", 3, "bzip2"},
    {"\xfd"
     "7zXZ",
     5, "xz"},
    {"\x28\xb5\x2f\xfd", 4, "zstd"},
    {"\x89PNG", 4, "a PNG image"},
    {"\xff\xd8\xff", 3, "a JPEG image"},
    {"GIF8", 4, "a GIF image"},
    {"%PDF", 4, "PDF"},
    {"\x7f"
     "ELF",
     4, "an ELF program or library"},
};

static bool begins(const mh_source *source, const char *magic, size_t size)
{
    return source->size >= size && memcmp(source->bytes, magic, size) == 0;
}

// A protobuf whose first fields are ir_version and producer_name or a graph, as every exporter
// writes it.
static bool is_onnx(const mh_source *source)
{
    const unsigned char *b = source->bytes;
    return source->size > 3 && b[0] == 0x08 && b[1] > 0 && b[1] < 32 &&
           (b[2] == 0x12 || b[2] == 0x3A);
}

// ---- pickles ------------------------------------------------------------------------------------

static bool is_name(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

// The byte after "cMODULE\nNAME\n" at `at`, or 0.
static unsigned char after_global(const mh_source *source, size_t at)
{
    for (int line = 0; line < 2; line++, at++)
        do
            at++;
        while (at < source->size && is_name(source->bytes[at]));
    return at < source->size && source->bytes[at - 1] == '\n' ? source->bytes[at] : 0;
}

// The protocol, or -1. From 2 on a pickle declares it; before, an object begins with its class, a
// list or a dictionary, and is memoised: as text ("p0\n") in protocol 0, as a byte ("q\0") in 1.
static int pickle_protocol(const mh_source *source)
{
    const unsigned char *b = source->bytes;
    if (source->size < 4)
        return -1;
    if (b[0] == 0x80 && b[1] >= 2 && b[1] <= 9)
        return b[1];
    if (b[source->size - 1] != '.')
        return -1;
    if (b[0] == '(' && (b[1] == 'l' || b[1] == 'd') && b[2] == 'p')
        return 0;
    if ((b[0] == ']' || b[0] == '}') && b[1] == 'q')
        return 1;
    const size_t start = b[0] == '('; // a tuple
    const unsigned char next = b[start] == 'c' ? after_global(source, start) : 0;
    return next == 'p' ? 0 : next == 'q' ? 1 : -1;
}

// ---- text ---------------------------------------------------------------------------------------

// Whether the beginning is UTF-8 without control characters.
static bool is_text(const mh_source *source)
{
    const size_t size = source->size < 512 ? source->size : 512;
    size_t wanted = 0; // remaining bytes of a sequence
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = source->bytes[i];
        if ((c < 0x20 && !(c >= '\t' && c <= '\r')) || c == 0x7F || c >= 0xF8)
            return false;
        const bool continues = (c & 0xC0) == 0x80;
        if (continues != (wanted > 0))
            return false;
        wanted = continues ? wanted - 1 : c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    }
    return true;
}

static mh_status file_kind_refuse_text(const mh_source *source)
{
    const char first = (char)source->bytes[0];
    const size_t size = source->size < 512 ? source->size : 512;
    const bool table = memchr(source->bytes, ',', size) || memchr(source->bytes, ';', size) ||
                       memchr(source->bytes, '\t', size);
    return mh_source_fail(source, MH_ERROR_FORMAT, "is text%s, " EXPECTED,
                          first == '{' || first == '[' ? " (JSON?)"
                          : table                      ? " (CSV?)"
                                                       : "");
}

// The header of the first member has a magic number after its numbers.
static bool is_tar(const mh_source *source)
{
    enum { MAGIC = 257 };
    return source->size >= MAGIC + 5 && memcmp(source->bytes + MAGIC, "ustar", 5) == 0;
}

// The formats of llama.cpp before GGUF: ggml, ggmf, ggjt and ggla as 32-bit numbers.
static bool is_ggml(const mh_source *source)
{
    return begins(source, "lmgg", 4) || begins(source, "fmgg", 4) || begins(source, "tjgg", 4) ||
           begins(source, "algg", 4);
}

mh_status mh_refuse_known_kind(const mh_source *source)
{
    const int protocol = pickle_protocol(source);
    if (protocol >= 0)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "is a Python pickle (protocol %d), which is never executed; save the "
                              "array with numpy.save",
                              protocol);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (begins(source, kinds[i].magic, kinds[i].size))
            return mh_source_fail(source, MH_ERROR_FORMAT, "is %s, " EXPECTED, kinds[i].kind);
    if (is_ggml(source))
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "does not begin with GGUF; older GGML files have to be converted");
    if (is_tar(source))
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "is a tar archive; a PyTorch file of this kind (before version "
                              "0.1.10) is not read: load it with torch.load and save its state "
                              "dict with safetensors.torch.save_file");
    if (is_onnx(source))
        return mh_source_fail(source, MH_ERROR_FORMAT, "is ONNX, " EXPECTED);
    return is_text(source) ? file_kind_refuse_text(source) : MH_OK;
}
