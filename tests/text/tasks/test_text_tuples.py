"""Tables of texts whose vectors are compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import TextTuple
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.tasks.text_tuples import text_tuples

ROWS = [
    {"query": "a", "positive": "bb", "negative": "c", "clicks": 2, "gap": 0.5},
    {"query": "ddd", "positive": "e", "negative": "f", "clicks": 1, "gap": 0.25},
]


def task(folder: Path, rows: list[dict[str, Any]] = ROWS, **changes: Any) -> TextTask:
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    files = {"train": str(folder / "rows.jsonl")}
    return text_tuples(**{"name": folder.name, "vocabulary": "bytes", "files": files, **changes})


def batch_of(definition: TextTask) -> Any:
    config = LoaderConfig(
        mixture=definition.name,
        batch_size=2,
        inputs_length=8,
        targets_length=2,
        layout="encoder",
        shuffle=False,
    )
    return next(Loader(config, registry.resolve(definition.name, [definition])))


def test_each_text_of_a_row_is_read_alone(tmp_path: Path) -> None:
    definition = task(tmp_path, texts=("query", "positive", "negative"), weight="clicks", score="gap")
    batch = batch_of(definition)
    encode = definition.tokenizer.encode
    assert batch.encoder_input_tokens.shape == (2, 3, 8)
    for row, each in enumerate(ROWS):
        for index, name in enumerate(("query", "positive", "negative")):
            real = batch.encoder_segment_ids[row, index] > 0
            assert batch.encoder_input_tokens[row, index][real].tolist()[1:-1] == encode(each[name])
    assert batch.declared["weight"].tolist() == [2, 1]
    assert batch.declared["score"].tolist() == [0.5, 0.25]


def test_a_single_text_and_templates_are_read(tmp_path: Path) -> None:
    assert batch_of(task(tmp_path, texts=("query",))).encoder_input_tokens.shape == (2, 1, 8)
    templated = task(tmp_path, texts=("q: {query}", "positive"))
    assert templated.head == TextTuple(texts=("q: {query}", "{positive}"))
    assert templated.input_columns == ("query", "positive")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": "query"}, r"texts is 'query'; give the names of columns"),
        ({"texts": ()}, r"give the names of columns"),
        ({"texts": ("query", "answer")}, r"no column 'answer'|answer"),
        ({"metrics": ("accuracy",), "texts": ("query", "positive")}, "metric 'accuracy' doesn't fit TextTuple"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_columns_is_refused(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batch_of(task(tmp_path, **changes))


def test_empty_texts_are_refused_with_their_line(tmp_path: Path) -> None:
    rows = [ROWS[0], {"query": "x", "positive": " "}]
    with pytest.raises(ValueError, match=r"rows\.jsonl.*2.*the text '\{positive\}' is empty"):
        batch_of(task(tmp_path, rows, texts=("query", "positive")))


def test_a_text_without_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="the text 'query' names no column"):
        TextTuple(texts=("query", "{positive}"))
    with pytest.raises(ValueError, match="give a template for each text"):
        TextTuple(texts=())
