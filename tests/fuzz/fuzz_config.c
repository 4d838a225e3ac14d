// SPDX-License-Identifier: MIT
// Fuzzes the reader of a translator's config.json. What is accepted has sizes that are none of 0
// and an activation that there is; nothing takes more memory than the file justifies.
#include "fuzz_context.h"
#include "model/config_file.h"

enum { MEMORY_PER_BYTE = 64, LARGEST = 1 << 24 };

static void check(const mh_translator_config *c)
{
    const size_t sizes[] = {
        c->d_model,         c->nhead,     c->num_encoder_layers, c->num_decoder_layers,
        c->dim_feedforward, c->max_length};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > LARGEST)
            abort();
    if (c->struct_size != sizeof *c || c->activation < MH_RELU || c->activation > MH_SILU)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    mh_translator_config config;
    const size_t before = fuzz_memory.live;
    fuzz_memory.peak = before;
    const mh_status status = mh_config_parse(context, "fuzz", bytes, size, &config);
    if (status == MH_OK)
        check(&config);
    else if (status != MH_ERROR_FORMAT || mh_error_message(context)[0] == '\0')
        abort();
    if (fuzz_memory.live != before ||
        fuzz_memory.peak - before > FUZZ_MEMORY_FIXED + size * MEMORY_PER_BYTE)
        abort();
    return 0;
}
