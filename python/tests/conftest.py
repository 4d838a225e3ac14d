# SPDX-License-Identifier: MIT
"""What tests of models share: the model that ships with the sources, downloaded ones, the command."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "multihead"

# Jobs that a shell has in the background ignore Ctrl-C, and their children, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def command():
    """Runs the command with arguments; returns what it prints, or the JSON objects of its lines."""

    def run(*arguments, text=None):
        done = subprocess.run([sys.executable, "-m", "multihead", *map(str, arguments)], cwd=ROOT,
                              input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if "--json" in arguments:
            return [json.loads(line) for line in done.stdout.splitlines()]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def translator():
    import multihead as mh

    return mh.load(ROOT / "models" / "fr-en", "f32")


@pytest.fixture(scope="session")
def downloaded():
    """A model that tools/fetch_models.py has fetched, in f32; the test is skipped without it."""
    import multihead as mh

    models = {}

    def load(folder, *needed):
        if not any((CACHE / folder).glob("*")):
            pytest.skip(f"{folder} is not in the cache: tools/fetch_models.py fetches it")
        if folder not in models:
            models[folder] = mh.load(CACHE / folder, "f32")
        return models[folder]

    return load


@pytest.fixture(autouse=True)
def seeded():
    """PyTorch's random numbers do not depend on which tests ran before."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
