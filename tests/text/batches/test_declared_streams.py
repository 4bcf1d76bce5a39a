"""Streams that a task, an objective or a method declares go from its rows to the batches of every device."""

from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from t5x_like.batch import FIELDS, Batch, DataField, map_streams
from t5x_like.model.multiple_choice import flatten_choices
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.rules import BATCH_MESH_AXES
from t5x_like.partitioning.shard import batch_shardings
from t5x_like.text import registry
from t5x_like.text.batches.batch_layout import BatchLayout
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.row_maker import cut_to_bucket, join_rows, take_rows
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.heads import SequenceClassification
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths
from t5x_like.text.tasks.text_task import TextTask

STREAMS = (
    DataField("advantages", "token", dtype="float32"),
    DataField("log_probs", "row", dtype="float32", padding=-1),
    DataField("prompt_id", "example", padding=-1),
)


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def answer(length: int, *, log_probs: float) -> Example:
    declared = {"advantages": np.full(length, 0.5), "log_probs": log_probs}
    return Example(inputs=ids(7, 8), targets=np.arange(1, length + 1, dtype=np.int32), declared=declared)


def test_the_table_has_an_entry_for_each_stream_of_a_batch_and_each_value_of_an_example() -> None:
    assert (*FIELDS, "declared") == Batch._fields
    of_batches = {field.example_field for field in FIELDS.values()}
    assert set(Example._fields) - of_batches == {"choices", "declared"}


@pytest.mark.parametrize("layout", ["encoder_decoder", "decoder", "encoder"])
def test_declared_streams_of_answers_are_laid_out_with_them(layout) -> None:
    spec = ExampleSpec(layout, num_choices=2).with_streams(STREAMS)
    pair = Example(choices=(answer(3, log_probs=-2), answer(1, log_probs=-3)), declared={"prompt_id": 5})
    batch = BatchLayout(spec, Lengths(4, 4)).batch([[pair], []])
    declared = batch.declared
    assert declared is not None
    assert declared["advantages"].tolist() == [[[0.5, 0.5, 0.5, 0], [0.5, 0, 0, 0]], [[0] * 4] * 2]
    assert declared["log_probs"].tolist() == [[-2, -3], [-1, -1]]
    assert declared["prompt_id"].tolist() == [5, -1]
    assert batch.target_tokens.tolist()[0] == [[1, 2, 3, 0], [1, 0, 0, 0]]
    rows = flatten_choices(batch)
    assert rows.declared is not None
    shapes = jax.tree.map(np.shape, rows.declared)
    assert (shapes.token, shapes.row, shapes.example) == (
        {"advantages": (4, 4)},
        {"log_probs": (4,)},
        {"prompt_id": (2,)},
    )


def test_batches_are_cut_joined_and_shared_out_with_their_declared_streams() -> None:
    layout = BatchLayout(ExampleSpec("encoder").with_streams(STREAMS), Lengths(64, 64))
    examples = [
        answer(length, log_probs=-length)._replace(inputs=np.ones(length, np.int32)) for length in (3, 9)
    ]
    batch = layout.batch(
        [[example._replace(declared={**example.declared, "prompt_id": 1})] for example in examples]
    )
    joined = join_rows([take_rows(batch, 1, 2), take_rows(batch, 0, 1)])
    assert joined.declared is not None
    assert joined.declared["log_probs"].tolist() == [-9, -3]
    shorter = cut_to_bucket(joined)
    assert shorter.declared is not None
    assert shorter.declared["advantages"].shape == shorter.encoder_input_tokens.shape == (2, 16)
    mesh = MeshConfig(data=4, context=2).build()
    shardings = batch_shardings(shorter, mesh).declared
    specs = {name: shardings[name].spec for name in ("advantages", "log_probs", "prompt_id")}
    rows = PartitionSpec(BATCH_MESH_AXES)
    assert specs == {
        "advantages": PartitionSpec(BATCH_MESH_AXES, "context"),
        "log_probs": rows,
        "prompt_id": rows,
    }
    assert map_streams(lambda field, *streams: (field.level, len(streams)), batch, batch).declared.row == {  # pyright: ignore[reportOptionalMemberAccess]
        "log_probs": ("row", 2)
    }


def task(folder: Path, **changes) -> TextTask:
    lines = ["text\tlabel\tpoints", *(f"text {index}\t{index % 2}\t{index / 2}" for index in range(6))]
    (folder / "rows.tsv").write_text("\n".join(lines) + "\n")
    settings = {
        "name": folder.name,
        "vocabulary": "bytes",
        "files": {"train": str(folder / "rows.tsv")},
        "input_template": "{text}",
        "target_template": "{label}",
        "streams": {"weight": "points"},
    }
    return TextTask(**{**settings, **changes})


def config(folder: Path, **changes) -> LoaderConfig:
    settings = {"split": "train", "batch_size": 6, "inputs_length": 16, "targets_length": 4}
    return LoaderConfig(mixture=folder.name, shuffle=False, repeat=False, **{**settings, **changes})


POINTS = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]


@pytest.mark.parametrize("layout", [None, "decoder"])
def test_a_column_of_a_table_becomes_a_stream(tmp_path: Path, layout) -> None:
    registry.register([task(tmp_path)])
    settings = {"layout": layout, "targets_length": 32}
    loader = build_loader(config(tmp_path, **settings))
    (batch,) = loader
    assert batch.declared.example["weight"].tolist() == POINTS
    assert batch.target_tokens.shape[0] == 6  # not packed, since each row has one weight
    cache_split(task(tmp_path), "train", str(tmp_path / "cache"))
    cached = build_loader(config(tmp_path, **settings, cache=str(tmp_path / "cache")))
    (again,) = cached
    assert again.declared.example["weight"].tolist() == POINTS
    assert cached.state()["data"] == loader.state()["data"]


@pytest.mark.parametrize(
    "head", [None, SequenceClassification(texts=("{text}",), classes=("0", "1"))], ids=["texts", "columns"]
)
def test_a_head_reads_rows_with_the_stream(tmp_path: Path, head) -> None:
    registry.register([task(tmp_path, labels=("0", "1"), head=head)])
    (batch,) = build_loader(config(tmp_path, layout="encoder"))
    assert batch.declared.example["weight"].tolist() == POINTS
    assert batch.sequence_labels.tolist() == [0, 1] * 3


def test_a_cell_that_is_no_number_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rows\.tsv:2: column 'text' is 'text 0', not a number"):
        list(task(tmp_path, streams={"weight": "text"}).read("train"))
    with pytest.raises(ValueError, match="no column 'score'; the columns are text, label, points"):
        list(task(tmp_path, streams={"weight": "score"}).read("train"))


@pytest.mark.parametrize("name", ["label", "target_tokens", "my weight"])
def test_a_stream_has_a_name_of_its_own(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' can't be the name of a stream"):
        task(tmp_path, streams={name: "points"})
