#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README's pictures, from the page that the program itself makes of a translation.

    sh tools/setup_web.sh build-web/venv
    build-web/venv/bin/python tools/pictures.py build
"""
import pathlib
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/web"))
from web_support import launch  # noqa: E402

SENTENCE = "Le chat noir dort sur la chaise."
PICTURES = {"overview": ("#view=overview", 1500, 510),
            "alignment": ("#view=align&kind=cross&layer=2&head=mean&token=1", 900, 390)}

build = pathlib.Path(sys.argv[1]).resolve()
with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
    page = pathlib.Path(folder, "page.html")
    subprocess.run([build / "multihead", "translate", "-q", "-m", ROOT / "models/fr-en",
                    "--attention", page, SENTENCE], check=True, stdout=subprocess.DEVNULL)
    browser = launch(playwright)
    for name, (place, width, height) in PICTURES.items():
        tab = browser.new_page(viewport={"width": width, "height": height})
        tab.goto(f"file://{page}{place}")
        tab.wait_for_selector('#view[data-ready]:not([data-ready=""])')
        tab.wait_for_timeout(500)
        tab.screenshot(path=ROOT / f"docs/images/{name}.png")
    browser.close()
