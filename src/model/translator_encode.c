// SPDX-License-Identifier: MIT
// Tokenises a text as mh_translate does: normalised, trimmed, encoded.
#include "base/argument_check.h"
#include "model/translate_internal.h"
#include "model/translator_internal.h"
#include "text/plain_text.h"

mh_status mh_translator_encode(mh_context *context, const mh_translator *translator, mh_text text,
                               mh_tokens *tokens)
{
    mh_buffer plain = {0};
    mh_status status =
        MH_NEED(context, {"translator", translator},
                {"text.bytes", text.bytes || !text.size ? translator : NULL}, {"tokens", tokens});
    if (status)
        return status;
    status = mh_plain_text(context, translator->foreign, text.bytes, text.size, &plain);
    const mh_text trimmed = mh_trim_whitespace((mh_text){plain.data, plain.size});
    if (!status)
        status = mh_tokenizer_encode(context, translator->tokenizer, trimmed.bytes, trimmed.size,
                                     tokens);
    mh_buffer_free(context, &plain);
    return status;
}
