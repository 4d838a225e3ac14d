// SPDX-License-Identifier: MIT
// What the tests of translating share: a translator that a test fails without, texts of every kind,
// and translations that are the same to the bit.
#ifndef MH_TESTS_TRANSLATE_SUPPORT_H
#define MH_TESTS_TRANSLATE_SUPPORT_H

#include "support.h"
#include "text_support.h"
#include "translator_fixture.h"

enum { TEXTS = 10, LONG_TEXT = 6 };
extern const mh_text some_texts[TEXTS]; // two of them empty, one of several sentences

// fixture_translator in f32, mh_translate; the test fails if they do.
mh_translator *make_translator(mh_context *context, uint64_t seed);
mh_translations *translate(mh_context *context, const mh_translator *t,
                           const mh_translate_options *o, const mh_text *texts, size_t count);

void same_translation(const mh_translation *a, const mh_translation *b);

// No translation is a number any more.
void spoil_translator(const mh_translator *t);

#endif
