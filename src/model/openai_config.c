// SPDX-License-Identifier: MIT
// The sizes of OpenAI's Whisper by its tensors; see openai_config.h.
#include "model/openai_config.h"
#include "base/compiler.h"
#include "support/find_file.h"
#include <stdio.h>

enum { HEAD_WIDTH = 64 }; // of every size of Whisper

mh_status mh_openai_locate(mh_context *context, const char *directory, char file[MH_PATH_BYTES],
                           bool *found)
{
    char name[MH_NAME_BYTES];
    *found = !mh_has_file(directory, "config.json") && mh_count_ending(directory, ".pt", name) == 1;
    return *found ? mh_path_join(context, directory, name, file) : MH_OK;
}

static bool find_shape(const mh_tensor_file *file, const char *name, mh_tensor *shape)
{
    char full[128];
    size_t index;
    snprintf(full, sizeof full, "model_state_dict.%s", name);
    return (mh_tensor_file_index(file, full, &index) || mh_tensor_file_index(file, name, &index)) &&
           mh_tensor_file_describe(file, index, shape);
}

static json_int_t count_layers(const mh_tensor_file *file, const char *stack)
{
    char name[64];
    mh_tensor shape;
    json_int_t count = 0;
    do
        snprintf(name, sizeof name, "%s.blocks.%d.attn.query.weight", stack, (int)count++);
    while (count < 1000 && find_shape(file, name, &shape));
    return count - 1;
}

mh_status mh_openai_config(mh_context *context, const char *path, const mh_tensor_file *file,
                           json_t **config)
{
    mh_tensor conv, tokens, positions, source;
    const bool whisper =
        find_shape(file, "encoder.conv1.weight", &conv) && conv.rank == 3 &&
        find_shape(file, "decoder.token_embedding.weight", &tokens) && tokens.rank == 2 &&
        find_shape(file, "decoder.positional_embedding", &positions) && positions.rank == 2 &&
        find_shape(file, "encoder.positional_embedding", &source) && source.rank == 2;
    if (!whisper)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "%s: found no config.json beside it and no tensors of OpenAI's Whisper",
                       path);
    const json_int_t D = (json_int_t)conv.shape[0];
    *config = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "model_type", "whisper",
        "d_model", D, "encoder_layers", count_layers(file, "encoder"), "encoder_attention_heads",
        D / HEAD_WIDTH, "encoder_ffn_dim", 4 * D, "decoder_layers", count_layers(file, "decoder"),
        "decoder_attention_heads", D / HEAD_WIDTH, "decoder_ffn_dim", 4 * D, "vocab_size",
        (json_int_t)tokens.shape[0], "num_mel_bins", (json_int_t)conv.shape[1],
        "max_source_positions", (json_int_t)source.shape[0], "max_target_positions",
        (json_int_t)positions.shape[0]);
    return *config ? MH_OK : mh_fail(context, MH_ERROR_MEMORY, "out of memory for %s", path);
}
