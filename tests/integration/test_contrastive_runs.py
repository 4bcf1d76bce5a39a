"""A run with contrastive prefixes: two attributes of texts, and what the model expects with each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.model.adapters import ContrastivePrefixes
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import Finished, train
from tests.training.experiments import experiment_of

ATTRIBUTES = ("steered_low", "steered_high")
LETTERS = {"steered_low": "abcd", "steered_high": "wxyz"}
GPT2 = GPT2Config(
    vocab_size=384,
    model_dim=32,
    num_heads=2,
    num_layers=2,
    mlp_dim=64,
    max_position_embeddings=32,
    dropout_rate=0.0,
)


def tasks_in(directory: Path) -> tuple[object, ...]:
    """Texts of letters from the beginning and from the end of the alphabet."""
    random = np.random.default_rng(0)
    made = []
    for name, letters in LETTERS.items():
        lines = ["".join(random.choice(list(letters), 8)) for _ in range(64)]
        file = directory / f"{name}.tsv"
        file.write_text("\n".join(["prompt\ttext", *(f"t\t{line}" for line in lines)]) + "\n")
        made.append(
            TextTask(
                name=name,
                vocabulary="bytes",
                files={"train": str(file), "validation": str(file)},
                input_template="{prompt}",
                target_template="{text}",
            )
        )
    return (*made, Mixture(name="steered", tasks=ATTRIBUTES))


def experiment(directory: Path, model_dir: Path, **changes) -> Experiment:
    loader = LoaderConfig(
        mixture="steered",
        batch_size=16,
        inputs_length=4,
        targets_length=12,
        layout="decoder",
        loss_on_targets_only=True,
        pack=False,
        prefix_attention="causal",
        seed=1,
    )
    settings = {
        "model": GPT2,
        "train": loader,
        "tasks": tasks_in(directory),
        "optimizer": AdamW(learning_rate=Constant(value=0.01)),
        "intervals": Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=200),
        "mesh": MeshConfig(),
        "model_dir": str(model_dir),
        "total_steps": 60,
    }
    return experiment_of(**settings | changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Finished]:
    """A model of both kinds of text, and two prefixes over it."""
    home = tmp_path_factory.mktemp("contrastive")
    base, steered = home / "base", home / "steered"
    train(experiment(home, base))
    adapter = ContrastivePrefixes(attributes=ATTRIBUTES, length=2, hidden_dim=8)
    tuned = experiment(home, steered, model=replace(GPT2, adapter=adapter), start_from=str(base))
    return base, steered, train(tuned)


def share_of(letters: str, pretrained: Any) -> float:
    """Return the probability that a text after the prompt of the tasks begins with one of ``letters``."""
    prompt = np.array([[ord("t") + 3, 1]])  # "t", end
    logits = np.asarray(pretrained(input_ids=prompt).logits[0, -1])
    probabilities = np.exp(logits - np.logaddexp.reduce(logits))
    return float(sum(probabilities[ord(letter) + 3] for letter in letters))


@pytest.mark.slow
def test_each_prefix_steers_what_is_written(runs: tuple[Path, Path, Finished], tmp_path: Path) -> None:
    base, steered, finished = runs
    measures = finished.last["train"]
    assert measures["attribute_accuracy"] > 0.95
    assert measures["discriminative_loss"] < 0.1
    pretrained = t5x_like.from_pretrained(base)
    for name, letters in LETTERS.items():
        one = tmp_path / name
        assert main(["convert", "--attribute", name, "--from", str(steered), "--to", str(one)]) == 0
        pretrained.load_adapter(name, one)
        assert share_of(letters, pretrained) > 0.9
        assert len(pretrained.generate(["t", "t"], max_new_tokens=4)) == 2
    pretrained.set_adapter(None)
    assert 0.1 < share_of(LETTERS["steered_low"], pretrained) < 0.9


@pytest.mark.slow
def test_attributes_are_the_mixtures_tasks_in_their_order(
    runs: tuple[Path, Path, Finished], tmp_path: Path
) -> None:
    adapter = ContrastivePrefixes(attributes=ATTRIBUTES[::-1], length=2, hidden_dim=None)
    wanted = experiment(runs[0].parent, tmp_path / "run", model=replace(GPT2, adapter=adapter))
    with pytest.raises(ValueError, match="give these names in this order"):
        train(wanted)
    packed = replace(wanted.data.train, pack=True)
    model = replace(GPT2, adapter=replace(adapter, attributes=ATTRIBUTES))
    with pytest.raises(ValueError, match="set pack=False"):
        train(wanted.with_fields(model=model, train=packed))


@pytest.mark.slow
def test_other_runs_have_no_attribute(
    runs: tuple[Path, Path, Finished], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, steered, _ = runs
    assert main(["convert", "--attribute", "low", "--from", str(base), "--to", str(tmp_path / "one")]) == 2
    assert "has no ContrastivePrefixes" in capsys.readouterr().err
    assert (
        main(["convert", "--attribute", "none", "--from", str(steered), "--to", str(tmp_path / "one")]) == 2
    )
    assert "there is no attribute 'none'; there are steered_low, steered_high" in capsys.readouterr().err
