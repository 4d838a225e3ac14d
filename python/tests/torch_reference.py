# SPDX-License-Identifier: MIT
"""Attention with all options in plain operations of PyTorch, in the dtype of its inputs, and how
far f32 results may be from it in float64: twice as far as the same operations in f32 are."""
import torch

OPTIONS = ("mask", "bias", "sinks", "causal", "window", "scale", "softcap", "alibi", "key_lengths",
           "prefix_lengths", "query_documents", "key_documents")


def live_pairs(B, T, S, *, causal=None, window=None, key_lengths=None, prefix_lengths=None,
               query_documents=None, key_documents=None):
    """Which query may attend to which key: bool (B, 1, T, S)."""
    offset = {None: 0, "top-left": 0, "bottom-right": S - T}.get(causal, causal)
    if causal == "bottom-right" and key_lengths is not None:
        offset = (key_lengths - T).view(-1, 1, 1, 1)
    i, j = torch.arange(T).view(1, 1, T, 1) + offset, torch.arange(S).view(1, 1, 1, S)
    live = torch.ones(B, 1, T, S, dtype=torch.bool)
    if causal is not None:
        visible = j <= i
        if prefix_lengths is not None:
            visible = visible | (j < prefix_lengths.view(-1, 1, 1, 1))
        live = live & visible
    left, right = window if window is not None else (None, None)
    if left is not None:
        live = live & (j >= i - left)
    if right is not None:
        live = live & (j <= i + right)
    if key_lengths is not None:
        live = live & (j < key_lengths.view(-1, 1, 1, 1))
    if query_documents is not None:
        live = live & (query_documents.view(B, 1, T, 1) == key_documents.view(B, 1, 1, S))
    return live


def attention(q, k, v, *, mask=None, bias=None, sinks=None, scale=None, softcap=None, alibi=None,
              keep=None, **rules):
    """(out, weights, lse) of q (B, H, T, E), k (B, G, S, E), v (B, G, S, Ev)."""
    B, H, T, E = q.shape
    S, groups = k.shape[2], H // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-2, -1) * (E ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    live = live_pairs(B, T, S, **rules)
    for x in (mask, bias):
        if x is not None and x.dtype == torch.bool:
            live = live & x
        elif x is not None:
            scores = scores + x.to(q.dtype)
    if alibi is not None:
        distance = (torch.arange(T).view(T, 1) - torch.arange(S)).abs()
        scores = scores - alibi.to(q.dtype).view(-1, 1, 1) * distance
    scores = scores.masked_fill(~live, -torch.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.to(q.dtype).view(1, H, 1, 1).expand(B, H, T, 1)), -1)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0).unsqueeze(-1))[..., :S]
    dropped = weights if keep is None else weights * keep
    return dropped @ v, weights, lse


def error(found, expected):
    """The root mean square of the differences, and two ulps of the largest value: what no f32
    program is asked to be better than."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    finite = torch.isfinite(expected)
    assert torch.equal(torch.isfinite(found), finite)
    if not finite.any():
        return 0.0, 0.0
    exact = expected[finite]
    return ((found[finite].double() - exact).square().mean().sqrt().item(),
            exact.abs().max().item() * 2 * torch.finfo(torch.float32).eps)


def assert_as_exact(found, theirs, exact, what, times=2.0):
    """`found` is not further from `exact` than `times` as far as `theirs`."""
    ours, ulps = error(found, exact)
    bound = times * max(error(theirs, exact)[0], ulps)
    assert ours <= bound, f"{what}: error {ours:.3g}, expected at most {bound:.3g}"
