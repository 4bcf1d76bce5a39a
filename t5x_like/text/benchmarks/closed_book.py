"""Questions without a text to read: Natural Questions and TriviaQA, in T5's templates (Roberts et al. 2020).

``nq question: …`` and ``trivia_qa question: …`` are the inputs of
https://github.com/google-research/google-research/tree/master/t5_closed_book_qa, whose targets are first answers.
"""

from collections.abc import Iterator

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED
from t5x_like.text.benchmarks.record_files import RecordFiles, parse_records, records_at_top
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in
from t5x_like.text.metrics import squad, trivia_qa
from t5x_like.text.postprocessing import qa
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues


def word_nq(row: RowValues) -> list[FormattedRow]:
    """Word a question of Natural Questions; the target is its first answer."""
    answers: list[str] = list(row["answer"])
    targets = answers[0] if answers else UNLABELED
    return [{"inputs": f"nq question: {row['question']}", "targets": targets, "answers": answers}]


def _nq_record(record: RowValues) -> Iterator[dict[str, object]]:
    answers = list(record["answer"])
    if not answers:
        raise ValueError("the question has no answer")
    yield {"question": record["question"], "answer": answers}


def _nq(question: str, *answers: str) -> GoldenExample:
    formatted = {"inputs": f"nq question: {question}", "targets": answers[0], "answers": list(answers)}
    return GoldenExample({"question": question, "answer": list(answers)}, (formatted,))


NATURAL_QUESTIONS = Benchmark(
    name="natural_questions_open",
    title="Natural Questions without a text: short answers to questions that people asked Google",
    source=BenchmarkSource(
        tfds="natural_questions_open:1.0.0",
        hugging_face="nq_open",
        layouts=(
            FileLayout(
                files=files_in(
                    ("nq_open", "natural_questions_open", "natural-questions/nq_open"),
                    {"train": "NQ-open.train.jsonl", "validation": "NQ-open.dev.jsonl"},
                ),
                read=RecordFiles(parse=_nq_record),
            ),
        ),
        rows={"train": 87_925, "validation": 3_610},
        home="https://github.com/google-research-datasets/natural-questions/tree/master/nq_open",
        citation="Kwiatkowski et al. 2019, https://aclanthology.org/Q19-1026; Lee et al. 2019, "
        "https://arxiv.org/abs/1906.00300; Roberts et al. 2020, https://arxiv.org/abs/2002.08910",
        license="CC BY-SA 3.0",
        columns={"question": "text", "answer": "texts"},
    ),
    word=word_nq,
    question_columns=("question",),
    postprocess=qa,
    metrics=(squad,),
    extras={"answers": "texts"},
    examples=(
        _nq("when did the old mill burn", "March", "in March"),
        _nq("who built the mill", "Ann Lee"),
        _nq("what is  1702?", "a year", "1702"),
    ),
)


def word_trivia(row: RowValues) -> list[FormattedRow]:
    """Word a question of TriviaQA; the target is its answer, and each alias is right."""
    inputs = f"trivia_qa question: {row['question']}"
    return [{"inputs": inputs, "targets": row["answer"]["value"], "answers": list(row["answer"]["aliases"])}]


def _read_trivia(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read the questions of TriviaQA's JSON; only those of a test split may lack an answer. See ``source.Reader``.

    Raises:
      ValueError: The file is not JSON, or not TriviaQA's.
    """
    questions = records_at_top(file, "Data", data_set="TriviaQA")

    def rows(raw: RawRow) -> Iterator[RawRow]:
        question = raw.values
        answer = question.get("Answer") if split.startswith("test") else question["Answer"]
        shown = {"value": UNLABELED, "aliases": []}
        if answer is not None:
            shown = {"value": answer["Value"], "aliases": list(answer["Aliases"])}
        row = {"question": question["Question"], "question_id": question["QuestionId"], "answer": shown}
        yield RawRow(row, raw.location)

    return parse_records(questions, rows, record="question or its answer", data_set="TriviaQA")


def _trivia(question: str, value: str, *aliases: str) -> GoldenExample:
    answer = {"value": value, "aliases": list(aliases)}
    formatted = {"inputs": f"trivia_qa question: {question}", "targets": value, "answers": list(aliases)}
    return GoldenExample({"question": question, "question_id": "tc_1", "answer": answer}, (formatted,))


TRIVIA_QA = Benchmark(
    name="trivia_qa_open",
    title="TriviaQA without a text: questions of quizzes",
    source=BenchmarkSource(
        tfds="trivia_qa/unfiltered.nocontext:1.1.0",
        layouts=(
            FileLayout(
                files=files_in(
                    ("trivia_qa/triviaqa-unfiltered", "triviaqa-unfiltered", "trivia_qa"),
                    {
                        "train": "unfiltered-web-train.json",
                        "validation": "unfiltered-web-dev.json",
                        "test": "unfiltered-web-test-without-answers.json",
                    },
                ),
                read=_read_trivia,
            ),
        ),
        rows={"train": 87_622, "validation": 11_313, "test": 10_832},
        home="https://nlp.cs.washington.edu/triviaqa (triviaqa-unfiltered.tar.gz, unpacked in trivia_qa/)",
        citation="Joshi et al. 2017, https://arxiv.org/abs/1705.03551; Roberts et al. 2020, "
        "https://arxiv.org/abs/2002.08910",
        license="none is stated; cite the paper",
        columns={
            "question": "text",
            "question_id": "text",
            "answer": {"value": "text", "aliases": "texts"},
        },
    ),
    word=word_trivia,
    question_columns=("question",),
    postprocess=qa,
    metrics=(trivia_qa,),
    extras={"answers": "texts"},
    examples=(
        _trivia("Which mill burned in 1702?", "The Old Mill", "Old Mill", "The Old Mill"),
        _trivia("Who built it?", "Ann Lee", "Ann Lee", "A. Lee"),
        _trivia("And who sold it?", UNLABELED),
    ),
)

BENCHMARKS = (NATURAL_QUESTIONS, TRIVIA_QA)
