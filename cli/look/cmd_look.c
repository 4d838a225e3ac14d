// SPDX-License-Identifier: MIT
// `multihead look`: what the heads of a pretrained model attend to in a text.
#include "look.h"
#include "messages.h"
#include "model_path.h"
#include "pretrained/labels.h"
#include "pretrained/pictures.h"
#include "report.h"
#include "terminal.h"
#include "view/view_files.h"

#include <multihead/speech.h>
#include <multihead/translator.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_LAYER = 0x100,
    KEY_HEAD,
    KEY_LINK,
    KEY_PAIR,
    KEY_TARGET,
    KEY_KIND,
    KEY_PATCH,
    KEY_PAGE,
    KEY_TRACE_OUT,
    KEY_OFF,
    KEY_WIDTH,
    KEY_BEGIN
};
enum { FILE_PAGE, FILE_TRACE, FILE_COUNT };

typedef struct look {
    text_arguments arguments;
    mh_view_options options;
    const char *pair;
    const char *target; // NULL: what the model translates or transcribes
    double begin;       // of a sound, in seconds
    bool patch;         // of a picture, whose attention is shown
    size_t patch_row, patch_column;
    link_words link; // first NULL: not wanted
    given_names off;
    output files[FILE_COUNT];
} look;

// ---- options ------------------------------------------------------------------------------------

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What to show", 1},
    {"layer", KEY_LAYER, "N", 0, "from 0; default: the last in text, an overview in a page", 0},
    {"head", KEY_HEAD, "N", 0, "from 0; default: all", 0},
    {"link", KEY_LINK, "A,B", 0,
     "the 5 heads that link two words of the text most, by the attention of one word's tokens to "
     "the other's, and a heatmap of the first",
     0},
    {"target", KEY_TARGET, "TEXT", 0,
     "of an encoder-decoder: the translation or transcript that its decoder reads; default: its "
     "own, translated by a beam of 4",
     0},
    {"begin", KEY_BEGIN, "SECONDS", 0,
     "of a sound: where the 30 seconds that are shown begin. Default: 0", 0},
    {"kind", KEY_KIND, "KIND", 0,
     "of an encoder-decoder: encoder, decoder or cross; default: cross, in a page all", 0},
    {"patch", KEY_PATCH, "ROW,COLUMN", 0,
     "of a picture: the patch whose attention is shown, from 0; default: the class token", 0},
    {"pair", KEY_PAIR, "TEXT", 0, "a second text, which the model reads together with the first",
     0},
    {"disable-head", KEY_OFF, "L:H", 0,
     "switch a head off, layer and head from 0; L is all heads of a layer; may be given several "
     "times",
     0},
    {"width", KEY_WIDTH, "N", 0, "columns to use; default: the terminal's, or 80", 0},
    {NULL, 0, NULL, 0, "Files, in place of heatmaps", 2},
    {"page", KEY_PAGE, "FILE", 0, "write one self-contained HTML page with every view", 0},
    {"trace-out", KEY_TRACE_OUT, "FILE", 0, "write a trace, for 'multihead view --trace'", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice kind_choices[] = {{"encoder", MH_TRACE_ENCODER},
                                      {"decoder", MH_TRACE_DECODER},
                                      {"cross", MH_TRACE_CROSS},
                                      {NULL, 0}};

static void parse_patch(struct argp_state *state, look *l, const char *argument)
{
    enum { MOST_DIGITS = 5 };
    static const char digits[] = "0123456789";
    const size_t first = strspn(argument, digits);
    const size_t second = argument[first] == ',' ? strspn(argument + first + 1, digits) : 0;
    if (!first || !second || first > MOST_DIGITS || second > MOST_DIGITS ||
        argument[first + 1 + second])
        argp_error(state, "--patch: found '%s', expected ROW,COLUMN, from 0", argument);
    l->patch = true;
    l->patch_row = strtoul(argument, NULL, 10);
    l->patch_column = strtoul(argument + first + 1, NULL, 10);
}

static void check_look(struct argp_state *state, const look *l)
{
    view_files_check(state, &l->files[FILE_PAGE]);
    outputs_check(state, l->files, FILE_COUNT, l->link.first ? "--link" : NULL);
    if (l->arguments.json && !l->link.first && outputs_wanted(l->files, 0, FILE_COUNT))
        argp_error(state, "--json is for heads that are printed, not for --page or --trace-out");
}

static error_t look_parse_option(int key, char *argument, struct argp_state *state)
{
    look *l = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &l->arguments;
        return 0;
    case ARGP_KEY_END:
        check_look(state, l);
        return 0;
    case KEY_LAYER:
        l->options.layer = (ptrdiff_t)parse_integer(state, "--layer", argument, 0, INT32_MAX);
        return 0;
    case KEY_HEAD:
        l->options.head = (ptrdiff_t)parse_integer(state, "--head", argument, 0, INT32_MAX);
        return 0;
    case KEY_LINK:
        link_words_parse(state, &l->link, argument);
        return 0;
    case KEY_TARGET:
        l->target = argument;
        return 0;
    case KEY_BEGIN:
        l->begin = parse_number(state, "--begin", argument);
        if (!(l->begin >= 0))
            argp_error(state, "--begin: found %s, expected seconds", argument);
        return 0;
    case KEY_KIND:
        l->options.kind = (mh_trace_kind)parse_choice(state, "--kind", argument, kind_choices);
        return 0;
    case KEY_PAIR:
        l->pair = argument;
        return 0;
    case KEY_PATCH:
        parse_patch(state, l, argument);
        return 0;
    case KEY_OFF:
        off_add(state, &l->off, argument);
        return 0;
    case KEY_WIDTH:
        l->options.width = (size_t)parse_integer(state, "--width", argument, 20, 10000);
        return 0;
    case KEY_PAGE:
        l->files[FILE_PAGE].path = output_path(argument);
        return 0;
    case KEY_TRACE_OUT:
        l->files[FILE_TRACE].path = output_path(argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&whole_text_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp look_argp = {
    .options = option_table,
    .parser = look_parse_option,
    .children = children,
    .args_doc = "[-m MODEL] TEXT|PICTURE|SOUND [OPTION...]",
    .doc = "Shows what the heads of a pretrained model attend to in a text: heatmaps in the "
           "terminal, a row for each token and a column for each token that it attends to, or one "
           "HTML page. An encoder-decoder shows those of a translation; Whisper the "
           "cross-attention of a transcript over 30 seconds of a sound file; a model that reads "
           "pictures a map of the patches of a picture file for each head, and attention rollout, "
           "which follows attention through all layers. A text that is too long for the model is "
           "an error. Without -m the model is en-fr, which translates English to French.\v"
           "Examples:\n"
           "  multihead look \"The bank approved the loan.\"\n"
           "  multihead look -m all-MiniLM-L6-v2 \"The cat that I saw ran away\" --link cat,ran\n"
           "  multihead look -m opus-mt-fr-en \"Il fait beau.\" --target \"The weather is fine.\"\n"
           "  multihead look -m vit-base-patch16-224 cat.png --layer 11 --head 3\n"
           "  multihead look -m whisper-tiny.en talk.wav --layer 2 --head 5\n"
           "  multihead look -m gpt2 \"Gravity is\" --page page.html\n",
};

// ---- checks -------------------------------------------------------------------------------------

// Whether a decoder takes part. Links are between the words of one text, of the encoder's.
static bool reads_target(const look *l)
{
    return (mh_model_describe(l->arguments.model)->abilities & MH_CAN_TRANSLATE) && !l->link.first;
}

// Whether the model transcribes sound: its decoder takes part, too.
static bool hears(const look *l)
{
    return mh_model_describe(l->arguments.model)->abilities & MH_CAN_TRANSCRIBE;
}

// Of these all but the sound's own options are for something else.
static int check_sound(const look *l)
{
    if (l->pair || l->link.first)
        complain("%s is for texts, and this model reads sound", l->pair ? "--pair" : "--link");
    else if (l->patch)
        complain("--patch is for pictures, and this model reads sound");
    else if (l->off.count)
        complain("--disable-head is not for models that read sound");
    else if (l->options.kind != MH_TRACE_ANY && l->options.kind != MH_TRACE_CROSS)
        complain("--kind: models that read sound only show cross");
    else
        return EXIT_DONE;
    return EXIT_USAGE;
}

// Options that this model, or this kind of view, does not have.
static int check_kind(const look *l)
{
    const char *found = l->target ? "--target" : l->options.kind != MH_TRACE_ANY ? "--kind" : NULL;
    if (hears(l))
        return check_sound(l);
    if (l->begin > 0)
        complain("--begin is for sound, which this model does not read");
    else if (found && !reads_target(l))
        complain("%s is for encoder-decoders, and not for --link", found);
    else if ((l->pair || l->link.first) && reads_pictures(&l->arguments))
        complain("%s is for texts, and this model reads pictures", l->pair ? "--pair" : "--link");
    else if (l->patch && !reads_pictures(&l->arguments))
        complain("--patch is for pictures, and this model reads texts");
    else if (l->patch && outputs_wanted(l->files, 0, FILE_COUNT))
        complain("--patch is for the terminal; in a page, click on a patch");
    else if (l->off.count && reads_target(l))
        complain("--disable-head: found an encoder-decoder, expected one stack of layers; "
                 "'multihead translate --disable-head' is for these");
    else if (l->pair && reads_target(l))
        complain("--pair: found an encoder-decoder, whose second text is --target");
    else
        return EXIT_DONE;
    return EXIT_USAGE;
}

// Of CLIP's two models, the one that reads a text.
static const mh_model *model_of_text(const look *l)
{
    const mh_model *text = mh_model_text_tower(l->arguments.model);
    return text ? text : l->arguments.model;
}

static int check_shown(const look *l)
{
    const text_arguments *a = &l->arguments;
    const mh_model_info *info =
        mh_model_describe(is_picture(a, a->texts[0]) ? a->model : model_of_text(l));
    const bool decoder = hears(l) || (reads_target(l) && l->options.kind != MH_TRACE_ENCODER);
    int code = check_index("--layer", l->options.layer,
                           decoder ? info->decoder_layers : info->layers, "layer", "layers");
    if (code == EXIT_DONE)
        code = check_index("--head", l->options.head, info->heads, "head", "heads");
    return code;
}

static int check_texts(const look *l)
{
    const char *kind = text_arguments_kind(&l->arguments);
    if (l->arguments.count != 1)
        complain("found %zu %s, expected 1%s", l->arguments.count, kind,
                 strcmp(kind, "texts") == 0 ? "; --pair adds a second one" : "");
    else if (l->target && mh_utf8_valid(l->target, strlen(l->target)) < strlen(l->target))
        complain("--target: the text is not valid UTF-8");
    else if (l->pair && mh_utf8_valid(l->pair, strlen(l->pair)) < strlen(l->pair))
        complain("--pair: the text is not valid UTF-8");
    else
        return EXIT_DONE;
    return EXIT_USAGE;
}

// ---- printing -----------------------------------------------------------------------------------

static void print_links_json(const look *l, const head_link *links, size_t count)
{
    const mh_text text = l->arguments.texts[0];
    printf("{\"text\": ");
    put_json_string(stdout, text.bytes, text.size);
    printf(", ");
    links_print_json(&l->link, links, count);
    printf("}\n");
}

// The ranking, and the options of the heatmap after it: the best head, if none was asked for.
static int show_links(const look *l, const mh_trace *trace, mh_view_options *shown)
{
    head_link links[LINKS_SHOWN];
    size_t count;
    int code = links_find(trace, &l->link, links, &count);
    if (code != EXIT_DONE)
        return code;
    if (l->arguments.json)
        print_links_json(l, links, count);
    else
        links_print(&l->link, links, count);
    if (shown->layer < 0 && shown->head < 0) {
        shown->layer = (ptrdiff_t)links[0].layer;
        shown->head = (ptrdiff_t)links[0].head;
    }
    return EXIT_DONE;
}

// The token of --patch; in a page one chooses it there.
static int find_patch(const look *l, const mh_trace *trace, mh_view_options *shown)
{
    const mh_trace_picture *p = &trace->picture;
    const size_t T = trace->groups[MH_TRACE_ENCODER].weights.shape[2];
    if (!l->patch)
        return EXIT_DONE;
    if (!p->rows) {
        complain("--patch is for pictures, and this is a text");
        return EXIT_USAGE;
    }
    if (l->patch_row >= p->rows || l->patch_column >= p->columns) {
        complain("--patch: found %zu,%zu, but the picture has %zu rows and %zu columns of patches, "
                 "from 0",
                 l->patch_row, l->patch_column, p->rows, p->columns);
        return EXIT_USAGE;
    }
    shown->query =
        (ptrdiff_t)(T - p->rows * p->columns + l->patch_row * p->columns + l->patch_column);
    return EXIT_DONE;
}

static int show_trace(const look *l, const mh_trace *trace)
{
    const bool files = outputs_wanted(l->files, 0, FILE_COUNT);
    mh_view_options shown = l->options;
    int code = find_patch(l, trace, &shown);
    if (code == EXIT_DONE && files)
        code = view_files_save(l->arguments.context, &l->options, trace, &l->files[FILE_PAGE],
                               &l->files[FILE_TRACE]);
    if (code == EXIT_DONE && l->link.first)
        code = show_links(l, trace, &shown);
    if (code == EXIT_DONE && l->arguments.json && !files && !l->link.first)
        return print_weights_json(trace, &shown);
    if (code != EXIT_DONE || files || l->arguments.json)
        return code;
    if (l->link.first)
        putchar('\n');
    return view_heatmaps_print(l->arguments.context, &shown, trace, stdout);
}

// A page and a trace name the model by its directory.
static int show_named(const look *l, const mh_trace *made)
{
    mh_trace trace = *made;
    trace.model = model_name(l->arguments.directory);
    return show_trace(l, &trace);
}

// ---- control flow -------------------------------------------------------------------------------

// The translation that is given, or that the model finds, and the pass over both texts.
static mh_status trace_translation(const look *l, const mh_translator *translator,
                                   mh_translation_trace **trace)
{
    const text_arguments *a = &l->arguments;
    const mh_text target = {l->target, l->target ? strlen(l->target) : 0};
    mh_translations *found;
    mh_status status = l->target ? mh_score_translations(a->context, translator, NULL, a->texts,
                                                         &target, 1, &found)
                                 : mh_translate(a->context, translator, NULL, a->texts, 1, &found);
    if (status)
        return status;
    const mh_translation *t = mh_translations_at(found, 0, 0);
    status = mh_translation_trace_create(a->context, translator, NULL, a->texts[0], t->ids,
                                         t->count, trace);
    mh_translations_free(found);
    return status;
}

static int look_at_translation(const look *l)
{
    const text_arguments *a = &l->arguments;
    mh_translator *translator;
    mh_translation_trace *trace = NULL;
    mh_status status = mh_translator_from_model(a->context, a->model, &translator);
    if (status)
        return complain_status(a->context, status, NULL);
    status = trace_translation(l, translator, &trace);
    int code =
        status ? complain_text(a, status, 1) : show_named(l, mh_translation_trace_view(trace));
    mh_translation_trace_free(trace);
    mh_translator_free(translator);
    return code;
}

// The trace of an input of a classifier, with its labels in a page.
static int show_classified(const look *l, const mh_model *model, const mh_model_input *encoded,
                           const bool *disabled, const mh_trace *made)
{
    const size_t rows = made->groups[MH_TRACE_ENCODER].weights.shape[2];
    mh_trace trace = *made;
    label_list found;
    if (!(mh_model_describe(model)->abilities & MH_CAN_CLASSIFY) || !l->files[FILE_PAGE].path)
        return show_named(l, made);
    mh_model_input input = *encoded;
    input.disabled_heads = disabled;
    const mh_status status = labels_predict(l->arguments.context, model, &input, rows, &found);
    if (status)
        return complain_texts(&l->arguments, status);
    trace.labels = found.labels;
    trace.label_count = found.count;
    return show_named(l, &trace);
}

static int show_picture(const look *l, const mh_image *image, const bool *disabled,
                        const mh_trace *made)
{
    const text_arguments *a = &l->arguments;
    mh_model_pictures *encoded = NULL;
    const mh_status status = mh_model_encode_pictures(a->context, a->model, image, 1, &encoded);
    const int code =
        status ? complain_texts(a, status)
               : show_classified(l, a->model, mh_model_pictures_input(encoded), disabled, made);
    mh_model_pictures_free(encoded);
    return code;
}

// The pass over a picture; the title is its name without directories.
static int look_at_picture(const look *l)
{
    const text_arguments *a = &l->arguments;
    const mh_text path = a->texts[0];
    bool *disabled;
    mh_image image = {0};
    mh_model_trace *trace = NULL;
    int code = off_find(&l->off, mh_model_describe(a->model), &disabled);
    const char *slash = memrchr(path.bytes, '/', path.size);
    const size_t skipped = slash ? (size_t)(slash + 1 - path.bytes) : 0;
    char *name = strndup(path.bytes + skipped, path.size - skipped);
    if (code == EXIT_DONE)
        code = picture_read(a, path, &image);
    if (code == EXIT_DONE) {
        const mh_status status =
            mh_model_trace_picture(a->context, a->model, disabled, name, &image, &trace);
        code = status ? complain_texts(a, status)
                      : show_picture(l, &image, disabled, mh_model_trace_view(trace));
    }
    mh_model_trace_free(trace);
    mh_image_free(a->context, &image);
    free(name);
    free(disabled);
    return code;
}

// As many columns of time as the heatmap has, or the page shows well.
static size_t count_times(const look *l)
{
    enum { OF_PAGE = 150, BESIDE = 16, FEWEST = 2 };
    const size_t width = l->options.width ? l->options.width : terminal_width(STDOUT_FILENO);
    if (outputs_wanted(l->files, 0, FILE_COUNT))
        return OF_PAGE;
    return width < BESIDE + FEWEST ? FEWEST : width - BESIDE;
}

static int look_at_sound(const look *l)
{
    const text_arguments *a = &l->arguments;
    const mh_text text = {l->target, l->target ? strlen(l->target) : 0};
    mh_speech_window window = mh_speech_window_default();
    mh_model_trace *trace = NULL;
    mh_audio audio = {0};
    char *path = strndup(a->texts[0].bytes, a->texts[0].size);
    if (!path) {
        complain("out of memory for a file name");
        return EXIT_MEMORY;
    }
    window.begin = l->begin;
    window.text = l->target ? &text : NULL;
    window.columns = count_times(l);
    mh_status status = mh_audio_read(a->context, path, &audio);
    int code = status ? complain_input(a->context, status) : EXIT_DONE;
    if (!status) {
        status = mh_transcribe_trace(a->context, a->model, NULL, &audio, &window, &trace);
        code = status ? complain_status(a->context, status, path)
                      : show_named(l, mh_model_trace_view(trace));
    }
    mh_model_trace_free(trace);
    mh_audio_free(a->context, &audio);
    free(path);
    return status == MH_ERROR_ARGUMENT ? EXIT_USAGE : code;
}

static int look_at_text(const look *l)
{
    const text_arguments *a = &l->arguments;
    const mh_text pair = {l->pair, l->pair ? strlen(l->pair) : 0};
    const mh_model *model = model_of_text(l);
    bool *disabled;
    mh_model_trace *trace = NULL;
    int code = off_find(&l->off, mh_model_describe(model), &disabled);
    if (code == EXIT_DONE) {
        mh_status status = mh_model_trace_create(a->context, model, disabled, a->texts[0],
                                                 l->pair ? &pair : NULL, &trace);
        code = status ? complain_text(a, status, 1) : show_named(l, mh_model_trace_view(trace));
    }
    mh_model_trace_free(trace);
    free(disabled);
    return code;
}

static int look_at(const look *l)
{
    if (hears(l))
        return look_at_sound(l);
    if (reads_target(l))
        return look_at_translation(l);
    return is_picture(&l->arguments, l->arguments.texts[0]) ? look_at_picture(l) : look_at_text(l);
}

static int run_look(int argc, char **argv)
{
    look l = {
        .arguments = text_arguments_default(&look_command),
        .options = mh_view_options_default(),
        .files = {[FILE_PAGE] = {.option = "--page"}, [FILE_TRACE] = {.option = "--trace-out"}}};
    l.options.width = 0; // the terminal's
    l.arguments.pictures = l.arguments.sounds = true;
    l.arguments.default_model = "en-fr";
    int code = parse_arguments(&look_argp, argc, argv, &l);
    if (code == EXIT_DONE)
        code = text_arguments_open(&l.arguments);
    if (code == EXIT_DONE)
        code = check_kind(&l);
    if (code == EXIT_DONE)
        code = text_arguments_read(&l.arguments);
    if (code == EXIT_DONE)
        code = check_texts(&l);
    if (code == EXIT_DONE)
        code = check_shown(&l);
    if (code == EXIT_DONE)
        code = look_at(&l);
    link_words_free(&l.link);
    free(l.off.names);
    text_arguments_close(&l.arguments);
    return code;
}

const command look_command = {
    .name = "look",
    .summary = "show what the heads of a pretrained model attend to",
    .argp = &look_argp,
    .run = run_look,
};
