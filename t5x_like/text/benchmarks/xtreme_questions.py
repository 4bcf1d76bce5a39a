"""XTREME's questions about a paragraph in many languages: XQuAD, MLQA and TyDiQA's gold passages.

Templates and heads are SQuAD's. XTREME trains on English and tests on every language.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample, MetricFunction
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import (
    BenchmarkSource,
    Columns,
    Download,
    FileLayout,
    archive,
    files_in,
    plain_files,
)
from t5x_like.text.benchmarks.squad import word_answers
from t5x_like.text.benchmarks.squad_json import read_squad
from t5x_like.text.benchmarks.xtreme_languages import MLQA, NAMES, TYDIQA, XQUAD
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.metrics import mlqa, squad
from t5x_like.text.postprocessing import qa
from t5x_like.text.tasks.rows import BadRow, RawRow

_COLUMNS: Columns = {
    "id": "text",
    "context": "text",
    "question": "text",
    "answers": {"text": "texts", "answer_start": "ints"},
}
_READ_HUB = RecordFiles(parse=renamed(id="id", context="context", question="question", answers="answers"))
_CONTEXT = "The mill (1702) burned in March."
_PADDED = "The mill ( 1702 ) burned in March . "


def _example(question: str, padded: str, answer: str, start: int, target: str) -> GoldenExample:
    row = {"id": "q1", "context": _CONTEXT, "question": question}
    row |= {"answers": {"text": [answer], "answer_start": [start]}}
    formatted = {"inputs": f"question: {padded}context: {_PADDED}", "targets": target, "id": "q1"}
    return GoldenExample(row, ({**formatted, "context": _PADDED, "question": padded, "answers": [target]},))


def _questions(
    name: str, title: str, source: BenchmarkSource, *, training_task: str = "", metric: MetricFunction = squad
) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        source=source,
        word=word_answers,
        question_columns=("question", "context"),
        postprocess=qa,
        metrics=(metric,),
        extras={"id": "text", "context": "text", "question": "text", "answers": "texts"},
        head=QuestionAnswering(),
        training_task=training_task,
        examples=(
            _example("When?", "When ? ", "March", 26, "March"),
            _example("What burned?", "What burned ? ", "The mill", 0, "The mill"),
            _example("How old?", "How old ? ", "(1702)", 9, " ( 1702 ) "),
        ),
    )


def _source(
    layouts: tuple[FileLayout, ...], rows: dict[str, int], downloads: tuple[Download, ...], **facts: Any
) -> BenchmarkSource:
    return BenchmarkSource(layouts=layouts, rows=rows, downloads=downloads, columns=_COLUMNS, **facts)


def _hub(folders: Sequence[str], names: dict[str, str], read: RecordFiles = _READ_HUB) -> list[FileLayout]:
    return [hub_layout(folder, tuple(names), read, names=names) for folder in folders]


def xquad(language: str) -> Benchmark:
    """Define XQuAD in a language: SQuAD's questions, translated by people.

    Args:
      language: Code of the language.
    """
    file = f"xquad.{language}.json"
    splits = ("validation", "test")
    return _questions(
        f"xquad_{language}",
        f"XQuAD in {NAMES[language]}: translated questions of SQuAD; its rows are validation and test",
        _source(
            (
                FileLayout(
                    files=files_in(("xquad", "xquad-master"), dict.fromkeys(splits, file)), read=read_squad
                ),
                *_hub(
                    (f"xquad/xquad.{language}", f"xtreme/XQuAD.{language}"),
                    dict.fromkeys(splits, "validation"),
                ),
            ),
            dict.fromkeys(splits, 1_190),
            plain_files(
                "https://raw.githubusercontent.com/deepmind/xquad/master", "xquad", {file: (None, None)}
            ),
            home="https://github.com/google-deepmind/xquad",
            citation="Artetxe et al. 2019, https://arxiv.org/abs/1910.11856",
            license="CC BY-SA 4.0",
        ),
        training_task="squad_v010_allanswers",
    )


def mlqa_questions(language: str) -> Benchmark:
    """Define MLQA with questions and contexts in one language.

    Args:
      language: Code of the language.
    """
    both = f"context-{language}-question-{language}.json"
    validation, test = MLQA[language]
    names = {"validation": "validation", "test": "test"}
    return _questions(
        f"mlqa_{language}",
        f"MLQA in {NAMES[language]}: questions about Wikipedia, scored as its own script does",
        _source(
            (
                FileLayout(
                    files=files_in(
                        ("mlqa/MLQA_V1", "MLQA_V1"),
                        {"validation": f"dev/dev-{both}", "test": f"test/test-{both}"},
                    ),
                    read=read_squad,
                ),
                *_hub((f"mlqa/mlqa.{language}.{language}", f"xtreme/MLQA.{language}.{language}"), names),
            ),
            {"validation": validation, "test": test},
            archive("https://dl.fbaipublicfiles.com/MLQA/MLQA_V1.zip", "mlqa/"),
            home="https://github.com/facebookresearch/MLQA",
            citation="Lewis et al. 2019, https://arxiv.org/abs/1910.07475",
            license="CC BY-SA 3.0",
        ),
        training_task="squad_v010_allanswers",
        metric=mlqa(language),
    )


@dataclass(frozen=True, kw_only=True)
class _LanguageQuestions:
    """Reader of the questions of one language, whose name begins their ids.

    Attributes:
      language: Name of the language in small letters.
    """

    language: str

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``."""
        is_table = file.endswith((".parquet", ".arrow"))
        for row in (_READ_HUB if is_table else read_squad)(file, split):
            if isinstance(row, BadRow) or str(row.values["id"]).startswith(f"{self.language}-"):
                yield row


def tydiqa_passages(language: str) -> Benchmark:
    """Define TyDiQA's gold passages in a language.

    Args:
      language: Code of the language.
    """
    train, validation = TYDIQA[language]
    called = NAMES[language].lower()
    read = _LanguageQuestions(language=called)
    names = {"train": "train", "validation": "validation", "test": "validation"}
    held_out = ("tydiqa-goldp-v1.1-dev.json", f"tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-{called}.json")
    files = {"train": "tydiqa-goldp-v1.1-train.json", "validation": held_out, "test": held_out}
    hub = (
        hub_layout(folder, tuple(names), _READ_HUB, names=names)
        for folder in ("tydiqa/secondary_task", "xtreme/tydiqa")
    )
    return _questions(
        f"tydiqa_goldp_{language}",
        f"TyDiQA's gold passages in {NAMES[language]}; XTREME tests on its validation rows",
        _source(
            (
                FileLayout(files=files_in(("tydiqa",), files), read=read),
                *(FileLayout(files=each.files, read=read, name=each.name) for each in hub),
            ),
            {"train": train, "validation": validation, "test": validation},
            plain_files(
                "https://storage.googleapis.com/tydiqa/v1.1",
                "tydiqa",
                {
                    "tydiqa-goldp-v1.1-train.json": (
                        58_004_076,
                        "cefc8e09ff2548d9b10a678d3a6bbbe5bc036be543f92418819ea676c97be23b",
                    ),
                    "tydiqa-goldp-v1.1-dev.json": (
                        5_617_409,
                        "b286e0f34bc7f52259359989716f369b160565bd12ad8f3a3e311f9b0dbad1c0",
                    ),
                },
            ),
            home="https://github.com/google-research-datasets/tydiqa",
            citation="Clark et al. 2020, https://arxiv.org/abs/2003.05002",
            license="Apache 2.0",
        ),
    )


QUESTIONS = (
    *map(xquad, XQUAD),
    *map(mlqa_questions, MLQA),
    *map(tydiqa_passages, TYDIQA),
)
