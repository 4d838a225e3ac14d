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

// Larger embeddings make larger logits, so that some tokens are much likelier than others; and
// </s> likelier than most.
static void sharpen(const mh_translator *t)
{
    const mh_parameters *p = mh_translator_parameters(t);
    const mh_parameter *embedding = mh_parameters_find(p, "embedding.weight");
    const mh_parameter *bias = mh_parameters_find(p, "decoder.norm.bias");
    float *table = p->values + embedding->offset;
    const size_t D = embedding->shape[1];
    const size_t end = (size_t)mh_tokenizer_eos(mh_translator_tokenizer(t));
    for (size_t i = 0; i < embedding->count; i++)
        table[i] *= 3;
    for (size_t i = 0; i < D; i++)
        p->values[bias->offset + i] = 0.35f * table[end * D + i];
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
