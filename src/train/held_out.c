// SPDX-License-Identifier: MIT
// See held_out.h.
#include "train/held_out.h"

#include "base/compiler.h"
#include "base/size_math.h"
#include "support/grow.h"
#include <math.h>

static bool is_held(const mh_holding *how, const mh_corpus *corpus, size_t i, double part)
{
    const mh_text text = how->by_target ? corpus->targets[i] : corpus->sources[i];
    const uint64_t hash = mh_mix(mh_hash_bytes(how->seed, text.bytes, text.size));
    return (double)(hash >> 11) < part * 9007199254740992.0; // 2^53
}

// Moves the other pairs to the front; the arrays keep their size.
static void keep_others(const mh_holding *how, double part, mh_corpus *corpus)
{
    size_t kept = 0;
    for (size_t i = 0; i < corpus->count; i++) {
        if (is_held(how, corpus, i, part))
            continue;
        corpus->sources[kept] = corpus->sources[i];
        corpus->targets[kept] = corpus->targets[i];
        corpus->lines[kept++] = corpus->lines[i];
    }
    corpus->count = kept;
}

mh_status mh_hold_out(mh_context *context, const mh_holding *how, mh_corpus *corpus,
                      mh_corpus *held)
{
    const double count = (double)corpus->count;
    if (how->part <= 0 || corpus->count < 10 * how->least)
        return MH_OK;
    const double part =
        fmin(fmax(how->part, (double)how->least / count), (double)how->most / count);
    MH_TRY(mh_corpus_begin(context, corpus->name, held));
    for (size_t i = 0; i < corpus->count; i++)
        if (is_held(how, corpus, i, part))
            MH_TRY(mh_corpus_add(context, held, corpus->sources[i], corpus->targets[i],
                                 corpus->lines[i]));
    MH_TRY(mh_corpus_end(context, held));
    if (held->count < corpus->count)
        keep_others(how, part, corpus);
    else
        mh_corpus_free(context, held); // all texts are equal
    return MH_OK;
}
