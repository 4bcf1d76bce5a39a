"""Small tasks from real files, each registered under a unique name."""

import itertools
import json
import random

import pytest

from t5x_like.text import registry
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.text_task import TextTask

_numbers = itertools.count()


@pytest.fixture
def make_text_task(tmp_path):
    """Register a task of numbered rows, and return its name."""

    def make(num_rows=40, **changes):
        name = f"rows_{next(_numbers)}"
        chooser = random.Random(0)
        rows = [(f"row {index} " + "x" * chooser.randint(0, 12), index % 3) for index in range(num_rows)]
        for split in ("train", "validation"):
            lines = "".join(f"{text}\t{label}\n" for text, label in rows)
            (tmp_path / f"{name}.{split}.tsv").write_text("text\tlabel\n" + lines)
        settings = {
            "vocabulary": "bytes",
            "files": {split: str(tmp_path / f"{name}.{split}.tsv") for split in ("train", "validation")},
            "input_template": "{text}",
            "target_template": "{label}",
            "label_words": {"0": "no", "1": "yes", "2": "maybe"},
            "metrics": ("accuracy", "macro_f1"),
        }
        registry.register([TextTask(name=name, **(settings | changes))])
        return name

    return make


@pytest.fixture
def make_corpus(tmp_path):
    """Register a pretraining task of documents of very different lengths, and return its name."""

    def make(num_documents=300, **changes):
        name = f"corpus_{next(_numbers)}"
        chooser = random.Random(1)
        words = ["word", "in", "beginning", "the", "was", "and"]
        documents = [" ".join(chooser.choices(words, k=chooser.randint(1, 40))) for _ in range(num_documents)]
        (tmp_path / f"{name}.txt").write_text("\n".join(documents) + "\n")
        files = {"train": str(tmp_path / f"{name}.txt"), "validation": str(tmp_path / f"{name}.txt")}
        registry.register([PretrainingTask(name=name, vocabulary="bytes", files=files, **changes)])
        return name

    return make


@pytest.fixture
def make_talks(tmp_path):
    """Register a task of conversations of one to three answers, and return its name."""

    def make(num_talks=60, **changes):
        name = f"talks_{next(_numbers)}"
        chooser = random.Random(2)

        def turn(index):
            question = {"role": "user", "content": f"{index}? " + "x" * chooser.randint(0, 9)}
            return [question, {"role": "assistant", "content": "y" * chooser.randint(1, 9)}]

        talks = [
            [message for _ in range(chooser.randint(1, 3)) for message in turn(index)]
            for index in range(num_talks)
        ]
        lines = [json.dumps({"messages": talk}) + "\n" for talk in talks]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
        files = {"train": str(tmp_path / f"{name}.jsonl")}
        registry.register([ChatTask(name=name, vocabulary="bytes", files=files, **changes)])
        return name

    return make
