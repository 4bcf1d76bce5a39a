"""From a head's scores to answers: spans among windows, no answer, words' classes, and what metrics compare."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.evaluation.head_predictor import HeadPredictor, head_predictions
from t5x_like.evaluation.span_answers import SpanSearch, best_thresholds
from t5x_like.model import parameters
from t5x_like.model.families.ensemble import Ensemble
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text.batches.head_questions import HeadQuestions
from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.heads import (
    CandidateRanking,
    MultiLabelClassification,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    TokenClassification,
)
from t5x_like.text.heads.span_head import squad_or_none
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.vocabularies.opening import open_tokenizer

CONTEXT = "a b c, d e f g h"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    letters = [letter for character in "abcdefgh" for letter in (character, f"##{character}")]
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", *letters]) + "\n")
    return open_tokenizer(str(file), 0)


def questions_of(tokenizer, form, rows, *, length=16, stride=3):
    read = [form.read(values)._replace(values=values) for values in rows]
    examples = make_examples(form, read, tokenizer, length=length, stride=stride)
    return HeadQuestions(
        task="task",
        read=read,
        examples=examples,
        lengths=Lengths(length, 2),
        zero_is_padding=True,
        metrics=form.metrics(()),
    )


def question(text, start):
    answers = {"text": [text], "answer_start": [start]} if text else {"text": [], "answer_start": []}
    return {"question": "a b", "context": CONTEXT, "answers": answers}


def perfect_scores(questions, *, null=1.0):
    """What a head would say that knows the labels; ``null`` for no answer."""
    scores = []
    for index in range(len(questions.examples)):
        example = questions.examples.example(index)
        ends = np.zeros((questions.lengths.inputs, 2), np.float32)
        ends[0] = null / 2
        if example.span != (0, 0):
            ends[example.span[0], 0] = ends[example.span[1], 1] = 5.0
        scores.append(ends)
    return scores


def test_the_answer_is_found_in_the_window_that_holds_it(tokenizer):
    rows = [question("c, d", CONTEXT.index("c")), question("g h", CONTEXT.index("g")), question("b", 2)]
    questions = questions_of(tokenizer, QuestionAnswering(), rows, length=10)
    assert len(questions.examples) > len(rows)
    answers, _ = head_predictions(questions, perfect_scores(questions), SpanSearch(max_answer_length=5))
    assert answers == ["c, d", "g h", "b"]
    assert questions.score(answers) == {"em": 100.0, "f1": 100.0}
    assert questions.rows(answers)[0]["target"] == ["c, d"]


def test_no_answer_is_predicted_only_where_there_may_be_none(tokenizer):
    rows = [question("g h", CONTEXT.index("g")), question("", 0)]
    questions = questions_of(tokenizer, QuestionAnswering(unanswerable=True), rows, length=10)
    scores = perfect_scores(questions)

    def answers(threshold):
        return head_predictions(
            questions, scores, SpanSearch(max_answer_length=5, null_score_diff_threshold=threshold)
        )[0]

    assert answers(0.0) == ["g h", ""]
    assert answers(-9.5) == ["", ""]
    assert answers(2.0)[1] != ""
    assert questions.score(["g h", ""]) == {"em": 100.0, "f1": 100.0}
    assert questions.score(["g h", "b"])["em"] == 50.0


def test_no_answer_is_given_where_it_scores_more_by_over_the_threshold(tokenizer):
    questions = questions_of(tokenizer, QuestionAnswering(unanswerable=True), [question("b", 2)], length=32)
    scores = np.zeros((32, 2), np.float32)
    scores[0] = 2.0, 1.5
    scores[4, 0] = scores[4, 1] = 1.0  # the context's first token
    for threshold, answer in ((1.4, ""), (1.5, "a"), (1.6, "a")):
        predictions = head_predictions(questions, [scores], SpanSearch(null_score_diff_threshold=threshold))
        assert predictions[0] == [answer]
    (row,) = questions.rows(*predictions)
    assert row["null_score_diff"] == 1.5
    assert [each["text"] for each in row["n_best"][:2]] == ["", "a"]
    assert row["n_best"][0]["score"] == 3.5
    assert sum(each["probability"] for each in row["n_best"]) == pytest.approx(1.0, abs=1e-4)


def test_the_best_threshold_is_that_of_trying_all():
    rng = np.random.default_rng(0)
    words = ("a b", "b c", "c")
    rows = [
        {
            "target": [] if rng.random() < 0.4 else [words[rng.integers(3)]],
            "n_best": [{"text": ""}, {"text": words[rng.integers(3)]}],
            "null_score_diff": float(rng.integers(-4, 4)),
        }
        for _ in range(40)
    ]

    def scores(threshold):
        predictions = [
            row["n_best"][1]["text"] if row["null_score_diff"] <= threshold else "" for row in rows
        ]
        return squad_or_none([row["target"] for row in rows], predictions)

    tried = [scores(threshold) for threshold in np.arange(-6, 6, 0.5)]
    result = best_thresholds([*rows, {"target": None}])
    for name in ("em", "f1"):
        assert result[name] == pytest.approx(max(each[name] for each in tried))
        assert scores(result[f"{name}_threshold"])[name] == pytest.approx(result[name])
    assert best_thresholds([{"target": 1}]) == {}


def test_the_best_answers_are_kept_each_text_once(tokenizer):
    row = question("a", 0) | {"context": "a b a c", "answers": {"text": ["a"], "answer_start": [0]}}
    questions = questions_of(tokenizer, QuestionAnswering(), [row], length=32)
    scores = np.full((32, 2), -9.0, np.float32)
    scores[4:8, 0] = scores[4:8, 1] = 3.0, 1.0, 2.0, 0.0
    answers, details = head_predictions(questions, [scores], SpanSearch(n_best=3, max_answer_length=2))
    (result,) = (each["n_best"] for each in questions.rows(answers, details))
    assert [(each["text"], each["score"]) for each in result] == [("a", 6.0), ("a b", 4.0), ("b a", 3.0)]
    assert answers == ["a"]
    assert "null_score_diff" not in details[0]


def test_a_token_begins_an_answer_only_in_the_window_that_has_most_around_it(tokenizer):
    questions = questions_of(
        tokenizer, QuestionAnswering(), [question("c, d", CONTEXT.index("c"))], length=10, stride=3
    )
    windows = list(zip(questions.examples.offsets.tolist(), questions.examples.sizes.tolist(), strict=True))
    assert windows == [(0, 10), (3, 10), (6, 8)]  # of 5, 5 and 3 tokens, with 5 others
    scores = [np.zeros((10, 2), np.float32) for _ in windows]
    scores[0][8] = 9.0, 9.0  # "d" is at the end of the first window,
    scores[1][5] = 5.0, 5.0  # and has a token before it in the second
    answers, details = head_predictions(questions, scores, SpanSearch(max_answer_length=1))
    assert answers == ["d"]
    (best, *_) = details[0]["n_best"]
    assert best["score"] == 10.0


def test_a_question_that_has_no_answer_is_right_when_nothing_is_answered():
    assert squad_or_none([[], [], ["a cat"]], ["", "dog", "cat"]) == {
        "em": pytest.approx(200 / 3),
        "f1": pytest.approx(200 / 3),
    }


def test_a_word_has_the_class_of_its_first_token_and_cut_words_none(tokenizer):
    form = TokenClassification(classes=("B-X", "O"))
    row = {"tokens": ["ab", "c", "def", "g", "h"], "tags": [0, 1, 0, 1, 0]}
    questions = questions_of(tokenizer, form, [row], length=9)
    scores = np.zeros((9, 2), np.float32)
    scores[:, 1] = 1.0  # all outside, but for the first tokens of "ab" and "def"
    scores[[1, 4], 0] = 2.0
    ((result,), _) = head_predictions(questions, [scores])
    assert result == [0, 1, 0, 1, 1]
    assert questions.examples.num_cut == 1
    assert questions.rows([result])[0]["prediction"] == ["B-X", "O", "B-X", "O", "O"]
    assert questions.score([result])["tag_accuracy"] == 80.0


def gap(query, entities, answers, number):
    row = {"passage": CONTEXT, "query": query, "entities": entities, "answers": answers}
    return row | {"idx": {"passage": 0, "query": number}}


GAPS = [
    gap("@placeholder b", ["a", "c d"], ["c d"], 0),
    gap("b @placeholder", ["a", "b", "c", "d"], ["b", "d"], 1),
    gap("b @placeholder", ["g", "h"], [], 2),
]


def test_the_likeliest_of_a_gaps_candidates_is_its_answer_whichever_of_the_right_ones_it_is(tokenizer):
    questions = questions_of(tokenizer, CandidateRanking(), GAPS)
    assert questions.examples.labels.tolist() == [0, 1, 0, 1, 0, 1, -1, -1]
    assert questions.examples.origins.tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
    scores = [
        np.array(pair, np.float32)
        for pair in [(0, 1), (5, 7), (0, 0), (0, 1), (9, 9), (0, 3), (1, 1), (0, 0)]
    ]
    answers, _ = head_predictions(questions, scores)
    assert answers == ["c d", "d", "g"]
    assert questions.score(answers) == {"em": 100.0, "f1": 100.0}
    assert questions.score(["d", "c", "g"]) == {"em": 0.0, "f1": pytest.approx(100 / 3)}
    assert [row["target"] for row in questions.rows(answers)] == [["c d"], ["b", "d"], None]
    assert questions.head_format.baseline_answers(questions.read, questions.read) is None


def test_a_query_of_record_is_scored_once_by_all_of_its_answers(tokenizer):
    benchmark = catalogue.benchmark("super_glue_record_v102")
    tokenized = questions_of(tokenizer, CandidateRanking(), GAPS)
    metrics = tokenized.head_format.metrics(benchmark.metrics)
    questions = replace(tokenized, benchmark=benchmark, metrics=metrics)
    assert questions.score(["c d", "b", "g"]) == {"em": 100.0, "f1": 100.0}
    assert questions.score(["a", "b", "g"]) == {"em": 50.0, "f1": 50.0}
    (row, *_) = questions.rows(["c d", "b", "g"])
    assert (row["prediction"], row["answer"]) == ("c d", {"value": "c d"})
    assert row["idx"] == {"passage": 0, "query": 0}


def test_numbers_and_choices_are_compared_as_they_are(tokenizer):
    numbers = questions_of(
        tokenizer,
        Regression(texts=("{text}",), lowest=0, highest=5),
        [{"text": letter, "label": label} for letter, label in zip("abc", (1.0, 2.0, 4.0), strict=True)],
    )
    assert numbers.score([1.0, 2.0, 4.0]) == {"pearson_corrcoef": pytest.approx(100.0)}
    assert numbers.head_format.baseline_answers(numbers.read, numbers.read) == [pytest.approx(7 / 3)] * 3
    choices = questions_of(
        tokenizer,
        MultipleChoice(context="{text}", choices="endings"),
        [{"text": "a", "endings": ["b", "c"], "label": label} for label in (0, 1, 1)],
    )
    assert choices.score([0, 1, 0]) == {"accuracy": pytest.approx(200 / 3)}
    assert choices.head_format.baseline_answers(choices.read, choices.read) == [1, 1, 1]
    batch = choices.batch([2, 0], 4)
    assert batch.encoder_input_tokens.shape == (4, 2, 16)
    assert batch.sequence_labels.tolist() == [1, 0, -1, -1]


def sigmoid(scores):
    return 1.0 / (1.0 + np.exp(-scores))


@pytest.mark.parametrize(
    ("form", "num_labels", "problem_type", "scale"),
    [
        pytest.param(
            Regression(texts=("{text}",), lowest=0.0, highest=5.0),
            1,
            None,
            lambda scores: scores,
            marks=pytest.mark.slow,
        ),
        (MultiLabelClassification(texts=("{text}",), classes=("x", "y", "z")), 3, "multi_label", sigmoid),
    ],
    ids=["numbers", "any number of classes"],
)
def test_an_ensemble_averages_numbers_and_the_sigmoids_of_classes(
    tokenizer, form, num_labels, problem_type, scale
):
    config = BertConfig(
        vocab_size=22,
        model_dim=8,
        mlp_dim=16,
        num_heads=2,
        num_layers=1,
        max_position_embeddings=16,
        dropout_rate=0.0,
        task="sequence_classification",
        num_labels=num_labels,
        problem_type=problem_type,
    )
    members = []
    for seed in (0, 1):
        graphdef, params = parameters.split(config.build(jax.random.key(seed)))
        larger = jax.tree.map(lambda weight: 40 * weight, params)  # fresh scores are near 0
        members.append(parameters.merge(graphdef, larger))
    questions = questions_of(tokenizer, form, [{"text": "a b", "label": None}, {"text": "g", "label": None}])
    mesh = MeshConfig().build(jax.devices()[:1])

    def scores(model):
        graphdef, params = parameters.split(model)
        return np.stack(HeadPredictor(graphdef, mesh, batch_size=2).scores(params, questions))

    one, other = map(scores, members)
    assert np.abs(one - other).max() > 0.1
    wanted = (scale(one) + scale(other)) / 2
    np.testing.assert_allclose(scale(scores(Ensemble(members))), wanted, rtol=1e-4, atol=1e-5)
