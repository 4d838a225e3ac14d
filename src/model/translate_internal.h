// SPDX-License-Identifier: MIT
// Splits texts into segments that fit the model, and joins their translations.
#ifndef MH_MODEL_TRANSLATE_INTERNAL_H
#define MH_MODEL_TRANSLATE_INTERNAL_H

#include "model/translate_search.h"

struct mh_translations {
    mh_result_arena store; // everything below is in it
    size_t count, n_best;  //
    mh_tokens *sources;    // (count)
    mh_translation *list;  // (count, n_best)
    size_t *found;         // (count)
};

// Checks the arguments of mh_translate, and reads the options into `own`.
mh_status mh_translate_check(mh_context *context, const mh_translator *translator,
                             const mh_translate_options *options, const mh_text *texts,
                             size_t count, mh_translate_options *own);

// Results without any translation; NULL with a message if out of memory.
mh_translations *mh_translations_create(mh_context *context, size_t count, size_t n_best);

typedef struct mh_segment_list {
    mh_segment *items;
    size_t count, capacity;
} mh_segment_list;

// The text without leading and trailing whitespace.
mh_text mh_trim_whitespace(mh_text text);

// Writes the tokens of all texts to translations->sources, and the segments they are split into, in
// order.
// Errors: MH_ERROR_FORMAT (text i is not UTF-8), MH_ERROR_MEMORY.
mh_status mh_cut_texts(mh_context *context, const mh_translator *translator, const mh_text *texts,
                       mh_translations *translations, mh_segment_list *segments);

// Translates all segments, in batches; `order` has room for as many pointers. Results are in the
// store. Errors as mh_translate_batch.
mh_status mh_translate_schedule(mh_context *context, const mh_translator *translator,
                                const mh_translate_options *options, const mh_segment_list *list,
                                mh_segment **order, mh_result_arena *store);

// Joins the translations of texts whose segments are all translated.
mh_status mh_translate_assemble(mh_context *context, const mh_translator *translator,
                                const mh_segment_list *segments, mh_translations *translations);

#endif
