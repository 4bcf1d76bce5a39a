"""decaNLP's QA-SRL, QA-ZRE and modified Winograd schemas, from their own files.

Questions and contexts are those of https://github.com/salesforce/decaNLP, text/torchtext/datasets/generic.py.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.decathlon_template import QuestionContext, question_template
from t5x_like.text.benchmarks.source import BenchmarkSource, Download, FileLayout, files_in, plain_files
from t5x_like.text.metrics import accuracy, squad
from t5x_like.text.metrics.structured_answers import UNANSWERABLE, relation_f1
from t5x_like.text.postprocessing import qa
from t5x_like.text.tasks.rows import BadRow, RawRow, convert
from t5x_like.text.tasks.text_lines import Line, blocks_of, text_lines
from t5x_like.text.templates import RowValues

_PAPER = "McCann et al. 2018, https://arxiv.org/abs/1806.08730"
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LAB-": "<", "-RAB-": ">", "-AMP-": "&", "%pw": " "}
_BEFORE_NO_SPACE = re.compile(r" ([.,;!?:)%]|'ll|n't |'t|'s|'m|'d|'re)")
_AFTER_NO_SPACE = re.compile(r"([($]) ")
_QUOTES = re.compile(r"``|`|''|“|”")
_SENTENCE_ID = re.compile(r"WIKI1_\d+\s")
_VERB = re.compile(r"\d+\s+\S+\s+\d+$")


def without_treebank_marks(text: str) -> str:
    """Return a sentence of the Penn Treebank's tokens as plain text, as decaNLP makes it."""
    text = " ".join(text.split())
    for mark, sign in _BRACKETS.items():
        text = text.replace(mark, sign)
    text = _AFTER_NO_SPACE.sub(r"\1", _BEFORE_NO_SPACE.sub(r"\1", text)).replace(" - ", "-")
    return " ".join(_QUOTES.sub("", text).replace(" '", "").split())


def _read_semantic_roles(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read QA-SRL's sentences with a row for each question. See ``source.Reader``.

    A block has a line ``WIKI1_0 2``, the sentence, and for each verb ``9 sold 3`` and lines of questions in seven slots
    with their answers: ``what was _ sold _ _ _ ? the mill ### a mill``.
    """
    del split
    for block in blocks_of(text_lines(file)):
        yield from block.faults
        lines = [line for line in block.lines if not _is_heading(line.text.strip())]
        yield from convert(lines[1:], partial(_question, lines[0].text if lines else ""))


def _is_heading(line: str) -> bool:
    """Return whether a line has the number of a sentence, or names a verb."""
    return bool(_SENTENCE_ID.match(f"{line} ") or _VERB.match(line))


def _question(sentence: str, line: Line) -> RawRow:
    question, mark, answers = line.text.strip().partition("?")
    if not mark or not answers.strip():
        raise ValueError(f"no question with '?' and answers after it: {line.text.strip()!r}")
    slots = [slot for slot in question.split() if slot != "_"]
    values = {
        "sentence": without_treebank_marks(sentence),
        "question": without_treebank_marks(f"{' '.join(slots)}?"),
        "answers": [without_treebank_marks(answer) for answer in answers.split("###")],
    }
    return RawRow(values, line.location)


def _read_relations(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read QA-ZRE's lines: relation, question with XXX, entity, sentence and answers, if there are any."""
    del split
    return convert((line.fault or line for line in text_lines(file)), _relation)


def _relation(line: Line) -> RawRow:
    cells = line.text.split("\t")
    if len(cells) < 4:
        raise ValueError(f"{len(cells)} cells, where relation, question, entity and sentence are needed")
    relation, question, entity, sentence, *answers = cells
    values = {"relation": relation, "question": question.replace("XXX", entity), "sentence": sentence}
    return RawRow({**values, "answers": [answer for answer in answers if answer]}, line.location)


_VARIANTS = re.compile(r"\[([^\[\]/]*)/([^\[\]/]*)\]")
_NUM_TEST, _NUM_TRAIN = 100, 80


def _read_pronouns(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read two rows for each modified Winograd schema: a text, a question and two answers. See ``source.Reader``.

    A schema is three lines, ``It is too [small/large].``, ``What is too [small/large]?`` and ``suitcase/trophy``, and a
    blank one. As in decaNLP the last 100 rows are for tests, and the first 80 to train on; a schema at the end of the
    file without a blank line isn't read. Of several variants in a line each is chosen, where decaNLP's code joins them.
    """
    rows = list[RawRow | BadRow]()
    lines = list(text_lines(file))
    blocks = list(blocks_of(lines))
    if not lines or not lines[-1].is_blank:
        blocks = blocks[:-1]
    for schema in blocks:
        location, block = schema.location, [line.text.strip() for line in schema.lines]
        if schema.faults:
            yield from schema.faults
            continue
        if len(block) != 3 or block[2].count("/") != 1:
            yield BadRow(f"{len(block)} lines, where a text, a question and two answers are needed", location)
            continue
        answers = block[2].split("/")
        for variant in range(2):
            text, question = (_VARIANTS.sub(rf"\{variant + 1}", line) for line in block[:2])
            row = {"sentence": text, "question": f"{question} {answers[0]} or {answers[1]}?"}
            rows.append(RawRow({**row, "answer": answers[variant]}, location))
    first, end = {
        "train": (0, _NUM_TRAIN),
        "validation": (_NUM_TRAIN, max(len(rows) - _NUM_TEST, _NUM_TRAIN)),
        "test": (max(len(rows) - _NUM_TEST, _NUM_TRAIN), len(rows)),
    }[split]
    yield from rows[first:end]


def ask_roles(row: RowValues) -> QuestionContext:
    """Return QA-SRL's own question."""
    return QuestionContext(row["question"], row["sentence"], tuple(row["answers"]))


def ask_relation(row: RowValues) -> QuestionContext:
    """Return QA-ZRE's own question; its answers are one text."""
    return QuestionContext(row["question"], row["sentence"], (", ".join(row["answers"]) or UNANSWERABLE,))


def ask_pronoun(row: RowValues) -> QuestionContext:
    """Return the schema's own question."""
    return QuestionContext(row["question"], row["sentence"], (row["answer"],))


def _example(
    row: RowValues, question: str, context: str, answer: str, **extras: Sequence[str]
) -> GoldenExample:
    formatted = {"inputs": f"question: {question} context: {context}", "targets": answer}
    return GoldenExample(row, ({**extras, **formatted, "question": question, "context": context},))


def _roles_example(question: str, *answers: str) -> GoldenExample:
    row = {"sentence": "The mill was sold in March.", "question": question, "answers": list(answers)}
    return _example(row, question, row["sentence"], answers[0], answers=list(answers))


SEMANTIC_ROLES = Benchmark(
    name="decanlp_qa_srl",
    title="decaNLP: QA-SRL, questions about a verb's arguments",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("qasrl", "decanlp/srl", "srl"),
                    {"train": "wiki1.train.qa", "validation": "wiki1.dev.qa", "test": "wiki1.test.qa"},
                ),
                read=_read_semantic_roles,
            ),
        ),
        rows={"train": 6_414, "validation": 2_183, "test": 2_201},
        downloads=plain_files(
            "https://dada.cs.washington.edu/qasrl/data",
            "qasrl",
            {f"wiki1.{split}.qa": (None, None) for split in ("train", "dev", "test")},
        ),
        home="https://dada.cs.washington.edu/qasrl",
        citation=f"He et al. 2015, https://aclanthology.org/D15-1076; {_PAPER}",
        license="none is stated; cite the paper",
        columns={"sentence": "text", "question": "text", "answers": "texts"},
    ),
    word=question_template(ask_roles, "answers"),
    question_columns=("question", "sentence"),
    postprocess=qa,
    metrics=(squad,),
    extras={"question": "text", "context": "text", "answers": "texts"},
    examples=(
        _roles_example("what was sold?", "The mill"),
        _roles_example("when was something sold?", "in March", "March"),
        _roles_example("who sold something?", "nobody"),
    ),
)


def _relation_example(question: str, answer: str, *answers: str) -> GoldenExample:
    row = {"relation": "built by", "question": question, "sentence": "Ann and Bo built the mill."}
    return _example({**row, "answers": list(answers)}, question, row["sentence"], answer)


RELATIONS = Benchmark(
    name="decanlp_qa_zre",
    title="decaNLP: QA-ZRE, a relation as a question that a sentence may not answer",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("relation_splits", "zre/relation_splits", "decanlp/zre/relation_splits"),
                    {"train": "train.0", "validation": "dev.0", "test": "test.0"},
                ),
                read=_read_relations,
            ),
        ),
        rows={"train": 840_000, "validation": 600, "test": 12_000},
        downloads=(
            Download(url="http://nlp.cs.washington.edu/zeroshot/relation_splits.tar.bz2", unpack={"": ""}),
        ),
        home="http://nlp.cs.washington.edu/zeroshot",
        citation=f"Levy et al. 2017, https://arxiv.org/abs/1706.04115; {_PAPER}",
        license="none is stated; cite the paper",
        columns={"relation": "text", "question": "text", "sentence": "text", "answers": "texts"},
    ),
    word=question_template(ask_relation),
    question_columns=("question", "sentence"),
    metrics=(relation_f1,),
    extras={"question": "text", "context": "text"},
    examples=(
        _relation_example("Who built the mill?", "Ann, Bo", "Ann", "Bo"),
        _relation_example("Who sold the mill?", UNANSWERABLE),
        _relation_example("What did Ann build?", "the mill", "the mill"),
    ),
)


def _pronoun_example(variant: str, answer: str) -> GoldenExample:
    sentence = f"The trophy doesn't fit into the suitcase because it is too {variant}."
    question = f"What is too {variant}? suitcase or trophy?"
    return _example(
        {"sentence": sentence, "question": question, "answer": answer}, question, sentence, answer
    )


PRONOUNS = Benchmark(
    name="decanlp_mwsc",
    title="decaNLP: modified Winograd schemas, which of two a pronoun means",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("decanlp", "schema", "decanlp/schema"),
                    dict.fromkeys(("train", "validation", "test"), "schema.txt"),
                ),
                read=_read_pronouns,
            ),
        ),
        rows={"train": 80, "validation": 82, "test": 100},
        downloads=plain_files(
            "https://raw.githubusercontent.com/salesforce/decaNLP/master/local_data",
            "decanlp",
            {"schema.txt": (None, None)},
        ),
        home="https://github.com/salesforce/decaNLP (local_data/schema.txt)",
        citation=f"Levesque et al. 2012, https://aaai.org/papers/4492; {_PAPER}",
        license="BSD 3-clause",
        columns={"sentence": "text", "question": "text", "answer": "text"},
    ),
    word=question_template(ask_pronoun),
    question_columns=("question", "sentence"),
    metrics=(accuracy,),
    extras={"question": "text", "context": "text"},
    examples=(
        _pronoun_example("small", "suitcase"),
        _pronoun_example("large", "trophy"),
        _pronoun_example("old", "suitcase"),
    ),
)
