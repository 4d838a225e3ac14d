# SPDX-License-Identifier: MIT
"""Ctrl-C stops a call of a model within a second, and what follows works."""
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import sys, time
import multihead as mh
model = mh.load({path!r})
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
print({after}, flush=True)
"""
LONG = "model.translate(['Le chat noir dort sur le canapé du salon.'] * 20000)"


def interrupt(script, delay):
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    assert process.stdout.readline() == "interrupted\n"
    waited = time.monotonic() - start
    rest = process.communicate()[0].strip()
    assert process.returncode == 0
    return waited, rest


def check(script, expected):
    waited, rest = interrupt(script, 1.0)
    assert waited < 1 and rest == expected


def test_translate(root):
    path = str(root / "models" / "fr-en")
    check(SCRIPT.format(path=path, call=LONG, after="model.translate('Merci beaucoup.')"),
          "Thank you very much.")


@pytest.mark.parametrize("call", [
    "model.generate('Gravity is', max_new_tokens=2000, ignore_eos=True)",
    "model.generate('Gravity is', max_new_tokens=2000, ignore_eos=True, on_token=lambda t: True)",
    "[t for t in model.stream('Gravity is', max_new_tokens=2000, ignore_eos=True)]",
    "model.embed(['one two three four five six seven eight nine ten'] * 100000)",
])
def test_generate(downloaded, call):
    model = downloaded("SmolLM2-135M-Instruct-GGUF")
    check(SCRIPT.format(path=model.path, call=call,
                        after="len(model.generate('Gravity is', max_new_tokens=3).ids)"), "3")


def test_a_program_may_end_in_a_stream(downloaded):
    path = downloaded("SmolLM2-135M-Instruct-GGUF").path
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", f"""
import multihead as mh
stream = mh.load({path!r}).stream('Gravity is', max_new_tokens=2000, ignore_eos=True)
next(stream)
"""], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and time.monotonic() - start < 30
