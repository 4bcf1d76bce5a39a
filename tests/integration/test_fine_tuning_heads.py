"""From Hugging Face's files to scores: an encoder is fine-tuned with a head, goes on with another, and is asked."""

import json
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.evaluation.saved_runs import RunEvaluation, evaluate_run
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.xlnet import XLNetConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.head_classes import classes_at
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import CheckpointModel, check_head, initial_checkpoint
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import MaskedClozeClassification
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.losses import LossConfig
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
BERT = BertConfig(
    vocab_size=len(PIECES),
    model_dim=16,
    mlp_dim=32,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=16,
    task="masked_lm",
)
LABELS = {"two_labels": ("vowel", "none"), "three_labels": ("first", "later", "none")}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A pretrained model as Hugging Face has it, with a vocabulary."""
    directory = tmp_path_factory.mktemp("published") / "bert"
    _, params = parameters.split(BERT.build(jax.random.key(1)))
    write_hugging_face(BERT, params, directory)
    (directory / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return directory


@pytest.fixture(scope="module")
def tasks(tmp_path_factory, published):
    """Does a text have an ``a``; and is it in front? The last split has no labels that are known."""
    folder = tmp_path_factory.mktemp("tasks")
    rows = [f"{first} {second} {third}" for first in "abcd" for second in "abcd" for third in "efgh"]
    labels_of = {
        "two_labels": ["vowel" if "a" in row else "none" for row in rows],
        "three_labels": ["first" if row[0] == "a" else "later" if "a" in row else "none" for row in rows],
    }
    definitions = []
    for name, labels in labels_of.items():
        file = folder / f"{name}.tsv"
        lines = [f"{row}\t{label}" for row, label in zip(rows, labels, strict=True)]
        file.write_text("\n".join(["text\tlabel", *lines]) + "\n")
        definitions.append(
            TextTask(
                name=name,
                vocabulary=str(published),
                files={"train": str(file), "validation": str(file)},
                input_template="{text}",
                target_template="{label}",
                labels=LABELS[name],
                metrics=("accuracy",),
            )
        )
    return tuple(definitions)


def experiment(tasks, name, start_from, model_dir, **options):
    loader = LoaderConfig(mixture=name, batch_size=16, inputs_length=16, targets_length=2, layout="encoder")
    settings: dict[str, Any] = {
        "model": CheckpointModel(),
        "train": loader,
        "tasks": tasks,
        "start_from": str(start_from),
        "model_dir": str(model_dir),
        "total_steps": 60,
        "validations": (replace(loader, split="validation"),),
        "evaluations": (HeadEvaluation(mixture=name, inputs_length=16, batch_size=24),),
        "optimizer": AdamW(learning_rate=Constant(value=0.01)),
        "loss": LossConfig(z_loss=0.0),
        "intervals": Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=30),
    }
    return experiment_of(**settings | options)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, published, tasks):
    run = tmp_path_factory.mktemp("runs") / "tuned"
    return run, train(experiment(tasks, "two_labels", published, run))


def test_a_published_encoder_learns_a_task(tuned):
    run, finished = tuned
    assert finished.last["evaluation/two_labels"]["accuracy"] == 100.0
    assert finished.last["validation/two_labels"]["accuracy"] == 1.0
    assert finished.last["train"]["loss"] == finished.last["train"]["sequence_cross_entropy"] < 0.2
    assert (run / "vocab.txt").exists()
    scores = json.loads((run / "evaluations/step_60/scores.json").read_text())["tasks"]["two_labels"]
    assert scores["scores"] == {"accuracy": 100.0}
    assert scores["baseline"]["accuracy"] == pytest.approx(100 * 36 / 64)
    first = json.loads((run / "evaluations/step_60/two_labels/predictions.jsonl").read_text().splitlines()[0])
    assert first["input"] == "a a e"
    assert (first["target"], first["prediction"]) == ("vowel", "vowel")


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_been(tuned, tasks, published, tmp_path):
    half = experiment(
        tasks, "two_labels", published, tmp_path / "run", total_steps=30, evaluations=(), validations=()
    )
    train(half)
    again = train(half.with_fields(total_steps=60))
    assert again.last["train"]["loss"] == tuned[1].last["train"]["loss"]


@pytest.mark.slow
def test_a_run_goes_on_to_another_task_with_a_new_head(tuned, tasks, tmp_path, caplog):
    run, _ = tuned
    finished = train(experiment(tasks, "three_labels", run, tmp_path / "next"))
    assert finished.last["evaluation/three_labels"]["accuracy"] > 70  # the most frequent answer: 56
    assert "has no weights for heads/scores/sequence_classification/projection" in caplog.text
    assert "they are freshly drawn from seed 0, so train this head before you use it" in caplog.text
    assert read_config(tmp_path / "next").num_labels == 3


@pytest.mark.slow
def test_a_head_goes_on_with_the_same_classes_in_another_order(tuned, tasks, tmp_path, caplog):
    run, _ = tuned
    assert json.loads((run / "classes.json").read_text()) == {"classes": ["vowel", "none"]}
    turned = replace(tasks[0], name="turned", labels=LABELS["two_labels"][::-1])
    still = {"optimizer": AdamW(learning_rate=Constant(value=0.0)), "total_steps": 1, "validations": ()}
    finished = train(experiment((turned,), "turned", run, tmp_path / "next", **still))
    assert finished.last["evaluation/turned"]["accuracy"] == 100.0
    assert "has its classes in another order, and is put into that of the task" in caplog.text
    other = replace(tasks[0], name="other", label_words={"vowel": "yes", "none": "no"}, labels=())
    train(experiment((other,), "other", run, tmp_path / "other", **still))
    assert "for vowel, none, is kept and now learns yes, no" in caplog.text


def test_tasks_whose_classes_differ_share_no_head(tasks, published):
    turned = replace(tasks[0], name="turned", labels=LABELS["two_labels"][::-1])
    registry.register((*tasks, turned, Mixture(name="both", tasks=("two_labels", "turned"))))
    config = LoaderConfig(mixture="both", batch_size=4, inputs_length=16, targets_length=2, layout="encoder")
    with pytest.raises(
        ValueError, match=r"can't share a head, .* different things: vowel, none; none, vowel; train on one"
    ):
        config.labels(registry.resolve(config.mixture))


def test_an_export_names_the_classes_and_an_import_keeps_them(tuned, tmp_path):
    run, _ = tuned
    assert main(["convert", "--from", str(run), "--to", str(tmp_path / "hf"), "--export", "hf"]) == 0
    fields = json.loads((tmp_path / "hf/config.json").read_text())
    assert fields["id2label"] == {"0": "vowel", "1": "none"}
    assert fields["label2id"] == {"vowel": 0, "none": 1}
    assert main(["convert", "--from", str(tmp_path / "hf"), "--to", str(tmp_path / "back")]) == 0
    assert classes_at(tmp_path / "back") == ("vowel", "none")


@pytest.mark.slow
def test_xlnet_learns_a_task_from_its_class_token_behind_the_text(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]
    pieces = [(piece, 0.0) for piece in special] + [(f"▁{letter}", -1.0) for letter in "abcdefgh"]
    engine = Tokenizer(models.Unigram(pieces, 0))
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.add_special_tokens(special)
    config = XLNetConfig(
        vocab_size=len(pieces), model_dim=16, mlp_dim=32, num_heads=2, head_dim=8, num_layers=1
    )
    write_hugging_face(config, parameters.split(config.build(jax.random.key(1)))[1], tmp_path / "xlnet")
    engine.save(str(tmp_path / "xlnet/tokenizer.json"))
    named = {"cls_token": "<cls>", "sep_token": "<sep>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (tmp_path / "xlnet/tokenizer_config.json").write_text(json.dumps(named))
    rows = [f"{first}{' b' * (index % 3)} {last}" for index in range(8) for first in "ac" for last in "efgh"]
    lines = [f"{row}\t{'vowel' if 'a' in row else 'none'}" for row in rows]
    (tmp_path / "letters.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    task = TextTask(
        name="letters",
        vocabulary=str(tmp_path / "xlnet"),
        files={"train": str(tmp_path / "letters.tsv"), "validation": str(tmp_path / "letters.tsv")},
        input_template="{text}",
        target_template="{label}",
        labels=LABELS["two_labels"],
        metrics=("accuracy",),
    )
    finished = train(experiment((task,), "letters", tmp_path / "xlnet", tmp_path / "run"))
    assert finished.last["evaluation/letters"]["accuracy"] == 100.0


def test_saved_weights_are_asked_again(tuned, tasks, tmp_path):
    evaluation = HeadEvaluation(mixture="two_labels", inputs_length=16, batch_size=16, limit=20)
    run = RunEvaluation(
        checkpoint=str(tuned[0]), evaluations=(evaluation,), output_dir=str(tmp_path), tasks=tasks
    )
    assert evaluate_run(run)["two_labels"].scores == {"accuracy": 100.0}
    assert len((tmp_path / "two_labels/predictions.jsonl").read_text().splitlines()) == 20


def starting(directory, config, seed):
    mesh = MeshConfig().build(jax.devices()[:1])
    return initial_checkpoint(directory, config, mesh=mesh, seed=seed).params


def test_all_but_the_head_is_the_checkpoints_and_the_head_is_the_seeds(published, tuned):
    config = replace(BERT, task="sequence_classification", num_labels=5)
    for directory in (published, tuned[0]):
        one, same, other = (parameters.flatten(starting(directory, config, seed)) for seed in (3, 3, 4))
        differing = {path for path in one if not np.array_equal(one[path], other[path])}
        assert all(np.array_equal(one[path], same[path]) for path in one)
        assert "heads/scores/sequence_classification/projection/kernel" in differing
        assert all(path.startswith("heads/") for path in differing)


def test_weights_of_another_model_are_refused_and_what_differs_is_named(published):
    wrong = replace(BERT, num_layers=2, activation="relu", task="sequence_classification")
    with pytest.raises(
        ValueError, match=r"(?s)num_layers: 1 there, 2 here.*activation: 'gelu' there, 'relu' here"
    ):
        starting(published, wrong, 0)


def test_a_directory_without_a_model_is_refused(tmp_path, tasks, published):
    with pytest.raises(ValueError, match=r"holds no model: give a run's directory \(with model.json\)"):
        train(experiment(tasks, "two_labels", tmp_path, tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="a CheckpointModel is the model of start_from"):
        CheckpointModel().resolve(None, None)
    with pytest.raises(ValueError, match="is a BertConfig, which has no head for causal lm"):
        CheckpointModel().resolve(published, ("causal_lm", 2, None))


def test_texts_longer_than_the_models_positions_are_refused(tuned, tasks, published, tmp_path):
    message = "mixture 'two_labels' is read with inputs_length=17, but the model has 16 positions; lower it to at most"
    run = experiment(tasks, "two_labels", published, tmp_path / "run", validations=())
    with pytest.raises(ValueError, match=message):
        train(run.with_fields(train=replace(run.data.train, inputs_length=17)))
    evaluation = HeadEvaluation(mixture="two_labels", inputs_length=17, batch_size=8)
    with pytest.raises(ValueError, match=message):
        train(run.with_fields(evaluations=(evaluation,)))
    with pytest.raises(ValueError, match=message):
        evaluate_run(
            RunEvaluation(
                checkpoint=str(tuned[0]),
                evaluations=(evaluation,),
                output_dir=str(tmp_path / "out"),
                tasks=tasks,
            )
        )
    assert not list(tmp_path.iterdir())


def test_training_a_model_with_another_head_is_refused_at_the_start(tasks, published, tmp_path):
    wrong = experiment(tasks, "three_labels", published, tmp_path / "run")
    model = replace(BERT, task="sequence_classification", num_labels=2)
    message = "'three_labels' needs a head for sequence classification with 3 scores; the model has .* with 2 scores"
    with pytest.raises(ValueError, match=message):
        train(replace(wrong, model=model))
    t5 = T5Config(
        vocab_size=16,
        model_dim=8,
        mlp_dim=8,
        num_heads=2,
        head_dim=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    with pytest.raises(
        ValueError, match=r"the model has one for sequence to sequence lm\. Fine-tune it on such a task"
    ):
        check_head(t5, ("sequence_classification", 2, None), what="mixture 'x'")


def test_asking_a_model_without_the_head_is_refused(tasks, published):
    registry.register(tasks)
    mesh = MeshConfig().build(jax.devices()[:1])
    _, params = parameters.split(BERT.build(jax.random.key(0)))
    evaluation = HeadEvaluation(mixture="two_labels", inputs_length=16, batch_size=8)
    evaluator = evaluation.evaluator(registry.resolve("two_labels"), BERT, mesh)
    with pytest.raises(
        ValueError, match=r"'two_labels' needs a head for sequence classification.*heads: none. Fine-tune"
    ):
        evaluator.run(params)


@pytest.mark.slow  # tests/text/heads/test_cloze_head.py tests its rows and scores
def test_words_at_masks_classify_without_new_weights(published, tasks, tmp_path, recwarn):
    form = MaskedClozeClassification(
        pattern="{text} [MASK]", classes=LABELS["two_labels"], words=("h", "g f")
    )
    task = replace(tasks[0], name="words_at_masks", head=form)
    run = tmp_path / "run"
    finished = train(experiment((task,), task.name, published, run, total_steps=120))
    assert finished.last[f"evaluation/{task.name}"]["accuracy"] > 90
    assert not [each for each in recwarn if "freshly drawn" in str(each.message)]
