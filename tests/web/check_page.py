#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page in a real browser: every view, values against the weights, exports, speed, safety.

usage: check_page.py BUILD FOLDER      BUILD has the command, FOLDER gets traces, pages, pictures

Each check is a function; the last line counts them.
"""
import csv
import http.server
import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import threading
import time
import traceback
import xml.etree.ElementTree

import numpy as np
from playwright.sync_api import sync_playwright

from web_support import Watched, launch, read_trace

VIEWS = ["overview", "heatmap", "lines", "align", "steps", "heads"]
KINDS = ["encoder.self", "decoder.self", "cross"]
BUILD, FOLDER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()


def url(name, hash_text=""):
    return (FOLDER / f"{name}.html").as_uri() + hash_text


def make_pages():
    here = pathlib.Path(__file__).parent
    subprocess.run([sys.executable, here / "make_traces.py", FOLDER], check=True)
    batch = np.random.default_rng(7).dirichlet(np.ones(4), (2, 3, 4)).astype(np.float32) # (batch, heads, T, S)
    np.save(FOLDER / "batch.npy", batch)
    np.save(FOLDER / "alone.npy", batch[0, 0])
    for name, options in {"sentence": ["--trace", "sentence.safetensors"], "base": ["--trace", "base.safetensors"],
                          "base8": ["--trace", "base.safetensors", "--bits", "8"], "hostile": ["--trace", "hostile.safetensors"],
                          "long": ["--weights", "long.npy"],
                          "batch": ["--weights", "batch.npy", "--tokens", "a b c d"],
                          "alone": ["--weights", "alone.npy"],
                          "start": ["--trace", "sentence.safetensors", "--kind", "decoder", "--layer", "2", "--head", "1"]}.items():
        subprocess.run([BUILD / "multihead", "view", *options, "-o", f"{name}.html"], cwd=FOLDER, check=True)


def tolerance(row, bits):
    return row.max() * (0.5 / (2 ** bits - 1) + 1e-6)


def close_to(found, expected, allowed, what):
    assert abs(found - expected) <= allowed, f"{what}: found {found}, expected {expected} within {allowed}"


def scroll_through(w, thumbnails):
    """All thumbnails are drawn by the time they are seen."""
    for _ in range(20):
        w.page.mouse.wheel(0, 400)
        w.page.wait_for_timeout(20)
    deadline = time.perf_counter() + 10
    while w.page.locator(".thumb canvas[data-done]").count() < thumbnails:
        assert time.perf_counter() < deadline, w.page.locator(".thumb canvas[data-done]").count()
        w.page.wait_for_timeout(50)


# ---- checks -----------------------------------------------------------------------------------

def check_every_view(browser):
    """All views of all kinds open without a word on the console."""
    w = Watched(browser, url("sentence"))
    w.ready("overview")
    scroll_through(w, 3 * 3 * 5)
    for kind in KINDS:
        for view in VIEWS:
            w.go(f"#view={view}&kind={kind}&layer=1&head=2")
            assert w.page.locator("#view .note >> text=failed").count() == 0
    for view in VIEWS:
        w.open_view(view)
        assert w.page.get_attribute(f'#tabs [data-view="{view}"]', "aria-selected") == "true"
    w.close()


def hover_values(browser, name, hash_text, weights, bits, count=25):
    w = Watched(browser, url(name, hash_text))
    w.ready("heatmap")
    box = w.page.locator(".stage canvas").bounding_box()
    rng, seen = np.random.default_rng(5), 0
    for x, y in rng.uniform(0.15, 0.98, (count * 4, 2)):
        w.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        text = w.page.inner_text(".readout")
        found = re.match(r"(\d+) “.*” → (\d+) “", text, re.S)
        if not found:
            continue
        i, j = int(found[1]), int(found[2])
        close_to(float(w.page.get_attribute(".readout", "data-value")), weights[i, j], tolerance(weights[i], bits), text)
        seen += 1
        if seen == count:
            break
    assert seen >= 10, f"only {seen} cells were hit"
    w.close()


def check_hover(browser):
    """Values on hover equal the weights within the stated error, 16 and 8 bits, small and large."""
    sentence, _ = read_trace(FOLDER / "sentence.safetensors")
    base, _ = read_trace(FOLDER / "base.safetensors")
    hover_values(browser, "sentence", "#view=heatmap&kind=cross&layer=2&head=3", sentence["cross"][2, 3], 16)
    hover_values(browser, "base", "#view=heatmap&layer=11&head=7", base["encoder.self"][11, 7], 16)
    hover_values(browser, "base8", "#view=heatmap&layer=3&head=0", base["encoder.self"][3, 0], 8)
    hover_values(browser, "base", "#view=heatmap&layer=4&head=mean", base["encoder.self"][4].mean(0), 16)
    hover_values(browser, "long", "#view=heatmap", np.load(FOLDER / "long.npy")[0].astype(float), 16)


def check_keyboard(browser):
    """Tabs, controls and the heatmap work without a mouse."""
    sentence, _ = read_trace(FOLDER / "sentence.safetensors")
    w = Watched(browser, url("sentence"))
    w.ready("overview")
    w.page.focus('#tabs [data-view="overview"]')
    w.page.keyboard.press("ArrowRight")
    w.ready("heatmap")
    assert w.page.evaluate("document.activeElement.dataset.view") == "heatmap"
    w.page.focus(".stage canvas")
    for key in ["ArrowDown"] * 4 + ["ArrowRight"] * 5:
        w.page.keyboard.press(key)
    # from no cell, the first step down is row 0 and column 0
    row = sentence["cross"][0, 0][3]
    close_to(float(w.page.get_attribute(".readout", "data-value")), row[5], tolerance(row, 16), "cell 3, 5")
    before = w.page.get_attribute(".stage canvas", "data-drawn")
    w.page.keyboard.press("+")
    w.page.wait_for_timeout(100)
    assert w.page.get_attribute(".stage canvas", "data-drawn") != before
    w.page.keyboard.press("Enter")
    w.page.wait_for_function("location.hash.includes('token=3')", timeout=5000)
    w.page.keyboard.press("0")
    w.page.wait_for_timeout(100)
    canvas = w.page.query_selector(".stage canvas")
    before = canvas.get_attribute("data-drawn")
    w.page.click('[data-view="overview"]')
    w.ready("overview")
    w.page.wait_for_timeout(100)
    assert canvas.get_attribute("data-drawn") == before  # what is gone is not drawn
    w.close()


def check_permalink(browser):
    """An address opens what it says; nonsense in it does no harm; the page's own start is kept."""
    w = Watched(browser, url("sentence", "#view=steps&kind=decoder.self&layer=2&head=3&token=5"))
    w.ready("steps")
    assert w.page.input_value("#layer") == "2" and w.page.input_value("#head") == "3"
    assert "5: ▁sleep" in w.page.inner_text("#view select option:checked")
    w.close()
    w = Watched(browser, url("sentence", "#view=__proto__&kind=constructor&layer=99999&head=-5&token=1e9&shade=toString&x=<b>"))
    w.ready("overview")
    w.close()
    w = Watched(browser, url("sentence", "#view=heatmap&kind=cross&layer=1&head=0&token=3&words=1&shade=row"))
    w.ready("heatmap")
    w.page.evaluate("location.hash = '#view=heatmap&kind=cross&layer=2&head=0'")
    w.page.wait_for_function("document.getElementById('layer').value === '2'")
    w.page.click('[data-view="lines"]')
    w.ready("lines")
    assert w.page.url.endswith("#view=lines&kind=cross&layer=2&head=0"), w.page.url # and nothing else
    w.close()
    w = Watched(browser, url("start"))
    w.ready("heatmap")
    assert w.page.input_value("#kind") == "decoder.self" and w.page.input_value("#layer") == "2" and w.page.input_value("#head") == "1"
    w.close()


def check_batch(browser):
    """A batch is called one, in the overview, the controls, the address and what is saved."""
    w = Watched(browser, url("batch"))
    w.ready("overview")
    assert "2 sequences × 3 heads, 4 × 4" in w.page.inner_text("#view h2"), w.page.inner_text("#view h2")
    assert w.page.inner_text(".grid .corner") == "sequence"
    w.page.click('[aria-label="Attention, sequence 1, head 2"]')
    w.ready("heatmap")
    assert w.page.url.endswith("#view=heatmap&kind=attention&sequence=1&head=2"), w.page.url
    assert "Sequence" in w.page.inner_text("label:has(#layer)")
    assert b"Attention, sequence 1, head 2" in w.save("svg", FOLDER)
    w.go("#view=heads")
    assert w.page.inner_text("#view th >> nth=0").startswith("Sequence")
    w.go("#view=steps&sequence=1&head=0")
    assert w.page.inner_text("#view h2 >> nth=0") == "Head 0 of sequence 1"
    w.close()
    hover_values(browser, "batch", "#view=heatmap&sequence=1&head=2", np.load(FOLDER / "batch.npy")[1, 2].astype(float), 16)
    w = Watched(browser, url("alone"))
    w.ready("overview")
    assert "1 layer × 1 head, 4 × 4" in w.page.inner_text("#view h2"), w.page.inner_text("#view h2")
    w.close()


def check_alignment(browser):
    """Alignment opens with cross-attention from wherever, and under both its names."""
    w = Watched(browser, url("sentence", "#view=heatmap&kind=encoder.self&layer=1&head=0"))
    w.ready("heatmap")
    w.open_view("align")
    assert w.page.input_value("#kind") == "cross" and w.page.locator("#view .note").count() == 0
    w.page.select_option("#kind", "encoder.self")  # which remains possible
    w.ready("align")
    assert "not cross-attention" in w.page.inner_text("#view .note")
    w.close()
    w = Watched(browser, url("sentence", "#view=alignment&kind=cross&layer=1&head=0"))
    w.ready("align")
    w.close()


def check_mean_in_steps(browser):
    """Steps shows head 0 for the mean of heads, and saves it under that name."""
    weights = read_trace(FOLDER / "sentence.safetensors")[0]["cross"][2, 0]
    w = Watched(browser, url("sentence", "#view=steps&kind=cross&layer=2&head=mean&token=1"))
    w.ready("steps")
    target = FOLDER / "attention-steps-cross-2-0.svg"
    target.unlink(missing_ok=True)
    w.save("svg", FOLDER)
    saved = target.read_text(encoding="utf-8")
    assert "Cross-attention, layer 2, head 0" in saved
    rows = list(csv.DictReader(io.StringIO(w.save("csv", FOLDER).decode())))
    for row, expected in zip(rows, weights[1]):
        close_to(float(row["recorded"]), expected, tolerance(weights[1], 16), row)
    assert w.page.input_value("#head") == "0"
    w.open_view("heatmap")
    assert w.page.input_value("#head") == "-1"  # the mean is not forgotten
    w.close()


def check_overview(browser):
    w = Watched(browser, url("sentence"))
    w.ready("overview")
    w.page.click('[aria-label="Decoder self-attention, layer 1, head 3"]')
    w.ready("heatmap")
    assert "kind=decoder.self" in w.page.url and "layer=1" in w.page.url and "head=3" in w.page.url
    w.close()


def check_lines(browser):
    """As many lines as weights from the limit on; sums over the chosen queries."""
    weights = read_trace(FOLDER / "sentence.safetensors")[0]["cross"][1]
    w = Watched(browser, url("sentence", "#view=lines&kind=cross&layer=1&head=mean"))
    w.ready("lines")
    near = lambda limit: abs(weights - limit).min() > 1e-4
    assert near(0.1)
    limit = float(w.page.inner_text("output")) # the slider is the root of the weight, in per cent
    assert int(w.page.get_attribute(".between canvas", "data-lines")) == (weights >= limit).sum()
    w.page.click(".headchip >> nth=0")
    assert int(w.page.get_attribute(".between canvas", "data-lines")) == (weights[1:] >= limit).sum()
    w.page.click(".queries .token >> nth=4")
    w.page.click(".queries .token >> nth=6")
    sums = [float(w.page.get_attribute(f".keys .token >> nth={j}", "data-sum")) for j in range(12)]
    np.testing.assert_allclose(sums, weights[1:, [4, 6]].sum(1).mean(0), atol=1e-4)
    w.close()


def merged(weights, query_words, key_words):
    """Words from subwords: sum over the keys, mean over the queries."""
    rows = [weights[a:b].mean(0) for a, b in query_words]
    return np.array([[row[a:b].sum() for a, b in key_words] for row in rows])


def check_words(browser):
    """Subwords merged into words, by the tokens' marks; alignment by hover."""
    weights = read_trace(FOLDER / "sentence.safetensors")[0]["cross"][1, 0]
    keys = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6), (6, 7), (7, 8), (8, 10), (10, 11), (11, 12)]
    queries = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 7), (7, 8), (8, 9), (9, 10), (10, 11), (11, 12)]
    expected = merged(weights, queries, keys)
    w = Watched(browser, url("sentence", "#view=align&kind=cross&layer=1&head=0"))
    w.ready("align")
    w.page.check("#words")
    w.ready("align")
    w.page.hover(".queries .word >> nth=5")
    assert w.page.inner_text(".queries .pointed .label") == "sleeping"
    found = [float(w.page.get_attribute(f".keys .word >> nth={j}", "data-weight")) for j in range(len(keys))]
    np.testing.assert_allclose(found, expected[5], atol=1e-4)
    w.page.hover(".keys .word >> nth=3")
    found = [float(w.page.get_attribute(f".queries .word >> nth={i}", "data-weight")) for i in range(len(queries))]
    np.testing.assert_allclose(found, expected[:, 3], atol=1e-4)
    w.close()


def check_steps(browser):
    """The computation on the page gives the recorded weights; the mask holds."""
    tensors, _ = read_trace(FOLDER / "sentence.safetensors")
    for kind, head, query in [("decoder.self", 2, 6), ("cross", 1, 4), ("encoder.self", 3, 0)]:
        w = Watched(browser, url("sentence", f"#view=steps&kind={kind}&layer=1&head={head}&token={query}"))
        w.ready("steps")
        row = tensors[kind][1, head, query]
        product = tensors[kind + ".q"][1, head, query] @ tensors[kind + ".k"][1, head].T
        for j in range(len(row)):
            cells = w.page.locator(f'tr[data-key="{j}"] td').all_inner_texts()
            close_to(float(cells[1]), product[j], 1e-3 * max(1, abs(product[j])), f"{kind} q.k {j}")
            close_to(float(cells[5]), row[j], 6e-5, f"{kind} weight {j}")
            close_to(float(cells[7]), row[j], 6e-5, f"{kind} recorded {j}")
            assert cells[3] == ("no" if kind == "decoder.self" and j > query else "yes")
        assert w.page.locator(".step").count() == 6 and w.page.locator(".headout").count() == 4
        w.close()
    w = Watched(browser, url("base", "#view=steps&layer=0&head=0&token=3")) # weights only
    w.ready("steps")
    assert w.page.locator(".steps tbody tr").count() == 24
    w.page.click("text=All 128 keys")
    w.ready("steps")
    assert w.page.locator(".steps tbody tr").count() == 128
    w.close()


def check_heads(browser):
    """Statistics against NumPy, names of known patterns, sorting."""
    weights = read_trace(FOLDER / "sentence.safetensors")[0]["encoder.self"]
    w = Watched(browser, url("sentence", "#view=heads&kind=encoder.self"))
    w.ready("heads")
    rows = list(csv.reader(io.StringIO(w.save("csv", FOLDER).decode())))
    assert [r[2] for r in rows[1:5]] == ["previous token", "next token", "itself", "local"]
    assert rows[5][2] == "first token" and rows[6][2] == "end token" and rows[7][2] == "broad"
    for row in rows[1:]:
        m = weights[int(row[0]), int(row[1])]
        close_to(float(row[3]), -(m * np.log2(np.maximum(m, 1e-30))).sum(1).mean(), 5e-3, f"entropy {row[:2]}")
        close_to(float(row[5]), np.trace(m) / 12, 2e-4, f"itself {row[:2]}")
        close_to(float(row[6]), np.trace(m, -1) / 12, 2e-4, f"previous {row[:2]}")
        close_to(float(row[8]), m[:, 0].mean(), 2e-4, f"first {row[:2]}")
    w.page.click("th button >> text=Entropy")
    shown = [float(t) for t in w.page.locator(".stats tbody tr td:nth-child(4)").all_inner_texts()]
    assert shown == sorted(shown, reverse=True) and len(shown) == 12
    w.page.click(".stats tbody tr >> nth=0")
    w.ready("heatmap")
    w.close()


def check_exports(browser):
    """SVG that parses, PNG with a size, CSV with the numbers; from every view."""
    weights = read_trace(FOLDER / "sentence.safetensors")[0]["cross"][1, 0]
    for name, hash_text in [("sentence", "kind=cross&layer=1&head=0&token=2"), ("hostile", "layer=0&head=1&token=1"), ("base", "layer=0&head=1&token=1")]:
        for view in VIEWS: # each in a new tab: after ten files from one, Chromium asks its user
            w = Watched(browser, url(name, f"#view={view}&{hash_text}"))
            w.ready(view)
            root = xml.etree.ElementTree.fromstring(w.save("svg", FOLDER))
            assert root.tag.endswith("svg") and float(root.get("width")) > 50 and len(root) > 2, (name, view)
            png = w.save("png", FOLDER)
            assert png[:8] == b"\x89PNG\r\n\x1a\n" and min(struct.unpack(">II", png[16:24])) > 50, (name, view)
            rows = list(csv.reader(io.StringIO(w.save("csv", FOLDER).decode(), newline="")))
            assert len(rows) > 1 and len({len(r) for r in rows}) == 1, (name, view)
            if name == "sentence" and view == "heatmap":
                found = np.array([[float(x) for x in r[1:]] for r in rows[1:]])
                assert (abs(found - weights) <= weights.max(1, keepdims=True) * (0.5 / 65535 + 1e-6)).all()
            w.close()


def check_hostile(browser):
    """Tokens and titles stay text in every view."""
    w = Watched(browser, url("hostile"))
    for view in VIEWS:
        w.open_view(view)
        assert w.page.evaluate("() => window.hurt === undefined")
        assert w.page.locator("img, iframe, object, embed").count() == 0
        assert w.page.locator("script:not([type])").count() == 0
    assert w.page.inner_text("#title") == "</script><script>window.hurt=1</script>"
    w.close()


def check_policy(browser):
    """The page's own policy stops what an injection would try."""
    w = Watched(browser, url("sentence"))
    w.ready()
    outcome = w.page.evaluate("""async () => {
        const script = document.createElement('script');
        script.textContent = 'window.hurt = 1';
        document.body.append(script);
        let fetched = true;
        try { await fetch('data:text/plain,x'); } catch { fetched = false; }
        return [window.hurt === undefined, fetched];
    }""")
    assert outcome == [True, False], outcome
    assert len(w.problems) >= 2
    w.problems.clear() # the browser's complaints about just that
    w.close()


def check_fits(browser):
    """No sideways scrolling, from a small phone to a big screen; pictures to look at."""
    for width, height, scheme in [(360, 740, "light"), (390, 844, "dark"), (1280, 860, "light"), (2560, 1400, "dark")]:
        w = Watched(browser, url("sentence", "#kind=cross&layer=1&head=0&token=4"), width, height, scheme)
        for view in VIEWS:
            w.open_view(view)
            w.page.wait_for_timeout(60)
            assert w.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (width, view)
            w.page.screenshot(path=FOLDER / f"{view}-{width}-{scheme}.png")
        w.page.click("#theme")
        w.ready()
        assert w.page.evaluate("() => document.documentElement.dataset.theme") != scheme
        w.close()


def check_opening(browser):
    """12 layers x 12 heads x 128 tokens: under 10 MB, drawn in under a second."""
    size = (FOLDER / "base.html").stat().st_size
    times = []
    for _ in range(5):
        w = Watched(browser, url("base"))
        w.ready("overview")
        times.append(time.perf_counter() - w.started)
        scroll_through(w, 12 * 13)
        w.close()
    print(f"    12 x 12 x 128: {size / 1e6:.2f} MB, 8 bits {(FOLDER / 'base8.html').stat().st_size / 1e6:.2f} MB; "
          f"complete after {min(times):.2f} s (best of {len(times)}; median {sorted(times)[2]:.2f} s)")
    assert size < 10e6 and min(times) < 1


def check_fluid(browser):
    """2,048 x 2,048: zooming and moving take no longer than a few frames."""
    w = Watched(browser, url("long", "#view=heatmap"))
    w.ready("heatmap")
    times = w.page.evaluate("""async () => {
        const canvas = document.querySelector('.stage canvas'), box = canvas.getBoundingClientRect();
        const frame = () => new Promise(done => requestAnimationFrame(done)), times = [];
        for (let i = 0; i < 40; i++) {
            const start = performance.now();
            canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: i < 20 ? -120 : 120, clientX: box.left + box.width / 2,
                clientY: box.top + box.height / 2, cancelable: true, bubbles: true}));
            await frame();
            times.push(performance.now() - start);
        }
        return times;
    }""")
    times.sort()
    print(f"    2,048 x 2,048: a zoom step takes {times[20]:.0f} ms (median), {times[-2]:.0f} ms (second worst)")
    assert times[20] < 60
    w.close()


def check_served(browser):
    """A page without a trace asks its own server and shows what it gets."""
    page = (FOLDER / "sentence.html").read_text(encoding="utf-8")
    description = json.loads(re.search(r'id="trace">(.*?)</script>', page, re.S)[1])
    chunks = re.findall(r'id="chunk\d+">(.*?)</script>', page, re.S)
    empty = re.sub(r'<script type="application/(json|octet-stream)".*?</script>\n', "", page, flags=re.S)
    empty = empty.replace("connect-src 'none'", "connect-src 'self'").encode()
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, code, body, kind):
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer(200 if self.path == "/" else 204, empty if self.path == "/" else b"", "text/html")

        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.answer(200, json.dumps({"trace": description, "chunks": chunks}).encode(), "application/json")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    w = Watched(browser, home, allow=(home,))
    w.page.fill("#text", "Le petit chat")
    w.page.click("#ask button")
    w.ready("overview")
    assert asked == ["Le petit chat"]
    for view in VIEWS:
        w.open_view(view)
    w.close()
    server.shutdown()


def check_server(browser):
    """`multihead serve` with a small model: what is typed is translated, and shown in every view."""
    model = FOLDER / "model"
    model.mkdir(exist_ok=True)
    subprocess.run([BUILD / "tests/cli/make_model", model, "5"], check=True)
    with subprocess.Popen([BUILD / "multihead", "serve", "-m", model, "--port", "0", "--dtype", "f32"],
                          stdout=subprocess.PIPE, text=True) as server:
        try:
            home = server.stdout.readline().strip()
            said = subprocess.run([BUILD / "multihead", "translate", "-m", model, "--dtype", "f32", "le chat"],
                                  capture_output=True, text=True, check=True).stdout.strip()
            w = Watched(browser, home, allow=(home,))
            w.page.press("#text", "Enter")  # nothing was typed, and the page says so
            w.page.wait_for_selector("#view .note")
            assert "the text is empty" in w.page.inner_text("#view"), w.page.inner_text("#view")
            w.problems = [p for p in w.problems if "422" not in p]  # Chromium notes it too
            for text in ("le tapis", "le chat"):
                w.page.fill("#text", text)
                w.page.press("#text", "Enter")
                w.page.wait_for_function("text => document.title === text", arg=text)
                w.ready()
            assert w.page.inner_text("#said") == said, (w.page.inner_text("#said"), said)
            assert w.page.inner_text("#model") == "model"
            for view in VIEWS:
                w.open_view(view)
            for kind in KINDS:  # the weights that the page computes from q and k are those recorded
                w.go(f"#view=steps&kind={kind}&layer=1&head=2&token=1")
                rows = w.page.evaluate("[...document.querySelectorAll('#view table tr')].map(r => [...r.cells].map(c => c.textContent))")
                weight, recorded = rows[0].index("weight"), rows[0].index("recorded")
                assert len(rows) > 3
                for row in rows[1:]:
                    close_to(float(row[weight]), float(row[recorded]), 2e-4, f"{kind}: {row}")
            w.go("#view=steps&kind=decoder.self&layer=0&head=0&token=0")
            assert w.page.inner_text("#view tbody tr:first-child th") == "<s>"
            assert not w.problems, w.problems
            w.page.fill("#text", "q" * 100)  # too long, and told so
            w.page.click("#ask button")
            w.page.wait_for_selector("#view .note")
            assert "100 tokens" in w.page.inner_text("#view"), w.page.inner_text("#view")
            w.problems = [p for p in w.problems if "422" not in p]  # Chromium notes it too
            w.close()
        finally:
            server.terminate()
        assert server.wait(30) == 0


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_pages()
    checks = [f for name, f in globals().items() if name.startswith("check_") and
              (len(sys.argv) < 4 or name[6:] in sys.argv[3:])]
    failed = 0
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for check in checks:
            try:
                check(browser)
                print(f"ok   {check.__name__[6:]}", flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                traceback.print_exc()
                print(f"FAIL {check.__name__[6:]}", flush=True)
        print(f"page: {len(checks) - failed} passed, {failed} failed ({browser.version})")
        browser.close()
    return bool(failed)


sys.exit(main())
