# SPDX-License-Identifier: MIT
"""A trace in a notebook's page, in a real browser: the viewer runs, without network, in its frame."""
import json
import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    if not shutil.which("chromium"):
        pytest.skip("there is no chromium")
    with api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield made
        made.close()


def open_cell(browser, shown, folder, **options):
    """The page with the output of a cell, put there as notebooks do; and what it asked for."""
    script = "document.body.innerHTML = " + json.dumps(shown).replace("</", "<\\/")
    if not options.get("java_script_enabled", True):
        (folder / "cell.html").write_text(f"<!doctype html><meta charset=utf-8><body>{shown}</body>")
    else:
        (folder / "cell.html").write_text(
            f"<!doctype html><meta charset=utf-8><body></body><script>{script}</script>")
    page = browser.new_context(**options).new_page()
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    page.on("pageerror", lambda e: asked.append(str(e)))
    page.on("console", lambda m: asked.append(m.text))
    page.goto((folder / "cell.html").as_uri())
    return page, asked


def is_offline(asked):
    return all(url.startswith(("file:", "data:")) for url in asked)


def test_the_viewer_runs(browser, translator, tmp_path):
    trace = translator.look("Le chat noir dort sur le canapé.")
    page, asked = open_cell(browser, trace._repr_html_(), tmp_path)
    frame = page.frames[1]
    frame.wait_for_selector("#view[data-ready=overview]")
    assert page.locator("iframe").is_visible() and not page.locator("img").is_visible()
    frame.click("[data-view=heads]")
    for kind in trace.kinds:  # the page's table of heads is ours
        frame.select_option("#kind", kind)
        frame.wait_for_selector("#view[data-ready=heads] table")
        rows = frame.evaluate("[...document.querySelectorAll('#view tbody tr')]"
                              ".map(r => [...r.cells].map(c => c.textContent))")
        for h, row in zip(trace.heads(kind), rows, strict=True):
            assert [str(h.layer), str(h.head), h.pattern] == row[:3]
            shown = [float(cell.removesuffix(" %")) for cell in row[3:]]
            assert abs(h.entropy - shown[0]) < 0.006 and abs(h.distance - shown[1]) < 0.006
            ours = [h.itself, h.previous, h.next, h.first, h.end, h.same]
            assert all(abs(100 * a - b) < 0.6 for a, b in zip(ours, shown[2:], strict=True))
    assert is_offline(asked), asked


def test_a_picture_without_scripts(browser, translator, tmp_path):
    trace = translator.look("Le chat noir.")
    page, asked = open_cell(browser, trace._repr_html_(), tmp_path, java_script_enabled=False)
    assert page.locator("img").is_visible() and page.locator("img").bounding_box()["width"] > 300
    assert is_offline(asked), asked
