#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pictures of the README and of docs/learn, from pages that the program itself makes.

    sh tools/setup_web.sh build-web/venv
    build-web/venv/bin/python tools/pictures.py build [README|learn]
"""
import pathlib
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/web"))
from web_support import launch  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
SENTENCE = "Le chat noir dort sur la chaise."
PICTURES = {"overview": ("#view=overview", 1500), "alignment": ("#view=align&kind=cross&layer=2&head=mean", 1200)}
CAT, BANK = "The cat that I saw yesterday ran away.", "The bank approved the loan yesterday."
SHIRT = "examples/pictures/shirt.pgm"
SCALED = ["attend", "--random", "16x64"]
HEADS = ["mha", "--embed-dim", "16", "--heads", "2", "--random", "1x6", "--per-head"]
LAYER = ["mha", "--embed-dim", "512", "--heads", "8", "--random", "1x10", "--per-head"]
# The pairs of page 8.
PAIRS = [("The cat that I saw yesterday ran away.", "Le chat que j'ai vu hier s'est enfui."),
         ("The bank approved the loan yesterday.", "La banque a approuvé le prêt hier."),
         ("The black cat sleeps on the chair.", "Le chat noir dort sur la chaise."),
         ("My sister gave me the book.", "Ma sœur m'a donné le livre.")]
MASKED = ["mha", "--embed-dim", "16", "--heads", "1", "--random", "1x6", "--causal", "--per-head"]
# A name, the sentence, the picture or the command that the page is of, and the view, which the page
# saves as SVG.
LEARN = {"scaled": (SCALED, "#view=heatmap&layer=0&head=0"),
         "not-scaled": ([*SCALED, "--scale", "1"], "#view=heatmap&layer=0&head=0"),
         "two-heads": (HEADS, "#view=compare&layer=0&head=0"),
         "eight-heads": (LAYER, "#view=overview"),
         "encoder": (CAT, "#view=overview&kind=encoder.self"),
         "shirt": (SHIRT, "#view=picture&layer=3&head=0"),
         "next-word": (CAT, "#view=heatmap&kind=encoder.self&layer=0&head=1&words=1"),
         "heads": (CAT, "#view=lines&kind=encoder.self&layer=0&head=0&words=1"),
         "causal": (MASKED, "#view=heatmap&layer=0&head=0"),
         "alignment": (BANK, "#view=heatmap&kind=cross&layer=2&head=1&words=1")}


def run(*arguments, **options):
    return subprocess.run([BUILD / "multihead", *arguments], check=True, cwd=ROOT, **options)


def open_view(browser, page, place, width=1000, height=700):
    tab = browser.new_page(viewport={"width": width, "height": height}, accept_downloads=True)
    tab.goto(f"file://{page}{place}")
    tab.wait_for_selector('#view[data-ready]:not([data-ready=""])')
    tab.wait_for_timeout(500)
    return tab


def readme_pictures(browser, page):
    run("translate", "-q", "-m", "fr-en", "--attention", page, SENTENCE, stdout=subprocess.DEVNULL)
    for name, (place, width) in PICTURES.items():
        tab = open_view(browser, page, place, width)
        view = tab.locator("#view").bounding_box()  # the footer is left out
        tab.screenshot(path=ROOT / f"docs/images/{name}.png", full_page=True,
                       clip={"x": 0, "y": 0, "width": width, "height": int(view["y"] + view["height"])})


def make_page(what, page):
    if isinstance(what, str):
        run("look", "-q", "-m", "fashion-vit" if what == SHIRT else "en-fr", what, "--page", page)
    else:
        weights = page.with_suffix(".npy")
        run(*what, "--weights", weights)
        words = ["--tokens", "The cat sat on the mat"] if "1x6" in what else []
        run("view", "--weights", weights, *words, "-o", page)


def learn_pictures(browser, page):
    pairs = page.with_suffix(".tsv")
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    run("heads", "-q", "-m", "en-fr", "--input", pairs, "--ablate", "--svg", ROOT / "docs/learn/images/ablation.svg")
    for name, (what, place) in LEARN.items():
        make_page(what, page)
        tab = open_view(browser, page, place)
        with tab.expect_download() as saved:
            tab.get_by_role("button", name="SVG").click()
        saved.value.save_as(ROOT / f"docs/learn/images/{name}.svg")


with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
    chosen = sys.argv[2:] or ["README", "learn"]
    chromium = launch(playwright)
    if "README" in chosen:
        readme_pictures(chromium, pathlib.Path(folder, "page.html"))
    if "learn" in chosen:
        learn_pictures(chromium, pathlib.Path(folder, "page.html"))
    chromium.close()
