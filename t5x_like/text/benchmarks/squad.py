"""SQuAD (Rajpurkar et al. 2016, https://rajpurkar.github.io/SQuAD-explorer): T5's templates and the head's format."""

import re
from collections.abc import Callable, Mapping
from functools import partial

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED
from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, FileLayout, Kind, files_in, plain_files
from t5x_like.text.benchmarks.squad_json import read_squad
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.metrics import bleu, rouge, span_squad, squad
from t5x_like.text.postprocessing import qa, span_qa
from t5x_like.text.templates import RowValues

UNANSWERABLE = "unanswerable"

_SERVER = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_COLUMNS: Columns = {
    "id": "text",
    "title": "text",
    "context": "text",
    "question": "text",
    "answers": {"text": "texts", "answer_start": "ints"},
}
# As in RE2, which T5 uses: ASCII only, so a no-break space is not a space.
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"[\t\n\f\r ]+")
_NO_WORD = re.compile(r"[^0-9A-Za-z_]")


def pad_punctuation(text: str) -> str:
    """Put spaces around ASCII punctuation; runs of spaces become one, also at both ends."""
    return _SPACES.sub(" ", _PUNCTUATION.sub(r" \1 ", text))


def split_words(text: str) -> list[str]:
    """Split at every character that is not an ASCII letter or digit; two of these in a row enclose an empty word."""
    return _NO_WORD.sub(" ", text).split(" ")


def find_answer_words(answer: str, context: str) -> tuple[int, int] | None:
    """Find the answer's first occurrence in the context; return the numbers of its first and last word.

    As in T5, an answer at the very end of the context is not found.

    Args:
      answer: Text of the answer.
      context: Paragraph to search.
    """
    wanted, words = split_words(answer), split_words(context)
    for start in range(len(words) - len(wanted)):
        if words[start : start + len(wanted)] == wanted:
            return start, start + len(wanted) - 1
    return None


def word_answers(
    row: RowValues, *, with_context: bool = True, unanswered: str = UNLABELED
) -> list[FormattedRow]:
    """Word a question with its first answer as the target; ``answers`` has all right answers.

    Args:
      row: The row.
      with_context: Include the paragraph.
      unanswered: Target of rows without answers.
    """
    answers = [pad_punctuation(answer) for answer in row["answers"]["text"]]
    context, question = pad_punctuation(row["context"]), pad_punctuation(row["question"])
    inputs = (
        f"question: {question} context: {context}" if with_context else f"squad trivia question: {question}"
    )
    if not answers and unanswered != UNLABELED:
        answers = [unanswered]
    return [
        {
            "inputs": _SPACES.sub(" ", inputs),
            "targets": answers[0] if answers else unanswered,
            "id": row["id"],
            "context": context,
            "question": question,
            "answers": answers,
        }
    ]


def word_places(row: RowValues) -> list[FormattedRow]:
    """Word a question as ``word_answers``, with targets like ``start: 11 end: 12``.

    Rows whose answer isn't found are left out.
    """
    (formatted,) = word_answers(row)
    if formatted["targets"] == UNLABELED:
        return [formatted]
    span = find_answer_words(formatted["targets"], formatted["context"])
    return [{**formatted, "targets": f"start: {span[0]} end: {span[1]}"}] if span else []


def word_questions(row: RowValues) -> list[FormattedRow]:
    """Word an answer and its paragraph, with the question as the target (Du et al. 2017, arXiv:1705.00106).

    The answer comes first, so that a long paragraph is cut and not the answer. Of several answers the first is taken.
    """
    answers = row["answers"]["text"]
    if not answers:
        return []
    return [{"inputs": f"answer: {answers[0]} context: {row['context']}", "targets": row["question"]}]


def _source(
    version: str, rows: Mapping[str, int], checked: Mapping[str, tuple[int, str]], hugging_face: str
) -> BenchmarkSource:
    files = {"train": f"train-v{version}.json", "validation": f"dev-v{version}.json"}
    return BenchmarkSource(
        tfds=f"squad/v{version}:3.0.0",
        hugging_face=hugging_face,
        layouts=(FileLayout(files=files_in(("squad", "SQuAD", ""), files), read=read_squad),),
        rows=rows,
        downloads=plain_files(_SERVER, "squad", {files[split]: sizes for split, sizes in checked.items()}),
        home="https://rajpurkar.github.io/SQuAD-explorer",
        citation="Rajpurkar et al. 2016, SQuAD, https://arxiv.org/abs/1606.05250; 2018, https://arxiv.org/abs/1806.03822",
        license="CC BY-SA 4.0",
        columns=_COLUMNS,
    )


_V1 = _source(
    "1.1",
    {"train": 87_599, "validation": 10_570},
    {
        "train": (30_288_272, "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"),
        "validation": (4_854_279, "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"),
    },
    "squad",
)
_V2 = _source(
    "2.0",
    {"train": 130_319, "validation": 11_873},
    {
        "train": (42_123_633, "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"),
        "validation": (4_370_528, "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"),
    },
    "squad_v2",
)

_WORDS = "The old mill (1702) burned down in March; nobody was hurt."
_PADDED = "The old mill ( 1702 ) burned down in March ; nobody was hurt . "


def _row(question: str, answers: Mapping[str, int]) -> dict[str, object]:
    labels = {"text": list(answers), "answer_start": list(answers.values())}
    return {"id": "m1", "title": "Mill", "context": _WORDS, "question": question, "answers": labels}


_ASKED = (
    (_row("When did it burn?", {"March": 35, "in March": 32}), "When did it burn ? ", ["March", "in March"]),
    (_row("Who was hurt?", {"nobody": 42}), "Who was hurt ? ", ["nobody"]),
    (_row("How old?", {"(1702)": 13}), "How old ? ", [" ( 1702 ) "]),
)


def _examples(inputs: Callable[[str], str], targets: tuple[str | None, ...]) -> tuple[GoldenExample, ...]:
    """Return golden examples for three rows; ``None`` as the target means that the row is left out."""
    examples = []
    for (row, question, answers), answer in zip(_ASKED, targets, strict=True):
        formatted = {"inputs": inputs(question), "targets": answer, "id": "m1", "context": _PADDED}
        formatted |= {"question": question, "answers": answers}
        examples.append(GoldenExample(row, () if answer is None else (formatted,)))
    return tuple(examples)


def _with_context(question: str) -> str:
    return f"question: {question}context: {_PADDED}"


_EXTRAS: Mapping[str, Kind] = {"id": "text", "context": "text", "question": "text", "answers": "texts"}
_FIRST = ("March", "nobody", " ( 1702 ) ")
_FORM = QuestionAnswering()

ALL_ANSWERS = Benchmark(
    name="squad_v010_allanswers",
    title="SQuAD 1.1: questions with answers in a paragraph",
    source=_V1,
    word=word_answers,
    question_columns=("question", "context"),
    postprocess=qa,
    metrics=(squad,),
    extras=_EXTRAS,
    head=_FORM,
    examples=_examples(_with_context, _FIRST),
)
PLACES = Benchmark(
    name="squad_v010_allanswers_span",
    title="SQuAD 1.1, answered by the numbers of the paragraph's words",
    source=_V1,
    word=word_places,
    question_columns=("question", "context"),
    postprocess=span_qa,
    metrics=(span_squad,),
    extras=_EXTRAS,
    head=_FORM,
    examples=_examples(_with_context, ("start: 11 end: 11", "start: 14 end: 14", None)),
)
CONTEXT_FREE = Benchmark(
    name="squad_v010_context_free",
    head_task="squad_v010_allanswers",
    title="SQuAD 1.1 without its paragraphs: what does a model know by heart?",
    source=_V1,
    word=partial(word_answers, with_context=False),
    question_columns=("question",),
    postprocess=qa,
    metrics=(squad,),
    extras=_EXTRAS,
    examples=_examples(lambda question: f"squad trivia question: {question}", _FIRST),
)
QUESTIONS = Benchmark(
    name="squad_v1_questions",
    head_task="squad_v010_allanswers",
    title="SQuAD 1.1 the other way: the question to an answer in a paragraph",
    source=_V1,
    word=word_questions,
    question_columns=("context",),
    metrics=(bleu, rouge),
    examples=tuple(
        GoldenExample(
            row,
            ({"inputs": f"answer: {answer} context: {_WORDS}", "targets": row["question"]},),
        )
        for (row, _, _), answer in zip(_ASKED, ("March", "nobody", "(1702)"), strict=True)
    ),
)
VERSION_2 = Benchmark(
    name="squad_v2_allanswers",
    title="SQuAD 2.0: as 1.1, and questions to which the paragraph has no answer",
    source=_V2,
    word=partial(word_answers, unanswered=UNANSWERABLE),
    question_columns=("question", "context"),
    postprocess=qa,
    metrics=(squad,),
    extras=_EXTRAS,
    head=QuestionAnswering(unanswerable=True),
    examples=(
        *_examples(_with_context, _FIRST)[:2],
        GoldenExample(
            _row("Who built it?", {}),
            (
                {"inputs": _with_context("Who built it ? "), "targets": UNANSWERABLE, "id": "m1"}
                | {"context": _PADDED, "question": "Who built it ? ", "answers": [UNANSWERABLE]},
            ),
        ),
    ),
)

BENCHMARKS = (ALL_ANSWERS, PLACES, CONTEXT_FREE, QUESTIONS, VERSION_2)
