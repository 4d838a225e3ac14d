// SPDX-License-Identifier: MIT
// Heads whose cross-attention follows the sound, as published for each size of Whisper. A model's
// generation_config.json may name its own; of other models the heads of the last half of the layers
// are taken.
#include "speech/speech_internal.h"

// {layer, head} ..., ended by {0, 0}, which is none of them.
static const unsigned char tiny_en[][2] = {{1, 0}, {2, 0}, {2, 5}, {3, 0}, {3, 1},
                                           {3, 2}, {3, 3}, {3, 4}, {0, 0}};
static const unsigned char tiny[][2] = {{2, 2}, {3, 0}, {3, 2}, {3, 3}, {3, 4}, {3, 5}, {0, 0}};
static const unsigned char base_en[][2] = {{3, 3}, {4, 7}, {5, 1}, {5, 5}, {5, 7}, {0, 0}};
static const unsigned char base[][2] = {{3, 1}, {4, 2}, {4, 3}, {4, 7}, {5, 1},
                                        {5, 2}, {5, 4}, {5, 6}, {0, 0}};
static const unsigned char small_en[][2] = {
    {6, 6},  {7, 0},  {7, 3},  {7, 8},  {8, 2},  {8, 5},  {8, 7},   {9, 0},  {9, 4},  {9, 8},
    {9, 10}, {10, 0}, {10, 1}, {10, 2}, {10, 3}, {10, 6}, {10, 11}, {11, 2}, {11, 4}, {0, 0}};
static const unsigned char small[][2] = {{5, 3}, {5, 9}, {8, 0}, {8, 4},  {8, 7}, {8, 8},
                                         {9, 0}, {9, 7}, {9, 9}, {10, 5}, {0, 0}};
static const unsigned char medium_en[][2] = {
    {11, 4}, {14, 1},  {14, 12}, {14, 14}, {15, 4}, {16, 0}, {16, 4},  {16, 9},  {17, 12}, {17, 14},
    {18, 7}, {18, 10}, {18, 15}, {20, 0},  {20, 3}, {20, 9}, {20, 14}, {21, 12}, {0, 0}};
static const unsigned char medium[][2] = {{13, 15}, {15, 4}, {15, 15}, {16, 1},
                                          {20, 0},  {23, 4}, {0, 0}};
static const unsigned char large_v2[][2] = {
    {10, 12}, {13, 17}, {16, 11}, {16, 12}, {16, 13}, {17, 15}, {17, 16}, {18, 4},
    {18, 11}, {18, 19}, {19, 11}, {21, 2},  {21, 3},  {22, 3},  {22, 9},  {22, 12},
    {23, 5},  {23, 7},  {23, 13}, {25, 5},  {26, 1},  {26, 12}, {27, 15}, {0, 0}};
static const unsigned char large_v3[][2] = {{7, 0},  {10, 17}, {12, 18}, {13, 12},
                                            {16, 1}, {17, 14}, {19, 11}, {21, 4},
                                            {24, 1}, {25, 6},  {0, 0}};
static const unsigned char turbo[][2] = {{2, 4}, {2, 11}, {3, 3}, {3, 6}, {3, 11}, {3, 14}, {0, 0}};

// By the size of the decoder and its vocabulary.
static const struct {
    size_t layers, heads, vocabulary;
    const unsigned char (*list)[2];
} sizes[] = {
    {4, 6, 51864, tiny_en},     {4, 6, 51865, tiny},       {6, 8, 51864, base_en},
    {6, 8, 51865, base},        {12, 12, 51864, small_en}, {12, 12, 51865, small},
    {24, 16, 51864, medium_en}, {24, 16, 51865, medium},   {32, 20, 51865, large_v2},
    {32, 20, 51866, large_v3},  {4, 20, 51866, turbo},
};

static const unsigned char (*published_heads(const mh_model_info *info))[2]
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].layers == info->decoder_layers && sizes[i].heads == info->heads &&
            sizes[i].vocabulary == info->target_vocabulary)
            return sizes[i].list;
    return NULL;
}

size_t mh_alignment_heads_find(const mh_model *model, bool *heads)
{
    const size_t L = model->info.decoder_layers, H = model->info.heads;
    const mh_token_rules *rules = &model->rules;
    const unsigned char(*list)[2] = published_heads(&model->info);
    size_t count = 0;
    for (size_t i = 0; i < L * H; i++)
        heads[i] = !rules->alignment_count && !list && i >= L / 2 * H;
    for (size_t i = 0; i < rules->alignment_count; i++)
        heads[rules->alignment_heads[i].layer * H + rules->alignment_heads[i].head] = true;
    for (; !rules->alignment_count && list && ((*list)[0] || (*list)[1]); list++)
        heads[(*list)[0] * H + (*list)[1]] = true;
    for (size_t i = 0; i < L * H; i++)
        count += heads[i];
    return count;
}

mh_status mh_alignment_heads_check(mh_context *context, const mh_model *model)
{
    const mh_token_rules *rules = &model->rules;
    for (size_t i = 0; i < rules->alignment_count; i++) {
        const mh_head_position *h = &rules->alignment_heads[i];
        if (h->layer >= model->info.decoder_layers || h->head >= model->info.heads)
            return mh_fail(context, MH_ERROR_FORMAT,
                           "generation_config.json: \"alignment_heads\": found [%zu, %zu], but the "
                           "decoder has %zu layers of %zu heads, from 0",
                           h->layer, h->head, model->info.decoder_layers, model->info.heads);
    }
    return MH_OK;
}
