# SPDX-License-Identifier: MIT
"""Makes further folders of models/, as make_models.py does: decoders with RoPE, encoder-decoders.

    VENV/bin/python make_models_more.py [NAME...]        # the same packages as make_models.py

Layer 0 of the models with a window attends to 4 keys, layer 1 to all where the family alternates.
"""
import sys

from make_models import V, main

LLAMA = dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=40, max_position_embeddings=40, bos_token_id=1, eos_token_id=2, pad_token_id=0)
QK = r"[qk]_proj\."
QK_NORM = r"[qk]_norm\."
MIXED = ["sliding_attention", "full_attention"]
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=10)
WIDE = dict(window=dict(sliding_window=40))
CAPS = dict(attn_logit_softcapping=2.0, final_logit_softcapping=2.0)
SEQ2SEQ = dict(vocab_size=V, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=40)
T5 = dict(vocab_size=V, d_model=32, d_kv=12, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=4,
          relative_attention_num_buckets=8, relative_attention_max_distance=6, pad_token_id=0, eos_token_id=1,
          decoder_start_token_id=0)
QK_T5 = r"Attention\.[qk]\."

MORE = {
    "llama": dict(cls="LlamaForCausalLM", config=LLAMA, kind="decoder", scaled=QK),
    "llama-scaled": dict(cls="LlamaForCausalLM", kind="decoder", scaled=QK,
                         config=dict(LLAMA, rope_parameters=LLAMA3, tie_word_embeddings=True, head_dim=12,
                                     attention_bias=True, mlp_bias=True),
                         wrong=dict(rope=dict(rope_parameters=dict(rope_type="default", rope_theta=500.0)))),
    "llama-linear": dict(cls="LlamaForCausalLM", kind="decoder", scaled=QK,
                         config=dict(LLAMA, num_hidden_layers=1, rope_parameters=dict(
                             rope_type="linear", rope_theta=500.0, factor=3.0)),
                         wrong=dict(rope=dict(rope_parameters=dict(rope_type="default", rope_theta=500.0)))),
    "llama-dynamic": dict(cls="LlamaForCausalLM", kind="decoder", scaled=QK,
                          config=dict(LLAMA, num_hidden_layers=1, rope_parameters=dict(
                              rope_type="dynamic", rope_theta=500.0, factor=3.0)),
                          wrong=dict(rope=dict(rope_parameters=dict(rope_type="default", rope_theta=1e4)))),
    "mistral": dict(cls="MistralForCausalLM", config=dict(LLAMA, sliding_window=4), kind="decoder", scaled=QK,
                    wrong=WIDE),
    "qwen2": dict(cls="Qwen2ForCausalLM", config=LLAMA, kind="decoder", scaled=QK),
    "qwen2-yarn": dict(cls="Qwen2ForCausalLM", kind="decoder", scaled=QK,
                       config=dict(LLAMA, rope_parameters=YARN, use_sliding_window=True, sliding_window=4,
                                   max_window_layers=1),
                       wrong=dict(WIDE, rope=dict(rope_parameters=dict(rope_type="default", rope_theta=500.0)))),
    "qwen3": dict(cls="Qwen3ForCausalLM", config=dict(LLAMA, head_dim=12), kind="decoder", scaled=QK_NORM),
    "gemma2": dict(cls="Gemma2ForCausalLM", kind="decoder", scaled=QK, offset=1,
                   config=dict(LLAMA, head_dim=12, sliding_window=4, query_pre_attn_scalar=20, layer_types=MIXED, **CAPS),
                   softcap=dict(attn_logit_softcapping=None), wrong=WIDE),
    "gemma3": dict(cls="Gemma3ForCausalLM", kind="decoder", scaled=QK_NORM, offset=1,
                   config=dict(LLAMA, head_dim=12, sliding_window=4, query_pre_attn_scalar=20, layer_types=MIXED),
                   wrong=dict(WIDE, rope=dict(rope_parameters={k: dict(rope_type="default", rope_theta=1e4) for k in MIXED}))),
    "gpt_neox": dict(cls="GPTNeoXForCausalLM", kind="decoder", scaled=r"query_key_value",
                     config=dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                 intermediate_size=40, max_position_embeddings=40, bos_token_id=1, eos_token_id=2),
                     wrong=dict(rope=dict(rope_parameters=dict(rope_type="default", rope_theta=1e4,
                                                               partial_rotary_factor=1.0)))),
    "marian": dict(cls="MarianMTModel", kind="both", scaled=QK, embedding=0.15,
                   config=dict(SEQ2SEQ, pad_token_id=98, decoder_start_token_id=98, eos_token_id=0,
                               activation_function="swish", scale_embedding=True)),
    "marian-separate": dict(cls="MarianMTModel", kind="both", scaled=QK, embedding=0.4,
                            config=dict(SEQ2SEQ, encoder_layers=1, decoder_vocab_size=V + 12, pad_token_id=98,
                                        decoder_start_token_id=98, eos_token_id=0, activation_function="relu",
                                        encoder_ffn_dim=48, share_encoder_decoder_embeddings=False)),
    "bart": dict(cls="BartForConditionalGeneration", config=SEQ2SEQ, kind="both", scaled=QK),
    "mbart": dict(cls="MBartForConditionalGeneration", kind="both", scaled=QK, embedding=0.15,
                  config=dict(SEQ2SEQ, decoder_start_token_id=2, scale_embedding=True)),
    "t5": dict(cls="T5ForConditionalGeneration", config=T5, kind="both", scaled=QK_T5),
    "t5-gated": dict(cls="T5ForConditionalGeneration", kind="both", scaled=QK_T5, untied=True,
                     config=dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "t5-encoder": dict(cls="T5EncoderModel", kind="encoder", scaled=QK_T5, config=dict(T5, num_decoder_layers=None)),
}

if __name__ == "__main__":
    main(MORE, sys.argv[1:])
