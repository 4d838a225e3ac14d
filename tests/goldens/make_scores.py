# SPDX-License-Identifier: MIT
"""Makes scores.json: what sacreBLEU gives for some small corpora, nasty ones among them.

    python3 make_scores.py        # needs sacrebleu==2.6.0 from PyPI

A case has hypotheses, one or more references, and BLEU, chrF2 and chrF2++. test_score.c runs the same.
"""
import json
import pathlib

from sacrebleu.metrics import BLEU, CHRF

HYPOTHESES = ["The cat sat on the mat.", "He's 3.5 years old, isn't he?", "\u00c9t\u00e9 2024 : 1,000 \u20ac!", ""]
REFERENCES = ["The cat is on the mat.", "He is 3,5 years old, is he not?", "L'\u00e9t\u00e9 2024 : 1.000 \u20ac !", "Nothing."]
OTHERS = ["A cat sat on a mat", "He is three and a half.", "\u00c9t\u00e9 2024: 1,000 \u20ac!", ""]
CASES = [
    (HYPOTHESES, [REFERENCES], False),
    (HYPOTHESES, [REFERENCES], True),
    (HYPOTHESES, [REFERENCES, OTHERS], False),
    (HYPOTHESES, [OTHERS, REFERENCES, HYPOTHESES], False),
    (["same text here, twice over"], [["same text here, twice over"]], False),
    (["a"], [["a"]], False),
    (["a b"], [["c d"]], False),
    ([""], [[""]], False),
    ([""], [["x"]], False),
    (["x"], [[""]], False),
    (["a b c"], [["a b c d e f g h"]], False),
    (["the the the the the"], [["the cat the"]], False),
    (["&quot;A&amp;B&lt;C&gt;&amp;lt;<skipped>1-2-3 --- 1. 2, 3.14,15 a.b,c ..,, 7-"],
     [["\"A & B < C > &lt; 1 - 2-3 - 1 . 2 , 3.14 , 15 a . b , c . . , ,7 -"]], False),
    (["[x]{y}(z)`q`^~|/\\:;@#$%*+=_!?"], [["[ x ] { y } (z) ` q ` ^ ~ | / \\ : ; @ # $ % * + = _ ! ?"]], False),
    (["\u00a0a\u2003b\u3000c\x1cd\x85e\u200bf \t g "], [["a b c d e\u200bf g"]], False),
    (["line-\nbreak and\nmore -\n"], [["linebreak and more -"]], False),
    (["\u0130STANBUL \u039f\u0394\u039f\u03a3 \u03a3. \u0391\u03a3' \u0391\u03a3'\u0391 \u00c0\u0160\u017d \u1e9e"],
     [["i\u0307stanbul \u03bf\u03b4\u03bf\u03c2 \u03c3. \u03b1\u03c2' \u03b1\u03c3'\u03b1 \u00e0\u0161\u017e \u00df"]], True),
    (["\u4f60\u597d\uff0c\u4e16\u754c\u3002\U0001f600e\u0301"], [["\u4f60\u597d\u4e16\u754c\U0001f600\u00e9"]], False),
    (["\"word\" (word) 'tis word, ... - a! b"], [["\"word\" word 'tis word ... - a b!"]], False),
]


def main():
    cases = []
    for hypotheses, references, lowercase in CASES:
        bleu = BLEU(lowercase=lowercase).corpus_score(hypotheses, references)
        chrf = [CHRF(word_order=n, lowercase=lowercase).corpus_score(hypotheses, references).score for n in (0, 2)]
        cases.append({"hypotheses": hypotheses, "references": references, "lowercase": lowercase,
                      "bleu": bleu.score, "precisions": bleu.precisions, "bp": float(bleu.bp),
                      "lengths": [bleu.sys_len, bleu.ref_len], "chrf": float(chrf[0]), "chrf++": float(chrf[1])})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (pathlib.Path(__file__).parent / "scores.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


main()
