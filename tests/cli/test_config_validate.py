"""``config validate`` finds what ``train`` would refuse, all of it at once and before anything is trained."""

import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.cli import preflight
from t5x_like.cli.main import main
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.text import registry

SIZES = {"mlp_dim": 16, "num_heads": 2, "head_dim": 4, "num_encoder_layers": 1, "num_decoder_layers": 1}
RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.text.tasks import text_task
include 'gin/models/t5_1_1/tiny.gin'
include 'gin/hardware/cpu.gin'
include 'gin/runs/finetune.gin'
TRAIN_FILES = 'train.tsv'
VALIDATION_FILES = 'validation.tsv'
VOCABULARY = 'bytes'
MIXTURE = 'moods'
INITIAL_CHECKPOINT = None
MODEL_DIR = 'run'
TASKS = (@text_task.TextTask(),)
text_task.TextTask:
    name = %MIXTURE
    vocabulary = %VOCABULARY
    files = {'train': %TRAIN_FILES, 'validation': %VALIDATION_FILES}
    input_template = '{text}'
    target_template = '{label}'
    label_words = {'0': 'bad', '1': 'good'}
    metrics = ('accuracy',)
t5.T5Config:
    model_dim = 8
    mlp_dim = 16
    num_heads = 2
    head_dim = 4
    num_encoder_layers = 1
    num_decoder_layers = 1
BATCH_SIZE = 8
INPUTS_LENGTH = 16
TARGETS_LENGTH = 8
TRAIN_STEPS = 4
"""
ENCODER = """
include 'gin/models/bert/tiny.gin'
include 'gin/runs/finetune_head.gin'
INITIAL_CHECKPOINT = None
MODEL_DIR = 'run'
DROPOUT_RATE = 0.0
TRAIN_STEPS = 200
MIXTURE = 'moods'
VOCABULARY = 'bytes'
TASKS = (@text_task.TextTask(),)
VOCAB_SIZE = 384
MODEL = @bert.BertConfig()
BATCH_SIZE = 8
bert.BertConfig.task = 'sequence_classification'
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with a recipe and eight good rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_tasks", {})  # each test has a task of this name
    rows = "text\tlabel\n" + "fine\t1\npoor\t0\n" * 4
    (tmp_path / "train.tsv").write_text(rows)
    (tmp_path / "validation.tsv").write_text(rows)
    (tmp_path / "recipe.gin").write_text(RECIPE)
    (tmp_path / "encoder.gin").write_text(RECIPE + ENCODER)
    (tmp_path / "empty.tsv").write_text("text\tlabel\n")
    (tmp_path / "bad.tsv").write_text(rows + "odd\t2\n")
    (tmp_path / "column.tsv").write_text("body\tlabel\nfine\t1\n")
    yield tmp_path
    if "seqio" in sys.modules:
        for name in registry._tasks:
            sys.modules["seqio"].TaskRegistry._REGISTRY.pop(name, None)


def validate(*settings: str, recipe: str = "recipe.gin", flags: tuple[str, ...] = ()) -> int:
    return main(
        ["config", "validate", f"--gin_file={recipe}", *(f"--set={each}" for each in settings), *flags]
    )


@pytest.mark.parametrize("recipe", ["recipe.gin", "encoder.gin"])
def test_what_can_be_trained_is_valid(recipe: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(recipe=recipe) == 0
    assert f"{recipe}: valid, " in capsys.readouterr().out
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("settings", "messages"),
    [
        (["TRAIN_FILES=none.tsv"], ["'none.tsv' does not exist"]),
        (["VALIDATION_FILES=*.csv"], ["no file matches '*.csv'"]),
        (["VALIDATION_FILES=empty.tsv"], ["'moods', split 'validation': no usable row in empty.tsv"]),
        (["TRAIN_FILES=bad.tsv"], ["bad.tsv:10", "label_words has no word for label='2'"]),
        (["TRAIN_FILES=column.tsv"], ["no column 'text'"]),
        (["MIXTURE=moods", "TextTask.name=mood"], ["no task or mixture 'moods'; did you mean 'mood'?"]),
        (["VOCABULARY=none.model"], ["vocabulary 'none.model'", "does not exist"]),
        (["VOCAB_SIZE=256"], ["the vocabulary has 359 ids", "256 embedding rows"]),
        (["INITIAL_CHECKPOINT=nowhere"], ["nowhere"]),
        (["INITIAL_CHECKPOINT=another"], ["start_from: another doesn't fit this model", "feed_forward"]),
        (["INITIAL_CHECKPOINT=unsaved"], ["unsaved has no checkpoint"]),
        (["LEARNING_RATE=-1"], ["value is -1; give a learning rate that is finite and not negative"]),
        (["LEARNING_RATE=0"], ["learning rate", "0, 0, 0", "give positive numbers"]),
        (["LEARNING_RATE=1000"], ["learning rate", "reaches 1000"]),
        (["DROPOUT_RATE=1.5"], ["dropout_rate is 1.5"]),
        (["Experiment.trainable=head/*"], ["trainable='head/*' matches no weight"]),
        (["NUM_MICROBATCHES=3"], ["can't be cut into num_microbatches=3"]),
        (["BATCH_SIZE=12"], ["a batch of 12 rows can't be shared out evenly"]),
        (
            [
                "TRAIN_FILES=bad.tsv",
                "VALIDATION_FILES=none.tsv",
                "LEARNING_RATE=0",
                "INITIAL_CHECKPOINT=nowhere",
            ],
            ["4 problems, nothing was trained", "learning rate", "nowhere", "bad.tsv:10", "none.tsv"],
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_what_train_would_refuse_is_found(
    settings: list[str], messages: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "INITIAL_CHECKPOINT=another" in settings:
        model = T5Config(
            vocab_size=384,
            model_dim=8,
            feed_forward="gated_gelu",
            tie_word_embeddings=False,
            **SIZES | {"mlp_dim": 24},
        )
        with Checkpoints(folder / "another") as checkpoints:
            checkpoints.save(0, {"params": parameters.split(model.build(jax.random.key(0)))[1]})
        write_model_config(folder / "another", model)
    write_model_config(folder / "unsaved", T5Config(vocab_size=384, model_dim=8, **SIZES))
    assert validate(*settings) == 2
    error = capsys.readouterr().err
    for message in messages:
        assert message in error
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["BertConfig.model_dim=50"], "model_dim=50 doesn't divide among num_heads=4"),
        (["DROPOUT_RATE=1.0"], "dropout_rate is 1.0; give a probability"),
        (["WEIGHT_DECAY=-0.1"], "optimizer.weight_decay_rate is -0.1"),
        (["BertConfig.num_labels=3"], "needs a head for sequence classification with 2 scores"),
        (
            ["BertConfig.problem_type=multi_label"],
            "mixture 'moods' predicts one class for each row, and the model's head any number of classes for each row "
            "(problem_type='multi_label'); take another model, or train this head on such a task",
        ),
        (["INPUTS_LENGTH=1000"], "lower it to at most 512"),
        (
            ["INITIAL_CHECKPOINT=nowhere", "MODEL=@initial_weights.CheckpointModel()"],
            "nowhere holds no model",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_encoder_and_its_head_are_checked(
    settings: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate(*settings, recipe="encoder.gin") == 2
    assert message in capsys.readouterr().err


def test_rows_that_are_elsewhere_need_not_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate("TRAIN_FILES=none.tsv", flags=("--skip_data",)) == 0
    assert validate("LEARNING_RATE=-1", flags=("--skip_data",)) == 2
    capsys.readouterr()


def test_of_large_data_the_beginning_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "_MAX_TOKENS", 10)
    assert validate() == 0
    assert "note: task 'moods', split 'train': only its first 10 tokens were read" in capsys.readouterr().out
    assert validate("VOCAB_SIZE=256") == 2
    assert "the vocabulary has 359 ids" in capsys.readouterr().err


def test_a_mesh_for_another_machine_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate("MeshConfig.data=1", "MeshConfig.fsdp=64") == 0
    assert "note: mesh data 1 × fsdp 64 × model 1 needs exactly 64 devices" in capsys.readouterr().out


def test_the_weights_of_an_evaluation_are_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set=CHECKPOINT=nowhere", "--set=OUTPUT_DIR=out"]
    assert main(["config", "validate", "--gin_file=gin/recipes/quickstart/evaluate.gin", *settings]) == 2
    assert "nowhere holds no model" in capsys.readouterr().err


def test_a_teacher_that_does_not_fit_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = T5Config(vocab_size=384, model_dim=16, tie_word_embeddings=False, **SIZES)
    with Checkpoints(folder / "wide") as checkpoints:
        checkpoints.save(0, {"params": parameters.split(wide.build(jax.random.key(0)))[1]})
    write_model_config(folder / "wide", wide)
    flags = ("--gin_file=gin/runs/distill.gin",)
    assert validate("TEACHER=nowhere", flags=flags) == 2
    assert "nowhere holds no model" in capsys.readouterr().err
    assert validate("TEACHER=wide", flags=flags) == 2
    assert "the teacher wide is 16 wide and the student 8" in capsys.readouterr().err
    assert validate("TEACHER=wide", "HIDDEN_STATES_WEIGHT=0", flags=flags) == 0


KING_JAMES = "gin/recipes/objectives/king_james.gin"
TEXT = ["--set=TRAIN_FILES=data/king_james/validation.txt", "--set=TRAIN_STEPS=1000", "--model_dir=run"]


def test_a_memory_needs_rows_that_continue_the_batch_before(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = [
        f"--gin_file={KING_JAMES}",
        "--set=OBJECTIVE_NAME=contiguous_lm",
        "--gin_file=gin/objectives/causal_lm.gin",
    ]
    assert main(["config", "validate", *recipe, *TEXT, "--set=MIXTURE=shuffled_rows"]) == 2
    said = capsys.readouterr().err
    assert "rows of task 'shuffled_rows' don't continue it; take gin/objectives/contiguous_lm.gin" in said


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (
            "--gin_file=gin/objectives/causal_lm.gin",
            "the model's state continues from the batch before (carries_state), but rows of task 'rows_of_lstm' don't "
            "continue it; take gin/objectives/contiguous_lm.gin",
        ),
        (
            "--gin.contiguous_lm.ContiguousLM.backward=True",
            "has backward=True, and the model direction='forward'; give both the same direction",
        ),
        (
            "--set=AWDLSTMConfig.task=sequence_classification",
            "'rows_of_lstm' has tokens to predict, and the model has a head for sequence classification alone; give "
            "the model the task of a language model, such as 'causal_lm'",
        ),
    ],
    ids=["rows that don't continue", "rows from their end", "no head for tokens"],
)
def test_the_state_of_an_lstm_needs_rows_that_continue_it(
    added: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        f"--gin_file={KING_JAMES}",
        "--gin_file=gin/models/awd_lstm/tiny.gin",
        "--set=OBJECTIVE_NAME=contiguous_lm",
    ]
    assert main(["config", "validate", *flags, added, *TEXT, "--set=MIXTURE=rows_of_lstm"]) == 2
    assert message in capsys.readouterr().err


def test_rows_without_labels_need_a_loss_of_their_own(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    tagging = ["--gin_file=gin/recipes/comparisons/toy_tagging.gin", "--model_dir=run"]
    tagging += ["--set=TRAIN_FILES=data/oanc_tags/validation.tsv"]
    weighed = [*tagging, "--set=BiLSTMConfig.cross_view_weight=1"]
    assert main(["config", "validate", *weighed]) == 2
    assert (
        "cross_view_weight=1 learns from rows without labels, and no task of mixture 'tags_of_a_tenth' keeps"
        in (capsys.readouterr().err)
    )
    warning = "sentences keeps rows without labels (keeps_unlabeled=True), and the model has no loss of them"
    assert main(["config", "validate", *weighed, "--set=MIXTURE=tags_and_sentences"]) == 0
    assert warning not in caplog.text
    assert main(["config", "validate", *tagging, "--set=MIXTURE=tags_and_sentences"]) == 0
    assert warning in caplog.text


def test_a_loss_of_candidates_needs_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ["--gin_file=gin/recipes/comparisons/toy_tagging.gin", "--model_dir=run"]
    data = "--set=TRAIN_FILES=data/oanc_tags/validation.tsv"
    ranking = "--gin.losses.LossConfig.ranking=@losses.MarginRanking()"
    assert main(["config", "validate", *recipe, data, ranking]) == 2
    message = "LossConfig.ranking compares candidates for a blank, as ReferentRanking reads them; mixture"
    assert message in capsys.readouterr().err


def test_text_that_is_read_several_times_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = [f"--gin_file={KING_JAMES}", "--set=OBJECTIVE_NAME=causal_lm"]
    assert main(["config", "validate", *recipe, *TEXT, "--set=MIXTURE=bible"]) == 0
    assert "the run reads bible about 2." in capsys.readouterr().out


def test_token_types_of_patterns_need_as_many_embeddings(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ["--gin_file=gin/recipes/objectives/unilm.gin", "--set=MIXTURE=typed_by_pattern"]
    by_pattern = "--set=UniLM.types_by_pattern=True"
    assert main(["config", "validate", *recipe, *TEXT, by_pattern]) == 2
    assert (
        "task 'typed_by_pattern' has types_by_pattern=True, which makes 6 token types, and the model has "
        "num_token_types=2; give a BertConfig num_token_types=6, or set types_by_pattern=False"
    ) in capsys.readouterr().err
    assert main(["config", "validate", *recipe, *TEXT, by_pattern, "--set=BertConfig.num_token_types=6"]) == 0
