// SPDX-License-Identifier: MIT
// A small translator with random weights, for the tests of translating: it says nonsense, but the
// same nonsense every time. Needs neither cmocka nor the rest of the tests.
#ifndef MH_TESTS_TRANSLATOR_FIXTURE_H
#define MH_TESTS_TRANSLATOR_FIXTURE_H

#include <multihead/translator.h>

enum {
    FIXTURE_D = 32,
    FIXTURE_HEADS = 4,
    FIXTURE_LAYERS = 2, // of each kind
    FIXTURE_MOST = 40,  // tokens of a sentence
};

// Weights are a function of the seed. NULL with a message in the context if that fails.
mh_translator *fixture_translator(mh_context *context, mh_precision precision, uint64_t seed);

// Makes it say letters, blanks and what it has learnt to merge, and no other bytes.
void fixture_speak(const mh_translator *translator);

#endif
