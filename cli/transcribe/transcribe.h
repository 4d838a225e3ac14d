// SPDX-License-Identifier: MIT
// Internals of `multihead transcribe`.
#ifndef CLI_TRANSCRIBE_H
#define CLI_TRANSCRIBE_H

#include "arguments.h"

#include <multihead/speech.h>

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
    const char **paths;        // (count)
    size_t count;

    char *directory;
    mh_context *context;
    mh_model *model;

    const char *path; // of the file that is being transcribed
    double seconds;   // of it
    bool live;        // segments are printed as they come
} transcribe;

extern const struct argp transcribe_argp;

// What comes before, for and after the segments of a file. `number` counts its segments or lines
// from 1.
void print_transcript_begin(const transcribe *t);
void print_segment(const transcribe *t, const mh_speech_segment *segment, size_t *number);
void print_transcript_json(const transcribe *t, const mh_transcription *transcription);

#endif
