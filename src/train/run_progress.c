// SPDX-License-Identifier: MIT
// Durations: "20e", "50Ku", "1.5Mt".
#include "train/run_progress.h"

// Digits, optionally with a decimal point, times `scale`. False if the result is not an integer, or
// implausibly large.
static bool parse_number(const char *digits, size_t length, uint64_t scale, uint64_t *number)
{
    static const uint64_t most = 1000000000;
    bool point = false, any = false;
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (digits[i] == '.' || *number > most || (point && scale % 10))
            return false;
        scale /= point ? 10 : 1;
        *number = 10 * *number + (uint64_t)(digits[i] - '0');
        any = true;
    }
    *number *= scale;
    return any;
}

bool mh_duration_parse(const char *text, mh_duration *duration)
{
    static const char units[] = {[MH_EPOCHS] = 'e', [MH_UPDATES] = 'u', [MH_TOKENS] = 't'};
    const size_t length = strspn(text, "0123456789.");
    const char *rest = text + length;
    const uint64_t scale = *rest == 'K' ? 1000 : *rest == 'M' ? 1000000 : 1;
    uint64_t count;
    rest += scale > 1;
    for (int unit = MH_EPOCHS; unit <= MH_TOKENS; unit++)
        if (rest[0] == units[unit] && rest[1] == '\0' &&
            parse_number(text, length, scale, &count)) {
            *duration = (mh_duration){count, (mh_unit)unit};
            return true;
        }
    return false;
}

static uint64_t run_progress_count_of(mh_unit unit, const mh_progress *p)
{
    return unit == MH_EPOCHS ? p->epoch : unit == MH_UPDATES ? p->update : p->tokens;
}

bool mh_duration_over(mh_duration duration, const mh_progress *progress)
{
    return run_progress_count_of(duration.unit, progress) >= duration.count;
}

uint64_t mh_duration_updates(mh_duration duration, uint64_t epoch_updates, uint64_t epoch_tokens)
{
    const double most = 1e18, count = (double)duration.count, updates = (double)epoch_updates;
    if (duration.unit == MH_UPDATES)
        return duration.count;
    const double found = duration.unit == MH_EPOCHS ? count * updates
                         : epoch_tokens             ? count * updates / (double)epoch_tokens
                                                    : 0;
    return (uint64_t)(found < most ? found : most);
}

bool mh_duration_due(mh_duration period, const mh_progress *before, const mh_progress *now)
{
    return period.count && run_progress_count_of(period.unit, now) / period.count >
                               run_progress_count_of(period.unit, before) / period.count;
}

double mh_duration_part(mh_duration duration, const mh_progress *progress, double epoch_part)
{
    const double done = (double)run_progress_count_of(duration.unit, progress) +
                        (duration.unit == MH_EPOCHS ? epoch_part : 0);
    const double part = duration.count ? done / (double)duration.count : 1;
    return part < 1 ? part : 1;
}
