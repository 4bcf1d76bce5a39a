"""Losses of preferences: DPO and its relatives, and reward models, with the norms of their gradients."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import t5x_like
from benchmarks.references.models import read_arrays
from benchmarks.references.reference import Reference, check_close, read_json
from t5x_like.batch import Batch, DeclaredStreams
from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.training import losses
from t5x_like.training.companions import FrozenModel
from t5x_like.training.losses.answer_pairs import answer_logps
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.methods.preference_optimization import PreferenceOptimization
from t5x_like.training.methods.reference_method import REFERENCE
from t5x_like.training.methods.reward_model import RewardModel
from t5x_like.training.microbatches import Microbatch

_ATOL = 1e-5


def direct(directory: Path) -> Iterator[Reference]:
    """Yield the log-probabilities of a policy and its reference, and each loss of preferences."""
    recorded = read_json(directory / "results.json")
    settings = recorded["results"] if isinstance(recorded, dict) else recorded
    yield Reference("preferences", f"{directory} log-probabilities", lambda: check_logps(directory))
    for index, setting in enumerate(settings):
        name = f"{directory} {setting.get('loss_type', ['sigmoid'])} {index}"
        yield Reference("preferences", name, lambda setting=setting: check_direct(directory, setting))


def reward(directory: Path) -> Iterator[Reference]:
    """Yield the scores of a reward model, and each of its losses."""
    yield Reference("preferences", f"{directory} scores", lambda: check_rewards(directory))
    for index, setting in enumerate(read_json(directory / "results.json")):
        yield Reference(
            "preferences",
            f"{directory} {index}",
            lambda setting=setting: check_reward_loss(directory, setting),
        )


def check_logps(directory: Path) -> None:
    """Compare the log-probabilities of all answers."""
    io, batch = read_arrays(directory / "io.npz"), _batch_of_answers(directory)
    for name in ("policy", "reference"):
        model = t5x_like.from_pretrained(directory / name).model
        check_close(
            answer_logps(predict(model, batch), batch), _pairs(io, f"out_{name}", "logps"), name, atol=_ATOL
        )


def check_direct(directory: Path, setting: Mapping[str, Any]) -> None:
    """Compare the loss of one setting and the norm of its gradient."""
    kinds, weights = setting.get("loss_type", ["sigmoid"]), setting.get("loss_weights", [1.0])
    method = PreferenceOptimization(
        reference="reference",
        loss_type=kinds[0],
        beta=setting["beta"],
        label_smoothing=setting.get("label_smoothing", 0.0),
        supervised_weight=dict(zip(kinds, weights, strict=True)).get("sft", 0.0),
    )
    policy, reference = (t5x_like.from_pretrained(directory / name) for name in ("policy", "reference"))
    frozen = FrozenModel(REFERENCE, *parameters.split(reference.model))
    _check_loss(method, policy.model, _batch_of_answers(directory), {REFERENCE: frozen}, setting)


def check_rewards(directory: Path) -> None:
    """Compare the score of every answer."""
    io, batch = read_arrays(directory / "io.npz"), _batch_of_rows(directory)
    model = t5x_like.from_pretrained(directory / "model").model
    scores = (predict(model, batch).heads or {})["sequence_classification"]
    check_close(scores.reshape(-1, 2), _pairs(io, "out", "score"), "scores", atol=_ATOL)


def check_reward_loss(directory: Path, setting: Mapping[str, Any]) -> None:
    """Compare the loss of one setting and the norm of its gradient."""
    method = RewardModel(
        margin="margin" if setting["margin"] else None,
        center_rewards_coefficient=setting["center_rewards_coefficient"],
    )
    model = t5x_like.from_pretrained(directory / "model").model
    _check_loss(method, model, _batch_of_rows(directory), {}, setting)


def _check_loss(
    method: TrainingMethod,
    model: Any,
    batch: Batch,
    companions: Mapping[str, FrozenModel],
    setting: Mapping[str, Any],
) -> None:
    batch = losses.with_targets(batch, method.loss)
    weights, normalizers = losses.normalize(batch, method.loss)
    context = LossContext(normalizers, 1, None, companions)
    graphdef, params = parameters.split(model)

    def loss(params: parameters.Parameters) -> jax.Array:
        rows = Microbatch(batch, weights, {})
        return method.compute_loss(parameters.merge(graphdef, params), rows, context)[0]

    value, gradients = jax.jit(jax.value_and_grad(loss, allow_int=True))(params)
    recorded = setting["loss" if isinstance(setting.get("loss"), float) else "value"]
    check_close(value, recorded, "loss", atol=_ATOL)
    norm = optax.tree.norm(parameters.without_constants(gradients))
    check_close(norm, setting["gradient_norm"], "gradient norm", atol=_ATOL)


def _batch_of_answers(directory: Path) -> Batch:
    """Return the recorded ids as a batch of two answers in each example."""
    io = read_arrays(directory / "io.npz")
    if "in_completion_mask" in io:
        ids, is_real, is_answer = (
            _halves(io[f"in_{name}"]) for name in ("input_ids", "attention_mask", "completion_mask")
        )
        return Batch(
            decoder_input_tokens=ids[..., :-1],
            decoder_segment_ids=is_real[..., 1:],
            target_tokens=ids[..., 1:],
            loss_weights=(is_answer * is_real)[..., 1:].astype(jnp.float32),
        )
    prompts, is_prompt = (
        jnp.asarray(np.stack([io[f"in_{name}"]] * 2, axis=1), jnp.int32)
        for name in ("input_ids", "attention_mask")
    )
    answers, is_answer = (_pairs(io, "in", name) for name in ("ids", "mask"))
    return Batch(
        encoder_input_tokens=prompts,
        encoder_segment_ids=is_prompt,
        decoder_input_tokens=jnp.pad(answers, ((0, 0), (0, 0), (1, 0)))[..., :-1],
        decoder_segment_ids=is_answer,
        target_tokens=answers * is_answer,
        loss_weights=is_answer.astype(jnp.float32),
    )


def _batch_of_rows(directory: Path) -> Batch:
    """Return the recorded ids as a batch of two rows for a head in each example."""
    io = read_arrays(directory / "io.npz")
    margin = jnp.asarray(io["in_margin"])
    return Batch(
        encoder_input_tokens=_pairs(io, "in", "ids"),
        encoder_segment_ids=_pairs(io, "in", "mask"),
        declared=DeclaredStreams(example={"margin": margin}),
    )


def _halves(rows: np.ndarray) -> jax.Array:
    """Return rows, of which the first half is chosen and the second rejected, as [B, 2, ...]."""
    first, second = np.split(rows, 2)
    return _as_device_type(np.stack([first, second], axis=1))


def _pairs(io: Mapping[str, np.ndarray], prefix: str, name: str) -> jax.Array:
    """Return arrays of chosen and rejected answers as [B, 2, ...]."""
    whole = f"{prefix}_{name}"
    if whole in io:
        return _halves(io[whole])
    chosen, rejected = (io[f"{prefix}_{each}_{name}"] for each in ("chosen", "rejected"))
    return _as_device_type(np.stack([chosen, rejected], axis=1))


def _as_device_type(array: np.ndarray) -> jax.Array:
    return jnp.asarray(array, jnp.int32 if array.dtype.kind == "i" else jnp.float32)
