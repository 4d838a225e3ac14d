// SPDX-License-Identifier: MIT
// Transcripts as text, subtitles, TSV and JSON.
#include "report.h"
#include "transcribe/transcribe.h"

#include <math.h>
#include <string.h>

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static mh_text trim(mh_text text)
{
    while (text.size > 0 && is_space(text.bytes[0]))
        text.bytes++, text.size--;
    while (text.size > 0 && is_space(text.bytes[text.size - 1]))
        text.size--;
    return text;
}

// Whether bytes from i on are an arrow of several dashes, which separates times in subtitles.
static bool is_long_arrow(mh_text text, size_t i)
{
    size_t end = i;
    while (end < text.size && text.bytes[end] == '-')
        end++;
    return end - i >= 2 && end < text.size && text.bytes[end] == '>';
}

// On one line. "-->" in subtitles becomes "->", and what begins a tag in VTT is escaped.
static void put_text(FILE *to, mh_text text, transcript_format format)
{
    const bool subtitles = format == FORMAT_SRT || format == FORMAT_VTT;
    text = trim(text);
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.bytes[i];
        if (subtitles && is_long_arrow(text, i))
            continue;
        if (format == FORMAT_VTT && c == '<')
            fputs("&lt;", to);
        else if (format == FORMAT_VTT && c == '&')
            fputs("&amp;", to);
        else
            putc(c >= '\t' && c <= '\r' ? ' ' : c, to);
    }
}

static long milliseconds(double seconds) { return lround(seconds * 1000); }

// 01:02:03,456; hours may be left out, and `point` is a comma in .srt files.
static void put_time(FILE *to, double seconds, char point, bool hours)
{
    const long ms = milliseconds(seconds), s = ms / 1000;
    if (hours || s >= 3600)
        fprintf(to, "%02ld:", s / 3600);
    fprintf(to, "%02ld:%02ld%c%03ld", s / 60 % 60, s % 60, point, ms % 1000);
}

void print_transcript_begin(const transcribe *t, FILE *to)
{
    if (t->format == FORMAT_VTT)
        fputs("WEBVTT\n\n", to);
    if (t->format == FORMAT_TSV)
        fputs("start\tend\ttext\n", to);
    if (t->format == FORMAT_TEXT && t->count > 1 && !t->out_directory)
        fprintf(to, "==> %s <==\n", t->path);
}

// A line or subtitle.
static void print_span(const transcribe *t, FILE *to, double begin, double end, mh_text text,
                       size_t number)
{
    const bool srt = t->format == FORMAT_SRT;
    if (t->format == FORMAT_TSV) {
        fprintf(to, "%ld\t%ld\t", milliseconds(begin), milliseconds(end));
    } else if (srt || t->format == FORMAT_VTT) {
        if (srt)
            fprintf(to, "%zu\n", number);
        put_time(to, begin, srt ? ',' : '.', srt);
        fputs(" --> ", to);
        put_time(to, end, srt ? ',' : '.', srt);
        putc('\n', to);
    } else if (t->options.word_times) {
        putc('[', to);
        put_time(to, begin, '.', false);
        fputs(" --> ", to);
        put_time(to, end, '.', false);
        fputs("] ", to);
    }
    put_text(to, text, t->format);
    fputs(srt || t->format == FORMAT_VTT ? "\n\n" : "\n", to);
}

void print_segment(const transcribe *t, FILE *to, const mh_speech_segment *g, size_t *number)
{
    if (!t->options.word_times || g->word_count == 0)
        print_span(t, to, g->begin, g->end, g->text, ++*number);
    for (size_t i = 0; i < g->word_count; i++)
        print_span(t, to, g->words[i].begin, g->words[i].end, g->words[i].text, ++*number);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void put_words(FILE *to, const mh_speech_segment *g)
{
    fputs(", \"words\": [", to);
    for (size_t i = 0; i < g->word_count; i++) {
        const mh_speech_word *w = &g->words[i];
        fputs(i ? ", {\"word\": " : "{\"word\": ", to);
        put_json_string(to, w->text.bytes, w->text.size);
        fprintf(to, ", \"start\": %.2f, \"end\": %.2f, \"probability\": %.6g}", w->begin, w->end,
                w->probability);
    }
    putc(']', to);
}

static void put_segment(const transcribe *t, FILE *to, const mh_speech_segment *g, size_t i)
{
    fprintf(to, "%s{\"id\": %zu, \"start\": %.2f, \"end\": %.2f, \"text\": ", i ? ", " : "", i,
            g->begin, g->end);
    put_json_string(to, g->text.bytes, g->text.size);
    fputs(", \"tokens\": [", to);
    for (size_t k = 0; k < g->count; k++)
        fprintf(to, "%s%d", k ? ", " : "", (int)g->ids[k]);
    fprintf(to,
            "], \"temperature\": %.1f, \"avg_logprob\": %.6g, \"compression_ratio\": %.6g, "
            "\"no_speech_prob\": %.6g",
            g->temperature, g->logprob, g->compression_ratio, g->no_speech);
    if (t->options.word_times)
        put_words(to, g);
    putc('}', to);
}

// The members have the names of OpenAI's program.
void print_transcript_json(const transcribe *t, FILE *to, const mh_transcription *r)
{
    fputs("{\"input\": ", to);
    put_json_string(to, t->path, strlen(t->path));
    fprintf(to, ", \"language\": \"%s\", \"duration\": %.3f, \"segments\": [",
            mh_transcription_language(r), t->seconds);
    for (size_t i = 0; i < mh_transcription_count(r); i++)
        put_segment(t, to, mh_transcription_segment(r, i), i);
    fputs("]}\n", to);
}
