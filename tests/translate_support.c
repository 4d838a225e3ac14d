// SPDX-License-Identifier: MIT
// The helpers for tests of translating; see translate_support.h.
#include "translate_support.h"

#include <math.h>

const mh_text some_texts[TEXTS] = {
    {"le chat est beau", 16},
    {"the cat sleeps on a mat, on a mat.", 34},
    {"", 0},
    {"x", 1},
    {"  the weather \r", 15},
    {"d\xC3\xA9j\xC3\xA0 vu \xF0\x9F\x98\x80", 15},
    {"Il dort. Il fait beau. The cat is on the mat. Le tapis est sur le chat! Zzz zzz qqq? "
     "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww",
     175},
    {"le chat est sur le tapis.", 25},
    {"\t \n", 3},
    {"aussi beau", 10},
};

mh_translator *make_translator(mh_context *context, uint64_t seed)
{
    mh_translator *t = fixture_translator(context, MH_PRECISION_F32, seed);
    if (!t)
        fail_msg("%s", mh_error_message(context));
    return t;
}

mh_translations *translate(mh_context *context, const mh_translator *t,
                           const mh_translate_options *o, const mh_text *texts, size_t count)
{
    mh_translations *result;
    test_ok(context, mh_translate(context, t, o, texts, count, &result));
    return result;
}

void same_translation(const mh_translation *a, const mh_translation *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
    assert_memory_equal(&a->score, &b->score, sizeof a->score);
    assert_memory_equal(&a->log_probability, &b->log_probability, sizeof a->score);
    assert_string_equal(a->text.bytes, b->text.bytes);
    assert_int_equal(!a->attention, !b->attention);
    if (a->attention)
        assert_memory_equal(a->attention, b->attention,
                            a->count * a->source->count * sizeof *a->attention);
}

void spoil_translator(const mh_translator *t)
{
    const mh_parameters *p = mh_translator_parameters(t);
    p->values[mh_parameters_find(p, "decoder.norm.weight")->offset] = NAN;
}
