// SPDX-License-Identifier: MIT
// Texts of our own translators, which are normalised before they are tokenised (plain_text.h).
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/model_internal.h"
#include "model/translate_internal.h"
#include "support/buffer.h"
#include "text/plain_text.h"

// Offsets of the normalised text to those of the text it comes from.
static void map_offsets(const uint32_t *from, mh_encoding *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (!e->special[i]) {
            e->begins[i] = from[e->begins[i]];
            e->ends[i] = from[e->ends[i]];
        }
}

static mh_status encode_plain(mh_context *context, const mh_model *model,
                              const mh_encode_options *options, mh_text text, uint32_t *from,
                              mh_buffer *plain, mh_encoding *e)
{
    MH_TRY(mh_plain_text_from(context, model->foreign, text.bytes, text.size, plain, from));
    const mh_text normal = mh_trim_whitespace((mh_text){plain->data, plain->size});
    MH_TRY(mh_tokenizer_encode_text(context, model->tokenizer, options, normal, NULL, e));
    map_offsets(from + (normal.bytes - plain->data), e);
    return MH_OK;
}

static mh_status encode_own(mh_context *context, const mh_model *model,
                            const mh_encode_options *options, mh_text text, mh_encoding *e)
{
    mh_encode_options own = options ? *options : mh_encode_options_default();
    own.special_from_text = false; // no text contains </s>
    if (text.size >= INT32_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "found a text of %zu bytes, expected less than %d", text.size, INT32_MAX);
    const size_t bytes = (text.size + 1) * sizeof(uint32_t);
    uint32_t *from = mh_alloc(context, bytes);
    mh_buffer plain = {0};
    mh_status status =
        from ? encode_plain(context, model, &own, text, from, &plain, e) : MH_ERROR_MEMORY;
    mh_buffer_free(context, &plain);
    mh_free(context, from, bytes);
    return status;
}

mh_status mh_model_encode_text(mh_context *context, const mh_model *model,
                               const mh_encode_options *options, mh_text text, const mh_text *pair,
                               mh_encoding *encoding)
{
    if (!model->family->own)
        return mh_tokenizer_encode_text(context, model->tokenizer, options, text, pair, encoding);
    if (pair)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "pair: found a text, but a translator's encoder reads one");
    if (!text.bytes && text.size > 0)
        return mh_fail(context, MH_ERROR_ARGUMENT, "text: found NULL");
    return encode_own(context, model, options, text, encoding);
}
