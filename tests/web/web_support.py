# SPDX-License-Identifier: MIT
"""What check_page.py needs besides its checks: traces as arrays, and a page that is watched."""
import json
import pathlib
import shutil
import struct
import time

import numpy as np

DTYPES = {"F32": np.float32, "F16": np.float16, "BOOL": np.bool_, "U8": np.uint8}


def read_trace(path):
    """The tensors and the metadata of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        tensors[name] = np.frombuffer(raw, DTYPES[entry["dtype"]]).reshape(entry["shape"]).astype(np.float64)
    return tensors, metadata


def launch(playwright):
    """Debian's Chromium; in containers it cannot have its own sandbox."""
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


class Watched:
    """A page whose console, errors and requests are kept; close() complains about any of them."""

    def __init__(self, browser, url, width=1280, height=860, scheme="light", allow=(), **options):
        self.context = browser.new_context(viewport={"width": width, "height": height},
                                           color_scheme=scheme, accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.problems = []
        self.page.on("console", lambda m: self.problems.append(f"console: {m.text}")
                     if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.problems.append(f"error: {e}"))
        self.page.on("request", lambda r: self.problems.append(f"request: {r.url}")
                     if r.url.split("#")[0] != url.split("#")[0]
                     and not r.url.startswith(("data:", "blob:", *allow)) else None)
        self.started = time.perf_counter()
        self.page.goto(url)

    def ready(self, view=None):
        which = f'[data-ready="{view}"]' if view else '[data-ready]:not([data-ready=""])'
        self.page.wait_for_selector("#view" + which, timeout=30000)

    def open_view(self, view):
        self.page.click(f'#tabs [data-view="{view}"]')
        self.ready(view)

    def go(self, hash_text):
        """Another place by its address."""
        self.page.evaluate("hash => { document.getElementById('view').dataset.ready = ''; location.hash = hash; }", hash_text)
        self.ready()

    def save(self, form, folder):
        """The export of the view that is shown, as bytes."""
        with self.page.expect_download(timeout=12000) as waiting:
            self.page.click(f'[data-export="{form}"]')
        target = pathlib.Path(folder) / waiting.value.suggested_filename
        waiting.value.save_as(target)
        return target.read_bytes()

    def close(self):
        self.context.close()
        assert not self.problems, self.problems
