# SPDX-License-Identifier: MIT
"""Tokenizers of every component that we read, trained by the tokenizers package on given texts.

The structure of each is that of a published file; its vocabulary is small. `build(texts)` returns
{name: tokenizers.Tokenizer}.
"""
import json
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SHORT = "'s|'t|'re|'ve|'m|'ll|'d"
LLAMA3 = (r"(?i:" + SHORT + r")|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:" + SHORT + r")?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:" + SHORT + r")?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = SHORT + r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BEHAVIOURS = ["removed", "isolated", "contiguous", "merged_with_previous", "merged_with_next"]


def charsmap(rules):
    """SentencePiece's normalisation rules in the format of darts-clone, by first fit."""
    trie, texts, places = {}, bytearray(), {}
    for source, target in rules.items():
        place = places.setdefault(target, len(texts))
        if place == len(texts):
            texts += target.encode() + b"\0"
        node = trie
        for byte in source.encode():
            node = node.setdefault(byte, {})
        node["value"] = place
    units, used, bases = {0: 0}, {0}, set()

    def put(place, node):
        labels = [0 if k == "value" else k for k in node]
        offset = 1
        while offset < 256 or place ^ offset in bases or any((place ^ offset ^ label) in used for label in labels):
            offset += 1
        base = place ^ offset
        bases.add(base)
        used.update(base ^ label for label in labels)
        units[place] |= offset << 10
        for key, child in node.items():
            if key == "value":
                units[place] |= 1 << 8
                units[base] = child | 1 << 31
            else:
                units[base ^ key] = key
                put(base ^ key, child)

    put(0, trie)
    size = (max(units) | 0xFF) + 1
    data = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size))
    return struct.pack("<I", len(data)) + data + bytes(texts)


RULES = {"\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\ufb01": "fi", "\u00bd": "1\u20442", "\u2026": "...",
         "e\u0301": "\u00e9", "a\u0308": "\u00e4", "\u200b": "", "\uff21": "A", "\u2460": "1", "\ufdfa": "\u0635\u0644\u0649",
         "\u1100\u1161": "\uac00", "\x01": "", "\u212b": "\u00c5"}


def change(tokenizer, edit):
    data = json.loads(tokenizer.to_str())
    edit(data)
    return Tokenizer.from_str(json.dumps(data))


def bytes_bpe(texts, pre, specials=("<|endoftext|>",), normalizer=None, size=3000, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        **{k: v for k, v in model.items() if k == "end_of_word_suffix"}))
    return t


def wordpiece(texts, lowercase, size=3000):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def unigram(texts, specials=("<pad>", "</s>", "<unk>"), size=2500):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(RULES)),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(specials), unk_token="<unk>", show_progress=False))
    return t


def llama2(texts, size=2500):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"] + bytes_, show_progress=False,
        limit_alphabet=150))
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])

    def edit(data):
        data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
    return change(t, edit)


def byte_level_family(texts):
    out = {}
    gpt2 = bytes_bpe(texts, pre_tokenizers.ByteLevel(add_prefix_space=False))
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    out["gpt2"] = gpt2
    roberta = bytes_bpe(texts, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<s>", "<pad>", "</s>", "<unk>"])
    roberta.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    out["roberta"] = roberta
    prefix = bytes_bpe(texts, pre_tokenizers.ByteLevel(add_prefix_space=True))
    prefix.post_processor = processors.ByteLevel(trim_offsets=True)
    out["byte-level, prefix space, trimmed"] = prefix

    def split(pattern):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    llama3 = bytes_bpe(texts, split(LLAMA3), ["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(), processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", 0)])])
    out["llama-3"] = llama3
    qwen = bytes_bpe(texts, split(QWEN2), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizers.NFC())
    qwen.post_processor = processors.ByteLevel(trim_offsets=False)
    out["qwen2"] = qwen
    out["o200k"] = bytes_bpe(texts, split(O200K))
    out["smollm2"] = bytes_bpe(texts, pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    clip = bytes_bpe(texts, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        ["<|startoftext|>", "<|endoftext|>"],
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
        end_of_word_suffix="</w>", unk_token="<|endoftext|>")
    clip.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0),
                                                       trim_offsets=False, add_prefix_space=False)
    out["clip"] = clip
    return out


def forms(texts):
    """Every normalizer in front of the same WordPiece, and every pre-tokenizer."""
    out = {}
    N, P = normalizers, pre_tokenizers
    kinds = {"NFC": N.NFC(), "NFD": N.NFD(), "NFKC": N.NFKC(), "NFKD": N.NFKD(), "Lowercase": N.Lowercase(),
             "NFD, StripAccents": N.Sequence([N.NFD(), N.StripAccents()]), "Strip": N.Strip(), "left": N.Strip(True, False),
             "right": N.Strip(False, True), "Nmt": N.Nmt(), "Replace": N.Replace("e", "<e>"), "remove": N.Replace("a", ""),
             "Prepend": N.Prepend("ab"), "white": N.Replace(Regex(r"\s+"), "_"), "clean": N.BertNormalizer(True, False, False, False),
             "chinese": N.BertNormalizer(False, True, False, False), "accents": N.BertNormalizer(False, False, True, False),
             "NFKC, Lowercase, NFD": N.Sequence([N.NFKC(), N.Lowercase(), N.NFD()]),
             "charsmap": N.Sequence([N.Precompiled(charsmap(RULES)), N.Strip(False, True), N.Replace(Regex(" {2,}"), "\u2581")])}
    base = wordpiece(texts, False, 800)
    for name, normalizer in kinds.items():
        t = Tokenizer.from_str(base.to_str())
        t.normalizer = normalizer
        out["normalizer " + name] = t
    splits = {"Whitespace": P.Whitespace(), "WhitespaceSplit": P.WhitespaceSplit(), "Digits": P.Digits(),
              "digits, one by one": P.Digits(True), "Bert": P.BertPreTokenizer(),
              "Sequence": P.Sequence([P.WhitespaceSplit(), P.Punctuation(), P.Digits(True)])}
    for b in BEHAVIOURS:
        splits["Punctuation " + b] = P.Punctuation(b)
        for invert in (False, True):
            splits[f"Split {b} {invert}"] = P.Split("e", b, invert)
            splits[f"Split spaces {b} {invert}"] = P.Split(Regex(r"\s+"), b, invert)
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            splits[f"Metaspace {scheme} {split}"] = P.Metaspace(prepend_scheme=scheme, split=split)
    level = {"[UNK]": 0, "[CLS]": 2, "[SEP]": 3}
    for word in sorted({w for t in texts[:400] for w in t.split()}):
        level.setdefault(word, len(level) + 5)
    for name, splitter in splits.items():
        t = Tokenizer.from_str(base.to_str())
        t.normalizer = None
        t.pre_tokenizer = splitter
        out["pre-tokenizer " + name] = t
    t = Tokenizer(models.WordLevel(level, "[UNK]"))
    t.pre_tokenizer = P.WhitespaceSplit()
    out["wordlevel"] = t
    return out


def bpe_variants(texts):
    out = {}
    for name, settings in {"unk": {"unk_token": "<unk>"}, "fused unk": {"unk_token": "<unk>", "fuse_unk": True}, "no unk": {},
                           "prefix": {"unk_token": "<unk>", "continuing_subword_prefix": "##"},
                           "suffix": {"unk_token": "<unk>", "end_of_word_suffix": "</w>"}}.items():
        t = Tokenizer(models.BPE(**settings))
        t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        t.decoder = decoders.BPEDecoder(suffix="</w>")
        t.train_from_iterator(texts, trainers.BpeTrainer(
            vocab_size=900, special_tokens=["<unk>"], show_progress=False, limit_alphabet=60,
            **{k: v for k, v in settings.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}))
        out["bpe " + name] = t
    return out


def added(texts):
    """Added tokens of every kind."""
    out = {}
    for name, base in {"wordpiece": wordpiece(texts, True, 800), "byte-level": bytes_bpe(
            texts, pre_tokenizers.ByteLevel(add_prefix_space=True), size=800)}.items():
        for normalized in (False, True):
            t = Tokenizer.from_str(base.to_str())
            t.add_tokens([AddedToken("[Day]", normalized=normalized), AddedToken("the", single_word=True, normalized=normalized),
                          AddedToken("\u00c9t\u00e9", normalized=normalized), AddedToken("  ", normalized=normalized),
                          AddedToken("ab", lstrip=True, normalized=normalized), AddedToken("abc", rstrip=True, normalized=normalized)])
            t.add_special_tokens([AddedToken("<l>", lstrip=True, normalized=normalized), AddedToken("<r>", rstrip=True, normalized=normalized),
                                  AddedToken("<both>", lstrip=True, rstrip=True, single_word=True, normalized=normalized)])
            out[f"added {name} {normalized}"] = t
    return out


def build(texts):
    out = byte_level_family(texts)
    out["bert uncased"] = wordpiece(texts, True)
    cased = wordpiece(texts, False)
    cased.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    out["bert cased"] = cased
    t5 = unigram(texts)
    t5.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    out["t5"] = t5
    xlmr = unigram(texts, ["<s>", "<pad>", "</s>", "<unk>"])
    xlmr.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    xlmr.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    xlmr.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    out["xlm-roberta"] = xlmr

    def fallback(data):
        data["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
        data["model"]["byte_fallback"] = True
    out["unigram, byte fallback"] = change(t5, fallback)
    out["llama-2"] = llama2(texts)
    out.update(bpe_variants(texts))
    out.update(added(texts))
    out.update(forms(texts))
    return out
