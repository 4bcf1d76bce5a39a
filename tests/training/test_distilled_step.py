"""A step with a teacher: every family, any mesh, any number of parts; and what the teacher's weights are in it."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.training.cached_outputs import CachedOutputs
from t5x_like.training.companions import Companion, CompanionInputs, give_companions
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import new_state, plan_state, saved_part, shardings_of
from t5x_like.training.step import train_step
from tests.model.zoo.tiny_models import TINY
from tests.training.test_every_architecture import batch_for
from tests.training.test_step import MODEL, random_batch

ALWAYS = ("bert",)
# ELECTRA's generator and discriminator are apart here, each with a head that a teacher can have.
FAMILIES = [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.slow) for name in TINY]
DISTILLATION = Distillation(teacher="in memory", loss=LossConfig(z_loss=0.0))


def teacher_of(config, mesh, distillation: Distillation = DISTILLATION, seed: int = 9) -> Companion:
    source = distillation.companions(config)["teacher"]
    graphdef, params = parameters.abstract(config)[0], fresh_params(config, mesh=mesh, seed=seed)
    cache = source.cache and CachedOutputs(source.cache, "teacher", graphdef, params, "", mesh=mesh)
    return Companion(source, graphdef, params, outputs=cache)


def run(
    config,
    batches,
    *,
    mesh_config: MeshConfig | None = None,
    num_devices: int = 1,
    distillation: Distillation | None = DISTILLATION,
    teacher_config: Any = None,
    steps: int = 3,
    **options: Any,
) -> dict[str, Any]:
    """Train, and return the state at the end, the state at the start, and the logged sums of each step."""
    mesh = (mesh_config or MeshConfig()).build(jax.devices()[:num_devices])
    method = distillation or Supervised(loss=DISTILLATION.loss)
    companions = distillation and {"teacher": teacher_of(teacher_config or config, mesh, distillation)}
    rows = batches(0).target_tokens.shape[0]
    label_loss = None if batches(0).sequence_labels is None else "sentence_pairs"
    plan = plan_state(
        config,
        AdamW(learning_rate=Constant(value=0.01)),
        mesh,
        num_tasks=2,
        batch_size=rows,
        measures=method.measures,
        companions=companions or {},
    )
    step = jax.jit(
        train_step(plan, method, seed=1, companions=companions or {}, label_loss=label_loss, **options),
        donate_argnums=0,
        out_shardings=shardings_of(plan.abstract),
    )
    state, logged = new_state(plan, config, seed=0), []
    start = jax.tree.map(np.asarray, state["params"])
    with jax.set_mesh(mesh):
        for index in range(steps):
            before = jax.tree.map(np.asarray, state["totals"])
            inputs = CompanionInputs({name: each.params for name, each in (companions or {}).items()})
            state = step(state, place(batches(index), mesh), inputs)
            logged.append(jax.tree.map(lambda a, b: np.asarray(a) - b, state["totals"], before))
    return {"state": state, "start": start, "logged": logged, "plan": plan, "companions": companions}


def means(result: dict[str, Any], name: str) -> list[float]:
    measures = [totals.measures[name] for totals in result["logged"]]
    return [float(each.total / each.count) for each in measures]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_architecture_comes_closer_to_its_teacher(name):
    config = TINY[name]
    batch = batch_for(config, 0)
    result = run(config, lambda _: batch, distillation=replace(DISTILLATION, own_loss_weight=0.0))
    # Fresh models agree on words from the start, so the sum of all losses falls, and not each of them.
    sums = [
        sum(float(each.total / each.count) for each in totals.measures.values() if each.count)
        for totals in result["logged"]
    ]
    assert np.isfinite(sums).all()
    assert 0 < sums[-1] < sums[0]


def without_dropout(config):
    return replace(config, dropout_rate=0.0)


@pytest.mark.slow
def test_microbatches_and_meshes_give_the_step_of_the_whole_batch():
    config = without_dropout(MODEL)
    whole = run(config, random_batch)
    in_parts = run(config, random_batch, num_microbatches=4)
    on_eight = run(config, random_batch, mesh_config=MeshConfig(data=2, fsdp=2, model=2), num_devices=8)
    for other in (in_parts, on_eight):
        for name in ("soft_target_loss", "encoder_cosine_loss", "decoder_cosine_loss"):
            np.testing.assert_allclose(means(other, name), means(whole, name), rtol=1e-4)
        change = jax.tree.map(lambda a, b: np.asarray(a) - b, other["state"]["params"], whole["start"])
        wanted = jax.tree.map(lambda a, b: np.asarray(a) - b, whole["state"]["params"], whole["start"])
        # Adam divides by the size of a gradient, so rounding shows where there is nearly none.
        far = jax.tree.map(lambda a, b: np.mean(np.abs(a - b) > 1e-3), change, wanted)
        assert max(jax.tree.leaves(far)) < 0.01
    teacher = on_eight["companions"]["teacher"].params["encoder"]["layers"]["0"]["feed_forward"]["up"][
        "kernel"
    ]
    assert teacher.sharding.spec == jax.P(None, "fsdp", "model")


@pytest.mark.slow
def test_the_teachers_weights_are_an_argument_that_does_not_change_and_is_not_saved():
    result = run(MODEL, random_batch, steps=1)
    teacher = result["companions"]["teacher"]
    again = fresh_params(MODEL, mesh=None, seed=9)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b), teacher.params, again)
    step = train_step(result["plan"], DISTILLATION, seed=1, companions={"teacher": teacher})
    inputs = CompanionInputs({"teacher": teacher.params})
    jaxpr = jax.make_jaxpr(step)(result["plan"].abstract, random_batch(0), inputs)
    largest = max((np.size(const) for const in jaxpr.consts), default=0)
    assert largest < 100  # masks and the like; a weight of the teacher has more numbers
    names = {"/".join(map(str, path)) for path, _ in jax.tree.leaves_with_path(saved_part(result["state"]))}
    assert not any("teacher" in name for name in names)


@pytest.mark.slow
def test_the_teacher_and_the_weight_of_the_own_loss_change_the_step():
    config = replace(TINY["bert"], num_layers=1, task="masked_lm")
    batch = batch_for(config, 0)
    masked = batch._replace(loss_weights=batch.loss_weights * (np.arange(12) % 3 == 0))
    variants = {
        "usual": DISTILLATION,
        "no teacher": None,
        "own": replace(DISTILLATION, own_loss_weight=0.5),
    }
    norms = {
        name: float(run(config, lambda _: masked, distillation=each, steps=1)["logged"][0].gradient_norm)
        for name, each in variants.items()
    }
    assert len({round(norm, 4) for norm in norms.values()}) == len(norms), norms


@pytest.mark.slow
def test_a_student_with_fewer_layers_and_another_padding_computes_in_bfloat16():
    student = replace(without_dropout(TINY["bert"]), num_layers=1, task="masked_lm")
    teacher = replace(student, num_layers=2, pad_vocab_to_multiple_of=1)
    batch = batch_for(student, 0)
    exact, result = (
        run(
            replace(student, compute_dtype=dtype),
            lambda _: batch,
            teacher_config=replace(teacher, compute_dtype=dtype),
            distillation=replace(DISTILLATION, own_loss_weight=0.0),
        )
        for dtype in ("float32", "bfloat16")
    )
    for name in ("soft_target_loss", "encoder_cosine_loss"):
        losses = means(result, name)
        assert losses[-1] < losses[0]
        np.testing.assert_allclose(losses, means(exact, name), rtol=0.05)


@pytest.mark.slow
def test_a_teacher_remembers_earlier_segments_as_its_student_does():
    config = TransfoXLConfig(
        vocab_size=61,
        model_dim=16,
        mlp_dim=24,
        num_heads=2,
        num_layers=2,
        head_dim=8,
        memory_length=4,
        embed_dim=16,
        cutoffs=(20, 40),
        dropout_rate=0.0,
        init_stddev=0.3,
    )

    def segment(number: int, *, continues: bool = True):
        batch = batch_for(config, number)
        segments = np.ones_like(batch.decoder_segment_ids)
        rows = np.full(len(segments), int(continues and number > 0), np.int32)
        return batch._replace(decoder_segment_ids=segments, continues=rows)

    with_memory = run(config, segment, num_microbatches=2)
    state = with_memory["state"]
    assert np.any(np.asarray(state["teacher_memory"].states))
    assert not np.array_equal(state["teacher_memory"].states, state["memory"].states)
    assert "teacher_memory" in saved_part(state)
    # A student with its teacher's weights has nothing to learn, but only while both remember the same.
    plan, companions = with_memory["plan"], with_memory["companions"]
    step = jax.jit(train_step(plan, Distillation(teacher="in memory"), seed=1, companions=companions))
    inputs = CompanionInputs({"teacher": companions["teacher"].params})
    state = new_state(plan, config, seed=9)
    for index in range(3):
        totals = step(state, segment(index), inputs)["totals"]
        assert float(totals.measures["soft_target_loss"].total) == pytest.approx(0, abs=1e-3)
        memories = step(state, segment(index), inputs)
        state = state | {name: memories[name] for name in ("memory", "teacher_memory")}
    forgetful = state | {"teacher_memory": jax.tree.map(np.zeros_like, state["teacher_memory"])}
    totals = step(forgetful, segment(3), inputs)["totals"]
    assert float(totals.measures["soft_target_loss"].total) > 0.01


@pytest.mark.slow
def test_recorded_predictions_of_all_tokens_give_the_step_of_computed_ones(tmp_path):
    config = without_dropout(MODEL)
    only_soft = replace(DISTILLATION, hidden_states_weight=0.0)
    computed = run(config, random_batch, distillation=only_soft, steps=2)
    recorded = replace(only_soft, logits_dir=str(tmp_path), num_logits=64)
    mesh = MeshConfig().build(jax.devices()[:1])
    companions = {"teacher": teacher_of(config, mesh, recorded)}
    step = jax.jit(train_step(computed["plan"], recorded, seed=1, companions=companions, num_microbatches=2))
    for _ in range(2):  # writes, then reads
        companions = {"teacher": teacher_of(config, mesh, recorded)}
        state, before, losses = new_state(computed["plan"], config, seed=0), 0.0, []
        advance = give_companions({0: step}, companions, start_step=0)[0]
        for index in range(2):
            state = advance(state, random_batch(index))
            total = float(state["totals"].measures["soft_target_loss"].total)
            losses.append(total - before)
            before = total
        wanted = [float(totals.measures["soft_target_loss"].total) for totals in computed["logged"]]
        np.testing.assert_allclose(losses, wanted, rtol=1e-3)
    assert len(list(tmp_path.glob("*.npz"))) == 2
    with pytest.raises(ValueError, match="of another batch than this run has at step 0"):
        companions["teacher"].outputs.of_step(0, random_batch(5))
    with pytest.raises(ValueError, match="num_logits is 64 there and 8 here"):
        teacher_of(config, mesh, replace(recorded, num_logits=8))
