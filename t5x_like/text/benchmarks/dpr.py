"""Definite Pronoun Resolution (Rahman and Ng 2012, https://www.hlt.utdallas.edu/~vince/data/emnlp12/).

T5 trains on it together with WSC (Raffel et al. 2020, §2.4).
"""

from collections.abc import Iterator

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.pronouns import dpr_simple
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in, plain_files
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.metrics import accuracy
from t5x_like.text.tasks.rows import BadRow, RawRow, convert
from t5x_like.text.tasks.text_lines import LineBlock, blocks_of, text_lines

_FOLDERS = ("definite_pronoun_resolution", "dpr", "DPR", ".")


def _read_blocks(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read blocks of four lines, separated by empty lines: sentence, pronoun, two candidates, right candidate.

    See ``source.Reader``.
    """
    del split
    for block in blocks_of(text_lines(file)):
        if block.faults:
            yield from block.faults
        else:
            yield from convert([block], _of_block)


def _of_block(block: LineBlock) -> RawRow:
    if len(block.lines) != 4:
        raise ValueError(
            f"{len(block.lines)} lines where a sentence, a pronoun, candidates and the right one should be"
        )
    sentence, pronoun, listed, right = (line.text.strip() for line in block.lines)
    candidates = [candidate.strip() for candidate in listed.split(",")]
    if right not in candidates:
        raise ValueError(f"the right candidate {right!r} is none of {', '.join(candidates)}")
    row = {
        "sentence": sentence,
        "pronoun": pronoun,
        "candidates": candidates,
        "label": candidates.index(right),
    }
    return RawRow(row, block.location)


def _example(sentence: str, pronoun: str, label: int, *, inputs: str, targets: str) -> GoldenExample:
    row = {"sentence": sentence, "pronoun": pronoun, "candidates": ["Ann", "Bo"], "label": label}
    return GoldenExample(row, ({"inputs": inputs, "targets": targets},))


DPR = Benchmark(
    name="dpr_v001_simple",
    title="DPR: the referent of a marked pronoun",
    source=BenchmarkSource(
        tfds="definite_pronoun_resolution:1.1.0",
        layouts=(
            FileLayout(
                files=files_in(_FOLDERS, {"train": "train.c.txt", "test": "test.c.txt"}), read=_read_blocks
            ),
        ),
        rows={"train": 1_322, "test": 564},
        downloads=plain_files(
            "https://s3.amazonaws.com/datasets.huggingface.co/definite_pronoun_resolution",
            "definite_pronoun_resolution",
            {
                "train.c.txt": (160_408, "c310158d0cbac1a556e3284e6c167f4478271d8d50b0b9d15dfe428c905a0867"),
                "test.c.txt": (67_044, "cf1cf025e1d59a5b363e6dcfbd5a13aae8a9830831ac16fd7f865aca7a1559d8"),
            },
        ),
        home="https://www.hlt.utdallas.edu/~vince/data/emnlp12/",
        citation="Rahman and Ng 2012, https://aclanthology.org/D12-1071",
        columns={"sentence": "text", "pronoun": "text", "candidates": "texts", "label": "int"},
    ),
    word=dpr_simple,
    metrics=(accuracy,),
    head=MultipleChoice(context="{sentence} {pronoun}:", choices="candidates"),
    examples=(
        _example(
            "Ann beat Bo, for she ran.", "she", 0, inputs="wsc: Ann beat Bo, for *she* ran.", targets="Ann"
        ),
        _example("Ann met Bo and saw him.", "him", 1, inputs="wsc: Ann met Bo and saw *him*.", targets="Bo"),
        _example("Did Ann see Bo hit him?", "him", 1, inputs="wsc: Did Ann see Bo hit him?", targets="Bo"),
    ),
)

BENCHMARKS = (DPR,)
