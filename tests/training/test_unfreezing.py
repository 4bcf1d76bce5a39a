"""Gradual unfreezing: which weights train in each stage, and what the others cost."""

import dataclasses

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.optimizers.schedules import LinearWarmupLinearDecay
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.batch_ramp import BatchSizeRamp
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import StateLayout, new_state, plan_state, shardings_of
from t5x_like.training.step import train_step
from t5x_like.training.unfreezing import GradualUnfreezing
from tests.training.experiments import experiment_of
from tests.training.test_step import MODEL, random_batch
from tests.training.test_trainable import matrix_products

BERT = BertConfig(
    vocab_size=16,
    model_dim=16,
    mlp_dim=32,
    num_heads=2,
    num_layers=3,
    max_position_embeddings=16,
    task="sequence_classification",
)
RATE = LinearWarmupLinearDecay(peak=0.1, warmup_steps=10, total_steps=100)
T5 = GradualUnfreezing(every_steps=2, throughout=("embedding/*", "*/final_norm/*", "*/layers[-1]/*"))


def planned(unfreezing, *, model=MODEL, optimizer=None, devices=1, total_steps=20, **options) -> StateLayout:
    config = MeshConfig(data=2, fsdp=2, model=2) if devices == 8 else MeshConfig()
    mesh = config.build(jax.devices()[:devices])
    return plan_state(
        model,
        optimizer or AdamW(learning_rate=RATE),
        mesh,
        num_tasks=2,
        unfreezing=unfreezing,
        total_steps=total_steps,
        **options,
    )


def groups(plan: StateLayout) -> list[set[str]]:
    """Folders of the weights that thaw in each stage, with the layers' numbers."""
    results = []
    for stage in plan.stages:
        names = set()
        for path, rows in stage.group.items():
            folder = "/".join(path.split("/")[:2])
            if isinstance(rows, tuple):
                names |= {f"{folder}[{row}]" for row, thaws in enumerate(rows) if thaws}
            elif rows:
                names.add(folder)
        results.append(names)
    return results


def test_layers_thaw_from_the_top_after_the_head_and_before_the_embeddings():
    plan = planned(GradualUnfreezing(at_steps=(3, 5, 9, 10)), model=BERT)
    assert [stage.start for stage in plan.stages] == [0, 3, 5, 9, 10]
    embeddings = {"embedding/norm", "embedding/positions", "embedding/token_types", "embedding/tokens"}
    assert groups(plan) == [
        {"heads/pooler", "heads/scores"},
        *({f"encoder/layers[{layer}]"} for layer in (2, 1, 0)),
        embeddings,
    ]


def test_both_stacks_of_t5_thaw_together_with_embeddings_throughout():
    plan = planned(T5)
    assert [stage.start for stage in plan.stages] == [0, 2]
    assert groups(plan) == [
        {"embedding/tokens", "heads/lm_head"}
        | {f"{stack}/{part}" for stack in ("encoder", "decoder") for part in ("final_norm", "layers[1]")},
        {f"{stack}/{part}" for stack in ("encoder", "decoder") for part in ("relative_bias", "layers[0]")},
    ]


def test_layers_of_stacks_of_different_depths_are_counted_from_the_top():
    model = dataclasses.replace(MODEL, num_encoder_layers=3, num_decoder_layers=1)
    thawing = groups(planned(GradualUnfreezing(every_steps=2), model=model))[1:4]
    decoder = {"decoder/layers", "decoder/final_norm", "decoder/relative_bias"}
    assert thawing == [
        {"encoder/layers[2]", "encoder/final_norm"} | decoder,
        {"encoder/layers[1]"},
        {"encoder/layers[0]", "encoder/relative_bias"},
    ]


def test_groups_can_be_named_and_frozen_weights_stay_frozen():
    named = GradualUnfreezing(
        every_steps=4, groups=(("heads/*", "*/bias"), ("encoder/layers[-2:]/*",), ("*",))
    )
    plan = planned(named, model=BERT, trainable=("heads/*", "encoder/*"))
    assert [stage.start for stage in plan.stages] == [0, 4, 8]
    assert groups(plan) == [
        {"heads/pooler", "heads/scores", "encoder/layers"},
        {"encoder/layers[1]", "encoder/layers[2]"},
        {"encoder/layers[0]"},
    ]
    assert plan.stages[1].group["encoder/layers/0/feed_forward/up/bias"] is False
    assert set(parameters.flatten(plan.abstract["frozen"])) == {
        path for path in plan.trained if path.startswith("embedding/")
    }


@pytest.mark.slow
def test_what_has_not_thawed_costs_no_matrix_product():
    plan = planned(GradualUnfreezing(every_steps=2))
    costs = [matrix_products(plan, stage) for stage in range(len(plan.stages))]
    assert costs[0] == matrix_products(planned(None, trainable=("heads/*",)))
    assert costs[0] < costs[1] < costs[2]
    assert costs[-1] == matrix_products(planned(None))


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
def test_only_thawed_weights_and_their_statistics_change(devices):
    plan = planned(GradualUnfreezing(every_steps=2), devices=devices, optimizer=AdamW(learning_rate=0.1))
    mesh = (MeshConfig(data=2, fsdp=2, model=2) if devices == 8 else MeshConfig()).build(
        jax.devices()[:devices]
    )
    state = new_state(plan, MODEL, seed=0)
    for index, stage in enumerate(plan.stages[:3]):
        step = jax.jit(
            train_step(plan, Supervised(), seed=1, stage=index), out_shardings=shardings_of(plan.abstract)
        )
        old, old_moments = jax.tree.map(
            np.asarray, (parameters.flatten(plan.weights(state)), state["opt_state"])
        )
        with jax.set_mesh(mesh):
            state = step(state, place(random_batch(index), mesh))
        new, moments = jax.tree.map(np.asarray, (parameters.flatten(plan.weights(state)), state["opt_state"]))
        for path, rows in stage.thawed.items():
            changed = [np.any(now != before) for now, before in zip(new[path], old[path], strict=True)]
            if isinstance(rows, tuple):
                assert changed == list(rows), path
            else:
                assert any(changed) == rows, path
        for waiting in range(index + 1, len(plan.stages)):
            jax.tree.map(np.testing.assert_array_equal, moments[str(waiting)], old_moments[str(waiting)])


@pytest.mark.slow
def test_averages_begin_at_the_thaw_and_the_rate_is_that_of_the_run():
    """Adam's first corrected step has the size of the rate, whichever step of the run that is."""
    optimizer = AdamW(learning_rate=RATE, weight_decay_rate=0.0, max_gradient_norm=None, epsilon=1e-12)
    plan = planned(GradualUnfreezing(at_steps=(3, 5, 7)), optimizer=optimizer)
    steps = {
        stage.start: jax.jit(train_step(plan, Supervised(), seed=1, stage=index))
        for index, stage in enumerate(plan.stages)
    }
    state, current = new_state(plan, MODEL, seed=0), None
    for index in range(8):
        current = steps.get(index, current)
        old = parameters.flatten(jax.tree.map(np.asarray, plan.weights(state)))
        state = current(state, random_batch(index))
        new = parameters.flatten(jax.tree.map(np.asarray, plan.weights(state)))
        if index == 3:
            kernel = "decoder/layers/0/feed_forward/up/kernel"
            changed = np.abs(new[kernel] - old[kernel])
            assert changed[0].max() == 0.0
            np.testing.assert_allclose(np.median(changed[1]), float(RATE(3)), rtol=1e-3)
        if index == 7:
            changed = np.abs(new["embedding/tokens/table"] - old["embedding/tokens/table"])
            np.testing.assert_allclose(np.median(changed[changed > 0]), float(RATE(7)), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        Adafactor(momentum=0.9),
        Lion(layer_decay=0.5, rates=(("heads/*", 2.0),)),
    ],
)
def test_without_waiting_the_steps_are_those_of_the_optimizer(optimizer):
    """In one group the optimizer is the usual one; groups of layers don't change Adafactor's and Lion's rules."""
    one = GradualUnfreezing(every_steps=1, groups=(("*",),))
    states = []
    for unfreezing in (None, one):
        plan = planned(unfreezing, optimizer=optimizer)
        step = jax.jit(train_step(plan, Supervised(), seed=1))
        state = step(new_state(plan, MODEL, seed=0), random_batch(0))
        states.append(jax.tree.map(np.asarray, plan.weights(state)))
    jax.tree.map(np.testing.assert_array_equal, *states)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "every_steps is None, every_epochs is None and at_steps is .*; give one of them"),
        ({"every_steps": 3, "at_steps": (3,)}, "give one of them"),
        ({"every_steps": 3, "every_epochs": 1}, "give one of them"),
        ({"every_epochs": 0}, "every_epochs is 0.0; give a positive number"),
        ({"every_steps": 0}, "every_steps is 0; give at least 1"),
        ({"at_steps": (3, 3)}, r"at_steps is \(3, 3\); give growing numbers"),
        ({"at_steps": (0, 3)}, "give growing numbers of steps, the first at least 1"),
        ({"at_steps": (3, 4)}, "at_steps has 2 steps, and there are 5 groups of weights; give 4 steps"),
        ({"every_steps": 5}, "thaw at step 20, but the run ends at step 20; all 5 groups must thaw before"),
        ({"every_steps": 1, "throughout": ("embeddings/*",)}, "throughout='embeddings/.' matches no"),
        ({"every_steps": 1, "groups": (("heads/*",), ("*/kernel",))}, "groups has no pattern for embedding/"),
    ],
)
def test_stages_that_can_not_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        planned(GradualUnfreezing(**options), model=BERT)


def test_groups_thaw_by_epochs_of_the_data():
    unfreezing = GradualUnfreezing(every_epochs=1.5)
    assert unfreezing.in_steps(lambda: 7.2) == GradualUnfreezing(every_steps=11)
    assert unfreezing.in_steps(lambda: 0.1).every_steps == 1
    by_steps = GradualUnfreezing(every_steps=3)
    assert by_steps.in_steps(lambda: pytest.fail("epochs were counted")) is by_steps


def test_growing_batches_have_no_epochs_of_one_length(tmp_path):
    loader = LoaderConfig(mixture="unread", batch_size=8, inputs_length=8, targets_length=8)
    with pytest.raises(ValueError, match=r"every_epochs=1, and with batch_size_ramp .* give every_steps"):
        experiment_of(
            model=BERT,
            train=loader,
            model_dir=str(tmp_path),
            total_steps=9,
            num_microbatches=4,
            unfreezing=GradualUnfreezing(every_epochs=1),
            batch_size_ramp=BatchSizeRamp(initial_batch_size=2, over_rows=16),
        )
