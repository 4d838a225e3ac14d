// SPDX-License-Identifier: MIT
// The list of model families.
#include "families/family.h"
#include <string.h>

static const mh_family *const families[] = {
    &mh_family_bart,        &mh_family_bert,        &mh_family_clip,        &mh_family_clip_text,
    &mh_family_clip_vision, &mh_family_deit,        &mh_family_dinov2,      &mh_family_distilbert,
    &mh_family_gemma2,      &mh_family_gemma3,      &mh_family_gemma3_text, &mh_family_gpt2,
    &mh_family_gpt_neox,    &mh_family_llama,       &mh_family_marian,      &mh_family_mbart,
    &mh_family_mistral,     &mh_family_mt5,         &mh_family_qwen2,       &mh_family_qwen3,
    &mh_family_roberta,     &mh_family_t5,          &mh_family_translator,  &mh_family_vit,
    &mh_family_whisper,     &mh_family_xlm_roberta,
};
enum { FAMILIES = sizeof families / sizeof *families };

const mh_family *mh_family_find(const char *model_type)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i]->model_type, model_type) == 0)
            return families[i];
    return NULL;
}

const char *mh_family_names(void)
{
    return "bart, bert, clip, clip_text_model, clip_vision_model, deit, dinov2, distilbert, "
           "gemma2, "
           "gemma3, gemma3_text, gpt2, gpt_neox, llama, marian, mbart, mistral, mt5, qwen2, qwen3, "
           "roberta, t5, vit, whisper, xlm-roberta";
}
