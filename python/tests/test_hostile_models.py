# SPDX-License-Identifier: MIT
"""Random objects to everything that models, tokenizers and traces have: exceptions, never a crash."""
import subprocess
import sys

import pytest

SCRIPT = r"""
import collections, random, sys, warnings
import numpy as np
import multihead as mh
from multihead import _multihead

warnings.simplefilter("ignore")
random.seed(int(sys.argv[2]))
model = mh.load(sys.argv[1])
trace = model.look("Bonjour !")
core, tokens, seen = model._core, model.tokenizer._core, trace._core
stopped = _multihead.Stop()


class Odd:
    def __len__(self): return 3
    def __getitem__(self, i): raise RuntimeError("odd")
    def __index__(self): raise RuntimeError("odd")
    def __float__(self): raise RuntimeError("odd")


POOL = [None, True, 0, 1, -1, 2**31, 2**63, -2**70, 0.5, float("nan"), float("inf"), "", "a", "Bonjour !",
        "a\0b", "a\ud800", "x" * 5000, b"", b"\1\0", b"\1" * 36, [], [""], ["a", "b"], ["a", 3], [None], [[]],
        [1, 2], [2**40], [-1], [[1], [2, 3]], (), ("user", "a"), [("user", "a")], [("king", "a")], {}, {"a": 1},
        object(), Odd(), [Odd()], np.zeros(3), np.zeros((2, 256), np.float32), np.zeros((0, 256), np.float32),
        np.zeros((2, 2, 2)), np.array("a"), np.arange(4), (i for i in "ab"), iter([1, 2]), print, int, stopped,
        "encoder.self", "cross", "f32", "mean", "chatml", float("-inf"), 1e300, 5, 16]
NAMES = ["layer", "head", "kind", "bits", "width", "colour", "title", "model", "num_beams", "n_best", "batch",
         "length_penalty", "attention", "alignment_layer", "max_length", "add_special_tokens", "merges",
         "max_new_tokens", "temperature", "top_k", "seed", "truncate", "pooling", "normalize", "nonsense"]
CALLS = [(getattr(owner, name), int(count)) for owner, names in [  # and how many arguments they take
    (core, "encode2 hidden3 logits1 classify2 embed5 generate5 chat2 translate3 trace3 trace_ids2 "
           "trace_translation3"),
    (tokens, "encode2 decode2 name1 token_bytes1 id1"), (seen, "page0 text0"),
    (model, "embed1 hidden1 fill1 classify2 generate1 chat1 chat_prompt2 translate2 look2"),
    (model.tokenizer, "encode2 decode2 token1 id1 token_bytes1"),
    (trace, "heads1 links2 page3 text3 svg3 __getitem__1"),
    (_multihead, "top2 bleu3 chrf4 parse_trace1 open_trace1 load_tokenizer1 train_tokenizer1 find_model1 "
                 "Model2"),
    (mh, "view2 bleu2 chrf2"),
] for name, count in ((word[:-1], word[-1]) for word in names.split())]
raised = collections.Counter()
for _ in range(int(sys.argv[3])):
    call, count = random.choice(CALLS)
    count = random.choice([count] * 8 + [count + 1, 0])
    arguments = [random.choice(POOL) for _ in range(count)]
    options = {random.choice(NAMES): random.choice(POOL) for _ in range(random.choice([0, 0, 0, 1, 2]))}
    try:
        call(*arguments, **options)
        raised["nothing"] += 1
    except Exception as error:
        if isinstance(error, (SystemError, AttributeError)):
            print(call, arguments, options, error)
            sys.exit(3)
        raised[type(error).__name__] += 1
assert model.translate("Merci beaucoup.") == "Thank you very much."
print(dict(raised))
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_calls(root, seed):
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(root / "models" / "fr-en"), str(seed), "1000"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing" in done.stdout and "ValueError" in done.stdout and "TypeError" in done.stdout
