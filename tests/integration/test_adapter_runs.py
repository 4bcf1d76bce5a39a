"""Runs that train an adapter: what is saved, resuming, everything that opens them, and merging."""

import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run
from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.adapters import IA3, BottleneckAdapter, LoRA, PrefixTuning, PromptTuning
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.model_config import read_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.weight_sources import find_weights
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.train import train
from tests.integration import tiny_run
from tests.integration.test_frozen_weights import BERT, experiment, published, task, weights

__all__ = ["published", "task"]  # fixtures

LORA = LoRA(rank=4, alpha=8.0, targets=("*/query", "*/value", "*/down"), dropout_rate=0.1)
OTHERS = [
    IA3(),
    pytest.param(PromptTuning(length=3), marks=pytest.mark.slow),
    pytest.param(PrefixTuning(length=2, hidden_dim=8), marks=pytest.mark.slow),
    pytest.param(BottleneckAdapter(inner_dim=4), marks=pytest.mark.slow),
]
IDS = np.array([[2, 5, 6, 7, 3], [2, 9, 10, 8, 3]])


def adapted(task, start_from, model_dir, adapter=LORA, **options):
    options = {"trainable": None, "model": CheckpointModel(adapter=adapter), "total_steps": 20} | options
    return experiment(task, start_from, model_dir, **options)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, published, task):
    run = tmp_path_factory.mktemp("runs") / "lora"
    return run, train(adapted(task, published, run, total_steps=40))


def logits(directory):
    return t5x_like.from_pretrained(directory)(input_ids=IDS).logits


def test_only_adapter_and_head_train_and_are_saved(tuned, published):
    run, finished = tuned
    with pytest.warns(UserWarning, match="freshly drawn"):
        base_weights = weights(published, head="sequence_classification", num_labels=2, draw_heads=True)
    own = weights(run)
    new = {path for path in own if "/lora/" in path or path.startswith(("heads/scores/", "heads/pooler/"))}
    assert own.keys() - base_weights.keys() == {path for path in own if "/lora/" in path}
    assert {
        path for path in own if path not in base_weights or not np.array_equal(own[path], base_weights[path])
    } == new
    saved = read_json(run / "40" / "leaves.json")
    assert {name.removeprefix("params/") for name in saved if name.startswith("params/")} == new
    assert finished.last["train"]["loss"] < 0.6
    assert read_model_config(run).adapter == LORA


@pytest.mark.slow
def test_a_killed_run_continues_with_the_same_bits(tuned, task, published, tmp_path):
    half = adapted(task, published, tmp_path / "run", evaluations=())
    train(half)
    again = train(half.with_fields(total_steps=40))
    assert again.last["train"]["loss"] == tuned[1].last["train"]["loss"]
    one, other = weights(tuned[0]), weights(tmp_path / "run")
    assert all(np.array_equal(one[path], other[path]) for path in one)


def test_it_is_evaluated_and_asked(tuned, task, tmp_path):
    run, finished = tuned
    evaluation = HeadEvaluation(mixture=task.name, inputs_length=16, batch_size=16)
    settings = RunEvaluation(
        checkpoint=str(run), evaluations=(evaluation,), output_dir=str(tmp_path / "out"), tasks=(task,)
    )
    scores = evaluate_run(settings)[task.name].scores
    assert scores["accuracy"] == finished.last[f"evaluation/{task.name}"]["accuracy"]
    asking = RunPrediction(checkpoint=str(run), task=task.name, inputs_length=16, tasks=(task,))
    assert next(iter(predict(asking, ["a b e"]))).prediction in ("vowel", "none")


@pytest.mark.slow
def test_a_merged_run_and_its_export_compute_the_same(tuned, tmp_path, capsys):
    run, merged, exported = tuned[0], tmp_path / "merged", tmp_path / "hf"
    assert main(["convert", "--merge", "--from", str(run), "--to", str(merged)]) == 0
    assert read_model_config(merged).adapter is None
    assert open_checkpoint(merged).step == 40
    assert open_checkpoint(merged).class_names == ("vowel", "none")
    assert main(["convert", "--from", str(merged), "--to", str(exported), "--export", "hf"]) == 0
    direct = tmp_path / "direct"
    assert main(["convert", "--from", str(run), "--to", str(direct), "--export", "hf"]) == 0
    expected = logits(run)
    for directory in (merged, exported, direct):
        np.testing.assert_allclose(logits(directory), expected, rtol=1e-5, atol=1e-5)
    assert main(["convert", "--merge", "--from", str(merged), "--to", str(tmp_path / "again")]) == 2
    assert "has no adapter to merge" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("adapter", OTHERS, ids=lambda adapter: type(adapter).__name__)
def test_every_method_trains_saves_opens_and_merges_or_says_why_not(
    adapter, task, published, tmp_path, capsys
):
    run = tmp_path / "run"
    wanted = adapted(task, published, run, adapter, total_steps=3, evaluations=())
    train(
        wanted.with_fields(train=replace(wanted.data.train, inputs_length=8))
    )  # leaves virtual tokens their positions
    opened = open_checkpoint(run)
    assert opened.config.adapter == adapter
    assert logits(run).shape == (2, 2)
    code = main(["convert", "--merge", "--from", str(run), "--to", str(tmp_path / "merged")])
    if isinstance(adapter, IA3):
        assert code == 0
        np.testing.assert_allclose(logits(tmp_path / "merged"), logits(run), rtol=1e-5, atol=1e-5)
    else:
        assert code == 2
        assert f"{type(adapter).__name__} adds" in (message := capsys.readouterr().err)
        assert "train LoRA or IA3" in message
        assert not (tmp_path / "merged").exists()
        assert main(["convert", "--from", str(run), "--to", str(tmp_path / "hf"), "--export", "hf"]) == 2
        assert "can't be merged" in capsys.readouterr().err


def test_training_continues_from_an_adapted_run_and_other_adapters_are_refused(tuned, task, tmp_path):
    run = tuned[0]
    train(adapted(task, run, tmp_path / "next", None, total_steps=2, evaluations=()))
    assert read_model_config(tmp_path / "next").adapter == LORA
    other = replace(read_model_config(run), adapter=replace(LORA, rank=2))
    with pytest.raises(
        ValueError,
        match=r"another adapter:\s+adapter\.rank: 4 there, 2 here\s+Continue with its own.*--merge --from",
    ):
        find_weights(run, config=other)
    with pytest.raises(ValueError, match=r"adapter: LoRA\(.*there, IA3\(.*here"):
        find_weights(run, config=replace(other, adapter=IA3()))
    with pytest.raises(ValueError, match=r"adapter: LoRA\(.*there, None here"):
        find_weights(run, config=replace(other, adapter=None))
    find_weights(run, config=replace(other, adapter=replace(LORA, dropout_rate=0.0)))


@pytest.mark.slow
def test_several_adapters_share_one_base(tuned, task, published, tmp_path):
    second = tmp_path / "ia3"
    train(adapted(task, published, second, IA3(), total_steps=5, evaluations=()))
    pretrained = t5x_like.from_pretrained(published)
    plain = pretrained(input_ids=IDS).logits
    table = parameters.flatten(parameters.split(pretrained.model)[1])["embedding/tokens/table"]
    pretrained.load_adapter("lora", tuned[0])
    pretrained.load_adapter("ia3", second)
    for name, run in (("lora", tuned[0]), ("ia3", second), ("lora", tuned[0])):
        pretrained.set_adapter(name)
        np.testing.assert_array_equal(pretrained(input_ids=IDS).logits, logits(run))
        assert parameters.flatten(parameters.split(pretrained.model)[1])["embedding/tokens/table"] is table
    pretrained.set_adapter(None)
    np.testing.assert_array_equal(pretrained(input_ids=IDS).logits, plain)
    with pytest.raises(ValueError, match="no adapter 'sst2' was loaded, but ia3, lora"):
        pretrained.set_adapter("sst2")
    flags = ["--tasks", task.name, "--output_dir", str(tmp_path / "scores"), "--resamples=0"]
    runs = [str(tuned[0]), str(second)]
    assert main(["evaluate", "--checkpoint", str(published), "--adapters", *runs, *flags]) == 0
    scores = [
        read_json(tmp_path / "scores" / name / "scores.json")["tasks"][task.name]["scores"]["accuracy"]
        for name in ("lora", "ia3")
    ]
    assert scores[0] == tuned[1].last[f"evaluation/{task.name}"]["accuracy"]
    assert scores[0] > scores[1]


def test_an_adapter_of_another_base_says_what_differs(tuned, published, tmp_path):
    other = tmp_path / "other"
    write_hugging_face(BERT, parameters.split(BERT.build(jax.random.key(5)))[1], other)
    shutil.copy(published / "vocab.txt", other)
    pretrained = t5x_like.from_pretrained(other)
    with pytest.raises(
        ValueError, match=r"lora was trained on .*bert, of which \d+ of \d+ weights differ in .*other:\s+emb"
    ):
        pretrained.load_adapter("lora", tuned[0])
    assert pretrained.adapter is None


def test_virtual_tokens_take_positions(task, published, tmp_path):
    with pytest.raises(ValueError, match=r"the model has 12 positions, less those of virtual tokens"):
        train(adapted(task, published, tmp_path / "run", PromptTuning(length=4), total_steps=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "adapter",
    [
        PromptTuning(length=5),
        LORA,
        PrefixTuning(length=3, hidden_dim=None),
        BottleneckAdapter(inner_dim=4),
    ],
    ids=lambda adapter: type(adapter).__name__,
)
def test_an_encoder_decoder_tunes_an_adapter_writes_with_it_and_resumes(adapter, directory):
    base, name = directory / "adapter_base", type(adapter).__name__
    if not base.exists():
        tiny_run.run(directory, model_dir=str(base), total_steps=3)
    train_data = LoaderConfig(
        mixture="capitals", batch_size=8, inputs_length=32, targets_length=8, pack=False
    )
    options = {
        "model": CheckpointModel(adapter=adapter, dropout_rate=0.1),
        "start_from": str(base),
        "train": train_data,
        "evaluations": (TaskEvaluation(mixture="capitals", inputs_length=32, targets_length=8, limit=8),),
    }
    whole = tiny_run.run(directory, model_dir=str(directory / f"{name}_whole"), total_steps=6, **options)
    tiny_run.run(directory, model_dir=str(directory / f"{name}_halves"), total_steps=3, **options)
    halves = tiny_run.run(directory, model_dir=str(directory / f"{name}_halves"), total_steps=6, **options)
    assert halves.last["train"]["loss"] == whole.last["train"]["loss"]
    own, base_weights = weights(directory / f"{name}_whole"), weights(base)
    changed = [path for path in base_weights if not np.array_equal(own[path], base_weights[path])]
    assert all("norm" in path or "/before/" in path for path in changed)
    pretrained = t5x_like.from_pretrained(directory / f"{name}_whole")
    assert isinstance(pretrained.generate("capital: ten 3", max_new_tokens=3, num_beams=2), str)


def test_virtual_tokens_refuse_packed_rows(directory):
    with pytest.raises(ValueError, match=r"puts several examples into a row.*set pack=False"):
        tiny_run.run(
            directory,
            model_dir=str(directory / "packed"),
            total_steps=1,
            model=replace(tiny_run.MODEL, adapter=PromptTuning(length=5)),
        )
