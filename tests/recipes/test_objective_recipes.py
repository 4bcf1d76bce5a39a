"""Every objective has a recipe, whose batches are what its model takes."""

import dataclasses
import re
from pathlib import Path

import jax
import pytest

from benchmarks.objectives import RECIPES, read_recipe
from t5x_like.batch import Batch
from t5x_like.gin_config.configuration import tables_in
from t5x_like.io.files import shipped_directory
from t5x_like.model import parameters
from t5x_like.text.batches.loader import build_loader, empty_row
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.open_tasks import spec_of_tasks
from t5x_like.training.experiment import Experiment
from t5x_like.training.state import StateLayout, plan_state
from t5x_like.training.step import train_step
from t5x_like.training.train import train
from tests.slow_cases import slow_except

GIN = shipped_directory("gin")

# One for each layout of rows, kind of labels and family of models; other objectives draw other rows for these.
EACH_FORM = (
    *("blank_infilling", "causal_lm", "chat", "contiguous_permutation_lm"),
    *("electra_pretraining", "masked_lm", "permutation_lm", "prefix_lm", "sentence_order", "span_corruption"),
)


def first_batch(config: LoaderConfig) -> Batch:
    """Also shows that the objective takes the recipe's lengths and vocabulary: a loader refuses others."""
    return next(build_loader(config))


def shapes(batch: Batch, rows: int | None = None) -> dict[str, object]:
    """Shape and type of each stream, with another number of rows if one is given."""
    streams = {name: stream for name, stream in batch._asdict().items() if stream is not None}
    return {
        name: ((rows or len(stream), *stream.shape[1:]), stream.dtype) for name, stream in streams.items()
    }


def planned(experiment: Experiment, mesh: jax.sharding.Mesh) -> StateLayout:
    rows = experiment.data.train.batch_size
    return plan_state(experiment.model, experiment.optimizer, mesh, num_tasks=1, batch_size=rows)


@pytest.mark.parametrize("name", slow_except(RECIPES, EACH_FORM))
def test_a_recipes_first_batch_fits_its_model(name: str) -> None:
    experiment = read_recipe(name, "unused")
    tasks = experiment.data.resolve().train
    train = experiment.data.train
    batch = first_batch(train)
    assert shapes(batch) == shapes(empty_row(train, tasks), rows=train.batch_size), "planned without its data"
    reads_decoder = batch.decoder_input_tokens is not None
    length = train.targets_length if reads_decoder else train.inputs_length
    assert batch.target_tokens.shape == batch.loss_weights.shape == (train.batch_size, length)
    assert batch.loss_weights.sum() > train.batch_size, "each row has several tokens to learn"
    mesh = experiment.mesh.build()
    plan = planned(experiment, mesh)
    with jax.set_mesh(mesh):
        label_loss = spec_of_tasks(train, tasks).label_loss
        step = train_step(plan, experiment.method, seed=0, label_loss=label_loss)
        after = jax.eval_shape(step, plan.abstract, batch)
        heads = jax.eval_shape(lambda *arrays: heads_of(plan, *arrays), plan.weights(plan.abstract), batch)
    assert jax.tree.map(lambda leaf: leaf.shape, after) == jax.tree.map(
        lambda leaf: leaf.shape, plan.abstract
    )
    of_sequences = [scores for scores in heads.values() if len(scores.shape) == 2]
    assert len(of_sequences) == (batch.sequence_labels is not None), "labels are scored, and only labels"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["contiguous_lm", "contiguous_permutation_lm"])
def test_a_model_with_a_memory_learns(name: str, tmp_path: Path) -> None:
    experiment = read_recipe(name, str(tmp_path), ["TRAIN_STEPS=600"])
    assert experiment.model.memory_length
    last = train(experiment).last[f"validation/{name}"]
    assert last["cross_entropy"] < 0.8 * last["unigram_entropy"]


def test_a_memory_keeps_what_the_next_rows_continue(tmp_path: Path) -> None:
    experiment = read_recipe("contiguous_permutation_lm", str(tmp_path))
    assert (experiment.model.reuse_length, experiment.data.train.inputs_length) == (32, 64)
    other = dataclasses.replace(experiment.model, reuse_length=64)
    with pytest.raises(
        ValueError, match=r"are continued after 32 tokens .* memory has reuse_length=64; give both"
    ):
        train(dataclasses.replace(experiment, model=other))


def heads_of(plan: StateLayout, params, batch: Batch) -> dict[str, jax.Array]:
    return parameters.merge(plan.graphdef, params)(batch).heads or {}


def test_every_objective_has_a_recipe() -> None:
    texts = [file.read_text() for file in (GIN / "recipes/objectives").glob("*.gin")]
    used = {name for text in texts for name in re.findall(r"'gin/objectives/(\w+)\.gin'", text)}
    assert used == {file.stem for file in (GIN / "objectives").glob("*.gin")}


OWN_RECIPES = [
    file for file in (GIN / "recipes/objectives").glob("*.gin") if file.stem not in ("king_james", "tasks")
]


@pytest.mark.parametrize("file", OWN_RECIPES, ids=lambda file: file.stem)
def test_a_recipe_includes_one_of_each_drawer_and_changes_little(file: Path) -> None:
    text = file.read_text()
    drawers = re.findall(r"include 'gin/(\w+)/", text)
    of_objectives = (
        [] if file.stem in ("chat", "sft") else ["objectives"]
    )  # their tasks have answers to learn
    assert drawers == ["models", "hardware", *of_objectives, "runs", "recipes"]
    after = text.rpartition("include ")[2].splitlines()[1:]
    assert len([line for line in after if line.strip()]) <= 15


def test_a_row_of_the_table_has_a_model_and_an_objective() -> None:
    (table,) = tables_in(GIN / "recipes/objectives/king_james.gin")
    for row in table.rows.values():
        assert [re.findall(r"^gin/(\w+)/", file) for file in row[-1]] == [["models"], ["objectives"]]
