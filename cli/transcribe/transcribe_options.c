// SPDX-License-Identifier: MIT
// Options of `multihead transcribe`.
#include "transcribe/transcribe.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_TASK = 0x100,
    KEY_LANGUAGE,
    KEY_FORMAT,
    KEY_JSON,
    KEY_WORDS,
    KEY_NO_TIMES,
    KEY_BEAM,
    KEY_NO_FALLBACK,
    KEY_SEED,
    KEY_PROMPT,
    KEY_NO_CONTEXT,
    KEY_RAW,
    KEY_CHANNELS,
    KEY_DTYPE,
    KEY_OUT,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Model and sound", 1},
    {"model", 'm', "MODEL", 0,
     "a directory of Whisper as Hugging Face publishes it, or with OpenAI's .pt and .tiktoken "
     "files; or the name of one in $MULTIHEAD_MODELS, ./models or where models are installed; or "
     "ORG/NAME in Hugging Face's cache. Nothing is downloaded",
     0},
    {"raw", KEY_RAW, "RATE", 0,
     "the files have no header: samples of 16 bits, little-endian, RATE per second", 0},
    {"channels", KEY_CHANNELS, "N", 0, "of --raw, interleaved. Default: 1", 0},
    {"dtype", KEY_DTYPE, "NAME", 0, "type of the weights, f32 or bf16. Default: f32", 0},
    {NULL, 0, NULL, 0, "What to do", 2},
    {"task", KEY_TASK, "NAME", 0,
     "transcribe, or translate to English, by multilingual models. Default: transcribe", 0},
    {"language", KEY_LANGUAGE, "NAME", 0,
     "what is spoken, for instance fr or french. Default: detected in the first 30 seconds", 0},
    {"prompt", KEY_PROMPT, "TEXT", 0, "what came before the sound: names, spellings, style", 0},
    {"beam", KEY_BEAM, "N", 0, "beam search with N hypotheses. Default: 1, greedy", 0},
    {"no-fallback", KEY_NO_FALLBACK, NULL, 0,
     "accept text that repeats itself or is improbable; default: try again with temperatures 0.2 "
     "to 1",
     0},
    {"no-context", KEY_NO_CONTEXT, NULL, 0,
     "each window of 30 seconds by itself; default: the text so far is its context", 0},
    {"seed", KEY_SEED, "N", 0, "of samples at higher temperatures. Default: 0", 0},
    {NULL, 0, NULL, 0, "What to print", 3},
    {"format", KEY_FORMAT, "NAME", 0,
     "text, srt or vtt (subtitles), tsv (milliseconds), json (one object per file). Default: text",
     0},
    {"output-format", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"json", KEY_JSON, NULL, 0, "as --format json", 0},
    {"out-dir", KEY_OUT, "DIR", 0,
     "write a file for each sound, talk.srt of talk.wav; default: standard output", 0},
    {"output-dir", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"word-times", KEY_WORDS, NULL, 0,
     "when each word was said, by cross-attention; in subtitles one word at a time", 0},
    {"word-timestamps", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"no-timestamps", KEY_NO_TIMES, NULL, 0, "one segment per window of 30 seconds", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice format_choices[] = {{"text|txt", FORMAT_TEXT}, {"srt", FORMAT_SRT},
                                        {"vtt", FORMAT_VTT},       {"tsv", FORMAT_TSV},
                                        {"json", FORMAT_JSON},     {NULL, 0}};
static const choice task_choices[] = {{"transcribe", false}, {"translate", true}, {NULL, 0}};

static void add_path(struct argp_state *state, transcribe *t, const char *path)
{
    if (!t->paths) // as many as there are words, at most
        t->paths = calloc((size_t)state->argc, sizeof *t->paths);
    if (!t->paths)
        refuse_memory();
    t->paths[t->count++] = path;
}

const char *transcript_ending(transcript_format format)
{
    static const char *const endings[] = {"txt", "srt", "vtt", "tsv", "json"};
    return endings[format];
}

size_t transcript_stem(const char *path, const char **stem)
{
    const char *slash = strrchr(path, '/');
    *stem = slash ? slash + 1 : path;
    const char *dot = strrchr(*stem, '.');
    return dot && dot > *stem ? (size_t)(dot - *stem) : strlen(*stem);
}

// Two sounds must not be written to one file.
static void check_stems(struct argp_state *state, const transcribe *t)
{
    for (size_t i = 0; i < t->count; i++)
        for (size_t j = 0; j < i; j++) {
            const char *a, *b;
            const size_t size = transcript_stem(t->paths[i], &a);
            if (size == transcript_stem(t->paths[j], &b) && memcmp(a, b, size) == 0)
                argp_error(state, "--out-dir: %s and %s would both be written to %.*s.%s",
                           t->paths[j], t->paths[i], (int)size, a, transcript_ending(t->format));
        }
}

static void check_transcribe(struct argp_state *state, const transcribe *t)
{
    if (!t->model_name)
        argp_error(state, "-m is missing, expected the directory or the name of a Whisper model");
    if (t->count == 0)
        argp_error(state, "there is no sound file, expected at least one");
    if (t->out_directory)
        check_stems(state, t);
    else if (t->count > 1 && t->format != FORMAT_TEXT && t->format != FORMAT_JSON)
        argp_error(state,
                   "--format %s: found %zu files, expected one; --out-dir writes one for each",
                   transcript_ending(t->format), t->count);
    if (t->channels && !t->raw_rate)
        argp_error(state, "--channels: is for --raw only; other files say how many they have");
}

static error_t parse_output_option(int key, char *argument, struct argp_state *state, transcribe *t)
{
    switch (key) {
    case KEY_FORMAT:
        t->format = (transcript_format)parse_choice(state, "--format", argument, format_choices);
        return 0;
    case KEY_JSON:
        t->format = FORMAT_JSON;
        return 0;
    case KEY_OUT:
        t->out_directory = argument;
        return 0;
    case KEY_WORDS:
        t->options.word_times = true;
        return 0;
    case KEY_NO_TIMES:
        t->options.timestamps = false;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_search_option(int key, char *argument, struct argp_state *state, transcribe *t)
{
    switch (key) {
    case KEY_TASK:
        t->options.translate = parse_choice(state, "--task", argument, task_choices);
        return 0;
    case KEY_LANGUAGE:
        t->options.language = argument;
        return 0;
    case KEY_PROMPT:
        t->options.prompt = (mh_text){argument, strlen(argument)};
        if (mh_utf8_valid(argument, strlen(argument)) < strlen(argument))
            argp_error(state, "--prompt: the text is not valid UTF-8");
        return 0;
    case KEY_BEAM:
        t->options.beam = (size_t)parse_integer(state, "--beam", argument, 1, 64);
        return 0;
    case KEY_NO_FALLBACK:
        t->options.temperatures = 1;
        return 0;
    case KEY_NO_CONTEXT:
        t->options.condition_on_previous = false;
        return 0;
    case KEY_SEED:
        t->options.seed = (uint64_t)parse_integer(state, "--seed", argument, 0, INT64_MAX);
        return 0;
    default:
        return parse_output_option(key, argument, state, t);
    }
}

static error_t parse_transcribe_option(int key, char *argument, struct argp_state *state)
{
    transcribe *t = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &t->common;
        return 0;
    case ARGP_KEY_ARG:
        add_path(state, t, argument);
        return 0;
    case ARGP_KEY_END:
        check_transcribe(state, t);
        return 0;
    case 'm':
        t->model_name = argument;
        return 0;
    case KEY_RAW:
        t->raw_rate =
            (size_t)parse_integer(state, "--raw", argument, MH_AUDIO_RATE_MIN, MH_AUDIO_RATE_MAX);
        return 0;
    case KEY_CHANNELS:
        t->channels = (size_t)parse_integer(state, "--channels", argument, 1, 64);
        return 0;
    case KEY_DTYPE:
        t->loading.precision =
            (mh_precision)parse_choice(state, "--dtype", argument, precision_choices);
        return 0;
    default:
        return parse_search_option(key, argument, state, t);
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp transcribe_argp = {
    .options = option_table,
    .parser = parse_transcribe_option,
    .args_doc = "-m MODEL FILE...",
    .doc = "Speech to text with Whisper.\v"
           "Sound is read from WAV files of any rate, and from FLAC, OGG, MP3 and others where "
           "libmultihead-media is; - is standard input.\n\n"
           "Examples:\n"
           "  multihead transcribe -m whisper-tiny.en talk.wav\n"
           "  multihead transcribe -m whisper-small --language fr --task translate talk.wav\n"
           "  multihead transcribe -m whisper-tiny.en --format srt talk.wav >talk.srt\n"
           "  multihead transcribe -m whisper-tiny.en --json --word-times *.wav\n"
           "  multihead transcribe -m whisper-tiny.en --format srt --out-dir subtitles *.mp3\n",
    .children = children,
};
