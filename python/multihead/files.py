# SPDX-License-Identifier: MIT
"""Tensors in files: safetensors and .npz, and what else the library reads."""
from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any

from . import _multihead


def load_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tensors of a file by name, as NumPy arrays.

    The format is detected from the content: safetensors, .npy, .npz, PyTorch checkpoints (whose
    pickle is read, not run), GGUF (dequantised to float32), and an index of several such files.
    bfloat16 becomes ml_dtypes.bfloat16, or float32 where that package is not installed.

    >>> import multihead as mh, numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "two.safetensors")
    >>> mh.save_file({"a": np.ones(3), "b": np.arange(2)}, path)
    >>> mh.load_file(path)["b"].tolist()
    [0, 1]
    """
    return _multihead.read_tensors(os.fspath(path))


def save_file(
    tensors: Mapping[str, Any],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays of NumPy or PyTorch as safetensors, or as .npz if the path ends so.

    A safetensors file is written atomically, and the same input gives the same bytes. Only
    safetensors have metadata.

    >>> import multihead as mh, numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "one.npz")
    >>> mh.save_file({"x": np.eye(2)}, path)
    >>> np.load(path)["x"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    path = os.fspath(path)
    if not path.endswith(".npz"):
        _multihead.write_tensors(path, dict(tensors), dict(metadata or {}))
        return
    if metadata:
        raise ValueError("metadata: found some, expected none: an .npz has no place for it")
    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:  # np.savez has no place for a tensor called "file"
        for name, value in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)
