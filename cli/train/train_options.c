// SPDX-License-Identifier: MIT
// The options of `multihead train`; see train_options.h.
//
// --example and --preset set many options at once. Their position on the command line must not
// matter, so it is parsed twice: first to find them, then, once they are applied, for all other
// options.
#include "train_options.h"
#include "messages.h"
#include "ranks.h"
#include "train_record.h"

#include <string.h>

enum {
    KEY_DATA = 0x100,
    KEY_TARGETS,
    KEY_VALID,
    KEY_VALID_TARGETS,
    KEY_EXAMPLE,
    KEY_ATTRIBUTION,
    KEY_TOKENIZER,
    KEY_MERGES,
    KEY_WEIGHTS,
    KEY_PRESET,
    KEY_D_MODEL,
    KEY_HEADS,
    KEY_ENCODER_LAYERS,
    KEY_DECODER_LAYERS,
    KEY_FF,
    KEY_ACTIVATION,
    KEY_POST_NORM,
    KEY_DROPOUT,
    KEY_MAX_LENGTH,
    KEY_AFTER,
    KEY_BATCH_TOKENS,
    KEY_ACCUMULATE,
    KEY_LR,
    KEY_WARMUP,
    KEY_SCHEDULE,
    KEY_MIN_LR,
    KEY_BETA1,
    KEY_BETA2,
    KEY_WEIGHT_DECAY,
    KEY_CLIP,
    KEY_SMOOTHING,
    KEY_DTYPE,
    KEY_SAVE_FREQ,
    KEY_VALID_FREQ,
    KEY_AVERAGE,
    KEY_PATIENCE,
    KEY_SEED,
    KEY_TASK,
    KEY_ARCH,
    KEY_LAYERS,
    KEY_CONTEXT,
    KEY_IMAGE_SIZE,
    KEY_LABEL_NAMES,
    KEY_PATCH_SIZE,
    KEY_CROP_PADDING,
    KEY_NO_FLIP,
    KEY_INIT,
    KEY_HOLD_OUT,
};

static const struct argp_option option_table[] = {
    {"task", KEY_TASK, "NAME", 0,
     "translation (default); lm: a language model; classification: texts, by an encoder; "
     "image-classification: pictures, by a Vision Transformer",
     0},
    {NULL, 0, NULL, 0, "Data: UTF-8, plain or gzip, - for standard input", 1},
    {"data", KEY_DATA, "FILE", 0,
     "translation: source TAB target on each line; classification: label TAB text; further columns "
     "are ignored. lm: text, documents separated by empty lines; may be given several times, or "
     "have further files as arguments. Pictures: a directory with a directory of pictures for "
     "every label, or an idx file of images beside its file of labels",
     0},
    {"targets", KEY_TARGETS, "FILE", 0, "the targets, if FILE of --data has only sources", 0},
    {"valid", KEY_VALID, "FILE", 0,
     "the same for validation: data that are not trained on. Default: see --hold-out", 0},
    {"hold-out", KEY_HOLD_OUT, "PERCENT", 0,
     "of the data, for validation without --valid; 0 for none. At least hundreds of pairs or tens "
     "of texts, of fewer than some 100 none. Default of lm: 1, or about ten sequences, but at most "
     "a tenth",
     0},
    {"valid-targets", KEY_VALID_TARGETS, "FILE", 0, "their targets", 0},
    {"example", KEY_EXAMPLE, "NAME", 0,
     "built-in data in place of files: numbers, French number words to English, with suitable "
     "defaults for sizes and rates",
     0},
    {"label-names", KEY_LABEL_NAMES, "A,B,...", 0,
     "names of the labels 0, 1, ... of an idx file of pictures; default: the numbers", 0},
    {"tokenizer", KEY_TOKENIZER, "FILE", 0, "a tokenizer.json; default: learnt from the data", 0},
    {"merges", KEY_MERGES, "N", 0, "merges of the tokenizer to learn; default: 8000", 0},
    {"attribution", KEY_ATTRIBUTION, "TEXT", 0, "where the data is from, for the model's README",
     0},
    {NULL, 0, NULL, 0, "The run", 2},
    {"output", 'o', "DIR", 0,
     "directory of the run and its model; if it has a checkpoint, training resumes", 0},
    {"after", KEY_AFTER, "TIME", 0,
     "stop after 20e (epochs), 50Ku (updates) or 100Mt (target tokens), counted from the start of "
     "the run",
     0},
    {"save-freq", KEY_SAVE_FREQ, "TIME", 0, "between checkpoints; default: 500u", 0},
    {"valid-freq", KEY_VALID_FREQ, "TIME", 0, "between validations", 0},
    {"patience", KEY_PATIENCE, "N", 0, "stop after N validations without a better score", 0},
    {"average", KEY_AVERAGE, "N", 0, "the model is the mean of the last N checkpoints; default: 1",
     0},
    {"weights", KEY_WEIGHTS, "TYPE", 0, "of model.safetensors: f32 (default) or bf16", 0},
    {"seed", KEY_SEED, "N", 0, "of everything random; default: 1", 0},
    {NULL, 0, NULL, 0, "The model", 3},
    {"init", KEY_INIT, "DIR", 0,
     "start from the weights of this model, which also gives tokenizer and sizes: a translator "
     "trained by this command; lm: a GPT-2, Llama, Mistral, Qwen, Gemma or GPT-NeoX; "
     "classification: a BERT, DistilBERT or RoBERTa, with a config.json. The optimiser begins "
     "anew; a resumed run does not read it",
     0},
    {"preset", KEY_PRESET, "NAME", 0, "nano, tiny, small or base; other options override its sizes",
     0},
    {"arch", KEY_ARCH, "NAME", 0, "lm: gpt2 (default) or llama", 0},
    {"d-model", KEY_D_MODEL, "N", 0, "width", 0},
    ALIAS("embed-dim"),
    {"heads", KEY_HEADS, "N", 0, "heads of each attention", 0},
    ALIAS("num-heads"),
    ALIAS("nhead"),
    {"encoder-layers", KEY_ENCODER_LAYERS, "N", 0, "layers of the encoder", 0},
    ALIAS("num-encoder-layers"),
    {"decoder-layers", KEY_DECODER_LAYERS, "N", 0, "layers of the decoder", 0},
    ALIAS("num-decoder-layers"),
    {"layers", KEY_LAYERS, "N", 0, "layers, of other tasks than translation", 0},
    {"ff", KEY_FF, "N", 0, "width of the feed-forward layers", 0},
    ALIAS("dim-feedforward"),
    {"activation", KEY_ACTIVATION, "NAME", 0, "relu (default), gelu, gelu_tanh or silu", 0},
    {"post-norm", KEY_POST_NORM, NULL, 0, "norms after each residual sum, not before each sublayer",
     0},
    {"dropout", KEY_DROPOUT, "P", 0, "default: see below; with --init a translator's own, else 0",
     0},
    {"max-length", KEY_MAX_LENGTH, "N", 0,
     "most tokens of a sentence; longer ones are skipped, in classification cut; default: 256", 0},
    {"context", KEY_CONTEXT, "N", 0, "lm: tokens of a sequence; default: 256", 0},
    {"image-size", KEY_IMAGE_SIZE, "N", 0,
     "height and width that pictures are resized to; default: an idx file's height, else 32", 0},
    {"patch-size", KEY_PATCH_SIZE, "N", 0, "height and width of a patch; default: 4", 0},
    {"crop-padding", KEY_CROP_PADDING, "N", 0,
     "pad pictures by N pixels and crop them at random; default: 2", 0},
    {"no-flip", KEY_NO_FLIP, NULL, 0, "do not mirror half of the pictures", 0},
    {NULL, 0, NULL, 0, "Learning", 4},
    {"batch-tokens", KEY_BATCH_TOKENS, "N", 0,
     "source and target tokens per batch; pictures: their number. By default fewer for few data, "
     "so that the run has 200 updates",
     0},
    ALIAS("batch-size"),
    {"accumulate", KEY_ACCUMULATE, "N", 0, "batches per update; default: 1", 0},
    {"lr", KEY_LR, "X", 0, "peak learning rate", 0},
    {"warmup", KEY_WARMUP, "N", 0,
     "updates until it is reached; default: 1000, but at most a tenth of the run that --after "
     "requests at its start",
     0},
    {"schedule", KEY_SCHEDULE, "NAME", 0,
     "how the rate decays then: inverse-sqrt, with the square root of the updates, or cosine, to "
     "--min-lr at the end of the run that --after requests at its start",
     0},
    {"min-lr", KEY_MIN_LR, "X", 0, "the learning rate at the end of a cosine; default: 0", 0},
    {"beta1", KEY_BETA1, "X", 0, "AdamW's; default: 0.9", 0},
    {"beta2", KEY_BETA2, "X", 0, "AdamW's", 0},
    {"weight-decay", KEY_WEIGHT_DECAY, "X", 0, "AdamW's", 0},
    {"clip", KEY_CLIP, "X", 0, "clip gradients to this norm, 0 for none; default: 1", 0},
    {"label-smoothing", KEY_SMOOTHING, "P", 0,
     "the probability that is spread over the other classes", 0},
    {"dtype", KEY_DTYPE, "TYPE", 0,
     "type of the operands of products, f32 or bf16; weights stay f32. Default: bf16 at "
     "levels avx512bf16 and amx, else f32",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice schedule_choices[] = {
    {"inverse-sqrt", MH_SCHEDULE_INVERSE_SQRT}, {"cosine", MH_SCHEDULE_COSINE}, {NULL, 0}};
static const choice weight_choices[] = {{F32_NAMES, MH_F32}, {BF16_NAMES, MH_BF16}, {NULL, 0}};
static const choice preset_choices[] = {{"nano", PRESET_NANO},
                                        {"tiny", PRESET_TINY},
                                        {"small", PRESET_SMALL},
                                        {"base", PRESET_BASE},
                                        {NULL, 0}};
static const choice arch_choices[] = {{"gpt2", MH_LM_GPT2}, {"llama", MH_LM_LLAMA}, {NULL, 0}};

static mh_duration parse_duration(struct argp_state *state, const char *option, const char *text)
{
    mh_duration duration = {0, MH_EPOCHS};
    if (!mh_duration_parse(text, &duration))
        argp_error(state, "%s: found '%s', expected a number with e, u or t: 20e, 50Ku, 100Mt",
                   option, text);
    return duration;
}

static size_t train_parse_size(struct argp_state *state, const char *option, const char *text)
{
    return (size_t)parse_integer(state, option, text, 1, 1 << 24);
}

// The first file, and those of a language model after it.
static void add_data(struct argp_state *state, train *t, const char *path)
{
    enum { MOST = sizeof t->more / sizeof *t->more };
    mh_train_options *o = &t->options;
    if (!o->data) {
        o->data = path;
    } else if (o->more_data_count == MOST) {
        argp_error(state, "--data: found more than %d files", MOST + 1);
    } else {
        t->more[o->more_data_count++] = path;
        o->more_data = t->more;
        t->only[MH_TASK_LM] = "--data twice";
    }
}

static error_t parse_data(int key, char *argument, struct argp_state *state)
{
    train *t = state->input;
    mh_train_options *o = &t->options;
    switch (key) {
    case KEY_DATA:
        add_data(state, t, argument);
        return 0;
    case KEY_TARGETS:
        t->only[MH_TASK_TRANSLATION] = "--targets";
        o->data_targets = argument;
        return 0;
    case KEY_VALID:
        o->valid = argument;
        return 0;
    case KEY_HOLD_OUT:
        t->hold_out = true;
        o->held_out = parse_number(state, "--hold-out", argument) / 100;
        if (o->held_out < 0 || o->held_out >= 1)
            argp_error(state, "--hold-out: found '%s', expected 0 to less than 100", argument);
        return 0;
    case KEY_VALID_TARGETS:
        t->only[MH_TASK_TRANSLATION] = "--valid-targets";
        o->valid_targets = argument;
        return 0;
    case KEY_EXAMPLE:
        t->only[MH_TASK_TRANSLATION] = "--example";
        o->example = argument;
        return 0;
    case KEY_ATTRIBUTION:
        o->attribution = argument;
        return 0;
    case KEY_TOKENIZER:
        t->text_only = "--tokenizer";
        o->tokenizer = argument;
        return 0;
    case KEY_MERGES:
        t->text_only = "--merges";
        t->merges = true;
        o->merges = (size_t)parse_integer(state, "--merges", argument, 0, 1 << 20);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_run(int key, char *argument, struct argp_state *state)
{
    train *t = state->input;
    mh_train_options *o = &t->options;
    switch (key) {
    case 'o':
        o->directory = argument;
        return 0;
    case KEY_AFTER:
        o->after = parse_duration(state, "--after", argument);
        return 0;
    case KEY_SAVE_FREQ:
        o->save_every = parse_duration(state, "--save-freq", argument);
        return 0;
    case KEY_VALID_FREQ:
        t->valid_freq = true;
        o->valid_every = parse_duration(state, "--valid-freq", argument);
        return 0;
    case KEY_PATIENCE:
        o->patience = train_parse_size(state, "--patience", argument);
        return 0;
    case KEY_AVERAGE:
        o->average = (size_t)parse_integer(state, "--average", argument, 1, 100);
        return 0;
    case KEY_WEIGHTS:
        o->weights = (mh_dtype)parse_choice(state, "--weights", argument, weight_choices);
        return 0;
    case KEY_SEED:
        o->seed = (uint64_t)parse_integer(state, "--seed", argument, 0, INT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_model(int key, char *argument, struct argp_state *state)
{
    train *t = state->input;
    mh_translator_config *m = &t->model;
    switch (key) {
    case KEY_INIT:
        t->init = t->options.init = argument;
        return 0;
    case KEY_PRESET:
        t->preset = parse_choice(state, "--preset", argument, preset_choices);
        return 0;
    case KEY_D_MODEL:
        m->d_model = train_parse_size(state, "--d-model", argument);
        return 0;
    case KEY_HEADS:
        m->nhead = train_parse_size(state, "--heads", argument);
        return 0;
    case KEY_ENCODER_LAYERS:
        t->only[MH_TASK_TRANSLATION] = "--encoder-layers";
        m->num_encoder_layers = train_parse_size(state, "--encoder-layers", argument);
        return 0;
    case KEY_DECODER_LAYERS:
        t->only[MH_TASK_TRANSLATION] = "--decoder-layers";
        m->num_decoder_layers = train_parse_size(state, "--decoder-layers", argument);
        return 0;
    case KEY_FF:
        m->dim_feedforward = train_parse_size(state, "--ff", argument);
        return 0;
    case KEY_ACTIVATION:
        t->only[MH_TASK_TRANSLATION] = t->kind = "--activation";
        m->activation =
            (mh_activation)parse_choice(state, "--activation", argument, activation_choices);
        return 0;
    case KEY_POST_NORM:
        t->only[MH_TASK_TRANSLATION] = t->kind = "--post-norm";
        m->norm_first = false;
        return 0;
    case KEY_DROPOUT:
        m->dropout = (float)parse_number(state, "--dropout", argument);
        return 0;
    case KEY_MAX_LENGTH:
        t->max_length = true;
        m->max_length = train_parse_size(state, "--max-length", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// Options of the other tasks.
static error_t parse_task(int key, char *argument, struct argp_state *state)
{
    train *t = state->input;
    mh_train_options *o = &t->options;
    switch (key) {
    case KEY_TASK:
        o->task = (mh_task_kind)parse_choice(state, "--task", argument, train_task_choices);
        return 0;
    case KEY_ARCH:
        t->only[MH_TASK_LM] = t->kind = "--arch";
        o->arch = (mh_lm_arch)parse_choice(state, "--arch", argument, arch_choices);
        return 0;
    case KEY_LAYERS:
        t->layers = true;
        t->model.num_encoder_layers = t->model.num_decoder_layers =
            train_parse_size(state, "--layers", argument);
        return 0;
    case KEY_CONTEXT:
        t->only[MH_TASK_LM] = "--context";
        t->model.max_length = train_parse_size(state, "--context", argument);
        return 0;
    case KEY_LABEL_NAMES:
        t->only[MH_TASK_IMAGES] = "--label-names";
        o->label_names = argument;
        return 0;
    case KEY_IMAGE_SIZE:
        t->only[MH_TASK_IMAGES] = "--image-size";
        o->image_size = (size_t)parse_integer(state, "--image-size", argument, 1, 4096);
        return 0;
    case KEY_PATCH_SIZE:
        t->only[MH_TASK_IMAGES] = "--patch-size";
        o->patch_size = (size_t)parse_integer(state, "--patch-size", argument, 1, 4096);
        return 0;
    case KEY_CROP_PADDING:
        t->only[MH_TASK_IMAGES] = "--crop-padding";
        o->crop_padding = (size_t)parse_integer(state, "--crop-padding", argument, 0, 4096);
        return 0;
    case KEY_NO_FLIP:
        t->only[MH_TASK_IMAGES] = "--no-flip";
        o->flip = false;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_learning(int key, char *argument, struct argp_state *state)
{
    mh_train_options *o = &((train *)state->input)->options;
    switch (key) {
    case KEY_BATCH_TOKENS:
        o->batch_tokens = train_parse_size(state, "--batch-tokens", argument);
        return 0;
    case KEY_ACCUMULATE:
        o->accumulation_steps = train_parse_size(state, "--accumulate", argument);
        return 0;
    case KEY_LR:
        o->learning_rate = parse_number(state, "--lr", argument);
        return 0;
    case KEY_WARMUP:
        o->warmup = (uint64_t)parse_integer(state, "--warmup", argument, 0, INT32_MAX);
        return 0;
    case KEY_SCHEDULE:
        o->schedule = (mh_schedule)parse_choice(state, "--schedule", argument, schedule_choices);
        return 0;
    case KEY_MIN_LR:
        o->min_learning_rate = parse_number(state, "--min-lr", argument);
        return 0;
    case KEY_BETA1:
        o->beta1 = parse_number(state, "--beta1", argument);
        return 0;
    case KEY_BETA2:
        o->beta2 = parse_number(state, "--beta2", argument);
        return 0;
    case KEY_WEIGHT_DECAY:
        o->weight_decay = parse_number(state, "--weight-decay", argument);
        return 0;
    case KEY_CLIP:
        o->clip = parse_number(state, "--clip", argument);
        return 0;
    case KEY_SMOOTHING:
        o->label_smoothing = parse_number(state, "--label-smoothing", argument);
        return 0;
    case KEY_DTYPE:
        o->precision = (mh_precision)parse_choice(state, "--dtype", argument, precision_choices);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// Arguments come after all options: further files of --data, as a shell expands *.txt.
static error_t take_argument(struct argp_state *state, train *t, const char *argument)
{
    if (t->options.task != MH_TASK_LM || !t->options.data)
        return refuse_argument(state, argument);
    add_data(state, t, argument);
    return 0;
}

static error_t train_parse_option(int key, char *argument, struct argp_state *state)
{
    static error_t (*const groups[])(int, char *, struct argp_state *) = {
        parse_data, parse_run, parse_model, parse_task, parse_learning};
    train *t = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &t->common;
    if (key == ARGP_KEY_ARG)
        return take_argument(state, t, argument);
    if (key == ARGP_KEY_END)
        train_check_options(state, t);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i](key, argument, state) == 0)
            return 0;
    return key == ARGP_KEY_INIT || key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp train_argp = {
    .options = option_table,
    .parser = train_parse_option,
    .args_doc = "(--data FILE [--valid FILE] | --example NAME) -o DIR [OPTION...]\n"
                "-o DIR [OPTION...]",
    .doc =
        "Trains an encoder-decoder Transformer for translation on sentence pairs; a language model "
        "on text; an encoder on texts with labels; or a Vision Transformer on pictures with "
        "labels: new ones, or (--init) one that is there. DIR becomes a model for "
        "'multihead translate -m DIR', 'classify' or 'generate': the best so far on the validation "
        "data, by BLEU, accuracy or loss, or the last one without validation.\n"
        "\n"
        "Ctrl-C, SIGTERM, SIGHUP (a closed terminal) and messages to a closed pipe interrupt a run "
        "safely: the update is finished and saved, the exit code is 5, and 'multihead train -o "
        "DIR' resumes the run with the options it was started with. After a crash it resumes from "
        "the last checkpoint. The "
        "model is bitwise identical however often a run is interrupted, and for any number of "
        "threads. A complete run is left unchanged.\n"
        "Started by mpirun or srun as several processes, these share the work, also on several "
        "machines; the model is bitwise identical for any number of them, and any number resumes "
        "a run.\v"
        "Presets (width, heads, layers, feed-forward; * is the default):\n"
        "           translation      lm              classification  pictures\n"
        "  nano     64 2 2+2 256     128 4 4 512     64 2 2 256      64 2 4 128\n"
        "  tiny     128 4 2+2 512    256 4 6 1024 *  128 4 2 512 *   96 3 4 192 *\n"
        "  small    256 4 3+3 1024 * 512 8 8 2048    256 4 4 1024    192 3 6 768\n"
        "  base     512 8 6+6 2048   768 12 12 3072  512 8 6 2048    384 6 12 1536\n"
        "\n"
        "Defaults by task:\n"
        "                     translation   lm      classification  pictures\n"
        "  --after            20e           20e     5e              20e\n"
        "  --batch-tokens     4096          8192    1024            128\n"
        "  --hold-out         1 or more     1..10   10 or more      none\n"
        "  --valid-freq       1e            500u    1e              1e\n"
        "  --dropout          0.1           0       0.1             0\n"
        "  --label-smoothing  0.1           0       0               0.1\n"
        "  --lr               0.001         0.001   0.001           0.001\n"
        "    with --init      0.0003        0.0001  0.00005\n"
        "  --schedule         inverse-sqrt  cosine  cosine          cosine\n"
        "  --beta2            0.98          0.95    0.999           0.999\n"
        "  --weight-decay     0             0.1     0.01            0.05\n"
        "\n"
        "Examples:\n"
        "  multihead train --data train.tsv --valid dev.tsv -o run\n"
        "  multihead train -o run\n"
        "  multihead train --data fr.gz --targets en.gz --preset tiny --after 5e -o run\n"
        "  multihead train --example numbers -o numbers\n"
        "  multihead train --init models/fr-en --data more.tsv --valid dev.tsv -o run\n"
        "  multihead train --task image-classification --data train --valid test -o run\n"
        "  multihead train --task lm --data text.txt --merges 4000 -o run\n"
        "  multihead train --task classification --init all-MiniLM-L6-v2 --data labels.tsv -o run\n"
        "  mpirun -n 4 multihead train --data train.tsv --valid dev.tsv -o run",
    .children = children,
};

// Standard input cannot be read again.
static int check_resumed(const train *t)
{
    const mh_train_options *o = &t->options;
    const char *const paths[] = {o->data, o->data_targets, o->valid, o->valid_targets};
    const size_t count = sizeof paths / sizeof *paths;
    for (size_t i = 0; i < count + o->more_data_count; i++) {
        const char *path = i < count ? paths[i] : t->more[i - count];
        if (path && !strcmp(path, "-")) {
            complain("the run in %s read its data from standard input; give all its options again",
                     o->directory);
            return EXIT_USAGE;
        }
    }
    return EXIT_DONE;
}

static int parse_recorded(int argc, char **argv, train *t, const train *before)
{
    int code = train_record_load(t, argc, argv);
    const train loaded = *t;
    if (code != EXIT_DONE)
        return code;
    *t = *before;
    t->resumes = true;
    t->argc = loaded.argc;
    t->argv = loaded.argv;
    t->record = loaded.record;
    code = parse_arguments(&train_argp, t->argc, t->argv, t);
    return code == EXIT_DONE ? check_resumed(t) : code;
}

int train_parse(int argc, char **argv, train *t)
{
    const train before = *t;
    t->argc = argc;
    t->argv = argv;
    int code = ranks_agree(&t->ranks, parse_arguments(&train_argp, argc, argv, t));
    if (code == EXIT_DONE)
        code = ranks_compare(&t->ranks, t->resumes, "other options (--data)");
    if (code == EXIT_DONE && t->resumes)
        code = parse_recorded(argc, argv, t, &before);
    if (code == EXIT_DONE)
        train_set_defaults(t);
    t->options.data = NULL; // is collected again
    t->options.more_data_count = 0;
    return code == EXIT_DONE ? parse_arguments(&train_argp, t->argc, t->argv, t) : code;
}
