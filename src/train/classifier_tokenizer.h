// SPDX-License-Identifier: MIT
// The tokenizer of a new classifier of texts: given, or learnt from the data. It puts special
// tokens around a text, of which the first is classified:
//
//     <s> a text </s>      or what its own template says
#ifndef MH_TRAIN_CLASSIFIER_TOKENIZER_H
#define MH_TRAIN_CLASSIFIER_TOKENIZER_H

#include "train/run_internal.h"

// Sets run->tokenizer and run->tokenizer_json; a resumed run reads its directory's.
// Error: MH_ERROR_UNSUPPORTED, of a tokenizer that has no such tokens.
mh_status mh_classifier_tokenizer_create(mh_run *run, const mh_text *texts, size_t count);

// Writes tokenizer.json and tokenizer_config.json.
mh_status mh_classifier_tokenizer_save(mh_run *run);

#endif
