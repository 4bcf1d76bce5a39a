"""From a crawl's files to a changed weight: a corpus is built, described, and learned from."""

import gzip
import json

import pytest

from t5x_like.cli.main import main
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.pretraining import PretrainingTask
from tests.integration import tiny_run
from tests.integration.programs import losses

FRENCH = "Le chat est assis sur la chaise de la cuisine et regarde les oiseaux du jardin."


def _page(number):
    body = "\n".join(f"The {n} people of town {number} walked to the river that morning." for n in range(5))
    if number % 10 == 3:
        body = "\n".join(f"{FRENCH[:-1]} numéro {n}{number}." for n in range(5))
    if number % 10 == 7:
        body += "\nfunction() { return true; } is all that this page says."
    return body


def _write_crawl(folder):
    for file in range(2):
        with gzip.open(folder / f"{file}.warc.wet.gz", "wb") as out:
            for token_id in range(file, 60, 2):
                text = f"Home | About | Contact\n{_page(token_id)}\nThe same words close every page here.\n".encode()
                out.write(
                    f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://town{token_id}.example/\r\n"
                    "WARC-Date: 2019-04-20T00:00:00Z\r\nContent-Type: text/plain\r\n"
                    f"Content-Length: {len(text)}\r\n\r\n".encode()
                    + text
                    + b"\r\n\r\n"
                )


@pytest.mark.slow
def test_a_crawl_becomes_a_corpus_and_the_corpus_a_model(tmp_path, capsys):
    pytest.importorskip("fasttext")
    crawl, corpus = tmp_path / "crawl", tmp_path / "corpus"
    crawl.mkdir()
    _write_crawl(crawl)
    flags = ["--recipe", "gin/corpora/c4_en_fast.gin", "--gin.CorpusRecipe.validation_share=0.2"]
    where = ["--input", f"{crawl}/*.wet.gz", "--output", str(corpus), "--workers", "1"]
    assert main(["corpus", "build", *flags, *where]) == 0
    assert "squigglybracket 6" in capsys.readouterr().out
    manifest = json.loads((corpus / "manifest.json").read_text())
    assert sum(split["pages"] for split in manifest["splits"].values()) == 48
    assert main(["corpus", "report", str(corpus)]) == 0
    report = (corpus / "report.html").read_text()
    assert "The same words close every page here." in report  # that was removed most often

    task = PretrainingTask(name="towns", vocabulary="bytes", corpus=str(corpus))
    texts = [document.text for document in task.read("validation")]
    assert all("river" in text and "same words" not in text for text in texts)
    cache = str(tmp_path / "cache")
    cache_split(task, "train", cache)
    train = LoaderConfig(mixture="towns", batch_size=8, inputs_length=64, targets_length=32, cache=cache)
    run = tmp_path / "run"
    tiny_run.run(tmp_path, model_dir=str(run), total_steps=2, tasks=(task,), train=train)
    assert len(losses(run)) == 2
