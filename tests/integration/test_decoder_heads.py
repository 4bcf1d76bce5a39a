"""Decoders and encoder-decoders with heads: they learn, are evaluated, answer lines, and are exported."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunPrediction
from t5x_like.model import parameters
from t5x_like.model.zoo.bart import BartConfig
from t5x_like.model.zoo.glm_orig import GLMOrigConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.openai_gpt import OpenAIGPTConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.t5_lm import T5LanguageModelConfig
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.fresh_heads import with_added_tokens, with_head
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.open_checkpoint import open_initial
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.heads import (
    ClozeClassification,
    InputFraming,
    MultipleChoice,
    QuestionAnswering,
    Regression,
)
from t5x_like.text.objectives.blank_infilling import BlankIds
from t5x_like.text.tasks.rows import RawRow
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.losses import LossConfig
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "?"]
NUM_IDS = len(PIECES) + 3  # with the tokens of a framing
_SIZE: dict[str, Any] = {"vocab_size": NUM_IDS, "model_dim": 16, "mlp_dim": 32, "num_heads": 2}
_CLASSES: dict[str, Any] = {"task": "sequence_classification", "num_labels": 2}
_T5: dict[str, Any] = {"head_dim": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
GPT = OpenAIGPTConfig(**_SIZE, num_layers=1, max_position_embeddings=16)
GLM = GLMOrigConfig(**_SIZE, num_layers=1, max_position_embeddings=16)
FAMILIES = {
    "t5": T5Config(**_SIZE, **_T5, **_CLASSES),
    "llama": LlamaConfig(**_SIZE, num_layers=1, **_CLASSES),
    "transfo_xl": TransfoXLConfig(
        **_SIZE, head_dim=8, num_layers=1, memory_length=4, embed_dim=16, **_CLASSES
    ),
    "glm_orig": replace(GLM, **_CLASSES),
    "t5_lm": T5LanguageModelConfig(**_SIZE, head_dim=8, num_layers=1, **_CLASSES),
    "bart": BartConfig(
        vocab_size=NUM_IDS,
        model_dim=16,
        encoder_mlp_dim=32,
        decoder_mlp_dim=32,
        num_encoder_heads=2,
        num_decoder_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_position_embeddings=16,
        **_CLASSES,
    ),
}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(PIECES) + "\n")
    return str(file)


def letters_task(folder, vocabulary, **options):
    """Does a text have an ``a``?"""
    rows = [f"{first} {second} {third}" for first in "abcd" for second in "abcd" for third in "efgh"]
    lines = [f"{row}\t{'vowel' if 'a' in row else 'none'}" for row in rows]
    (folder / "letters.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    settings: dict[str, Any] = {
        "name": "gpts_letters",
        "vocabulary": vocabulary,
        "num_sentinels": 3,
        "files": dict.fromkeys(("train", "validation"), str(folder / "letters.tsv")),
        "input_template": "{text}",
        "target_template": "{label}",
        "labels": ("vowel", "none"),
        "metrics": ("accuracy",),
        "framing": InputFraming(),
    }
    return TextTask(**settings | options)


def benchmark_of(folder, vocabulary, form, rows, **options):
    """A benchmark of JSON rows, for heads that read more than texts."""
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def read(file, split):
        del split
        for number, line in enumerate(Path(file).read_text().splitlines(), start=1):
            yield RawRow(json.loads(line), f"{file}:{number}")

    files = dict.fromkeys(("train", "validation"), ("rows.jsonl",))
    layout = FileLayout(files=files, read=read)
    source = BenchmarkSource(layouts=(layout,), rows=dict.fromkeys(files, len(rows)), columns={})
    name = f"{form.head.kind}_rows"
    benchmark = Benchmark(name=name, title=name, source=source, word=lambda _: [], head=form)
    return BenchmarkTask(
        name=name,
        vocabulary=vocabulary,
        num_sentinels=3,
        benchmark=benchmark,
        data_dir=str(folder),
        **options,
    )


def experiment(task, model, model_dir, **options):
    loader = LoaderConfig(
        mixture=task.name, batch_size=16, inputs_length=16, targets_length=2, layout="encoder"
    )
    settings: dict[str, Any] = {
        "model": model,
        "train": loader,
        "tasks": (task,),
        "model_dir": str(model_dir),
        "total_steps": 60,
        "evaluations": (HeadEvaluation(mixture=task.name, inputs_length=16, batch_size=32),),
        "optimizer": AdamW(learning_rate=Constant(value=0.01)),
        "loss": LossConfig(z_loss=0.0),
        "intervals": Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=60),
    }
    return experiment_of(**settings | options)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_learns_to_classify(name, vocabulary, tmp_path):
    task = letters_task(tmp_path, vocabulary, name=f"letters_{name}")
    finished = train(experiment(task, FAMILIES[name], tmp_path / "run"))
    assert finished.last[f"evaluation/{task.name}"]["accuracy"] > 95


@pytest.fixture(scope="module")
def published(tmp_path_factory, vocabulary):
    """A GPT without the tokens of a framing."""
    directory = tmp_path_factory.mktemp("published") / "gpt"
    config = replace(GPT, vocab_size=len(PIECES), mlp_dim=64)
    write_hugging_face(config, parameters.split(config.build(jax.random.key(1)))[1], directory)
    (directory / "vocab.txt").write_text(Path(vocabulary).read_text())
    return directory


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, published):
    """It learns a class with GPT's framing and auxiliary loss, and with embeddings for the framing's tokens."""
    folder = tmp_path_factory.mktemp("tuned")
    task = letters_task(folder, str(published))
    run = experiment(
        task,
        CheckpointModel(num_added_tokens=3),
        folder / "run",
        start_from=str(published),
        total_steps=240,
        loss=LossConfig(z_loss=0.0, auxiliary_lm_weight=0.5),
    )
    return folder / "run", train(run)


def test_gpt_learns_with_added_tokens_and_its_auxiliary_loss(tuned):
    run, finished = tuned
    assert finished.last["evaluation/gpts_letters"]["accuracy"] == 100.0
    last = finished.last["train"]
    assert last["sequence_cross_entropy"] < 0.3
    assert last["loss"] > last["sequence_cross_entropy"]
    model = json.loads((run / "model.json").read_text())
    assert (model["vocab_size"], model["keep_lm_head"]) == (NUM_IDS, True)


def test_a_run_answers_lines_by_its_head(tuned):
    run, _ = tuned
    prediction = RunPrediction(checkpoint=str(run), task="gpts_letters", inputs_length=16, batch_size=8)
    assert [each.prediction for each in predict(prediction, ["a b e", "c d h"])] == ["vowel", "none"]


def test_a_suite_reads_a_runs_tasks_with_their_framing(tuned, tmp_path):
    run, _ = tuned
    arguments = ["evaluate", "--checkpoint", str(run), "--output_dir", str(tmp_path / "scores")]
    assert main(arguments) == 0
    scores = json.loads((tmp_path / "scores/scores.json").read_text())["tasks"]["gpts_letters"]["scores"]
    assert scores == {"accuracy": 100.0}


def test_embeddings_of_added_tokens_are_drawn_and_the_others_kept(published):
    config = replace(GPT, mlp_dim=64)
    opened = {seed: open_initial(published, config=config, mesh=None, seed=seed) for seed in (0, 1)}
    tables = [
        np.asarray(parameters.flatten(result.params)["embedding/tokens/table"])
        for result, _ in opened.values()
    ]
    num_known = len(PIECES)
    np.testing.assert_array_equal(tables[0][:num_known], tables[1][:num_known])
    assert not np.array_equal(tables[0][num_known:NUM_IDS], tables[1][num_known:NUM_IDS])
    assert 0.01 < tables[0][num_known:NUM_IDS].std() < 0.03
    assert "has embeddings for 14 ids; 3 more are freshly drawn" in opened[0][1][-1]
    with pytest.raises(
        ValueError, match="a TransfoXLConfig divides its vocabulary among several tables, to which"
    ):
        with_added_tokens(FAMILIES["transfo_xl"], {}, num_known, seed=0, mesh=None)


def test_positions_that_a_checkpoint_lacks_begin_as_copies(published):
    known = GPT.max_position_embeddings
    config = replace(GPT, mlp_dim=64, max_position_embeddings=2 * known + 1)
    result, notes = open_initial(published, config=config, mesh=None)
    table = np.asarray(parameters.flatten(result.params)["embedding/positions/table"])
    assert table.shape[0] == 2 * known + 1
    assert np.array_equal(table[known : 2 * known], table[:known])
    assert np.array_equal(table[2 * known], table[0])
    assert f"has {known} positions; those after them begin as copies" in notes[-1]


def test_an_export_has_transformers_class_and_no_output_layer(tuned, tmp_path):
    run, _ = tuned
    assert main(["convert", "--from", str(run), "--to", str(tmp_path / "hf"), "--export", "hf"]) == 0
    fields = json.loads((tmp_path / "hf/config.json").read_text())
    assert fields["architectures"] == ["OpenAIGPTForSequenceClassification"]
    assert (fields["vocab_size"], fields["id2label"]["0"]) == (NUM_IDS, "vowel")


def test_heads_that_transformers_lacks_are_refused_at_the_export(tmp_path):
    config = with_head(GPT, "question_answering", 2, where="here")
    params = parameters.split(config.build(jax.random.key(0)))[1]
    with pytest.raises(
        ValueError,
        match=r"transformers has no class of this model for the task 'question_answering'; there are Op",
    ):
        write_hugging_face(config, params, tmp_path / "hf")


def test_gpts_choices_are_its_double_heads(tmp_path):
    config = GPT2Config(
        **_SIZE, num_layers=1, max_position_embeddings=16, task="multiple_choice", keep_lm_head=True
    )
    params = parameters.split(config.build(jax.random.key(0)))[1]
    write_hugging_face(config, params, tmp_path / "hf")
    fields = json.loads((tmp_path / "hf/config.json").read_text())
    assert fields["architectures"] == ["GPT2DoubleHeadsModel"]
    assert (fields["summary_type"], fields["summary_proj_to_labels"]) == ("cls_index", True)
    result, notes = open_initial(tmp_path / "hf", config=config, mesh=None)
    assert notes == []
    for path, leaf in parameters.flatten(params).items():
        if path != "embedding/tokens/table":  # whose padding is not stored
            np.testing.assert_array_equal(parameters.flatten(result.params)[path], leaf, err_msg=path)
    fields["summary_type"] = "first"
    (tmp_path / "hf/config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="summary_type is 'first'; only 'cls_index' is supported"):
        open_initial(tmp_path / "hf", config=config, mesh=None)


WORDS = [f"{one} {two}" for one in "abcd" for two in "bcde"]

# Each is seen in a single token, so that a tiny model learns it in a few steps.
KINDS: dict[str, Any] = {
    "choice": (
        MultipleChoice(context="{context}", choices=("{first}", "{second}")),
        [
            {"context": words, "first": "gh"[right], "second": "hg"[right], "label": right}
            for words in WORDS
            for right in (0, 1)
        ],
        InputFraming(),
        "accuracy",
    ),
    "number": (
        Regression(texts=("{one}", "{two}"), lowest=0.0, highest=1.0),
        [
            {"one": one, "two": two, "label": ("a" in one) / 2 + ("a" in two) / 2}
            for one in WORDS[::2]
            for two in WORDS[::2]
        ],
        InputFraming(both_orders=True),
        "pearson_corrcoef",
    ),
    "span": (
        QuestionAnswering(),
        [
            {
                "question": "?",
                "context": f"{words} h {other}",
                "answers": {"text": ["h"], "answer_start": [len(words) + 1]},
            }
            for words in WORDS
            for other in ("a", "b c")
        ],
        InputFraming(),
        "em",
    ),
    "cloze": (
        ClozeClassification(
            pattern="{text} [MASK]",
            classes=("vowel", "none"),
            words=("a", "b c"),
            special=BlankIds(start=len(PIECES) + 1),
        ),
        [{"text": words, "label": int("a" not in words)} for words in WORDS],
        None,
        "accuracy",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_choices_numbers_in_both_orders_spans_and_clozes_are_learned(kind, vocabulary, tmp_path):
    form, rows, framing, metric = KINDS[kind]
    task = benchmark_of(tmp_path, vocabulary, form, rows, framing=framing)
    base = GLM if kind == "cloze" else GPT
    model = with_head(base, form.head.kind, form.head.num_labels, where="here")
    finished = train(experiment(task, model, tmp_path / "run", total_steps=120))
    scores = finished.last[f"evaluation/{task.name}"]
    assert scores[metric] > 90, scores
