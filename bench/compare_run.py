# SPDX-License-Identifier: MIT
"""What the comparisons have in common: the command line, the machine, files, and programs of ours
that take turns with others."""

import argparse
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path


def say(text):
    """A line of progress."""
    print(f"compare: {text}", file=sys.stderr, flush=True)


def write_whole(path, text):
    """A file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


def positive_numbers(text):
    """An argument type: 1,2"""
    counts = [int(n) for n in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError("expected positive numbers")
    return counts


def cpu_model():
    """The CPU's name; none of hosts or users."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.split(":")[1].strip() for line in text.splitlines()
              if line.startswith("model name")]
    return models[0] if models else platform.machine()


def tame_onednn():
    """Keeps PyTorch from crashing where a virtual machine shows AMX but hides its palette.

    oneDNN then loads an empty tile configuration, and its first tile instruction is illegal.
    Returns a note on what was done, or None.
    """
    if "ONEDNN_MAX_CPU_ISA" in os.environ:
        return f"ONEDNN_MAX_CPU_ISA={os.environ['ONEDNN_MAX_CPU_ISA']} was set by the caller"
    probe = "import torch; a = torch.ones(64, 64).bfloat16(); a @ a"
    code = subprocess.run([sys.executable, "-c", probe], check=False, capture_output=True)
    if code.returncode != -signal.SIGILL:
        return None
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX10_1_512"
    return ("PyTorch's bf16 matrix product dies of an illegal instruction here (oneDNN, AMX in "
            "this virtual machine); oneDNN was held to AVX-512 (ONEDNN_MAX_CPU_ISA)")


class Turns:
    """A program of ours that answers each line that it is sent with one; see *_turns.c."""

    def __init__(self, program, *arguments):
        self.name = Path(program).name
        self.process = subprocess.Popen([str(program), *map(str, arguments)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ready = self.answer()[1:]

    def answer(self):
        """The words of the next line."""
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"compare: {self.name} ended with status {self.process.wait()}")
        return line.split()

    def ask(self, line="?"):
        """Sends a line, and waits for the answer."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        """Ends it."""
        self.process.stdin.close()
        self.process.wait()
