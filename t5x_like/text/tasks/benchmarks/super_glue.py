"""SuperGLUE (Wang et al. 2019, https://super.gluebenchmark.com), as T5 words it (https://arxiv.org/abs/1910.10683)."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from t5x_like.text import postprocessing
from t5x_like.text.metrics import (
    accuracy,
    all_match,
    deduplicate_metric,
    mean_group_metric,
    mean_multiclass_f1,
    multirc_f1_over_all_answers,
    squad,
)
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.tasks.benchmarks import dpr, super_glue_json
from t5x_like.text.tasks.benchmarks.benchmark import Benchmark, Example, MetricFunction, WordedRow
from t5x_like.text.tasks.benchmarks.forms import Choices, Classes, Form
from t5x_like.text.tasks.benchmarks.keyed_wording import UNLABELLED, Keyed
from t5x_like.text.tasks.benchmarks.pronouns import (
    TRUTH,
    wsc_marked_spans,
    wsc_simple,
    wsc_simple_right_only,
)
from t5x_like.text.tasks.benchmarks.source import Columns, Download, Layout, RawRow, Source
from t5x_like.text.tasks.benchmarks.super_glue_json import JsonLines, Parse

HOME = "https://super.gluebenchmark.com/tasks"
CITATION = "Wang et al. 2019, SuperGLUE, https://arxiv.org/abs/1905.00537"
LICENCE = "each corpus has its own; see https://super.gluebenchmark.com/tasks"
_SERVER = "https://dl.fbaipublicfiles.com/glue/superglue/data/v2"
_FOLDERS = ("super_glue", "SuperGLUE", "superglue", "super_glue_data", ".")
_NAMES = {"train": "train", "validation": "val", "test": "test"}

_ENTAILMENT = ("entailment", "not_entailment")
_CB_LABELS = ("entailment", "contradiction", "neutral")
_CHOICES = ("choice1", "choice2")
_ANSWER_INDEX: Columns = {"idx": {"paragraph": "int", "question": "int", "answer": "int"}}
_QUERY_INDEX: Columns = {"idx": {"passage": "int", "query": "int"}}


def _source(
    config: str,
    folder: str,
    *,
    columns: Columns,
    rows: Mapping[str, int],
    sha256: str,
    num_bytes: int,
    parse: Parse,
    classes: tuple[str, ...] = (),
) -> Source:
    """``columns`` without label, and without idx where that is one number."""

    def files(split: str) -> tuple[str, ...]:
        names = [f"{_NAMES[split]}.jsonl"] if len(rows) > 1 else [f"{folder}.jsonl", "test.jsonl"]
        spelled = dict.fromkeys([folder, folder.lower(), folder.replace("-", "")])
        return tuple(f"{root}/{each}/{name}" for root in _FOLDERS for each in spelled for name in names)

    label: Columns = {"label": "int"} if classes else {}
    return Source(
        tfds=f"super_glue/{config}:1.0.2",
        layouts=(
            Layout(
                files={split: files(split) for split in rows}, read=JsonLines(parse=parse, classes=classes)
            ),
        ),
        rows=rows,
        downloads=(
            Download(
                url=f"{_SERVER}/{folder}.zip",
                unpack={"": "super_glue/"},
                sha256=sha256,
                num_bytes=num_bytes,
            ),
        ),
        home=HOME,
        citation=CITATION,
        licence=LICENCE,
        columns={"idx": "int", **columns, **label},
    )


def _labelled(
    task: str,
    title: str,
    *,
    word: str,
    keys: Mapping[str, str],
    source: Source,
    labels: tuple[str, ...],
    metrics: tuple[MetricFunction, ...] = (accuracy,),
    form: Form | None = None,
    examples: tuple[Example, ...],
) -> Benchmark:
    texts = tuple(f"{{{column}}}" for column, kind in source.columns.items() if kind == "text")
    return Benchmark(
        name=f"super_glue_{task}_v102",
        title=title,
        source=source,
        word=Keyed(word=word, columns=keys, labels=labels),
        postprocess=partial(string_label_to_class_id, label_classes=labels),
        metrics=metrics,
        labels=labels,
        extras={"idx": "int"},
        form=form or Classes(texts=texts, classes=labels),
        examples=examples,
    )


def _example(row: RawRow, inputs: str, targets: str, **extras: Any) -> Example:
    return Example(row, ({"inputs": inputs, "targets": targets, "idx": row["idx"], **extras},))


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_PAIR: Columns = {"premise": "text", "hypothesis": "text"}
_PAIR_PARSED = super_glue_json.flat("premise", "hypothesis")


def _pair(premise: str, hypothesis: str, label: int, idx: int, *, word: str, targets: str) -> Example:
    row = {"premise": premise, "hypothesis": hypothesis, "label": label, "idx": idx}
    return _example(row, f"{word} hypothesis: {hypothesis} premise: {premise}", targets)


BOOLQ = _labelled(
    "boolq",
    "BoolQ: is a question answered yes by a passage?",
    word="boolq",
    keys=_same("passage", "question"),
    source=_source(
        "boolq",
        "BoolQ",
        columns={"question": "text", "passage": "text"},
        rows={"train": 9_427, "validation": 3_270, "test": 3_245},
        sha256="853fbe7922f70c59629f06a39e8d9ca440c3d740e760fd3b87a5ddf3dcba2436",
        num_bytes=4_118_001,
        parse=super_glue_json.flat("question", "passage"),
        classes=TRUTH,
    ),
    labels=TRUTH,
    examples=(
        _example(
            {"question": "is it wet", "passage": "Sea -- Water.", "label": 1, "idx": 0},
            "boolq passage: Sea -- Water. question: is it wet",
            "True",
        ),
        _example(
            {"question": "is it dry", "passage": "Sea -- Water.", "label": 0, "idx": 1},
            "boolq passage: Sea -- Water. question: is it dry",
            "False",
        ),
        _example(
            {"question": "is it", "passage": "", "label": -1, "idx": 2},
            "boolq passage:  question: is it",
            UNLABELLED,
        ),
    ),
)

CB = _labelled(
    "cb",
    "CB: does a text commit its author to a clause in it?",
    word="cb",
    keys=_same("hypothesis", "premise"),
    source=_source(
        "cb",
        "CB",
        columns=_PAIR,
        rows={"train": 250, "validation": 56, "test": 250},
        sha256="8d641383298d54554066ba1c93f56ae7410af75df621b90c63028806bbbbb535",
        num_bytes=75_482,
        parse=_PAIR_PARSED,
        classes=_CB_LABELS,
    ),
    labels=_CB_LABELS,
    metrics=(mean_multiclass_f1(num_classes=3), accuracy),
    examples=(
        _pair("I know that he left.", "he left", 0, 0, word="cb", targets="entailment"),
        _pair("I don't think he left.", "he left", 1, 1, word="cb", targets="contradiction"),
        _pair("Did he say she left?", "she left", 2, 2, word="cb", targets="neutral"),
    ),
)

COPA = _labelled(
    "copa",
    "COPA: which of two is the cause or effect of a premise?",
    word="copa",
    keys=_same("choice1", "choice2", "premise", "question"),
    source=_source(
        "copa",
        "COPA",
        columns={"premise": "text", "choice1": "text", "choice2": "text", "question": "text"},
        rows={"train": 400, "validation": 100, "test": 500},
        sha256="405906cddac74bc1e1ce8220f1107d1025b66a25ef10149d91b10bb30651125f",
        num_bytes=43_986,
        parse=super_glue_json.flat("premise", "choice1", "choice2", "question"),
        classes=_CHOICES,
    ),
    labels=_CHOICES,
    form=Choices(context="{premise} What was the {question}?", choices=("{choice1}", "{choice2}")),
    examples=(
        _example(
            {"premise": "It rained.", "choice1": "I got wet.", "choice2": "I ate.", "question": "effect"}
            | {"label": 0, "idx": 0},
            "copa choice1: I got wet. choice2: I ate. premise: It rained. question: effect",
            "choice1",
        ),
        _example(
            {"premise": "I slept.", "choice1": "I won.", "choice2": "I was tired.", "question": "cause"}
            | {"label": 1, "idx": 1},
            "copa choice1: I won. choice2: I was tired. premise: I slept. question: cause",
            "choice2",
        ),
        _example(
            {"premise": "P", "choice1": "A", "choice2": "B", "question": "cause", "label": -1, "idx": 2},
            "copa choice1: A choice2: B premise: P question: cause",
            UNLABELLED,
        ),
    ),
)


def _answer_index(row: RawRow) -> dict[str, int]:
    return {f"idx/{name}": row["idx"][name] for name in ("paragraph", "question", "answer")}


def without_markup(text: str) -> str:
    """Line breaks become spaces, and the marks of bold type go; other tags stay, as do these in capitals."""
    return re.sub("</?b>", "", text.replace("<br>", " "))


def _multirc_example(answer: str, label: int, number: int, *, clean: str, targets: str) -> Example:
    row = {
        "paragraph": "<b>Sent 1: </b>Ann has two dogs.<br>",
        "question": "Who has dogs?",
        "answer": answer,
        "label": label,
        "idx": {"paragraph": 0, "question": 0, "answer": number},
    }
    inputs = f"multirc question: Who has dogs? answer: {clean} paragraph: Sent 1: Ann has two dogs. "
    index = {"idx/paragraph": 0, "idx/question": 0, "idx/answer": number}
    return Example(row, ({"inputs": inputs, "targets": targets, **index},))


MULTIRC = Benchmark(
    name="super_glue_multirc_v102",
    title="MultiRC: which of the answers to a question on a paragraph are right?",
    source=_source(
        "multirc",
        "MultiRC",
        columns={"paragraph": "text", "question": "text", "answer": "text", **_ANSWER_INDEX},
        rows={"train": 27_243, "validation": 4_848, "test": 9_693},
        sha256="b3cd440856e72eb166b2edcd37b798455f1ebd51f2c3de64c0c2a4e1971d2737",
        num_bytes=1_116_225,
        parse=super_glue_json.multirc,
        classes=TRUTH,
    ),
    word=Keyed(
        word="multirc",
        columns=_same("question", "answer", "paragraph"),
        labels=TRUTH,
        index=_answer_index,
        clean=without_markup,
    ),
    postprocess=postprocessing.multirc,
    metrics=(multirc_f1_over_all_answers, mean_group_metric(all_match)),
    labels=TRUTH,
    extras={"idx/paragraph": "int", "idx/question": "int", "idx/answer": "int"},
    form=Classes(texts=("{paragraph}", "{question} {answer}"), classes=TRUTH),
    examples=(
        _multirc_example("Ann", 1, 0, clean="Ann", targets="True"),
        _multirc_example("<b>Bo</b><br>", 0, 1, clean="Bo ", targets="False"),
        _multirc_example("<i>Al</i>", -1, 2, clean="<i>Al</i>", targets=UNLABELLED),
    ),
)

_HIGHLIGHT = "\n@highlight\n"


def record(row: RawRow) -> list[WordedRow]:
    """An example for each right answer; one with ``<unk>`` where none is known. Highlights become sentences."""
    passage = re.sub(rf"([.?!\"']){_HIGHLIGHT}", r"\1 ", row["passage"]).replace(_HIGHLIGHT, ". ")
    inputs = f"record query: {row['query']} entities: {', '.join(row['entities'])} passage: {passage}"
    answers = list(row["answers"])
    common = {"inputs": inputs, "answers": answers}
    common |= {f"idx/{name}": row["idx"][name] for name in ("passage", "query")}
    return [{**common, "targets": target} for target in answers or [UNLABELLED]]


def _record_example(passage: str, *, clean: str, entities: list[str], answers: list[str]) -> Example:
    row = {"passage": passage, "query": "@placeholder won", "entities": entities, "answers": answers}
    inputs = f"record query: @placeholder won entities: {', '.join(entities)} passage: {clean}"
    rest = {"inputs": inputs, "answers": answers, "idx/passage": 0, "idx/query": 1}
    worded = tuple({**rest, "targets": target} for target in answers or [UNLABELLED])
    return Example({**row, "idx": {"passage": 0, "query": 1}}, worded)


RECORD = Benchmark(
    name="super_glue_record_v102",
    title="ReCoRD: which of a passage's entities stands in a query's gap?",
    source=_source(
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

RTE = _labelled(
    "rte",
    "RTE: does a text entail a hypothesis?",
    word="rte",
    keys=_same("hypothesis", "premise"),
    source=_source(
        "rte",
        "RTE",
        columns=_PAIR,
        rows={"train": 2_490, "validation": 277, "test": 3_000},
        sha256="6310aab3f000424c9d0318a1ff20692e07c7f4aa15e8f17a5972ea0a35c398b9",
        num_bytes=750_920,
        parse=_PAIR_PARSED,
        classes=_ENTAILMENT,
    ),
    labels=_ENTAILMENT,
    examples=(
        _pair("Oslo is in Norway.", "Norway has a city.", 0, 0, word="rte", targets="entailment"),
        _pair("Oslo is old.", "Oslo is new.", 1, 1, word="rte", targets="not_entailment"),
        _pair("A", "", -1, 2, word="rte", targets=UNLABELLED),
    ),
)

WIC = _labelled(
    "wic",
    "WiC: does a word mean the same in two sentences?",
    word="wic",
    keys=_same("sentence1", "sentence2", "word"),
    source=_source(
        "wic",
        "WiC",
        columns={
            "word": "text",
            "sentence1": "text",
            "sentence2": "text",
            **dict.fromkeys(("start1", "start2", "end1", "end2"), "int"),  # pyright: ignore[reportArgumentType]
        },
        rows={"train": 5_428, "validation": 638, "test": 1_400},
        sha256="ee7e67f4ae9eafbf533780faa198e62167f3cda54256cdf261877be3c0e90900",
        num_bytes=396_213,
        parse=super_glue_json.flat("word", "sentence1", "sentence2", "start1", "start2", "end1", "end2"),
        classes=TRUTH,
    ),
    labels=TRUTH,
    form=Classes(texts=("{word}: {sentence1}", "{sentence2}"), classes=TRUTH),
    examples=tuple(
        _example(
            {"word": "bat", "sentence1": "A bat flew.", "sentence2": second, "label": label, "idx": idx}
            | {"start1": 2, "end1": 5, "start2": 2, "end2": 5},
            f"wic sentence1: A bat flew. sentence2: {second} word: bat",
            targets,
        )
        for idx, (second, label, targets) in enumerate(
            [("A bat bit me.", 1, "True"), ("A bat hit it.", 0, "False"), ("A bat.", -1, UNLABELLED)]
        )
    ),
)

_WSC = _source(
    "wsc.fixed",
    "WSC",
    columns={
        "text": "text",
        "span1_index": "int",
        "span2_index": "int",
        "span1_text": "text",
        "span2_text": "text",
    },
    rows={"train": 554, "validation": 104, "test": 146},
    sha256="2ed6dfa94556b4a128ff0441efe365b2e883124e7e6aa00fb8d3a6cb1fd520a9",
    num_bytes=32_751,
    parse=super_glue_json.wsc_fixed,
    classes=TRUTH,
)


def _wsc_row(span: str, index: int, label: int) -> dict[str, Any]:
    row = {"text": "Ann told Bo that he won .", "span2_text": "he", "span2_index": 4, "idx": 0}
    return {**row, "span1_text": span, "span1_index": index, "label": label}


_BO, _ANN, _NOBODY = _wsc_row("Bo", 2, 1), _wsc_row("Ann", 0, 0), _wsc_row("Bo", 2, -1)
_WSC_INPUTS = "wsc: Ann told Bo that *he* won ."

WSC_SIMPLE_TRAIN = Benchmark(
    name="super_glue_wsc_v102_simple_train",
    title="WSC: whom a marked pronoun stands for, from rows where that is known",
    source=_WSC,
    splits=("train",),
    word=wsc_simple_right_only,
    extras={"label": "int", "idx": "int"},
    training_examples=259,  # rows whose first span is the right one
    examples=(
        _example(_BO, _WSC_INPUTS, "Bo", label=1),
        Example(_ANN, ()),
        _example(_NOBODY, _WSC_INPUTS, "Bo", label=-1),
    ),
)
WSC_SIMPLE_EVAL = Benchmark(
    name="super_glue_wsc_v102_simple_eval",
    title="WSC: whom a marked pronoun stands for",
    source=_WSC,
    splits=("validation", "test"),
    word=wsc_simple,
    postprocess=postprocessing.wsc_simple,
    metrics=(accuracy,),
    extras={"label": "int", "idx": "int"},
    examples=(
        _example(_BO, _WSC_INPUTS, "Bo", label=1),
        _example(_ANN, _WSC_INPUTS, "Ann", label=0),
        _example(_NOBODY, _WSC_INPUTS, "Bo", label=-1),
    ),
)
# T5 has this wording without a task of that name.
WSC_MARKED_SPANS = Benchmark(
    name="super_glue_wsc_v102_marked_spans",
    title="WSC: does a pronoun stand for a name, both marked?",
    source=_WSC,
    word=wsc_marked_spans,
    postprocess=partial(string_label_to_class_id, label_classes=TRUTH),
    metrics=(accuracy,),
    labels=TRUTH,
    extras={"idx": "int"},
    form=Classes(texts=("{text}", "{span2_text}: {span1_text}"), classes=TRUTH),
    examples=(
        _example(_BO, "wsc text: Ann told * Bo * that # he # won .", "True"),
        _example(_ANN, "wsc text: * Ann * told Bo that # he # won .", "False"),
        _example(_NOBODY, "wsc text: Ann told * Bo * that # he # won .", UNLABELLED),
    ),
)

AXB = _labelled(
    "axb",
    "AX-b: SuperGLUE's broad diagnostic pairs, worded as RTE",
    word="rte",
    keys={"hypothesis": "sentence2", "premise": "sentence1"},
    source=_source(
        "axb",
        "AX-b",
        columns={"sentence1": "text", "sentence2": "text"},
        rows={"test": 1_104},
        sha256="43b45c55a273575c58a33cd68f10a971f83daa3aa223bfbc4077b92fbdf960b3",
        num_bytes=33_950,
        parse=super_glue_json.flat("sentence1", "sentence2"),
        classes=_ENTAILMENT,
    ),
    labels=_ENTAILMENT,
    metrics=(),
    examples=tuple(
        _example(
            {"sentence1": "Ann ran.", "sentence2": "She ran.", "label": label, "idx": idx},
            "rte hypothesis: She ran. premise: Ann ran.",
            targets,
        )
        for idx, (label, targets) in enumerate([(0, "entailment"), (1, "not_entailment"), (-1, UNLABELLED)])
    ),
)
AXG = _labelled(
    "axg",
    "AX-g: SuperGLUE's diagnostic pairs on gender, worded as RTE",
    word="rte",
    keys=_same("hypothesis", "premise"),
    source=_source(
        "axg",
        "AX-g",
        columns=_PAIR,
        rows={"test": 356},
        sha256="2d4e00d3a7d23d2c3787ee4c1382cc81a72cb05a76fc9d78d142949247ed61b9",
        num_bytes=10_413,
        parse=_PAIR_PARSED,
        classes=_ENTAILMENT,
    ),
    labels=_ENTAILMENT,
    metrics=(),
    examples=(
        _pair("The cook met him.", "A cook met him.", 0, 0, word="rte", targets="entailment"),
        _pair("The cook met him.", "The cook met her.", 1, 1, word="rte", targets="not_entailment"),
        _pair("A", " B", -1, 2, word="rte", targets=UNLABELLED),
    ),
)

BENCHMARKS = (
    BOOLQ, CB, COPA, MULTIRC, RECORD, RTE, WIC, WSC_SIMPLE_TRAIN, WSC_SIMPLE_EVAL, WSC_MARKED_SPANS, AXB, AXG,
)  # fmt: skip
_MIXED = (
    dpr.DPR, WSC_SIMPLE_TRAIN, WSC_SIMPLE_EVAL, BOOLQ, CB, COPA, MULTIRC, RECORD, RTE, WIC, AXB, AXG,
)  # fmt: skip
MIXTURES = {
    "super_glue_v102_proportional": {each.name: float(each.num_training_examples) for each in _MIXED},
    "wsc_dpr_simple_proportional": {each.name: float(each.num_training_examples) for each in _MIXED[:3]},
}
