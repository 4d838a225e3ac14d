# SPDX-License-Identifier: MIT
"""attn_implementation="multihead" beside "eager" and float64, over tiny models of many families.

At default initialisation scores are near 0, and a missing softcap moves nothing. So matrices are
scaled until the largest score is 3 to 20, and mistakes are shown to be noticed."""
import copy
import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import multihead as mh
import multihead.transformers
import torch_reference as reference
from multihead.transformers import attention_forward
from test_torch_compile import profiled
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

VOCABULARY, B, T = 61, 3, 11
LENGTHS = (T, 7, 4)

SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
GROUPED = {**SIZES, "num_key_value_heads": 2}
SEQ2SEQ = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
           "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
           "decoder_ffn_dim": 48, "max_position_embeddings": 64, "pad_token_id": 0,
           "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
           "forced_eos_token_id": None}
IMAGES = {"image_size": 12, "patch_size": 4, "hidden_size": 32, "num_hidden_layers": 2,
          "num_attention_heads": 4, "intermediate_size": 48}

# model_type: (kind, options of its configuration)
MODELS = {
    "bert": ("encoder", SIZES),
    "roberta": ("encoder", {**SIZES, "pad_token_id": 0}),
    "distilbert": ("encoder", {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4,
                               "hidden_dim": 48, "pad_token_id": 0}),
    "electra": ("encoder", {**SIZES, "embedding_size": 32}),
    "modernbert": ("encoder", {**SIZES, "local_attention": 8, "global_attn_every_n_layers": 2}),
    "vit": ("image", IMAGES),
    "dinov2": ("image", {**IMAGES, "mlp_ratio": 2}),
    "gpt2": ("decoder", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4,
                         "n_positions": 64, "pad_token_id": 0, "bos_token_id": 1,
                         "eos_token_id": None}),
    "gpt_neox": ("decoder", {**SIZES, "rotary_pct": 0.5}),
    "opt": ("decoder", {**{k: v for k, v in SIZES.items() if k != "intermediate_size"},
                        "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "llama": ("decoder", GROUPED),
    "mistral": ("decoder", {**GROUPED, "sliding_window": 4}),
    "qwen2": ("decoder", GROUPED),
    "qwen3": ("decoder", {**GROUPED, "head_dim": 16}),
    "gemma2": ("decoder", {**GROUPED, "head_dim": 16, "query_pre_attn_scalar": 12,
                           "sliding_window": 4, "attn_logit_softcapping": 2.0}),
    "gemma3_text": ("decoder", {**GROUPED, "head_dim": 16, "sliding_window": 4,
                                "query_pre_attn_scalar": 12}),
    "gpt_oss": ("decoder", {**GROUPED, "head_dim": 8, "num_local_experts": 2,
                            "num_experts_per_tok": 2, "sliding_window": 4}),
    "phi3": ("decoder", GROUPED),
    "olmo2": ("decoder", GROUPED),
    "cohere": ("decoder", GROUPED),
    "granite": ("decoder", {**GROUPED, "attention_multiplier": 0.3}),
    "bart": ("seq2seq", SEQ2SEQ),
    "marian": ("seq2seq", SEQ2SEQ),
    "t5": ("seq2seq", {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 12, "d_ff": 48,
                       "num_layers": 2, "num_heads": 4, "pad_token_id": 0, "eos_token_id": 2,
                       "decoder_start_token_id": 1}),
    "whisper": ("speech", {**{k: v for k, v in SEQ2SEQ.items()
                              if k not in ("max_position_embeddings", "forced_eos_token_id")},
                           "num_mel_bins": 8, "max_source_positions": 9,
                           "max_target_positions": 64, "suppress_tokens": None,
                           "begin_suppress_tokens": None}),
}
CLASSES = {"encoder": "AutoModel", "image": "AutoModel", "decoder": "AutoModelForCausalLM",
           "seq2seq": "AutoModelForSeq2SeqLM", "speech": "AutoModelForSpeechSeq2Seq"}
QUERIES_AND_KEYS = re.compile(
    r"(q_proj|k_proj|qkv_proj|query|key|c_attn|q_lin|k_lin|Wqkv|\.q\.|\.k\.|[qk]_norm)")

largest = []  # the largest score of each call of "measured"


def measured(module, query, key, value, mask, scaling=None, **kwargs):
    groups = query.shape[1] // key.shape[1]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = query @ key.repeat_interleave(groups, 1).mT * scale
    largest.append(scores.abs().max().item())
    return attention_forward(module, query, key, value, mask, scaling=scaling, **kwargs)


def exact(module, query, key, value, mask, scaling=None, is_causal=None, position_bias=None,
          **kwargs):
    """For models in float64: eager attention has its softmax in f32."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    rule = "top-left" if mask is None and causal and query.shape[2] > 1 else None
    out, weights, _ = reference.attention(
        query, key, value, mask=mask, bias=position_bias, scale=scaling, causal=rule,
        softcap=kwargs.get("softcap"), sinks=kwargs.get("s_aux"))
    return out.transpose(1, 2).contiguous(), weights


def register(name, function):
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, sdpa_mask)


register("measured", measured)
register("exact", exact)


def with_attention(model, name):
    model.set_attn_implementation(name)
    return model


def inputs(kind):
    g = torch.Generator().manual_seed(3)
    ids = torch.randint(3, VOCABULARY, (B, T), generator=g)
    right = torch.arange(T).expand(B, T) < torch.tensor(LENGTHS).unsqueeze(1)
    if kind == "image":
        return {"pixel_values": torch.randn(B, 3, 12, 12, generator=g)}
    if kind == "speech":
        return {"input_features": torch.randn(B, 8, 18, generator=g), "decoder_input_ids": ids}
    if kind == "encoder":
        return {"input_ids": ids * right, "attention_mask": right.long()}
    if kind == "decoder":
        left = right.flip(1)
        return {"input_ids": ids * left, "attention_mask": left.long()}
    return {"input_ids": ids * right, "attention_mask": right.long(),
            "decoder_input_ids": ids.flip(1)}


def live(call, y):
    """Rows of results that are not padding."""
    mask = call.get("attention_mask")
    if mask is None or "decoder_input_ids" in call or y.shape[1] != mask.shape[1]:
        return torch.ones(y.shape[:2], dtype=torch.bool)
    return mask.bool()


_models = {}


def tiny(name):
    """(kind, model) with scores of 3 to 20 in each of its attentions."""
    if name in _models:
        return _models[name]
    kind, options = MODELS[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **options)
    model = getattr(transformers, CLASSES[kind]).from_config(
        config, **({"experts_implementation": "eager"} if name == "gpt_oss" else {})).eval()
    with torch.no_grad():
        for parameter, p in model.named_parameters():
            if p.dim() > 1:
                p.normal_(0, p.shape[-1] ** -0.5)
            elif parameter.endswith("bias"):
                p.normal_(0, 0.2)
            elif parameter.endswith("sinks"):
                p.normal_()
            else:
                p.mul_(1 + 0.2 * torch.randn_like(p))
        call = inputs(kind)
        with_attention(model, "measured")
        for _ in range(20):
            largest.clear()
            model(**call)
            assert largest, "the model does not call the attention interface"
            if max(largest) > 4:
                break
            for parameter, p in model.named_parameters():
                if QUERIES_AND_KEYS.search(parameter):
                    p.mul_(1.25)
    assert 3 < max(largest) < 20
    _models[name] = kind, model
    return _models[name]


def output(found):
    return found.logits if "logits" in found else found.last_hidden_state


def run(model, call, name, dtype=torch.float32):
    model = with_attention(model if dtype == torch.float32 else copy.deepcopy(model).to(dtype),
                           name)
    call = {k: x.to(dtype) if x.is_floating_point() else x for k, x in call.items()}
    with torch.no_grad():
        y = output(model(**call))
    return y[live(call, y)]


@pytest.mark.parametrize("name", MODELS)
def test_parity(name):
    kind, model = tiny(name)
    call = inputs(kind)
    expected = run(model, call, "exact", torch.float64)
    theirs = run(model, call, "eager")
    reference.assert_as_exact(run(model, call, "multihead"), theirs, expected, name)
    if "attention_mask" in call:  # and without padding: causal by rule, not by a mask
        del call["attention_mask"]
        expected = run(model, call, "exact", torch.float64)
        theirs = run(model, call, "eager")
        reference.assert_as_exact(run(model, call, "multihead"), theirs, expected,
                                  name + " without padding")


@pytest.mark.parametrize("name", [name for name, (kind, _) in MODELS.items()
                                  if kind in ("decoder", "seq2seq")])
def test_greedy_text(name):
    kind, model = tiny(name)
    call = {k: x for k, x in inputs(kind).items() if k != "decoder_input_ids"}
    text = [with_attention(model, attention).generate(**call, do_sample=False, max_new_tokens=12,
                                                      min_new_tokens=12)
            for attention in ("eager", "multihead")]
    assert torch.equal(*text)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "gpt_oss", "t5", "bart",
                                  "vit"])
def test_weights(name):
    kind, model = tiny(name)
    call = inputs(kind)
    found = {}
    for attention in ("eager", "multihead"):
        with torch.no_grad():
            y = with_attention(model, attention)(**call, output_attentions=True)
        found[attention] = [w for key in ("attentions", "encoder_attentions",
                                          "decoder_attentions", "cross_attentions")
                            for w in (y.get(key) or ())]
    assert found["eager"] and len(found["eager"]) == len(found["multihead"])
    for a, b in zip(found["multihead"], found["eager"]):
        rows = live(call, a.transpose(1, 2))
        torch.testing.assert_close(a.transpose(1, 2)[rows], b.transpose(1, 2)[rows], rtol=1e-3,
                                   atol=1e-4)
    with torch.no_grad():
        y = with_attention(model, "multihead")(**call)
    assert not y.get("attentions") and not y.get("encoder_attentions")


# ---- mistakes ------------------------------------------------------------------------------------

def wrong_scale(module, q, k, v, mask, scaling=None, **kwargs):
    scaling = (q.shape[-1] ** -0.5 if scaling is None else scaling) * 1.01
    return attention_forward(module, q, k, v, mask, scaling=scaling, **kwargs)


def without_mask(module, q, k, v, mask, **kwargs):
    return attention_forward(module, q, k, v, None, **kwargs)


def wrong_heads(module, q, k, v, mask, **kwargs):
    return attention_forward(module, q, k.flip(1), v.flip(1), mask, **kwargs)


def without(*names):
    def attention(module, q, k, v, mask, **kwargs):
        return attention_forward(module, q, k, v, mask,
                                 **{k: x for k, x in kwargs.items() if k not in names})
    return attention


@pytest.mark.parametrize("name, mistake", [
    ("llama", wrong_scale), ("llama", without_mask), ("llama", wrong_heads),
    ("bert", without_mask), ("bert", wrong_scale), ("mistral", without_mask),
    ("gemma2", without("softcap")), ("gpt_oss", without("s_aux")), ("t5", without("position_bias")),
    ("granite", without("scaling"))])
def test_mistakes_are_noticed(name, mistake):
    kind, model = tiny(name)
    call = inputs(kind)
    register("mistaken", mistake)
    expected = run(model, call, "exact", torch.float64)
    theirs, wrong = run(model, call, "eager"), run(model, call, "mistaken")
    with pytest.raises(AssertionError, match="error"):
        reference.assert_as_exact(wrong, theirs, expected, name, times=20)


# ---- training, packing, kernels ------------------------------------------------------------------

@pytest.mark.parametrize("name", ["bert", "llama", "gpt_oss", "t5"])
def test_gradients(name):
    kind, model = tiny(name)
    call = inputs(kind)

    def gradients(attention, dtype):
        m = with_attention(copy.deepcopy(model).to(dtype), attention)
        y = output(m(**call))
        rows = live(call, y)
        y[rows].square().mean().backward()
        return {key: p.grad for key, p in m.named_parameters() if p.grad is not None}

    expected, theirs = gradients("exact", torch.float64), gradients("eager", torch.float32)
    ours = gradients("multihead", torch.float32)
    assert ours.keys() == expected.keys()
    for key, g in expected.items():
        scale = torch.finfo(torch.float32).eps * g.abs().max()
        bound = 3 * max(reference.error(theirs[key], g)[0], 8 * scale)
        assert reference.error(ours[key], g)[0] <= bound, key


def test_dropout_in_training():
    _, model = tiny("llama")
    model = copy.deepcopy(model)
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    with_attention(model, "multihead").train()
    call = inputs("decoder")
    torch.manual_seed(1)
    first = model(**call).logits
    torch.manual_seed(1)
    assert torch.equal(model(**call).logits, first)
    assert not torch.equal(model(**call).logits, first)
    assert torch.equal(model.eval()(**call).logits, model(**call).logits)


@pytest.mark.parametrize("name", ["llama", "bert"])
@pytest.mark.parametrize("weights", [False, True])
def test_packed_batches(name, weights):
    """Sequences back to back with cu_seq_lens, as collators for flash attention make them."""
    kind, model = tiny(name)
    call = inputs(kind)
    mask = call["attention_mask"].bool()
    apart = run(model, call, "multihead")
    starts = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0)], dtype=torch.int32)
    positions = torch.cat([torch.arange(n) for n in LENGTHS]).unsqueeze(0)
    seen = []

    def packed(module, q, k, v, given, **kwargs):
        seen.append(given)
        return attention_forward(module, q, k, v, None, **kwargs)

    AttentionInterface.register("packed", packed)
    AttentionMaskInterface.register("packed", lambda *a, **k: None)
    together = with_attention(model, "packed")(
        input_ids=call["input_ids"][mask].unsqueeze(0), position_ids=positions,
        cu_seq_lens_q=starts, cu_seq_lens_k=starts, max_length_q=T, max_length_k=T,
        output_attentions=weights)
    assert seen == [None, None]
    torch.testing.assert_close(output(together)[0], apart, rtol=1e-4, atol=1e-4)


def test_no_kernel_of_torch_runs():
    kind, model = tiny("bert")
    with_attention(model, "multihead")
    call = inputs(kind)
    calls = []

    def watched(module, q, k, v, mask, **kwargs):
        (out, w), ran = profiled(lambda: attention_forward(module, q, k, v, mask, **kwargs))
        scale = kwargs.get("scaling")
        expected = mh.attention(q.numpy(), k.numpy(), v.numpy(), mask=mask.numpy(), scale=scale)
        assert torch.equal(out.transpose(1, 2), torch.from_numpy(expected))
        assert out.is_contiguous()
        calls.append(ran)
        return out, w

    register("watched", watched)
    with torch.no_grad():
        with_attention(model, "watched")(**call)
        with_attention(model, "multihead")
        _, whole = profiled(lambda: model(**call))
    assert calls == [set(), set()]
    assert not {name for name in whole if "softmax" in name or "bmm" in name or "flash" in name}


def test_float64_is_refused():
    _, model = tiny("bert")
    double = with_attention(copy.deepcopy(model).double(), "multihead")
    with pytest.raises(TypeError, match="float64"):
        double(**inputs("encoder"))
