// SPDX-License-Identifier: MIT
// multihead transcribe: speech to text. A file that cannot be read is reported, and the others go
// on.
#include "messages.h"
#include "pretrained/text_arguments.h"
#include "progress.h"
#include "transcribe/transcribe.h"
#include "whole_file.h"

#include <multihead/io.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BYTES_MAX ((size_t)4 << 30)

// ---- a file -------------------------------------------------------------------------------------

static int read_sound(transcribe *t, mh_audio *audio)
{
    mh_status status;
    if (!t->raw_rate && !is_stream(t->path)) {
        status = mh_audio_read(t->context, t->path, audio);
    } else {
        const char *name = input_name(t->path);
        char *bytes = NULL;
        size_t size;
        const int code = whole_file_read(NULL, t->path, STREAM_BYTES_MAX, &bytes, &size);
        if (code != EXIT_DONE) {
            free(bytes);
            return code;
        }
        status = t->raw_rate ? mh_audio_parse_pcm(t->context, name, bytes, size, t->raw_rate,
                                                  t->channels ? t->channels : 1, audio)
                             : mh_audio_parse(t->context, name, bytes, size, audio);
        free(bytes);
    }
    return status ? complain_input(t->context, status) : EXIT_DONE;
}

// Segments are printed as they come, if there is a stream for them.
typedef struct live_print {
    const transcribe *t;
    FILE *to;
    bool begun;
    size_t number; // of segments or words so far
} live_print;

static void begin_printing(live_print *p)
{
    if (p->to && !p->begun)
        print_transcript_begin(p->t, p->to);
    p->begun = true;
}

static bool on_window(void *user, const mh_speech_segment *segments, size_t count, double seconds)
{
    live_print *p = user;
    char text[64];
    progress_clear();
    begin_printing(p);
    for (size_t i = 0; i < count && p->to; i++)
        print_segment(p->t, p->to, &segments[i], &p->number);
    if (p->to == stdout)
        fflush(stdout);
    snprintf(text, sizeof text, "%.0f of %.0f s", seconds, p->t->seconds);
    if (seconds < p->t->seconds)
        progress_line(seconds / p->t->seconds, text);
    return true;
}

static int transcribe_to(transcribe *t, FILE *to)
{
    mh_audio audio;
    mh_transcription *result = NULL;
    int code = read_sound(t, &audio);
    if (code != EXIT_DONE)
        return code;
    live_print printer = {.t = t, .to = t->format == FORMAT_JSON ? NULL : to};
    t->seconds = (double)audio.count / (double)audio.rate;
    t->options.on_window = on_window;
    t->options.user = &printer;
    if (t->seconds > 30)
        progress_line(0, "listening");
    mh_status status = mh_transcribe(t->context, t->model, &t->options, &audio, &result);
    progress_clear();
    mh_audio_free(t->context, &audio);
    if (status)
        code = complain_status(t->context, status, t->path);
    else if (t->format == FORMAT_JSON)
        print_transcript_json(t, to, result);
    else
        begin_printing(&printer); // of a sound without windows
    if (!status && mh_transcription_count(result) == 0)
        note("%s: no speech found", input_name(t->path));
    mh_transcription_free(result);
    return status == MH_ERROR_ARGUMENT || status == MH_ERROR_UNSUPPORTED ? EXIT_USAGE : code;
}

// ---- a file for each ----------------------------------------------------------------------------

// DIR/talk.srt of talk.wav; NULL if out of memory.
static char *name_output(const transcribe *t)
{
    const char *name, *ending = transcript_ending(t->format);
    const size_t stem = transcript_stem(t->path, &name);
    const size_t size = strlen(t->out_directory) + stem + strlen(ending) + 3;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%.*s.%s", t->out_directory, (int)stem, name, ending);
    return path;
}

static int complain_memory(const transcribe *t)
{
    complain("%s: out of memory for the transcript", t->path);
    return EXIT_MEMORY;
}

// The whole transcript, then the file, atomically.
static int transcribe_to_file(transcribe *t)
{
    char *text = NULL, *path = name_output(t);
    size_t size = 0;
    FILE *to = path ? open_memstream(&text, &size) : NULL;
    int code = to ? transcribe_to(t, to) : complain_memory(t);
    if (to && fclose(to) != 0 && code == EXIT_DONE)
        code = complain_memory(t);
    if (code == EXIT_DONE) {
        begin_saving();
        const mh_status status = mh_bytes_write(t->context, path, text, size);
        code = status ? complain_output(t->context, status, NULL) : EXIT_DONE;
        end_saving();
    }
    free(text);
    free(path);
    return code;
}

static int transcribe_files(transcribe *t)
{
    int code = EXIT_DONE;
    for (size_t i = 0; i < t->count && code != EXIT_USAGE; i++) {
        t->path = t->paths[i];
        const int one = t->out_directory ? transcribe_to_file(t) : transcribe_to(t, stdout);
        code = code == EXIT_DONE || one == EXIT_USAGE ? one : code;
    }
    return code;
}

static int run_transcribe(int argc, char **argv)
{
    transcribe t = {.common = {.command = &transcribe_command},
                    .loading = mh_model_options_default(),
                    .options = mh_transcribe_options_default()};
    int code = parse_arguments(&transcribe_argp, argc, argv, &t);
    if (code == EXIT_DONE)
        code = open_model(&t.common, t.model_name, &t.loading, &t.directory, &t.context, &t.model);
    if (code == EXIT_DONE && !(mh_model_describe(t.model)->abilities & MH_CAN_TRANSCRIBE)) {
        complain("%s: is a model of type %s, expected whisper", t.directory,
                 mh_model_describe(t.model)->family);
        code = EXIT_INPUT;
    }
    if (code == EXIT_DONE)
        code = transcribe_files(&t);
    mh_model_free(t.model);
    mh_context_free(t.context);
    free(t.directory);
    free(t.paths);
    return code;
}

const command transcribe_command = {
    .name = "transcribe",
    .summary = "speech to text with Whisper, with times of segments and words",
    .argp = &transcribe_argp,
    .run = run_transcribe,
};
