// SPDX-License-Identifier: MIT
// The docstrings of the extension's functions that users call themselves. The first line is the
// signature, which inspect and help() show.
#ifndef MH_PYTHON_PY_DOCS_H
#define MH_PYTHON_PY_DOCS_H

// clang-format off

#define PY_OPTIONS_SIGNATURE                                                                       \
    "mask=None, *, causal=None, window=None, scale=None, softcap=None, key_lengths=None, "         \
    "prefix_lengths=None, query_documents=None, key_documents=None, query_starts=None, "           \
    "key_starts=None, alibi=None, sinks=None, dropout=None, seed=None, precision=None, "           \
    "empty_row=None"

#define PY_ATTENTION_DOC                                                                           \
    "attention($module, q, k, v, " PY_OPTIONS_SIGNATURE ", weights=None, lse=None, stage=None, "   \
    "average_weights=None, dropped_weights=None, out=None)\n--\n\n"                                \
    "Scaled dot-product attention: out = softmax(scale q k^T + mask) v.\n"                         \
    "\n"                                                                                           \
    "q (..., H, T, E), k (..., G, S, E), v (..., G, S, Ev) with H a multiple of G: arrays of\n"    \
    "NumPy or PyTorch, or DLPack's, of float32, bfloat16 or float16, with any strides, not\n"      \
    "copied. float64 of NumPy is computed and returned in float32. The result is of q's kind and\n" \
    "dtype: out (..., H, T, Ev), or a tuple of out and those of weights and lse that were asked\n" \
    "for, in that order.\n"                                                                        \
    "\n"                                                                                           \
    "mask: bool, True where a query may attend, or float, which is added; broadcast to\n"          \
    "    (..., H, T, S); or a tuple of several.\n"                                                 \
    "causal: True (T = S), \"top-left\", \"bottom-right\", or an offset: query t sees keys up to\n" \
    "    t + offset.\n"                                                                            \
    "window: (left, right): keys that far before and after; None: no limit on that side.\n"        \
    "scale: of q k; 1 / sqrt(E). softcap: scores become softcap tanh(scores / softcap).\n"         \
    "key_lengths, prefix_lengths: int64 (B): keys from there on are padding; the first keys are\n" \
    "    seen by all queries.\n"                                                                   \
    "query_documents, key_documents: int32 (B, T), (B, S): a query sees keys of its own document.\n" \
    "query_starts, key_starts: int64 (sequences + 1): packed batches, q (1, H, rows, E).\n"        \
    "alibi: True, or slopes (H). sinks: float32 (H), a logit that every row has in addition.\n"    \
    "dropout, seed: of the weights. precision: \"f32\" or \"bf16\", of the products. empty_row: a\n" \
    "    query without any key gives \"zero\" or \"nan\".\n"                                       \
    "weights: True: (..., H, T, S) in float32, or with average_weights their mean over heads. An\n" \
    "    array is written to. stage: \"softmax\", or scores \"scaled\", \"capped\" or \"biased\".\n" \
    "    dropped_weights: as dropout has left them.\n"                                             \
    "lse: True: (..., H, T), the logarithm of each row's sum of exponentials.\n"                   \
    "\n"                                                                                           \
    ">>> import multihead as mh, numpy as np\n"                                                    \
    ">>> q, k, v = np.random.default_rng(0).normal(size=(3, 2, 4, 8)).astype(np.float32)\n"        \
    ">>> out, weights = mh.attention(q, k, v, causal=True, weights=True)\n"                        \
    ">>> out.shape, weights.shape\n"                                                               \
    "((2, 4, 8), (2, 4, 4))\n"                                                                     \
    ">>> float(np.abs(weights @ v - out).max()) < 1e-6\n"                                          \
    "True\n"

#define PY_ATTENTION_BACKWARD_DOC                                                                  \
    "attention_backward($module, q, k, v, out, lse, dout, " PY_OPTIONS_SIGNATURE                   \
    ", mask_gradient=None, sinks_gradient=None, gradients=None)\n--\n\n"                           \
    "The gradients of attention: (dq, dk, dv), from that of out.\n"                                \
    "\n"                                                                                           \
    "out and lse are what `attention` returned with the same options. mask_gradient and\n"         \
    "sinks_gradient append the gradients of an additive mask and of the sinks. With gradients, a\n" \
    "tuple (dq, dk, dv, dsinks, and one for each mask) of arrays or None, they are written there.\n" \
    "\n"                                                                                           \
    ">>> import multihead as mh, numpy as np\n"                                                    \
    ">>> q, k, v = np.random.default_rng(0).normal(size=(3, 2, 4, 8)).astype(np.float32)\n"        \
    ">>> out, lse = mh.attention(q, k, v, lse=True)\n"                                             \
    ">>> dq, dk, dv = mh.attention_backward(q, k, v, out, lse, np.ones_like(out))\n"               \
    ">>> bool(np.allclose(dv.sum(axis=1), 4))            # the weights of each of 4 queries sum to 1\n" \
    "True\n"

#define PY_EXPLAIN_DOC                                                                             \
    "explain($module, q, k, v, " PY_OPTIONS_SIGNATURE ", weights=None, lse=None, stage=None, "     \
    "average_weights=None, dropped_weights=None, out=None)\n--\n\n"                                \
    "What `attention` would do with the same arguments: kernels, tiles, memory, and why.\n"        \
    "\n"                                                                                           \
    ">>> import multihead as mh, numpy as np\n"                                                    \
    ">>> q = np.zeros((1, 1, 64, 32), np.float32)\n"                                               \
    ">>> plan = mh.explain(q, q, q, causal=True)\n"                                                \
    ">>> plan[\"live_pairs\"] == 64 * 65 // 2, plan[\"isa\"] == mh.isa()\n"                        \
    "(True, True)\n"

#define PY_SET_NUM_THREADS_DOC                                                                     \
    "set_num_threads($module, threads, /)\n--\n\n"                                                 \
    "The number of threads of calls from now on; 0: all CPUs that this process may use.\n"         \
    "\n"                                                                                           \
    "Results do not depend on it, bit by bit.\n"                                                   \
    "\n"                                                                                           \
    ">>> import multihead as mh\n"                                                                 \
    ">>> mh.set_num_threads(1); mh.get_num_threads()\n"                                            \
    "1\n"                                                                                          \
    ">>> mh.set_num_threads(0)\n"

#define PY_GET_NUM_THREADS_DOC                                                                     \
    "get_num_threads($module, /)\n--\n\n"                                                          \
    "The number of threads of calls.\n"                                                            \
    "\n"                                                                                           \
    ">>> import multihead as mh\n"                                                                 \
    ">>> mh.get_num_threads() >= 1\n"                                                              \
    "True\n"

#define PY_ISA_DOC                                                                                 \
    "isa($module, /)\n--\n\n"                                                                      \
    "The instruction-set level of the kernels: \"avx512\", \"amx\", \"neon\", ..., or what $MH_ISA\n" \
    "says.\n"                                                                                      \
    "\n"                                                                                           \
    ">>> import multihead as mh\n"                                                                 \
    ">>> mh.isa().isalnum()\n"                                                                     \
    "True\n"

// clang-format on

#endif
