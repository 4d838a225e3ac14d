// SPDX-License-Identifier: MIT
// The log: written line by line, and truncated when a run resumes from an earlier update.
#include "train/run_log.h"
#include "base/compiler.h"

#include "support/file.h"
#include "support/json_text.h"
#include "support/plain_numbers.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

// ---- opening ------------------------------------------------------------------------------------

// The update of a line; UINT64_MAX if it has none.
static uint64_t update_of(const char *line, size_t size)
{
    static const char begin[] = "{\"update\": ";
    const size_t skip = sizeof begin - 1;
    if (size <= skip || memcmp(line, begin, skip) != 0)
        return UINT64_MAX;
    uint64_t update = 0;
    for (size_t i = skip; i < size && line[i] >= '0' && line[i] <= '9'; i++)
        update = 10 * update + (uint64_t)(line[i] - '0');
    return update;
}

// The bytes of complete lines of updates up to `update`.
static size_t kept_bytes(const char *text, size_t size, uint64_t update)
{
    size_t kept = 0;
    while (kept < size) {
        const char *end = memchr(text + kept, '\n', size - kept);
        if (!end || update_of(text + kept, size - kept) > update)
            break;
        kept = (size_t)(end - text) + 1;
    }
    return kept;
}

static mh_status cut_back(mh_context *context, const char *path, uint64_t update)
{
    mh_mapping mapping;
    if (mh_file_map(context, path, &mapping) != MH_OK)
        return MH_OK; // missing: fopen() creates it, or fails
    const size_t kept = mapping.data ? kept_bytes(mapping.data, mapping.size, update) : 0;
    mh_status status = MH_OK;
    if (kept < mapping.size)
        status = mh_file_replace(context, path, mapping.data, kept);
    mh_file_unmap(&mapping);
    return status;
}

static mh_status cannot_write(const mh_run_log *log)
{
    return mh_fail(log->context, MH_ERROR_FILE, "%.700s: cannot be written: %s", log->path,
                   strerror(errno));
}

mh_status mh_run_log_open(mh_context *context, const char *directory, uint64_t update,
                          mh_run_log *log)
{
    log->context = context;
    log->file = NULL;
    MH_TRY(mh_path_join(context, directory, MH_LOG_NAME, log->path));
    MH_TRY(cut_back(context, log->path, update));
    log->file = fopen(log->path, "ae");
    return log->file ? MH_OK : cannot_write(log);
}

void mh_run_log_close(mh_run_log *log)
{
    if (log->file)
        fclose(log->file);
    log->file = NULL;
}

// ---- lines --------------------------------------------------------------------------------------

MH_PRINTF(2, 3) static mh_status add_line(mh_run_log *log, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    const int written = vfprintf(log->file, format, list);
    mh_plain_numbers_leave(saved);
    va_end(list);
    return written < 0 || fflush(log->file) != 0 ? cannot_write(log) : MH_OK;
}

mh_status mh_run_log_updated(mh_run_log *log, const mh_train_event *e, double label_smoothing)
{
    return add_line(log,
                    "{\"update\": %" PRIu64 ", \"epoch\": %.4f, \"tokens\": %" PRIu64
                    ", \"loss\": %.5f, \"label_smoothing\": %.6g, \"learning_rate\": %.6g, "
                    "\"gradient_norm\": %.4g, \"seconds\": %.1f}\n",
                    e->update, (double)e->epoch + e->epoch_part, e->tokens, e->loss,
                    label_smoothing, e->learning_rate, e->gradient_norm, e->seconds);
}

// "sample": "...", or nothing; terminated.
static mh_status quote_sample(const mh_run_log *log, const mh_train_event *e, mh_buffer *sample)
{
    mh_appender to = {.context = log->context};
    if (e->sample) {
        mh_append_string(&to, "\"sample\": ");
        mh_append_json_string(&to, e->sample);
        mh_append_string(&to, ", ");
    }
    mh_append(&to, "", 1);
    return mh_append_finish(&to, MH_OK, sample);
}

// What pictures and text have in place of BLEU.
static mh_status log_validated_loss(mh_run_log *log, const mh_train_event *e)
{
    const bool text = e->task == MH_TASK_LM;
    mh_buffer sample = {0};
    MH_TRY(quote_sample(log, e, &sample));
    const mh_status status =
        add_line(log,
                 "{\"update\": %" PRIu64 ", \"epoch\": %.4f, \"tokens\": %" PRIu64
                 ", \"valid_loss\": %.5f, \"%s\": %.5f, \"best\": %s, %s\"seconds\": %.1f}\n",
                 e->update, (double)e->epoch + e->epoch_part, e->tokens, e->valid_loss,
                 text ? "bits_per_byte" : "accuracy", text ? e->bits_per_byte : e->accuracy,
                 e->best ? "true" : "false", (const char *)sample.data, e->seconds);
    mh_buffer_free(log->context, &sample);
    return status;
}

mh_status mh_run_log_validated(mh_run_log *log, const mh_train_event *e)
{
    if (e->task != MH_TASK_TRANSLATION)
        return log_validated_loss(log, e);
    return add_line(log,
                    "{\"update\": %" PRIu64 ", \"epoch\": %.4f, \"tokens\": %" PRIu64
                    ", \"valid_loss\": %.5f, \"bleu\": %.3f, \"chrf\": %.3f, "
                    "\"exact\": %.5f, \"best\": %s, \"seconds\": %.1f}\n",
                    e->update, (double)e->epoch + e->epoch_part, e->tokens, e->valid_loss, e->bleu,
                    e->chrf, e->exact, e->best ? "true" : "false", e->seconds);
}

mh_status mh_run_log_sync(mh_run_log *log)
{
    return mh_file_sync(log->context, log->path, log->file);
}
