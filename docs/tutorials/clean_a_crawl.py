# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Clean a crawl and see what each rule drops
#
# C4 is Common Crawl after a dozen rules. This notebook writes a small crawl whose faults we know, cleans it with C4's recipe, and shows
# rule by rule what became of the pages and lines.

# %%
import gzip
import json
import logging
import os
import shlex
import tempfile
from pathlib import Path

from t5x_like.cli.main import main

logging.basicConfig(level=logging.ERROR)
os.chdir(tempfile.mkdtemp())  # your project's folder
folder = Path()
crawl, corpus = folder / "crawl.warc.wet.gz", folder / "corpus"


def command(line):
    """Run ``t5x-like`` as the shell would."""
    assert main(shlex.split(line)) == 0


# %% [markdown]
# ## The crawl
#
# Sixty pages of good sentences, and pages with one fault each. A WET file is what Common Crawl offers: the plain text of each page.

# %%
TOWNS = "Ashford Barton Clifton Dunmore Easton Fairview Garston Hatfield Ilford Kelso Linton Marlow".split()


def story(number):
    town = TOWNS[number % len(TOWNS)]
    return "\n".join(
        f"In year {1800 + number + line} the people of {town} built bridge number {number * 7 + line} over the river."
        for line in range(5)
    )


MENU = "Home | About | Contact\n"
SCRIPT = "\nPlease enable javascript to see the comments on this page."
LOREM = "\nLorem ipsum dolor sit amet is what this page still says."
PROGRAM = "\nfunction hello() { return true; } is the code of this page."
FRENCH = "\n".join(
    f"Le chat numéro {n} est assis sur la chaise et regarde les oiseaux du jardin." for n in range(6)
)

PAGES = {f"good-{n}": story(n) for n in range(60)}
PAGES |= {f"menu-{n}": MENU + story(100 + n) for n in range(12)}
PAGES |= {f"javascript-{n}": story(200 + n) + SCRIPT for n in range(6)}
PAGES |= {f"lorem-{n}": story(300 + n) + LOREM for n in range(2)}
PAGES |= {f"program-{n}": story(400 + n) + PROGRAM for n in range(4)}
PAGES |= {f"french-{n}": FRENCH.replace("numéro", f"{n} numéro") for n in range(5)}
PAGES |= {f"short-{n}": f"This is page {n} and it has one sentence only." for n in range(7)}
PAGES |= {f"copy-{n}": story(n) for n in range(3)}
with gzip.open(crawl, "wb") as file:
    for name, text in PAGES.items():
        content = text.encode()
        head = (
            f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://{name}.example/\r\n"
            f"WARC-Date: 2019-04-20T00:00:00Z\r\nContent-Type: text/plain\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        file.write(head.encode() + content + b"\r\n\r\n")
print(f"{len(PAGES)} pages, {crawl.stat().st_size:,} bytes compressed")

# %% [markdown]
# ## One page, rule by rule
#
# Before you build, ask what the rules say of a page. Lines that end without punctuation, or that speak of JavaScript, are removed; a page with a curly bracket or
# "lorem ipsum" is dropped.

# %%
pages = folder / "pages.jsonl"
pages.write_text(
    "".join(
        json.dumps({"url": name, "text": PAGES[name]}) + "\n" for name in ("menu-0", "program-0", "french-0")
    )
)
command(f"corpus explain --input {pages}")

# %% [markdown]
# ## The corpus
#
# The table has a line for each step with the reasons. `c4_en_fast.gin` is C4's recipe with fastText's language identification.

# %%
command(f"corpus build --recipe gin/corpora/c4_en_fast.gin --input {crawl} --output {corpus} --workers 1")

# %% [markdown]
# ## Which rule dropped what

# %%
import matplotlib.pyplot as plt

manifest = json.loads((corpus / "manifest.json").read_text())
dropped = {}
for step in manifest["steps"]:
    for reason, count in step["dropped"].items():
        dropped[f"page: {reason.removeprefix('filtered:')}"] = count
    for reason, count in step["seen"].items():
        if reason.startswith("line-filtered:"):
            dropped[f"line: {reason.removeprefix('line-filtered:')}"] = count
figure, axes = plt.subplots(figsize=(6, 3), dpi=110, layout="constrained")
axes.barh(list(dropped), list(dropped.values()))
axes.invert_yaxis()
axes.set_xlabel("dropped")
plt.show()

# %% [markdown]
# ## What is left
#
# The shards are what a `PretrainingTask` reads: `PretrainingTask(name="towns", corpus="corpus", vocabulary=…)`.

# %%
from t5x_like.text.tasks.pretraining import PretrainingTask

task = PretrainingTask(name="towns", vocabulary="bytes", corpus=str(corpus))
texts = [document.text for document in task.read("train")]
print(len(texts), "pages are left; one of them:")
print(texts[0])

# %% [markdown]
# `corpus report` writes all of this as one HTML page, with examples of what each rule removed:

# %%
command(f"corpus report {corpus}")

# %% [markdown]
# ## Next
#
# - Rules of other papers, near duplicates, personal data: [corpora](../guides/corpora.md).
# - A rule of your own is a frozen dataclass with `apply(page, counts)`: [architecture](../architecture.md#additions).
