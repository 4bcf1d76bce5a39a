"""SuperGLUE's question-answering tasks: BoolQ, COPA, MultiRC, ReCoRD."""

import re

from t5x_like.text import postprocessing
from t5x_like.text.benchmarks import super_glue_json
from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED, KeyedTemplate, label_examples
from t5x_like.text.benchmarks.pronouns import FALSE_TRUE
from t5x_like.text.benchmarks.source import Columns
from t5x_like.text.benchmarks.super_glue_form import super_glue_source, super_glue_task
from t5x_like.text.heads import CandidateRanking, MultipleChoice, SequenceClassification
from t5x_like.text.metrics import (
    all_match,
    deduplicate_metric,
    mean_group_metric,
    multirc_f1_over_all_answers,
    squad,
)
from t5x_like.text.templates import RowValues

_ANSWER_INDEX: Columns = {"idx": {"paragraph": "int", "question": "int", "answer": "int"}}
_QUERY_INDEX: Columns = {"idx": {"passage": "int", "query": "int"}}

BOOLQ = super_glue_task(
    "BoolQ",
    "BoolQ: is a question answered yes by a passage?",
    columns={"question": "text", "passage": "text"},
    rows={"train": 9_427, "validation": 3_270, "test": 3_245},
    sha256="853fbe7922f70c59629f06a39e8d9ca440c3d740e760fd3b87a5ddf3dcba2436",
    num_bytes=4_118_001,
    labels=FALSE_TRUE,
    examples=label_examples(
        ("question", "passage"),
        (("is it wet", "Sea -- Water."), 1, "boolq passage: Sea -- Water. question: is it wet", "True"),
        (("is it dry", "Sea -- Water."), 0, "boolq passage: Sea -- Water. question: is it dry", "False"),
        (("is it", ""), -1, "boolq passage:  question: is it", UNLABELED),
    ),
)

_COPA_COLUMNS = ("premise", "choice1", "choice2", "question")
COPA = super_glue_task(
    "COPA",
    "COPA: which of two is the cause or effect of a premise?",
    columns=dict.fromkeys(_COPA_COLUMNS, "text"),
    rows={"train": 400, "validation": 100, "test": 500},
    sha256="405906cddac74bc1e1ce8220f1107d1025b66a25ef10149d91b10bb30651125f",
    num_bytes=43_986,
    labels=("choice1", "choice2"),
    head=MultipleChoice(context="{premise} What was the {question}?", choices=("{choice1}", "{choice2}")),
    examples=label_examples(
        _COPA_COLUMNS,
        (
            ("It rained.", "I got wet.", "I ate.", "effect"),
            0,
            "copa choice1: I got wet. choice2: I ate. premise: It rained. question: effect",
            "choice1",
        ),
        (
            ("I slept.", "I won.", "I was tired.", "cause"),
            1,
            "copa choice1: I won. choice2: I was tired. premise: I slept. question: cause",
            "choice2",
        ),
        (("P", "A", "B", "cause"), -1, "copa choice1: A choice2: B premise: P question: cause", UNLABELED),
    ),
)


def _answer_index(row: RowValues) -> dict[str, int]:
    return {f"idx/{name}": row["idx"][name] for name in ("paragraph", "question", "answer")}


def without_markup(text: str) -> str:
    """Replace line breaks with spaces and remove bold marks; other tags, and those in capitals, stay."""
    return re.sub("</?b>", "", text.replace("<br>", " "))


def _multirc_example(
    answer: str, label: int, answer_index: int, *, clean: str, targets: str
) -> GoldenExample:
    row = {
        "paragraph": "<b>Sent 1: </b>Ann has two dogs.<br>",
        "question": "Who has dogs?",
        "answer": answer,
        "label": label,
        "idx": {"paragraph": 0, "question": 0, "answer": answer_index},
    }
    inputs = f"multirc question: Who has dogs? answer: {clean} paragraph: Sent 1: Ann has two dogs. "
    index = {"idx/paragraph": 0, "idx/question": 0, "idx/answer": answer_index}
    return GoldenExample(row, ({"inputs": inputs, "targets": targets, **index},))


MULTIRC = Benchmark(
    name="super_glue_multirc_v102",
    title="MultiRC: which of the answers to a question on a paragraph are right?",
    source=super_glue_source(
        "multirc",
        "MultiRC",
        columns={"paragraph": "text", "question": "text", "answer": "text", **_ANSWER_INDEX},
        rows={"train": 27_243, "validation": 4_848, "test": 9_693},
        sha256="b3cd440856e72eb166b2edcd37b798455f1ebd51f2c3de64c0c2a4e1971d2737",
        num_bytes=1_116_225,
        parse=super_glue_json.multirc,
        classes=FALSE_TRUE,
    ),
    word=KeyedTemplate(
        word="multirc",
        columns={name: name for name in ("question", "answer", "paragraph")},
        labels=FALSE_TRUE,
        index=_answer_index,
        clean=without_markup,
    ),
    postprocess=postprocessing.multirc,
    metrics=(multirc_f1_over_all_answers, mean_group_metric(all_match)),
    labels=FALSE_TRUE,
    extras={"idx/paragraph": "int", "idx/question": "int", "idx/answer": "int"},
    group_columns=("idx/question",),
    head=SequenceClassification(texts=("{paragraph}", "{question} {answer}"), classes=FALSE_TRUE),
    examples=(
        _multirc_example("Ann", 1, 0, clean="Ann", targets="True"),
        _multirc_example("<b>Bo</b><br>", 0, 1, clean="Bo ", targets="False"),
        _multirc_example("<i>Al</i>", -1, 2, clean="<i>Al</i>", targets=UNLABELED),
    ),
)

_HIGHLIGHT = "\n@highlight\n"


def record(row: RowValues) -> list[FormattedRow]:
    """Word an example for each right answer, or one with ``<unk>`` if none is known. Highlights become sentences."""
    passage = re.sub(rf"([.?!\"']){_HIGHLIGHT}", r"\1 ", row["passage"]).replace(_HIGHLIGHT, ". ")
    inputs = f"record query: {row['query']} entities: {', '.join(row['entities'])} passage: {passage}"
    answers = list(row["answers"])
    common = {"inputs": inputs, "answers": answers}
    common |= {f"idx/{name}": row["idx"][name] for name in ("passage", "query")}
    return [{**common, "targets": target} for target in answers or [UNLABELED]]


def _record_example(passage: str, *, clean: str, entities: list[str], answers: list[str]) -> GoldenExample:
    row = {"passage": passage, "query": "@placeholder won", "entities": entities, "answers": answers}
    inputs = f"record query: @placeholder won entities: {', '.join(entities)} passage: {clean}"
    rest = {"inputs": inputs, "answers": answers, "idx/passage": 0, "idx/query": 1}
    formatted = tuple({**rest, "targets": target} for target in answers or [UNLABELED])
    return GoldenExample({**row, "idx": {"passage": 0, "query": 1}}, formatted)


RECORD = Benchmark(
    name="super_glue_record_v102",
    title="ReCoRD: which of a passage's entities fills a query's gap?",
    source=super_glue_source(
        "record",
        "ReCoRD",
        columns={"passage": "text", "query": "text", "entities": "texts", "answers": "texts", **_QUERY_INDEX},
        rows={"train": 100_730, "validation": 10_000, "test": 10_000},
        sha256="30c7b651ab21b8bf8fab986495cd1084333010e040548f861b839eec0044ac18",
        num_bytes=51_757_880,
        parse=super_glue_json.record,
    ),
    word=record,
    postprocess=postprocessing.record,
    metrics=(deduplicate_metric(squad),),
    extras={"idx/passage": "int", "idx/query": "int", "answers": "texts"},
    group_columns=("idx/passage", "idx/query"),
    head=CandidateRanking(),
    training_examples=138_854,  # one for each of a query's answers
    examples=(
        _record_example(
            "Ann won\n@highlight\nBo lost", clean="Ann won. Bo lost", entities=["Ann"], answers=["Ann"]
        ),
        _record_example(
            "Ann won!\n@highlight\nBo",
            clean="Ann won! Bo",
            entities=["Ann", "Ann A."],
            answers=["Ann", "Ann A."],
        ),
        _record_example("No answer.", clean="No answer.", entities=["Ann", "Bo"], answers=[]),
    ),
)
