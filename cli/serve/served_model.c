// SPDX-License-Identifier: MIT
// The model that is served: a translator, or a model of another kind, and what it does with a text.
#include "messages.h"
#include "pretrained/text_arguments.h"
#include "server.h"

#include <stdlib.h>

// Whether config.json is that of a translator of ours, or of a published encoder-decoder.
static bool declares_decoder(const char *directory)
{
    char *path = NULL;
    if (asprintf(&path, "%s/config.json", directory) < 0)
        return false;
    json_t *root = json_load_file(path, 0, NULL);
    const bool found = json_object_get(root, "format") ||
                       json_is_true(json_object_get(root, "is_encoder_decoder"));
    json_decref(root);
    free(path);
    return found;
}

static served_task find_task(const mh_model_info *info)
{
    const unsigned can = info->abilities;
    return can & MH_CAN_TRANSLATE  ? TASK_TRANSLATE
           : can & MH_CAN_GENERATE ? TASK_CONTINUE
           : can & MH_CAN_FILL     ? TASK_FILL
           : can & MH_CAN_CLASSIFY ? TASK_CLASSIFY
                                   : TASK_EMBED;
}

// Reports a model that cannot be served.
static int check_served(const char *directory, served_model *s)
{
    if (mh_model_describe(s->model)->abilities & MH_CAN_TRANSCRIBE)
        complain("%s: this model transcribes sound, which is not served; 'multihead look --page' "
                 "makes a page of a recording",
                 directory);
    else if (!s->pictures && !mh_model_tokenizer(s->model))
        complain("%s: has no tokenizer, expected " TOKENIZER_FILES, directory);
    else
        return EXIT_DONE;
    return EXIT_INPUT;
}

static int open_other(mh_context *context, const char *directory, mh_precision precision,
                      served_model *s)
{
    mh_model_options options = mh_model_options_default();
    if (precision != MH_PRECISION_NATIVE)
        options.precision = precision;
    mh_status status = mh_model_load(context, directory, &options, &s->model);
    if (status)
        return complain_input(context, status);
    s->pictures = mh_model_describe(s->model)->image_size > 0;
    const int code = check_served(directory, s);
    if (code != EXIT_DONE)
        return code;
    s->task = find_task(mh_model_describe(s->model));
    if (s->task == TASK_TRANSLATE)
        status = mh_translator_from_model(context, s->model, &s->translator);
    if (s->task == TASK_FILL && mask_find(s->model, &s->mask))
        s->task = TASK_EMBED; // a tokenizer without a mask
    return status ? complain_input(context, status) : EXIT_DONE;
}

static int open_translator_or_other(mh_context *context, const char *directory,
                                    const mh_translator_load_options *options, served_model *s)
{
    if (!declares_decoder(directory))
        return open_other(context, directory, options->precision, s);
    const mh_status status = mh_translator_load_with(context, directory, options, &s->translator);
    if (status == MH_ERROR_UNSUPPORTED) // an encoder-decoder that hears, for instance
        return open_other(context, directory, options->precision, s);
    s->task = TASK_TRANSLATE;
    return status ? complain_input(context, status) : EXIT_DONE;
}

int served_open(mh_context *context, const char *directory,
                const mh_translator_load_options *options, served_model *s)
{
    const int code = open_translator_or_other(context, directory, options, s);
    if (code == EXIT_DONE && s->translator)
        s->languages = languages_of_model(s->translator, directory);
    return code;
}

void served_close(served_model *s)
{
    mh_translator_free(s->translator);
    mh_model_free(s->model);
}

const char *task_name(served_task task)
{
    static const char *const names[] = {"translate", "continue", "fill", "classify", "embed"};
    return names[task];
}
