"""Rows of benchmarks by T5's templates and as token ids, and official files as TensorFlow Datasets reads them."""

import functools
import json
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.references.reference import DifferenceError, Reference, check_equal, read_json, read_rows
from t5x_like.text.benchmarks import catalogue, super_glue
from t5x_like.text.benchmarks.source import RawRow
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer

# The reference has these functions without a task of that name.
_UNREGISTERED = {
    "super_glue_wsc_marked_spans": "super_glue_wsc_v102_marked_spans",
    "xsum": "xsum_v001",
    "wmt_ende": "wmt14_ende_v003",  # and wmt_t2t_ende_v003, which differs in its source
}
_LENGTHS = {"inputs": 48, "targets": 8}  # of the recorded ids
_NUM_SENTINELS = 100


def benchmark_name(row: dict[str, Any]) -> str:
    """Return our name of the benchmark of a recorded row."""
    return _UNREGISTERED.get(str(row["task"]), str(row["t5_task"]))


def rows(file: Path) -> Iterator[Reference]:
    """Yield the formatted rows, and their token ids where they are recorded."""
    for number, row in enumerate(read_rows(file), start=1):
        name = f"{file}:{number} {benchmark_name(row)}"
        yield Reference("tasks", name, lambda row=row: check_formatted_row(row))
        if "tokenized" in row:
            yield Reference("tasks", f"{name} token ids", lambda row=row: check_ids(row))


def check_formatted_row(row: dict[str, Any]) -> None:
    """Compare a formatted row, or that it is refused."""
    name = benchmark_name(row)
    if name not in catalogue.benchmarks():
        raise DifferenceError(f"we have no benchmark {name!r}")
    try:
        formatted = catalogue.benchmark(name).word(row["raw"])
    except ValueError as error:
        if "error" not in row:
            raise DifferenceError(f"we refuse the row: {error}") from error
        if "span2_index" not in str(error):
            raise DifferenceError(f"we refuse the row for another reason: {error}") from error
        return
    check_equal(formatted, row.get("out", "an error"), "formatted row")


def check_ids(row: dict[str, Any]) -> None:
    """Compare the token ids of a formatted row: cut to the recorded lengths, with an end of sequence."""
    formatted = catalogue.benchmark(benchmark_name(row)).word(row["raw"])
    ids = [
        {
            name: [*_vocabulary().encode(example[name])[: length - 1], _vocabulary().special.eos]
            for name, length in _LENGTHS.items()
        }
        for example in formatted
    ]
    check_equal(ids, row["tokenized"], "token ids")


@functools.cache
def _vocabulary() -> Tokenizer:
    """Open the SentencePiece model that seqio has for its tests."""
    spec = find_spec("seqio")
    if spec is None or not spec.submodule_search_locations:
        raise DifferenceError("token ids need the SentencePiece model of seqio's tests; install seqio")
    folder = Path(next(iter(spec.submodule_search_locations)))
    return open_tokenizer(str(folder / "test_data/sentencepiece/sentencepiece.model"), _NUM_SENTINELS)


def super_glue_lines(file: Path) -> Iterator[Reference]:
    """Yield rows of SuperGLUE's official JSONL."""
    for number, case in enumerate(read_json(file), start=1):
        yield Reference(
            "tasks", f"{file} case {number} {case['config']}", lambda case=case: check_lines(case)
        )


def check_lines(case: dict[str, Any]) -> None:
    """Compare the rows of a file with those that TensorFlow Datasets reads."""
    sources = {
        each.source.tfds.split("/")[1].split(":")[0]: each.source for each in super_glue.BENCHMARKS[:-2]
    }
    sources |= {"axb": super_glue.AXB.source, "axg": super_glue.AXG.source}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{case['config']}.jsonl")
        file.write_text("".join(json.dumps(row) + "\n" for row in case["jsonl"]), "utf-8")
        read = list(sources[case["config"]].layouts[0].read(str(file), "test"))
        check_equal(len(read), len(case["out"]), "number of rows")
        for number, (row, wanted) in enumerate(zip(read, case["out"], strict=True), start=1):
            if "error" in wanted:
                place = f"{file}:{wanted['jsonl_row'] + 1}"
                if "is not in the text" not in str(row) or place not in str(row):
                    raise DifferenceError(f"row {number} is {row}, recorded is an error at {place}")
                continue
            example = dict(wanted["example"])
            if "label" in example:
                example["label"] = wanted["encoded_label"]
            values = row.values if isinstance(row, RawRow) else str(row)
            check_equal(values, example, f"row {number}")
