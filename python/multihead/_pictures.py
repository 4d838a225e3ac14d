# SPDX-License-Identifier: MIT
"""Pictures as the extension module takes them: paths, or arrays of bytes in C order."""
from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    class PictureArray(Protocol):
        """NumPy's arrays, and Pillow's images."""

        @property
        def __array_interface__(self) -> dict[str, Any]: ...

    Picture: TypeAlias = "str | os.PathLike[str] | PictureArray"


def is_array(value: Any) -> bool:
    """Whether this is an array, or converts to one as Pillow's images do."""
    return hasattr(value, "__array_interface__") or hasattr(value, "__array__")


def is_picture(value: Any) -> bool:
    """Whether this can be nothing else: an array, or a path that is not a string."""
    return is_array(value) or isinstance(value, os.PathLike)


def prepared(picture: Any, name: str) -> Any:
    """One picture: its path as bytes, or an array."""
    if isinstance(picture, (str, os.PathLike)):
        return os.fsencode(picture)
    if not is_array(picture):
        raise TypeError(f"{name}: found {picture!r}, expected a path or an array (height, width, 3)")
    import numpy as np

    if getattr(picture, "mode", "RGB") not in ("L", "RGB") and hasattr(picture, "convert"):
        picture = picture.convert("RGB")  # Pillow's palettes, alpha, 16 bits
    found = np.asarray(picture)
    if found.dtype != np.uint8:
        raise TypeError(f"{name}: found an array of {found.dtype}, expected uint8, 0 to 255")
    return np.ascontiguousarray(found)


def listed_pictures(pictures: Any, name: str) -> tuple[list[Any], bool]:
    """All as a list, and whether it was one. An array of 4 dimensions is a list of pictures."""
    if isinstance(pictures, (str, os.PathLike)) or (is_array(pictures) and getattr(pictures, "ndim", 3) != 4):
        return [prepared(pictures, name)], True
    if not isinstance(pictures, Iterable):
        raise TypeError(f"{name}: found {pictures!r}, expected a picture or a list of them")
    return [prepared(one, f"{name}[{i}]") for i, one in enumerate(pictures)], False
