// SPDX-License-Identifier: MIT
// The translator of translator_fixture.h.
#include "translator_fixture.h"

static const char *const corpus[] = {
    "le chat est sur le tapis", "the cat is on the mat",    "il fait beau, le chat dort",
    "the weather is fine",      "the cat sleeps on a mat.", "le tapis est beau. le chat aussi.",
};

static mh_tokenizer *make_tokenizer(mh_context *context)
{
    enum { COUNT = sizeof corpus / sizeof *corpus };
    mh_text texts[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        texts[i] = (mh_text){corpus[i], strlen(corpus[i])};
    mh_tokenizer *tokenizer;
    mh_tokenizer_options options = mh_tokenizer_options_default();
    options.merges = 24;
    return mh_tokenizer_train(context, &options, texts, COUNT, &tokenizer) ? NULL : tokenizer;
}

static void scale(const mh_parameters *p, const mh_parameter *parameter, float factor)
{
    for (size_t i = 0; i < parameter->count; i++)
        p->values[parameter->offset + i] *= factor;
}

// What layers add outweighs the token that came in, which would be said again otherwise; larger
// embeddings make larger logits, so that some tokens are much likelier than others; and </s> is
// likelier than most, so that sentences end.
static void sharpen(const mh_translator *t)
{
    const mh_parameters *p = mh_translator_parameters(t);
    const mh_parameter *embedding = mh_parameters_find(p, "embedding.weight");
    const mh_parameter *bias = mh_parameters_find(p, "decoder.norm.bias");
    const float *end = p->values + embedding->offset +
                       (size_t)mh_tokenizer_eos(mh_translator_tokenizer(t)) * FIXTURE_D;
    for (size_t i = 0; i < p->count; i++)
        if (strstr(p->list[i].name, "linear2.weight") || strstr(p->list[i].name, "out_proj.weight"))
            scale(p, &p->list[i], 12);
    scale(p, embedding, 2.5f);
    for (size_t i = 0; i < FIXTURE_D; i++)
        p->values[bias->offset + i] = 0.6f * end[i];
}

void fixture_speak(const mh_translator *t)
{
    const mh_parameters *p = mh_translator_parameters(t);
    const mh_tokenizer *tokenizer = mh_translator_tokenizer(t);
    float *bias = p->values + mh_parameters_find(p, "decoder.norm.bias")->offset;
    float *table = p->values + mh_parameters_find(p, "embedding.weight")->offset;
    bias[0] += 8;
    for (size_t v = 0; v < mh_tokenizer_size(tokenizer); v++) {
        mh_text text;
        mh_token_kind kind;
        mh_tokenizer_token(tokenizer, (int32_t)v, &text, &kind);
        const char c = text.bytes[0];
        const bool said =
            kind == MH_TOKEN_SPECIAL || text.size > 1 || (c >= 'a' && c <= 'z') || c == ' ';
        table[v * FIXTURE_D] = said ? 0 : -6;
    }
}

mh_translator *fixture_translator(mh_context *context, mh_precision precision, uint64_t seed)
{
    mh_tokenizer *tokenizer = make_tokenizer(context);
    mh_translator_config config = mh_translator_config_default();
    mh_translator *translator;
    config.d_model = FIXTURE_D;
    config.nhead = FIXTURE_HEADS;
    config.num_encoder_layers = config.num_decoder_layers = FIXTURE_LAYERS;
    config.dim_feedforward = 48;
    config.max_length = FIXTURE_MOST;
    if (!tokenizer || mh_translator_create(context, &config, precision, tokenizer, &translator))
        return NULL;
    mh_parameters_init(mh_translator_parameters(translator), seed);
    sharpen(translator);
    return translator;
}
