# SPDX-License-Identifier: MIT
"""One text or several: what is given as a list is returned as a list."""
from __future__ import annotations

from collections.abc import Iterable


def listed(texts: str | Iterable[str], name: str) -> list[str]:
    """The texts as a list, [texts] of a string."""
    if isinstance(texts, str):
        return [texts]
    try:
        found = list(texts)
    except TypeError:
        raise TypeError(f"{name}: found {texts!r}, expected a string or a list of them") from None
    for i, text in enumerate(found):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{i}]: found {text!r}, expected a string")
    return found
