// SPDX-License-Identifier: MIT
// Translations as lines or as JSON; see translate.h. A line is
//
//     [NUMBER tab, with several translations] [SCORE tab] TEXT [tab HARD ALIGNMENT]
//
// and with a soft alignment a line for each word of the translation, and an empty one.
#include "messages.h"
#include "report.h"
#include "terminal.h"
#include "translate.h"

#include <math.h>
#include <stdlib.h>

static int print_no_memory(void)
{
    complain("out of memory for a translation");
    return EXIT_MEMORY;
}

// ---- lines --------------------------------------------------------------------------------------

// A line break inside a translation would make two lines of it.
static void translation_print_line(FILE *to, mh_text text)
{
    for (size_t begin = 0, end; begin < text.size; begin = end + 1) {
        for (end = begin; end < text.size; end++)
            if (text.bytes[end] == '\n' || text.bytes[end] == '\r')
                break;
        terminal_put(to, (mh_text){text.bytes + begin, end - begin});
        if (end < text.size)
            putc(' ', to);
    }
}

static void print_hard(FILE *to, const alignment *a)
{
    putc('\t', to);
    for (size_t t = 0; t < a->target_words && a->source_words; t++)
        fprintf(to, "%s%zu-%zu", t ? " " : "", alignment_best(a, t), t);
}

static void print_soft(FILE *to, const alignment *a)
{
    for (size_t t = 0; t < a->target_words; t++)
        for (size_t s = 0; s < a->source_words; s++)
            fprintf(to, "%.4f%c", a->weights[t * a->source_words + s],
                    s + 1 < a->source_words ? '\t' : '\n');
    putc('\n', to);
}

static int translation_print_text(const printing *p, const mh_translation *r, size_t number)
{
    alignment a = {0};
    if (p->alignment && !alignment_create(r, &a))
        return print_no_memory();
    if (p->n_best > 1)
        fprintf(p->to, "%zu\t", number);
    if (p->scores)
        fprintf(p->to, "%.4f\t", r->score);
    translation_print_line(p->to, r->text);
    if (p->alignment == ALIGNMENT_HARD)
        print_hard(p->to, &a);
    putc('\n', p->to);
    if (p->alignment == ALIGNMENT_SOFT)
        print_soft(p->to, &a);
    alignment_free(&a);
    return EXIT_DONE;
}

int print_given(const printing *p, mh_context *context, const mh_tokenizer *tokenizer,
                const mh_translation *r)
{
    mh_buffer token = {0};
    mh_status status = MH_OK;
    mh_text end = {"</s>", 4};
    for (size_t i = 0; i < r->count && !status; i++) {
        const size_t begin = i ? r->ends[i - 1] : 0;
        status = mh_utf8_repair(context, r->text.bytes + begin, r->ends[i] - begin, &token);
        fprintf(p->to, "%.4f\t", r->token_log_probabilities[i]);
        if (!status)
            translation_print_line(p->to, (mh_text){token.data, token.size});
        putc('\n', p->to);
    }
    mh_buffer_free(context, &token);
    if (status)
        return complain_status(context, status, NULL);
    mh_tokenizer_name(tokenizer, mh_tokenizer_eos(tokenizer), &end);
    fprintf(p->to, "%.4f\t%.*s\n", r->token_log_probabilities[r->count], (int)end.size, end.bytes);
    fprintf(p->to, "%.4f\t", r->log_probability);
    return translation_print_text(p, r, 1);
}

// ---- JSON ---------------------------------------------------------------------------------------

// A token may be part of a character.
static int put_tokens(const printing *p, mh_context *context, const mh_translation *r)
{
    mh_buffer token = {0};
    mh_status status = MH_OK;
    fputs(", \"tokens\": [", p->to);
    for (size_t i = 0; i < r->count && !status; i++) {
        const size_t begin = i ? r->ends[i - 1] : 0;
        status = mh_utf8_repair(context, r->text.bytes + begin, r->ends[i] - begin, &token);
        fputs(i ? ", " : "", p->to);
        if (!status)
            put_json_string(p->to, token.data, token.size);
    }
    putc(']', p->to);
    mh_buffer_free(context, &token);
    return status ? complain_status(context, status, NULL) : EXIT_DONE;
}

static void put_pairs(FILE *to, const alignment *a)
{
    for (size_t t = 0; t < a->target_words && a->source_words; t++)
        fprintf(to, "%s[%zu, %zu]", t ? ", " : "", alignment_best(a, t), t);
}

static void put_matrix(FILE *to, const alignment *a)
{
    for (size_t t = 0; t < a->target_words; t++) {
        fputs(t ? ", [" : "[", to);
        for (size_t s = 0; s < a->source_words; s++)
            fprintf(to, "%s%.4f", s ? ", " : "", a->weights[t * a->source_words + s]);
        putc(']', to);
    }
}

static int put_alignment(const printing *p, const mh_translation *r)
{
    alignment a;
    if (!alignment_create(r, &a))
        return print_no_memory();
    fputs(", \"alignment\": [", p->to);
    if (p->alignment == ALIGNMENT_HARD)
        put_pairs(p->to, &a);
    else
        put_matrix(p->to, &a);
    putc(']', p->to);
    alignment_free(&a);
    return EXIT_DONE;
}

// JSON has no infinity: that of a token that the model never chooses.
static void put_logarithm(FILE *to, const char *before, double value)
{
    fputs(before, to);
    if (isfinite(value))
        fprintf(to, "%.6f", value);
    else
        fputs("null", to);
}

static void put_token_scores(FILE *to, const mh_translation *r)
{
    fputs(", \"token_log_probabilities\": [", to);
    for (size_t i = 0; i <= r->count; i++)
        put_logarithm(to, i ? ", " : "", r->token_log_probabilities[i]);
    putc(']', to);
}

static void put_top_tokens(FILE *to, const mh_tokenizer *tokenizer, const mh_translation *r)
{
    fputs(", \"top_log_probabilities\": [", to);
    for (size_t i = 0; i <= r->count; i++) {
        fputs(i ? ", [" : "[", to);
        for (size_t j = i * r->top_count; j < (i + 1) * r->top_count; j++) {
            mh_text name = {"", 0};
            if (r->top_ids[j] < 0 || !isfinite(r->top_log_probs[j]))
                break;
            mh_tokenizer_name(tokenizer, r->top_ids[j], &name);
            fprintf(to, "%s{\"id\": %d, \"token\": ", j > i * r->top_count ? ", " : "",
                    (int)r->top_ids[j]);
            put_json_string(to, name.bytes, name.size);
            fprintf(to, ", \"log_probability\": %.6f}", r->top_log_probs[j]);
        }
        putc(']', to);
    }
    putc(']', to);
}

static int put_object(const printing *p, mh_context *context, const mh_translation *r)
{
    fputs("{\"text\": ", p->to);
    put_json_string(p->to, r->text.bytes, r->text.size);
    put_logarithm(p->to, ", \"score\": ", r->score);
    put_logarithm(p->to, ", \"log_probability\": ", r->log_probability);
    int code = put_tokens(p, context, r);
    if (r->token_log_probabilities)
        put_token_scores(p->to, r);
    if (r->top_ids)
        put_top_tokens(p->to, p->tokenizer, r);
    if (code == EXIT_DONE && p->alignment)
        code = put_alignment(p, r);
    putc('}', p->to);
    return code;
}

int print_translations(const printing *p, mh_context *context, const mh_translations *translations,
                       size_t i, size_t number, mh_text source)
{
    int code = EXIT_DONE;
    if (p->json) {
        fputs("{\"source\": ", p->to);
        put_json_string(p->to, source.bytes, source.size);
        fputs(", \"translations\": [", p->to);
    }
    for (size_t rank = 0; rank < p->n_best && code == EXIT_DONE; rank++) {
        const mh_translation *r = mh_translations_at(translations, i, rank);
        if (!r)
            break;
        if (p->json && rank)
            fputs(", ", p->to);
        code = p->json ? put_object(p, context, r) : translation_print_text(p, r, number);
    }
    if (p->json)
        fputs("]}\n", p->to);
    return code;
}
