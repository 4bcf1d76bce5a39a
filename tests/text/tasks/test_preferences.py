"""Rows of prompts with ranked answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.text import registry
from t5x_like.text.batches.first_examples import first_task_examples
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.preferences import DesirabilityTask, PreferenceTask
from t5x_like.text.tasks.rows import RowPolicy

PAIRS = [
    {"prompt": "a?", "chosen": "yes", "rejected": "never", "gap": 2},
    {"prompt": "bb?", "chosen": "y", "rejected": "no", "gap": 1},
]


def task(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> PreferenceTask:
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    files = {"train": str(folder / "rows.jsonl")}
    return PreferenceTask(**{"name": folder.name, "vocabulary": "bytes", "files": files, **changes})


def batch_of(definition: PreferenceTask | DesirabilityTask, **changes: Any) -> Any:
    settings = {"batch_size": 2, "inputs_length": 8, "targets_length": 16, "shuffle": False, **changes}
    config = LoaderConfig(mixture=definition.name, **settings)
    return next(Loader(config, registry.resolve(definition.name, [definition])))


def test_both_answers_follow_the_same_prompt(tmp_path: Path) -> None:
    definition = task(tmp_path, PAIRS, streams={"margin": "gap"})
    batch = batch_of(definition)
    encode = definition.tokenizer.encode
    assert batch.encoder_input_tokens.shape == (2, 2, 8)
    for row, each in enumerate(PAIRS):
        for answer, name in enumerate(("chosen", "rejected")):
            targets = [*encode(each[name]), 1]
            assert batch.target_tokens[row, answer, : len(targets)].tolist() == targets
            assert batch.loss_weights[row, answer].sum() == len(targets)
            prompt = [*encode(each["prompt"]), 1]
            assert batch.encoder_input_tokens[row, answer, : len(prompt)].tolist() == prompt
    assert batch.declared["margin"].tolist() == [2, 1]


def test_a_decoder_reads_prompt_and_answer_in_one_row_and_learns_the_answer(tmp_path: Path) -> None:
    definition = task(tmp_path, PAIRS)
    batch = batch_of(definition, layout="decoder", prefix_attention="causal", targets_length=16)
    prompt, answer = [*definition.tokenizer.encode("bb?"), 1], [*definition.tokenizer.encode("no"), 1]
    row = batch.decoder_input_tokens[1, 1], batch.target_tokens[1, 1], batch.loss_weights[1, 1]
    assert row[1][row[2] > 0].tolist() == answer
    assert [*row[0][: len(prompt)].tolist()] == prompt


def test_lists_of_answers_are_filled_up_with_empty_ones(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "ranks": ["x", "y", "z"]}, {"prompt": "b", "ranks": ["x", "y"]}]
    batch = batch_of(task(tmp_path, rows, ranked="ranks", num_answers=3))
    assert (batch.loss_weights > 0).any(axis=-1).tolist() == [[True, True, True], [True, True, False]]


def test_a_reward_model_reads_each_answer_after_the_prompt(tmp_path: Path) -> None:
    definition = task(tmp_path, PAIRS)
    batch = batch_of(definition, layout="encoder", inputs_length=16)
    decoded = definition.tokenizer.decode(
        [int(each) for each in batch.encoder_input_tokens[0, 1] if each > 1]
    )
    assert "a?" in decoded
    assert "never" in decoded
    assert batch.sequence_labels is None


def test_answers_that_can_not_be_compared_are_bad_rows(tmp_path: Path) -> None:
    rows = [
        *PAIRS,
        {"prompt": "c", "chosen": "same", "rejected": "same"},
        {"prompt": "d", "chosen": "x", "rejected": " "},
        {"prompt": "e", "chosen": ["x"], "rejected": "y"},
    ]
    policy = RowPolicy("skip")
    assert len(list(task(tmp_path, rows, on_bad_row="skip").read("train", policy))) == 2
    assert policy.num_skipped == 3
    definition = task(tmp_path, rows)
    with pytest.raises(ValueError, match=r"rows.jsonl:3.*two answers are equal, so neither is better"):
        list(definition.read("train"))


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"prompt": "a", "chosen": "b"}], {}, "rejected"),
        (
            [{"prompt": "a", "ranks": ["b"]}],
            {"ranked": "ranks", "num_answers": 4},
            "has 1 answers; 2 to num_answers=4",
        ),
        ([{"prompt": "a", "ranks": ["b", 3]}], {"ranked": "ranks"}, "lists something else than texts"),
    ],
)
def test_rows_without_ranked_answers_are_refused(
    tmp_path: Path, rows: list[dict[str, Any]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        list(task(tmp_path, rows, **options).read("train"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_answers": 3}, "num_answers"),
        ({"ranked": "ranks", "num_answers": 1}, "a row has at least 2 answers"),
        ({"ranked": "ranks", "rejected_template": "{worse}"}, "rejected_template"),
        ({"labels": ("a", "b")}, "labels"),
    ],
)
def test_settings_without_effect_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task(tmp_path, PAIRS, **options)


def test_long_answers_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [*PAIRS, {"prompt": "c", "chosen": "x", "rejected": "y" * 40}]
    batch = batch_of(task(tmp_path, rows), batch_size=3)
    assert "1 examples are longer than inputs_length=8 or targets_length=16" in caplog.text
    assert np.count_nonzero(batch.target_tokens[2, 1]) == 16


RATED = [
    {"prompt": "a?", "completion": "yes", "label": True},
    {"prompt": "bb?", "completion": "no", "label": False},
    {"prompt": "c?", "completion": "maybe", "label": "1"},
]


def rated(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> DesirabilityTask:
    (folder / "rated.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    files = {"train": str(folder / "rated.jsonl")}
    return DesirabilityTask(**{"name": folder.name, "vocabulary": "bytes", "files": files, **changes})


def test_an_answer_is_compared_with_the_next_ones(tmp_path: Path) -> None:
    definition = rated(tmp_path, RATED)
    batch = batch_of(definition, batch_size=3)
    assert batch.declared["desirable"].tolist() == [1, 0, 1]
    for row, following in enumerate((1, 2, 0)):
        for answer, number in enumerate((row, following)):
            targets = [*definition.tokenizer.encode(RATED[number]["completion"]), 1]
            assert batch.target_tokens[row, answer, : len(targets)].tolist() == targets
        assert batch.encoder_input_tokens[row, 0].tolist() == batch.encoder_input_tokens[row, 1].tolist()


def test_labels_that_say_neither_yes_nor_no_are_bad_rows(tmp_path: Path) -> None:
    definition = rated(tmp_path, [*RATED, {"prompt": "d", "completion": "x", "label": "good"}])
    with pytest.raises(
        ValueError, match=r"rated.jsonl:4.*column 'label' is 'good'; desirable answers have one of"
    ):
        list(definition.read("train"))


def test_a_reward_model_reads_no_single_answers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a reward model compares several"):
        rated(tmp_path, RATED).head_format()


def test_the_best_answer_is_shown(tmp_path: Path) -> None:
    for definition in (task(tmp_path, PAIRS), rated(tmp_path, RATED)):
        lengths = {"inputs_length": 8, "targets_length": 8}
        (first,) = first_task_examples(definition, "train", num_examples=1, **lengths)
        assert (first.inputs, first.targets) == ("a?", "yes")
        assert first.target_ids == [*definition.tokenizer.encode("yes"), 1]


@pytest.mark.parametrize(
    ("changes", "row", "texts"),
    [
        ({}, {"prompt": "a?", "answer": "no"}, ("a?", "no")),
        (
            {"input_template": "Q: {q}", "target_template": "A: {good}", "rejected_template": "A: {bad}"},
            {"q": "a?", "answer": "no"},
            ("Q: a?", "A: no"),
        ),
        ({"ranked": "answers", "num_answers": 3}, {"prompt": "a?", "answer": "no"}, ("a?", "no")),
        (
            {"target_template": "{verb} {noun}"},
            {"prompt": "a?", "verb": "go", "noun": "home"},
            ("a?", "go home"),
        ),
    ],
    ids=["usual columns", "templates", "ranked answers", "answers of several columns"],
)
def test_a_reward_is_predicted_for_one_answer_in_the_templates(
    tmp_path: Path, changes: dict[str, Any], row: dict[str, str], texts: tuple[str, str]
) -> None:
    definition = task(tmp_path, [], **changes).row_task()
    assert definition.input_columns == tuple(row)
    assert definition.head_format().read(definition.row_columns(row)).texts == (texts,)
