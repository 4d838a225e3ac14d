# SPDX-License-Identifier: MIT
"""Texts for check_tokenizers.py: sentences of many scripts, nasty ones, and random strings over code
points that all tables of Unicode have in common: those assigned in Unicode 8, which the oldest
table of the package has, and whose properties have not changed since."""
import unicodedata

SCRIPTS = [
    "The quick brown fox doesn't jump over 12,345 lazy dogs; it's 3.5\u00d7 better!", "L'\u00e9l\u00e8ve n'a pas mang\u00e9 \u00e0 No\u00ebl\u2026 \u00ab vraiment \u00bb ?",
    "Stra\u00dfe \u00c4rger \u00d6l \u00dcbung", "\u0417\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439, \u043c\u0438\u0440! \u0401\u043b\u043a\u0430 \u0439\u043e\u0433\u0430.",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5, \u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u05d0\u05b8\u05d1", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663\u060c \u0634\u064f\u0643\u0652\u0631\u064b\u0627",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e, \u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f \u0967\u0968\u0969", "\u09a8\u09ae\u09b8\u09cd\u0995\u09be\u09b0 \u09ac\u09bf\u09b6\u09cd\u09ac", "\u0ba8\u0bb2\u0bcd\u0bb2 \u0b95\u0bbe\u0bb2\u0bc8 \u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd", "\u0c28\u0c2e\u0c38\u0c4d\u0c24\u0c47 \u0c2a\u0c4d\u0c30\u0c2a\u0c02\u0c1a\u0c02",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e51\u0e52\u0e53", "\u1019\u1004\u103a\u1039\u1002\u101c\u102c\u1015\u102b", "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0", "\u0532\u0561\u0580\u0565\u0582 \u0561\u0577\u056d\u0561\u0580\u0570",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u6211\u6709\uff11\uff12\u672c\u66f8\u3002", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3001\u30ab\u30bf\u30ab\u30ca \uff76\uff9e", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "Xin ch\u00e0o th\u1ebf gi\u1edbi, ti\u1ebfng Vi\u1ec7t", "\u1230\u120b\u121d \u12d3\u1208\u121d", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 ok\U0001f1eb\U0001f1f7 \u2764\ufe0f",
    "\u0e81\u0eb2\u0e99\u0e97\u0ebb\u0e94\u0eaa\u0ead\u0e9a", "\u0f56\u0f7c\u0f51\u0f0b\u0f66\u0f90\u0f51", "\u13a3\u13b3\u13a9 \u13d7\u13a6\u13c1\u13af",
    "def f(x):\n    return x**2  # comment\n\n\treturn {'a': [1, 2]}\r\n", "HTTP/1.1 200 OK\r\n\r\n", "I'LL WE'RE they'VE he'S can'T I'M she'D 'tis 'S",
]
NASTY = [
    "", " ", "  ", "\n", "\r\n", " \n", "\n ", "a\r\nb\r\n", "\t\t x", " \n x", "x  ", "x \n\n  y", "\x7f\x1b[2J", "a\x01b", "</s>", "<s>a</s><pad>",
    "[CLS] a [SEP]", "[MASK]", " [MASK] ", "a [MASK] b", "x <mask> y", "<mask>", "<|endoftext|>", "a<|endoftext|>b <|im_start|>", "<unk>", "<0x41>", "<0x0A>",
    "l'homme d\u2019ici aujourd'hui 'quoted' rock'n'roll '", "12345 1.234,56 2024-01-02 3\u00bd 1/2", "e\u0301", "\u00e9", "e\u0323\u0301", "e\u0301\u0323",
    "\u0301", "\u0301a", "a\u0301b\u0323\u0301c", "\u1100\u1161\u11a8", "\uac01", "\uac00\u11a8", "\u212b \u2126 \ufb01 \ufdfa \u00bd", "\u0130stanbul \u01c5 \u1e9e", "'\u017f '\u017fx",
    "\u200b\u200c\u200d\ufeff", "a\u200bb", "\u200ba", "a\u00a0b\u202fc \u2003d\u3000e", "\u2581\u2581 \u2581a", "a\u2581b", "\u0120 \u010a \u0100", "\ufffd", "a\ufffdb", "\uffff",
    "##a ##", "a##b", "\u00ab ok \u00bb\u2026", "x/y//z/\n/", "ABCdefGHI AbC aBC \u02b0A\u02b0", "\u0345A", "\u00aa\u00ba", "\u2160\u2170 \u00b2\u00b3 \u0be7", "[Day] the day, the.other the", "[day]the [Day]",
    "ab  abc ab abc   x", "  <l>  <r>  <both>  ", "a<both>b <both> <l><r>", "\u00c9t\u00e9 \u00e9t\u00e9 E\u0301te\u0301", "abcabcab", "aaaaaaaaaaaaaaaaaaaaaaaa", "a" * 300, "\u00e9" * 150, " " * 60, "\n" * 30,
    "7" * 50, "a'" * 40, "\u0301\u0323" * 30, "x" + "\u0323\u0301" * 30, "word " * 60, "\U0010ffff", "\ue000x", "\u00ad soft", "a_b __init__ \u203f", "\u24b6\u24d0 \U0001f130",
]
POOLS = [(0x20, 0x7E), (0x20, 0x7E), (0x00, 0x7F), (0xA0, 0x17F), (0x300, 0x345), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x64A), (0x900, 0x97F),
         (0x2000, 0x206F), (0x2100, 0x214F), (0x3000, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0x1100, 0x11FF), (0xFF00, 0xFFEF),
         (0x1F300, 0x1F64F), (0x20000, 0x20100), (0, 0xFFFF)]
WORDS = ["the", "The", "don't", "chat", "\u00e9t\u00e9", "  ", "\n", "\r\n", "123", "'s", "'LL", "ab", "<s>", "</s>", "[MASK]", "<mask>", "\u2581", "Ab", "\u4f60\u597d", "...", "\u0301"]

# Code points whose class or form differs between utf8proc and one of the package's tables.
EXCLUDED = set()


def ranges(points):
    """Code points as text: 61D, 870-88E."""
    out, points = [], sorted(points)
    for i, p in enumerate(points):
        if i == 0 or points[i - 1] != p - 1:
            out.append([p, p])
        out[-1][1] = p
    return ", ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in out)


def usable(point):
    c = chr(point)
    if 0xD800 <= point < 0xE000 or point in EXCLUDED:
        return False
    return unicodedata.category(c) != "Cn"


def random_text(rng):
    out = []
    for _ in range(rng.randrange(30)):
        if rng.random() < 0.3:
            out.append(rng.choice(WORDS))
            continue
        point = rng.randint(*rng.choice(POOLS))
        if usable(point):
            out.append(chr(point))
        if rng.random() < 0.2:
            out.append(" ")
    return "".join(out)


def made_up(rng):
    def syllable():
        return rng.choice("bcdfglmnprstvw") + rng.choice("aeiou\u00e9\u00e8\u0153") + rng.choice(["", "n", "s", "'t", "rk"])
    words = ["".join(syllable() for _ in range(rng.randint(1, 4))) for _ in range(2000)]
    return [" ".join(rng.choices(words, k=9)).capitalize() + rng.choice(".!?") for _ in range(6000)]


def old_only():
    """Leaves out all that is not in Unicode 3.2, which every table has."""
    EXCLUDED.update(p for p in range(0x110000) if unicodedata.ucd_3_2_0.category(chr(p)) in ("Cn", "Cs", "Co") or
                    unicodedata.ucd_3_2_0.category(chr(p)) != unicodedata.category(chr(p)))
