"""Example rows of every benchmark in its head format: read, encoded, and scored 100 for the true answers."""

import pytest

from t5x_like.text.batches.head_questions import HeadQuestions
from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.heads import (
    CandidateRanking,
    ExtractiveSummarization,
    QuestionAnswering,
    Regression,
    TokenClassification,
)
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.vocabularies.opening import open_tokenizer
from tests.slow_cases import slow_except

READ_BY_HEADS = sorted(
    name for name, benchmark in catalogue.benchmarks().items() if benchmark.head is not None
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    characters = [chr(code) for code in range(33, 127)]
    pieces = [piece for character in characters for piece in (character, f"##{character}")]
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]) + "\n")
    return open_tokenizer(str(file), 0)


# Slow are those that other files of the same form give.
EACH_FORM = [
    name for name in READ_BY_HEADS if not name.startswith(("xnli_", "mrqa_", "anli_", "cbt_", "race_"))
]
EACH_FORM += ["anli_r1", "cbt_cn", "mrqa_drop", "mrqa_race", "xnli_en"]


def true_answer(form, row):
    if isinstance(form, Regression):
        return row.value if form.is_labeled(row) else form.lowest
    if isinstance(form, QuestionAnswering):
        return row.texts[0][1][slice(*row.answers[0])] if row.answers else ""
    if isinstance(form, TokenClassification):
        return [max(tag, 0) for tag in row.tags]
    if isinstance(form, ExtractiveSummarization):
        return form.target(row) if form.is_labeled(row) else row.words[0]
    if isinstance(form, CandidateRanking):
        return [*form.target(row), row.candidates[0]][0]
    return max(row.label, 0)


@pytest.mark.parametrize("name", slow_except(READ_BY_HEADS, EACH_FORM))
def test_true_answers_score_100(name, tokenizer):
    benchmark = catalogue.benchmark(name)
    form = benchmark.head
    assert form is not None
    read = [form.read(example.row)._replace(values=example.row) for example in benchmark.examples]
    examples = make_examples(form, read, tokenizer, length=64)
    questions = HeadQuestions(
        task=name,
        read=read,
        examples=examples,
        lengths=Lengths(64, 2),
        zero_is_padding=True,
        metrics=form.metrics(benchmark.metrics),
        benchmark=benchmark,
    )
    answers = [true_answer(form, each) for each in read]
    scores = questions.score(answers)
    assert bool(scores) == any(form.is_labeled(each) for each in read)
    assert list(scores.values()) == [pytest.approx(100.0)] * len(scores)
    for each, row in zip(read, questions.rows(answers), strict=True):
        assert (row["target"] is not None) == form.is_labeled(each)
        named = {column: row[column] for column in ("id", "idx") if column in each.values}  # as scorers ask
        assert named == {column: each.values[column] for column in named}
