import numpy as np
import pytest
import seqio
import tensorflow as tf

from t5x_like.text import registry
from t5x_like.text.seqio_bridge.evaluation_examples import (
    bucket_lengths,
    examples_from_text,
    load_examples,
    subtasks,
)
from t5x_like.text.seqio_bridge.vocabulary import load_vocabulary
from t5x_like.text.tasks.mixtures import Mixture

LENGTHS = {"inputs_length": 32, "targets_length": 8}


def test_examples_come_in_the_files_order_with_text_and_ids(make_text_task):
    examples = load_examples(make_text_task(5), "validation", limit=3, **LENGTHS)
    assert len(examples) == 3
    assert examples.targets_text == ["no", "yes", "maybe"]
    assert examples.labels == ("no", "yes", "maybe")
    vocabulary = load_vocabulary("bytes")
    assert examples.target_ids[1].tolist() == [*vocabulary.encode("yes"), 1]
    assert [vocabulary.decode(ids) for ids in examples.input_ids] == examples.inputs_text


def test_batches_hold_one_example_a_row_and_are_filled_up(make_text_task):
    examples = load_examples(make_text_task(5), "validation", **LENGTHS)
    numbers, batches = zip(*examples.batches(4), strict=True)
    assert sorted(np.concatenate(numbers).tolist()) == [0, 1, 2, 3, 4]
    assert [batch.encoder_input_tokens.shape for batch in batches] == [(4, 32), (4, 32)]
    assert (batches[1].encoder_segment_ids[1:] == 0).all()
    assert batches[0].encoder_segment_ids.max() == 1


def test_examples_of_like_length_come_together_in_batches_no_longer_than_needed(make_text_task):
    name = make_text_task(60)
    examples = load_examples(name, "validation", inputs_length=256, targets_length=8)
    assert bucket_lengths(256) == [256, 128, 64, 32]
    assert bucket_lengths(100) == [100, 50, 25]
    seen = {}
    for numbers, batch in examples.batches(8):
        assert batch.encoder_input_tokens.shape[1] == 32  # every row has less than 32 letters
        for row, number in enumerate(numbers.tolist()):
            tokens = batch.encoder_input_tokens[row]
            seen[number] = tokens[tokens > 0].tolist()
    assert [seen[number] for number in range(60)] == [ids.tolist() for ids in examples.input_ids]


def test_an_answer_can_stand_for_every_target(make_text_task):
    examples = load_examples(make_text_task(3), "validation", **LENGTHS)
    ((_, batch),) = examples.batches(3, answer="yes")
    np.testing.assert_array_equal(batch.target_tokens, np.tile([124, 104, 118, 1, 0, 0, 0, 0], (3, 1)))


def test_predictions_are_scored_beside_the_majority(make_text_task):
    examples = load_examples(make_text_task(4), "validation", **LENGTHS)
    predictions = examples.postprocess(["no", "yes", "maybe", "other"])
    assert examples.score(predictions)["accuracy"] == 75.0
    assert examples.score(examples.targets) == {"accuracy": 100.0, "mean_3class_f1": pytest.approx(100.0)}
    assert examples.baseline()["accuracy"] == 50.0  # rows 0 and 3 of 0, 1, 2, 0


def test_users_own_postprocessing_and_score_metrics_are_used():
    def rows(split, shuffle_files, seed=None):
        return tf.data.Dataset.from_tensor_slices(
            {"inputs": ["q1", "q2"], "targets": ["a", "b"], "answers": [["a", "A"], ["b", "B"]]}
        )

    def answers(text, *, example=None, is_target=False, **_):
        return [answer.decode() for answer in example["answers"]] if is_target else text.strip()

    def any_right(targets, predictions):
        return {"any": np.mean([guess in right for guess, right in zip(predictions, targets, strict=True)])}

    def mean_likelihood(targets, scores):
        return {"likelihood": np.mean(scores)}

    feature = seqio.Feature(load_vocabulary("bytes"), add_eos=True)
    seqio.TaskRegistry.add(
        "answers_of_user",
        seqio.FunctionDataSource(rows, ["train"]),
        output_features={"inputs": feature, "targets": feature},
        preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos_after_trim],
        postprocess_fn=answers,
        metric_fns=[any_right, mean_likelihood],
    )
    examples = load_examples("answers_of_user", "train", **LENGTHS)
    assert examples.score(examples.postprocess([" A", "c"])) == {"any": 0.5}
    assert examples.score_likelihoods([-1.0, -2.0]) == {"likelihood": -1.5}
    assert examples.baseline() == {"any": 0.5}
    assert examples.labels == ()


def test_free_text_is_tokenised_for_prediction(make_text_task):
    examples = examples_from_text(["hello", "x" * 50], task=make_text_task(), **LENGTHS)
    assert examples.input_ids[1].tolist() == [ord("x") + 3] * 31 + [1]
    assert next(examples.batches(2))[1].encoder_input_tokens.shape == (2, 32)


def test_subtasks_of_mixtures_are_named(make_text_task):
    tasks = (make_text_task(), make_text_task())
    registry.register([Mixture(name="subtasks_" + tasks[0], tasks=tasks)])
    assert subtasks("subtasks_" + tasks[0]) == sorted(tasks)
    assert subtasks(tasks[0]) == [tasks[0]]


def test_what_has_no_answers_is_refused(make_text_task, make_corpus):
    with pytest.raises(ValueError, match="is a pretraining task"):
        load_examples(make_corpus(), "validation", **LENGTHS)
    with pytest.raises(ValueError, match="has no split 'test'"):
        load_examples(make_text_task(), "test", **LENGTHS)
    with pytest.raises(ValueError, match="no task or mixture"):
        load_examples("no_such", "test", **LENGTHS)
