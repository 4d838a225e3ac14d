// SPDX-License-Identifier: MIT
// Embeddings and their cosines as lines or as JSON; see embed.h.
#include "embed/embed.h"
#include "report.h"

#include <math.h>
#include <string.h>

enum { SHOWN_VALUES = 8, LABEL_COLUMNS = 40 };

static size_t width_of(const embed *e) { return e->out.tensor.shape[1]; }

// 0 before anything was embedded: there was no text.
static size_t row_count(const embed *e) { return e->out.tensor.data ? e->out.tensor.shape[0] : 0; }

const float *embed_vector(const embed *e, size_t row)
{
    return (const float *)e->out.tensor.data + row * width_of(e);
}

mh_text embed_label(const embed *e, size_t row)
{
    mh_text label = {"", 0};
    if (!e->encoded)
        return e->texts.texts[row];
    const mh_encoding *encoding = mh_model_texts_encoding(e->encoded, 0);
    mh_tokenizer_name(mh_model_tokenizer(e->texts.model), encoding->ids[row], &label);
    return label;
}

// ---- lines for people ---------------------------------------------------------------------------

// The beginning of a text on one line; control characters, which must not reach the terminal, as
// spaces.
static void print_label(mh_text text)
{
    size_t columns = 0, i = 0;
    while (i < text.size && columns < LABEL_COLUMNS) {
        const unsigned char c = (unsigned char)text.bytes[i];
        const size_t size = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        const bool control =
            c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text.bytes[i + 1] < 0xa0);
        if (control)
            putchar(' ');
        else
            fwrite(text.bytes + i, 1, size, stdout);
        i += size;
        columns++;
    }
    fputs(i < text.size ? "...\n" : "\n", stdout);
}

static void print_beginning(const embed *e, size_t row)
{
    const size_t width = width_of(e), shown = width < SHOWN_VALUES ? width : SHOWN_VALUES;
    const float *vector = embed_vector(e, row);
    printf("%zu ", width);
    for (size_t i = 0; i < shown; i++)
        printf(" %7.4f", (double)vector[i]);
    fputs(shown < width ? " ...  " : "  ", stdout);
    print_label(embed_label(e, row));
}

// ---- JSON ---------------------------------------------------------------------------------------

// Nine digits are enough to get the same float again; JSON has no infinities.
static void put_float(double value)
{
    if (isfinite(value))
        printf("%.9g", value);
    else
        fputs("null", stdout);
}

static void put_vector(const embed *e, size_t row)
{
    const float *vector = embed_vector(e, row);
    putchar('[');
    for (size_t i = 0; i < width_of(e); i++) {
        fputs(i ? ", " : "", stdout);
        put_float((double)vector[i]);
    }
    putchar(']');
}

static void begin_object(mh_text text)
{
    fputs("{\"text\": ", stdout);
    put_json_string(stdout, text.bytes, text.size);
}

static void put_tokens_object(const embed *e)
{
    begin_object(e->texts.texts[0]);
    fputs(", \"tokens\": [", stdout);
    for (size_t i = 0; i < row_count(e); i++) {
        const mh_text name = embed_label(e, i);
        fputs(i ? ", " : "", stdout);
        put_json_string(stdout, name.bytes, name.size);
    }
    fputs("], \"embedding\": [", stdout);
    for (size_t i = 0; i < row_count(e); i++) {
        fputs(i ? ", " : "", stdout);
        put_vector(e, i);
    }
    fputs("]}\n", stdout);
}

static void put_text_object(const embed *e, size_t row)
{
    begin_object(e->texts.texts[row]);
    fputs(", \"embedding\": ", stdout);
    put_vector(e, row);
    fputs("}\n", stdout);
}

void print_embeddings(const embed *e)
{
    if (e->texts.json && e->encoded) {
        put_tokens_object(e);
        return;
    }
    for (size_t i = 0; i < row_count(e); i++)
        if (e->texts.json)
            put_text_object(e, i);
        else
            print_beginning(e, i);
}

// ---- cosines ------------------------------------------------------------------------------------

static double dot(const embed *e, size_t a, size_t b)
{
    const float *x = embed_vector(e, a), *y = embed_vector(e, b);
    double sum = 0;
    for (size_t i = 0; i < width_of(e); i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

// 0 if one of them is zero; NaN of embeddings that are not finite.
static double cosine(const embed *e, size_t a, size_t b)
{
    const double lengths = sqrt(dot(e, a, a)) * sqrt(dot(e, b, b));
    return lengths == 0 ? 0 : dot(e, a, b) / lengths;
}

static void put_cosines_object(const embed *e, size_t row)
{
    begin_object(embed_label(e, row));
    fputs(", \"similarity\": [", stdout);
    for (size_t i = 0; i < row_count(e); i++) {
        fputs(i ? ", " : "", stdout);
        put_float(cosine(e, row, i));
    }
    fputs("]}\n", stdout);
}

void print_similarity(const embed *e)
{
    const size_t count = row_count(e);
    if (!e->texts.json && count > 0) {
        printf("%4s", "");
        for (size_t i = 0; i < count; i++)
            printf(" %6zu", i + 1);
        putchar('\n');
    }
    for (size_t row = 0; row < count; row++) {
        if (e->texts.json) {
            put_cosines_object(e, row);
            continue;
        }
        printf("%4zu", row + 1);
        for (size_t i = 0; i < count; i++)
            printf(" %6.3f", cosine(e, row, i));
        fputs("  ", stdout);
        print_label(embed_label(e, row));
    }
}
