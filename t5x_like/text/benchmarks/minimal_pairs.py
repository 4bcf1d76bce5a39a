"""Pairs of which a language model should find one likelier: BLiMP's sentences, and EWoK's texts in two contexts.

A row's targets are the right text after its inputs, and ``other_targets`` the other one after ``other_inputs``. The
evaluation compares their likelihoods; nothing is written. Each benchmark has one set of rows, here ``validation``.
"""

import codecs
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from t5x_like.io.files import as_path
from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, parse_records, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.benchmarks.tfds_files import read_tfds
from t5x_like.text.metrics import preference_accuracy
from t5x_like.text.tasks.row_files import read_raw_rows
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues

_SPLIT = "validation"
# Fields of a ``Benchmark`` whose texts are compared.
_COMPARED: dict[str, Any] = {
    "metrics": (preference_accuracy,),
    "extras": {"other_inputs": "text", "other_targets": "text", "groups": "texts"},
    "continues_inputs": True,
}


def _comparison(right: tuple[str, str], other: tuple[str, str], groups: Sequence[str]) -> FormattedRow:
    """Return an example of two (context, text) pairs, of which the first should be the likelier one."""
    return {
        "inputs": right[0],
        "targets": right[1],
        "other_inputs": other[0],
        "other_targets": other[1],
        "groups": list(groups),
    }


def phenomena(row: RowValues) -> list[FormattedRow]:
    """Compare a minimal pair's sentences, for scores of BLiMP's fields and phenomena."""
    # One paradigm's file has "syntax/semantics", the others "syntax_semantics".
    field, term = row["field"].replace("/", "_"), row["linguistics_term"]
    # The paper's twelve phenomena count both paradigms of s-selection as argument structure (table 2).
    return _sentences(row, (field, "argument_structure" if term == "s-selection" else term))


def paradigms(row: RowValues) -> list[FormattedRow]:
    """Compare a minimal pair's sentences, for scores of BLiMP's 67 paradigms."""
    return _sentences(row, (row["UID"],))


def _sentences(row: RowValues, groups: Sequence[str]) -> list[FormattedRow]:
    return [_comparison(("", row["sentence_good"]), ("", row["sentence_bad"]), groups)]


_BLIMP_COLUMNS: tuple[str, ...] = ("sentence_good", "sentence_bad", "field", "linguistics_term", "UID")
_BLIMP_READ = RecordFiles(parse=renamed(**{name: name for name in _BLIMP_COLUMNS}))
_BLIMP = BenchmarkSource(
    layouts=(
        FileLayout(
            files=files_in(("blimp/data", "BLiMP/data", "blimp"), {_SPLIT: "*.jsonl"}), read=_BLIMP_READ
        ),
        FileLayout(
            name="BabyLM's rows, in words of its corpus",
            files=files_in(("blimp_filtered", "full_eval/blimp_filtered"), {_SPLIT: "*.jsonl"}),
            read=_BLIMP_READ,
        ),
        hub_layout("blimp/*", (_SPLIT,), _BLIMP_READ, names={_SPLIT: "train"}),
        FileLayout(
            name="TensorFlow Datasets",
            files={_SPLIT: ("blimp/*/*/*-train.tfrecord*",)},
            read=read_tfds,
        ),
    ),
    rows={_SPLIT: 67_000},
    downloads=archive(
        "https://github.com/alexwarstadt/blimp/raw/master/BLiMP.zip",
        "blimp/",
        2_354_164,
        "172a1a714d72e72a89e8384dd531483f3d0f8a9aee3d33dccaf7992d8cecbb73",
    ),
    home="https://github.com/alexwarstadt/blimp",
    citation="Warstadt et al. 2020, https://arxiv.org/abs/1912.00582",
    license="CC BY 4.0",
    columns=dict.fromkeys(_BLIMP_COLUMNS, "text"),
)


def _pair_example(good: str, bad: str, names: tuple[str, str, str], groups: tuple[str, ...]) -> GoldenExample:
    row = dict(zip(_BLIMP_COLUMNS, (good, bad, *names), strict=True))
    compared = {"inputs": "", "targets": good, "other_inputs": "", "other_targets": bad}
    return GoldenExample(row, ({**compared, "groups": list(groups)},))


_WOKE = ("Ann woke herself.", "Ann woke himself.")
_BROKE = ("Bo broke a cup.", "A cup broke a cup.")
_SAW = ("It's she who he saw.", "It's herself who he saw.")
_GENDER = ("morphology", "anaphor_agreement", "anaphor_gender_agreement")
_ANIMATE = ("syntax", "s-selection", "animate_subject_trans")
_CASE = ("syntax/semantics", "binding", "principle_A_case_2")

BLIMP = Benchmark(
    name="blimp",
    title="BLiMP: which sentence of a minimal pair is acceptable? In 12 phenomena of 4 fields",
    source=_BLIMP,
    word=phenomena,
    question_columns=("sentence_good", "sentence_bad"),
    examples=(
        _pair_example(*_WOKE, _GENDER, ("morphology", "anaphor_agreement")),
        _pair_example(*_BROKE, _ANIMATE, ("syntax", "argument_structure")),
        _pair_example(*_SAW, _CASE, ("syntax_semantics", "binding")),
    ),
    **_COMPARED,
)

BLIMP_PARADIGMS = Benchmark(
    name="blimp_paradigms",
    title="BLiMP with a score for each of its 67 paradigms",
    source=_BLIMP,
    word=paradigms,
    question_columns=("sentence_good", "sentence_bad"),
    examples=(
        _pair_example(*_WOKE, _GENDER, ("anaphor_gender_agreement",)),
        _pair_example(*_BROKE, _ANIMATE, ("animate_subject_trans",)),
        _pair_example(*_SAW, _CASE, ("principle_A_case_2",)),
    ),
    **_COMPARED,
)


def contexts(row: RowValues) -> list[FormattedRow]:
    """Compare each target of an EWoK item in its own context and in the other one, for scores of domains."""
    first, second = row["Context1"], row["Context2"]
    groups = (row["Domain"],)
    return [
        _comparison((first, row["Target1"]), (second, row["Target1"]), groups),
        _comparison((second, row["Target2"]), (first, row["Target2"]), groups),
    ]


_EWOK_COLUMNS: tuple[str, ...] = ("Domain", "Context1", "Context2", "Target1", "Target2")
_EWOK_READ = RecordFiles(parse=renamed(**{name: name for name in _EWOK_COLUMNS}))


def _read_suite(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a table of EWoK, whose first line may be a mark against its use for training. See ``source.Reader``."""
    del split
    with as_path(file).open("rb") as stream:
        content = stream.read().removeprefix(codecs.BOM_UTF8)
    if content.startswith(b"# EWoK canary"):
        content = content[content.find(b"\n") % len(content) :]  # an empty line keeps the line numbers
    records = read_raw_rows(file, "csv", stream=BytesIO(content))
    return parse_records(
        records, lambda record: (RawRow(row, record.location) for row in _EWOK_READ.parse(record.values))
    )


def _item(contexts: tuple[str, str], targets: tuple[str, str], domain: str) -> GoldenExample:
    row = dict(zip(_EWOK_COLUMNS, (domain, *contexts, *targets), strict=True))
    formatted = [
        {"inputs": own, "targets": text, "other_inputs": other, "other_targets": text, "groups": [domain]}
        for own, other, text in zip(contexts, contexts[::-1], targets, strict=True)
    ]
    return GoldenExample(row, tuple(formatted))


EWOK = Benchmark(
    name="ewok",
    title="EWoK: which of two contexts fits a text? In 11 domains of world knowledge",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(("ewok", "ewok-core-1.0"), {_SPLIT: "testsuite-*.csv"}), read=_read_suite
            ),
            *(
                hub_layout(folder, (_SPLIT,), _EWOK_READ, names={_SPLIT: "test"})
                for folder in ("ewok-core-1.0", "ewok-core-1.0/data", "ewok")
            ),
            FileLayout(
                name="BabyLM's rows, in words of its corpus",
                files=files_in(("ewok_filtered", "full_eval/ewok_filtered"), {_SPLIT: "*.jsonl"}),
                read=_EWOK_READ,
            ),
        ),
        rows={_SPLIT: 4_374},
        home="https://huggingface.co/datasets/ewok-core/ewok-core-1.0 (after accepting its terms)",
        citation="Ivanova et al. 2024, https://arxiv.org/abs/2405.09605",
        license="EWoK's terms of use; not for training",
        columns=dict.fromkeys(_EWOK_COLUMNS, "text"),
    ),
    word=contexts,
    question_columns=("Context1", "Context2", "Target1", "Target2"),
    examples=(
        _item(("Ann met Bo.", "Ann lost Bo."), ("Bo is here.", "Bo is away."), "social-relations"),
        _item(("The ice melts.", "The ice lasts."), ("It is warm.", "It is cold."), "material-dynamics"),
        _item(
            ("Two cups are left.", "No cup is left."), ("Take one.", "Take none."), "quantitative-properties"
        ),
    ),
    **_COMPARED,
)

BENCHMARKS = (BLIMP, BLIMP_PARADIGMS, EWOK)
