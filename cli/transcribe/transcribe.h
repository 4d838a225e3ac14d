// SPDX-License-Identifier: MIT
// Internals of `multihead transcribe`.
#ifndef CLI_TRANSCRIBE_H
#define CLI_TRANSCRIBE_H

#include "arguments.h"

#include <multihead/speech.h>
#include <stdio.h>

typedef enum transcript_format {
    FORMAT_TEXT,
    FORMAT_SRT,
    FORMAT_VTT,
    FORMAT_TSV,
    FORMAT_JSON,
} transcript_format;

typedef struct transcribe {
    common_options common;
    const char *model_name;
    mh_model_options loading;
    mh_transcribe_options options;
    transcript_format format;
    size_t raw_rate, channels; // of samples without a header; 0: files have one
    const char *out_directory; // NULL: standard output
    const char **paths;        // (count)
    size_t count;

    char *directory;
    mh_context *context;
    mh_model *model;

    const char *path; // of the file that is being transcribed
    double seconds;   // of it
} transcribe;

extern const struct argp transcribe_argp;

// What comes before, for and after the segments of a file. `number` counts its segments or lines
// from 1.
void print_transcript_begin(const transcribe *t, FILE *to);
void print_segment(const transcribe *t, FILE *to, const mh_speech_segment *segment, size_t *number);
void print_transcript_json(const transcribe *t, FILE *to, const mh_transcription *transcription);

// The ending of a file of this format, "srt".
const char *transcript_ending(transcript_format format);

// The size of a file's name without directory and ending, which begins at *stem.
size_t transcript_stem(const char *path, const char **stem);

#endif
