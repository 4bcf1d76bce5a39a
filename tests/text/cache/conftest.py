"""A small corpus, tasks over it, and a cache of it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.pretraining import PretrainingTask


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hundred documents, one a line, from a word to some hundreds."""
    chooser = random.Random(0)
    words = ["".join(chooser.choices("abcdefghij", k=chooser.randint(1, 8))) for _ in range(99)]
    lines = [" ".join(chooser.choices(words, k=chooser.randint(1, 300))) for _ in range(300)]
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def corpus_task(corpus: Path) -> Callable[..., PretrainingTask]:
    """Makes a task over the corpus, with changes."""

    def make(**changes) -> PretrainingTask:
        settings = {"name": "letters", "vocabulary": "bytes", "files": {"train": str(corpus)}}
        return PretrainingTask(**(settings | changes))

    return make


@pytest.fixture
def cached(tmp_path, corpus_task) -> Path:
    """Return the folder of a cache of the corpus in several shards."""
    cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=100_000)
    return tmp_path / "letters" / "train"


@pytest.fixture
def texts(corpus: Path) -> list[str]:
    return corpus.read_text().splitlines()


@pytest.fixture
def text_of() -> Callable[[CachedExamples, int], str]:
    """Return a function that decodes an example of bytes."""

    def read(examples: CachedExamples, number: int) -> str:
        return bytes((examples.read([number])[0]["tokens"] - 3).astype("uint8")).decode()  # pyright: ignore

    return read
