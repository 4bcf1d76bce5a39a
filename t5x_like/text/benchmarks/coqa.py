"""CoQA: questions in conversations about a story (Reddy et al. 2019, https://stanfordnlp.github.io/coqa)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, parse_records, records_at_top
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in
from t5x_like.text.metrics import coqa
from t5x_like.text.postprocessing import qa
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues


def _read_coqa(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a row for each question, with the questions and answers before it. See ``source.Reader``.

    Raises:
      ValueError: The file is not JSON, or not CoQA's.
    """
    del split
    stories = records_at_top(file, "data", data_set="CoQA")

    def rows(story: RawRow) -> list[RawRow]:
        turns = enumerate(_rows(story.values))
        return [RawRow(row, f"{story.location}.questions[{turn}]") for turn, row in turns]

    return parse_records(stories, rows, record="story or one of its turns", data_set="CoQA")


def _rows(story: RowValues) -> list[dict[str, object]]:
    questions = [_text_of(turn, number) for number, turn in enumerate(story["questions"], start=1)]
    answers = [_text_of(turn, number) for number, turn in enumerate(story["answers"], start=1)]
    others = [
        [_text_of(turn, number) for number, turn in enumerate(turns, start=1)]
        for turns in story.get("additional_answers", {}).values()
    ]
    return turns_of(str(story["id"]), story["story"], questions, [answers, *others])


def _text_of(turn: Mapping[str, Any], number: int) -> str:
    if turn["turn_id"] != number:
        raise ValueError(
            f"turn_id {turn['turn_id']} where {number} is expected; a turn is missing or out of order"
        )
    return turn["input_text"]


def turns_of(
    name: str, story: str, questions: Sequence[str], answers: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the rows of a conversation.

    Args:
      name: Id of the story.
      story: The story.
      questions: Questions in order.
      answers: Each person's answers to all questions; the first person's are the history of later questions.

    Raises:
      ValueError: A person answered another number of questions.
    """
    for texts in answers:
        if len(texts) != len(questions):
            raise ValueError(
                f"{len(questions)} questions, but {len(texts)} answers; there must be one for each"
            )
    return [
        {
            "id": name,
            "turn": turn + 1,
            "story": story,
            "history": [text for pair in zip(questions[:turn], answers[0], strict=False) for text in pair],
            "question": question,
            "answers": [texts[turn] for texts in answers],
        }
        for turn, question in enumerate(questions)
    ]


def _hub_turns(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert one of Hugging Face's stories, which have one person's answers and no id."""
    answers = list(record["answers"]["input_text"])
    yield from turns_of(str(record.get("id", "")), record["story"], list(record["questions"]), [answers])


def word_turn(row: RowValues) -> list[FormattedRow]:
    """Word a question with the conversation before it, then the story, which is cut first if it is too long.

    ``coqa question: Who fell? answer: Ann question: Where? story: Ann fell in Oslo.`` The template is ours.

    Raises:
      ValueError: The history is not pairs of questions and answers.
    """
    history: list[str] = list(row["history"])
    if len(history) % 2:
        raise ValueError(f"the history has {len(history)} texts; it must have an answer for each question")
    before = [
        f"question: {question} answer: {answered}"
        for question, answered in zip(history[::2], history[1::2], strict=True)
    ]
    answers = list(row["answers"])
    inputs = " ".join(["coqa", *before, f"question: {row['question']} story: {row['story']}"])
    return [
        {
            "inputs": inputs,
            "targets": answers[0] if answers else UNLABELED,
            "id": row["id"],
            "turn": row["turn"],
            "answers": answers,
        }
    ]


_STORY = "Ann fell in Oslo.\nBo ran."


def _examples() -> tuple[GoldenExample, ...]:
    questions = ("Who fell?", "Where?", "Did Bo?")
    rows = turns_of("s1", _STORY, questions, [["Ann", "in Oslo", "no"], ["Ann did", "Oslo", "No, he ran"]])
    history = (
        "",
        "question: Who fell? answer: Ann ",
        "question: Who fell? answer: Ann question: Where? answer: in Oslo ",
    )
    return tuple(
        GoldenExample(
            row,
            (
                {
                    "inputs": f"coqa {before}question: {row['question']} story: {_STORY}",
                    "targets": row["answers"][0],
                    "id": "s1",
                    "turn": row["turn"],
                    "answers": row["answers"],
                },
            ),
        )
        for row, before in zip(rows, history, strict=True)
    )


_FILES = {"train": "coqa-train-v1.0.json", "validation": "coqa-dev-v1.0.json"}
COQA = Benchmark(
    name="coqa",
    title="CoQA: questions in a conversation about a story, answered freely",
    source=BenchmarkSource(
        layouts=(
            FileLayout(files=files_in(("coqa", "CoQA", ""), _FILES), read=_read_coqa),
            hub_layout("coqa", tuple(_FILES), RecordFiles(parse=_hub_turns)),
        ),
        rows={"train": 108_647, "validation": 7_983},
        home="https://stanfordnlp.github.io/coqa",
        citation="Reddy et al. 2019, https://arxiv.org/abs/1808.07042",
        license="each domain has its own; see https://stanfordnlp.github.io/coqa",
        columns={
            "id": "text",
            "turn": "int",
            "story": "text",
            "history": "texts",
            "question": "text",
            "answers": "texts",
        },
    ),
    word=word_turn,
    question_columns=("story", "history", "question"),
    postprocess=qa,
    metrics=(coqa,),
    extras={"id": "text", "turn": "int", "answers": "texts"},
    examples=_examples(),
)

BENCHMARKS = (COQA,)
