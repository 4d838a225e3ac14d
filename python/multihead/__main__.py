# SPDX-License-Identifier: MIT
"""``python -m multihead`` is the command: ``python -m multihead --help``."""
import os
import sys

from . import _multihead


def main() -> int:
    """Runs the command with the arguments of this process, and returns its exit code.

    >>> import subprocess, sys
    >>> run = subprocess.run([sys.executable, "-m", "multihead", "--version"], capture_output=True)
    >>> run.returncode, run.stdout.split()[0]
    (0, b'multihead')
    """
    return _multihead.command([os.fsencode(argument) for argument in sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
