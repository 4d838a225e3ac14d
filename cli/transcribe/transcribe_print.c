// SPDX-License-Identifier: MIT
// Transcripts as text, subtitles, TSV and JSON.
#include "report.h"
#include "transcribe/transcribe.h"

#include <math.h>
#include <string.h>

static mh_text trim(mh_text text)
{
    while (text.size > 0 && text.bytes[0] == ' ')
        text.bytes++, text.size--;
    return text;
}

static void put_text(mh_text text)
{
    text = trim(text);
    fwrite(text.bytes, 1, text.size, stdout);
}

static long milliseconds(double seconds) { return lround(seconds * 1000); }

// 01:02:03,456; hours may be left out, and `point` is a comma in .srt files.
static void put_time(double seconds, char point, bool hours)
{
    const long ms = milliseconds(seconds), s = ms / 1000;
    if (hours || s >= 3600)
        printf("%02ld:", s / 3600);
    printf("%02ld:%02ld%c%03ld", s / 60 % 60, s % 60, point, ms % 1000);
}

void print_transcript_begin(const transcribe *t)
{
    if (t->format == FORMAT_VTT)
        puts("WEBVTT\n");
    if (t->format == FORMAT_TSV)
        puts("start\tend\ttext");
    if (t->format == FORMAT_TEXT && t->count > 1)
        printf("==> %s <==\n", t->path);
}

// A line or subtitle.
static void print_span(const transcribe *t, double begin, double end, mh_text text, size_t number)
{
    const bool srt = t->format == FORMAT_SRT;
    if (t->format == FORMAT_TSV) {
        printf("%ld\t%ld\t", milliseconds(begin), milliseconds(end));
    } else if (srt || t->format == FORMAT_VTT) {
        if (srt)
            printf("%zu\n", number);
        put_time(begin, srt ? ',' : '.', srt);
        fputs(" --> ", stdout);
        put_time(end, srt ? ',' : '.', srt);
        putchar('\n');
    } else if (t->options.word_times) {
        putchar('[');
        put_time(begin, '.', false);
        fputs(" --> ", stdout);
        put_time(end, '.', false);
        fputs("] ", stdout);
    }
    put_text(text);
    fputs(srt || t->format == FORMAT_VTT ? "\n\n" : "\n", stdout);
}

void print_segment(const transcribe *t, const mh_speech_segment *g, size_t *number)
{
    if (!t->options.word_times || g->word_count == 0)
        print_span(t, g->begin, g->end, g->text, ++*number);
    for (size_t i = 0; i < g->word_count; i++)
        print_span(t, g->words[i].begin, g->words[i].end, g->words[i].text, ++*number);
}

// ---- JSON -----------------------------------------------------------------------------------

static void put_words(const mh_speech_segment *g)
{
    fputs(", \"words\": [", stdout);
    for (size_t i = 0; i < g->word_count; i++) {
        const mh_speech_word *w = &g->words[i];
        fputs(i ? ", {\"word\": " : "{\"word\": ", stdout);
        put_json_string(stdout, w->text.bytes, w->text.size);
        printf(", \"start\": %.2f, \"end\": %.2f, \"probability\": %.6g}", w->begin, w->end,
               w->probability);
    }
    putchar(']');
}

static void put_segment(const transcribe *t, const mh_speech_segment *g, size_t i)
{
    printf("%s{\"id\": %zu, \"start\": %.2f, \"end\": %.2f, \"text\": ", i ? ", " : "", i, g->begin,
           g->end);
    put_json_string(stdout, g->text.bytes, g->text.size);
    fputs(", \"tokens\": [", stdout);
    for (size_t k = 0; k < g->count; k++)
        printf("%s%d", k ? ", " : "", (int)g->ids[k]);
    printf("], \"temperature\": %.1f, \"avg_logprob\": %.6g, \"compression_ratio\": %.6g, "
           "\"no_speech_prob\": %.6g",
           g->temperature, g->logprob, g->compression_ratio, g->no_speech);
    if (t->options.word_times)
        put_words(g);
    putchar('}');
}

// The members have the names of OpenAI's program.
void print_transcript_json(const transcribe *t, const mh_transcription *r)
{
    fputs("{\"input\": ", stdout);
    put_json_string(stdout, t->path, strlen(t->path));
    printf(", \"language\": \"%s\", \"duration\": %.3f, \"segments\": [",
           mh_transcription_language(r), t->seconds);
    for (size_t i = 0; i < mh_transcription_count(r); i++)
        put_segment(t, mh_transcription_segment(r, i), i);
    puts("]}");
}
