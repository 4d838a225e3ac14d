#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Published chat templates: our text against that of jinja2.

usage: check_chat_templates.py PEER_CHAT DIRECTORY

The templates are those that llama.cpp collects from models; the source package of
llama-cpp-python carries them. DIRECTORY keeps them; without the package, say so and check nothing.
Each is rendered with the conversations of tests/goldens/make_chat_templates.py.
"""
import datetime
import json
import pathlib
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "goldens"))
import make_chat_templates as goldens  # noqa: E402

PACKAGE = "llama-cpp-python==0.3.16"
LEAST = 25


def fetch(directory):
    """The package's templates, in DIRECTORY/*.jinja."""
    directory.mkdir(parents=True, exist_ok=True)
    if not any(directory.glob("*.jinja")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--no-binary", ":all:", "--dest", directory, PACKAGE], check=True, stdout=subprocess.DEVNULL)
        for path in directory.glob("*.tar.gz"):
            with tarfile.open(path) as package:
                for member in package:
                    name = pathlib.PurePosixPath(member.name)
                    if name.suffix == ".jinja" and name.parent.name == "templates" and member.isfile():
                        (directory / name.name).write_bytes(package.extractfile(member).read())
            path.unlink()
    return sorted(directory.glob("*.jinja"))


def compare(program, directory, paths):
    conversations = directory / "conversations.json"
    conversations.write_text(json.dumps(goldens.CONVERSATIONS))
    environment = goldens.make_environment()
    environment.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    failures = 0
    for path in paths:
        template = path.read_text(encoding="utf-8")
        ours = subprocess.run([program, conversations, path], check=True, capture_output=True, text=True, encoding="utf-8")
        for messages, line in zip(goldens.CONVERSATIONS, ours.stdout.splitlines(), strict=True):
            found, expected = json.loads(line), goldens.render(environment, template, messages)
            if (found["status"] == 0) != (expected is not None) or (expected is not None and found["text"] != expected):
                failures += 1
                print(f"{path.name}: found {found}, expected {expected!r}")
    return failures


def main():
    program, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    try:
        paths = fetch(directory)
    except subprocess.CalledProcessError:
        print(f"skipped: published chat templates: {PACKAGE} could not be downloaded")
        return 0
    failures = compare(program, directory, paths)
    print(f"chat templates: {len(paths)} published ones, {len(goldens.CONVERSATIONS)} conversations each, "
          f"{failures} differences")
    return failures > 0 or len(paths) < LEAST


if __name__ == "__main__":
    sys.exit(main())
